//! Ties go by a seeded hash.
//!
//! A strict `>` sends every symmetric choice to the lowest node (T5): with two equal processes both would prefer node
//! 0 and no gradient would ever part them. The kernel escapes by the noise of its sampling; a deterministic policy
//! needs a deliberate rule, and one that still gives the same plan for the same input.

/// A number that looks random but depends only on its arguments (SplitMix64 finaliser). Not for security.
pub(crate) fn hash(seed: u64, a: u64, b: u64) -> u64 {
    let mut z =
        seed.wrapping_add(a.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_add(b.wrapping_mul(0xD1B5_4A32_D192_ED03));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Keeps the cheapest of what it is shown; equal costs (to one part in 10^9) go by the hash of the candidate.
pub(crate) struct Cheapest<T> {
    seed: u64,
    key: u64,
    /// Cost, name and value; hashes are computed for ties only.
    best: Option<(f64, u64, T)>,
}

impl<T> Cheapest<T> {
    /// A contest whose ties are decided by `seed` and the identity `key` of whoever chooses.
    pub(crate) fn new(seed: u64, key: u64) -> Self {
        Cheapest { seed, key, best: None }
    }

    /// Shows one candidate, known to the hash as `name`. A cost that is not a number loses.
    pub(crate) fn offer(&mut self, cost: f64, name: u64, value: T) {
        if cost.is_nan() {
            return;
        }
        let better = match &self.best {
            None => true,
            Some((best, other, _)) => {
                let slack = 1e-9 * best.abs().max(1e-9);
                let tie = |name: u64| hash(self.seed, self.key, name);
                cost < best - slack || (cost <= best + slack && tie(name) < tie(*other))
            }
        };
        if better {
            self.best = Some((cost, name, value));
        }
    }

    /// Whether a candidate that costs at least `cost` has lost already: no need to count the rest of its cost.
    pub(crate) fn beats(&self, cost: f64) -> bool {
        self.best.as_ref().is_some_and(|(best, _, _)| cost > best + 1e-9 * best.abs().max(1e-9))
    }

    /// The winner and its cost.
    pub(crate) fn take(self) -> Option<(f64, T)> {
        self.best.map(|(cost, _, value)| (cost, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_spread_over_candidates_and_repeat() {
        let winner = |key: u64| {
            let mut contest = Cheapest::new(7, key);
            (0..4u64).for_each(|n| contest.offer(1.0, n, n));
            contest.take().unwrap().1
        };
        let mut wins = [0; 4];
        (0..400).for_each(|key| wins[winner(key) as usize] += 1);
        assert!(wins.iter().all(|&w| w > 60), "{wins:?}");
        assert_eq!(winner(5), winner(5));
    }

    #[test]
    fn the_cheaper_wins_whatever_the_hash() {
        for key in 0..100 {
            let mut contest = Cheapest::new(1, key);
            contest.offer(2.0, 0, 0);
            contest.offer(1.0, 1, 1);
            contest.offer(f64::NAN, 2, 2);
            assert_eq!(contest.take(), Some((1.0, 1)));
        }
    }
}
