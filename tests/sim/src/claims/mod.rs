//! What the balancer is held to, as code: one function for each claim, told how many seeds to run.
//!
//! A claim measures first and judges afterwards, so that one run shows every figure and every bar that is missed. The
//! tests run named subsets and, ignored by default, the full numbers of seeds.

pub mod placement;
pub mod stability;
pub mod throughput;

use crate::runs::tell;

/// Figures measured, and the bars they missed.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// One line for each case.
    pub lines: Vec<String>,
    /// One line for each bar that was missed.
    pub missed: Vec<String>,
}

impl Verdict {
    /// Notes a line of figures.
    pub fn line(&mut self, line: String) {
        self.lines.push(line);
    }

    /// Notes that `case` missed a bar unless `holds`.
    pub fn hold(&mut self, holds: bool, case: impl FnOnce() -> String) {
        if !holds {
            self.missed.push(case());
        }
    }

    /// Adds another's lines and misses.
    pub fn add(&mut self, other: Verdict) {
        self.lines.extend(other.lines);
        self.missed.extend(other.missed);
    }

    /// Prints the figures.
    ///
    /// # Panics
    ///
    /// If a bar was missed; with all that were.
    pub fn judge(self) {
        self.lines.iter().for_each(|line| tell(line));
        assert!(self.missed.is_empty(), "{} bars missed:\n{}", self.missed.len(), self.missed.join("\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict;

    #[test]
    #[should_panic(expected = "1 bars missed")]
    fn a_missed_bar_fails() {
        let mut verdict = Verdict::default();
        verdict.hold(true, || "held".into());
        verdict.hold(false, || "missed".into());
        verdict.judge();
    }
}
