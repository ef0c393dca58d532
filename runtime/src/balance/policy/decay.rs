//! How statistics grow old: by elapsed time and by volume, never by pass count (T7).
//!
//! Passes last from 100 ms to 60 s. Halving per pass would forget a busy affinity in 200 ms and remember an idle one
//! for minutes. Sums of bytes, of CPU time and of the *time they were gathered in* all shrink by the same factor, so
//! a rate is simply their quotient and needs no correction for the length of windows.

use std::time::Duration;

/// Sums below this are nothing. Integer halving would keep a count of 1 for ever (T6: 1 - 1/2 rounded down = 1).
pub(crate) const NOTHING: f64 = 1e-6;

/// What is left of old sums after `elapsed_s` in which `fresh` bytes came on top of `old` bytes.
///
/// One half-life of time halves; as many new bytes as are remembered halve too, so that a burst after a phase change
/// outweighs history at once. With `per_pass` (only to measure what it costs) every pass halves.
pub(crate) fn factor(elapsed_s: f64, half_life: Duration, old: f64, fresh: f64, per_pass: bool) -> f64 {
    if per_pass {
        return 0.5;
    }
    let halves = elapsed_s.max(0.0) / half_life.as_secs_f64().max(1e-3);
    let volume = if old > NOTHING { (fresh / old).min(64.0) } else { 0.0 };
    (-(halves + volume)).exp2()
}

/// What counts of a window's own sums when its start has decayed by `factor` at its end: the mean over the window. With
/// it one window of 3 s and thirty of 100 ms leave the same sums.
pub(crate) fn within(factor: f64) -> f64 {
    if factor > 0.999_999 || factor <= 0.0 {
        return 1.0;
    }
    (1.0 - factor) / -factor.ln()
}

/// Multiplies, and lets tiny sums go to zero.
pub(crate) fn shrink(sums: &mut [f64], factor: f64) {
    for sum in sums {
        *sum *= factor;
        if *sum < NOTHING {
            *sum = 0.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_passes_does_not_matter_without_traffic() {
        let half = Duration::from_secs(2);
        let one: f64 = factor(10.0, half, 1.0, 0.0, false);
        let many: f64 = (0..100).map(|_| factor(0.1, half, 1.0, 0.0, false)).product();
        assert!((one - many).abs() < 1e-12 && (one - 1.0 / 32.0).abs() < 1e-12);
    }

    #[test]
    fn a_clock_that_stands_or_runs_backwards_forgets_nothing() {
        assert_eq!(factor(0.0, Duration::from_secs(2), 5.0, 0.0, false), 1.0);
        assert_eq!(factor(-3.0, Duration::from_secs(2), 5.0, 0.0, false), 1.0);
    }

    #[test]
    fn t6_a_count_of_one_decays_to_zero() {
        let mut sums = [1.0];
        for _ in 0..40 {
            shrink(&mut sums, factor(2.0, Duration::from_secs(2), 1.0, 0.0, false));
        }
        assert_eq!(sums, [0.0]);
    }

    #[test]
    fn as_many_new_bytes_as_remembered_halve_the_old() {
        assert_eq!(factor(0.0, Duration::from_secs(2), 100.0, 100.0, false), 0.5);
        assert!(factor(0.0, Duration::from_secs(2), 1.0, f64::MAX, false) >= 0.0);
    }
}
