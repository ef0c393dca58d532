//! Many runs of one scenario: side by side on the machine's CPUs, and which of them a test makes.
//!
//! The bars are claimed for all named seeds. A plain `cargo test` makes a named subset of the runs (fewer still in a debug
//! build, whose policy is unoptimised) and says which on standard error, captured or not; the rest are
//! `cargo test --release -p numart-sim -- --include-ignored` and `cargo bench --bench seeds`.

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Results of `f(0)` to `f(count - 1)`, in that order, computed on all CPUs. Each run has its own dice, so the results do
/// not depend on who ran beside whom.
pub fn over<T: Send>(count: u64, f: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let count = count as usize;
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(count));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            scope.spawn(|| {
                loop {
                    let k = next.fetch_add(1, Ordering::Relaxed);
                    if k >= count {
                        break;
                    }
                    let result = f(k as u64);
                    done.lock().expect("a run panicked").push((k, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("a run panicked");
    done.sort_by_key(|(k, _)| *k);
    done.into_iter().map(|(_, result)| result).collect()
}

/// How many of the `all` runs of `what` this build makes by default: `release`, or `debug` of them. Tells it on standard
/// error, which `cargo test` does not hide.
pub fn subset(what: &str, all: u64, release: u64, debug: u64) -> u64 {
    let count = if cfg!(debug_assertions) { debug } else { release };
    tell(&format!("{what}: {count} of {all} (all: cargo test --release -p numart-sim -- --include-ignored)"));
    count
}

/// Writes a line past the test harness's capture.
pub fn tell(line: &str) {
    // A closed standard error is no reason to fail.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_come_in_order_whoever_computed_them() {
        let squares = super::over(100, |k| k * k);
        assert_eq!(squares, (0..100).map(|k| k * k).collect::<Vec<u64>>());
        assert!(super::over(0, |k| k).is_empty());
    }
}
