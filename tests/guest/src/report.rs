//! Counts tests by what they print.
//!
//! The test harness prints `test NAME ... ok` on standard output; a test that cannot run on this machine prints
//! `skipped: NAME: WHY` on standard error and then passes, which the harness cannot tell from a test that ran. We can.
//! Lines `note: TEXT` say what a test has seen.

use std::collections::BTreeMap;

/// How a test ended on one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    /// It said why.
    Skipped(String),
    /// Marked `#[ignore]`: a known fault, or a child of another test.
    Ignored,
}

/// One program's tests on one machine.
#[derive(Default)]
pub struct Report {
    out: Lines,
    err: Lines,
    /// By test name.
    outcomes: BTreeMap<String, Outcome>,
    skips: BTreeMap<String, String>,
    notes: Vec<String>,
}

impl Report {
    pub fn out(&mut self, bytes: &[u8]) {
        for line in self.out.split(bytes) {
            let Some((name, result)) = line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... ")) else {
                continue;
            };
            let outcome = match result.split(',').next().unwrap_or_default().trim() {
                "ok" => Outcome::Passed,
                "FAILED" => Outcome::Failed,
                "ignored" => Outcome::Ignored,
                _ => continue,
            };
            // "NAME - should panic" is the harness's addition.
            self.outcomes.insert(name.split(" - ").next().unwrap_or(name).to_owned(), outcome);
        }
    }

    pub fn err(&mut self, bytes: &[u8]) {
        for line in self.err.split(bytes) {
            if let Some((name, why)) = line.strip_prefix("skipped: ").and_then(|rest| rest.split_once(": ")) {
                self.skips.insert(name.to_owned(), why.to_owned());
            } else if line.starts_with("note: ") {
                self.notes.push(line);
            }
        }
    }

    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// By test name. A test that failed is not skipped, whatever it said.
    pub fn outcomes(&self) -> BTreeMap<String, Outcome> {
        let mut outcomes = self.outcomes.clone();
        for (name, why) in &self.skips {
            match outcomes.get_mut(name) {
                Some(outcome) if *outcome == Outcome::Passed => *outcome = Outcome::Skipped(why.clone()),
                _ => {}
            }
        }
        outcomes
    }
}

/// Cuts a stream into lines.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn split(&mut self, bytes: &[u8]) -> Vec<String> {
        self.0.extend_from_slice(bytes);
        let Some(end) = self.0.iter().rposition(|&byte| byte == b'\n') else { return Vec::new() };
        let whole: Vec<u8> = self.0.drain(..=end).collect();
        String::from_utf8_lossy(&whole).lines().map(|line| line.trim_end().to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_test_is_no_passed_one() {
        let mut report = Report::default();
        report.err(b"skipped: far: one no");
        report.out(b"running 4 tests\ntest near ... ok\ntest f");
        report.out(b"ar ... ok\ntest bad ... FAILED\ntest old ... ignored, a fault\n\ntest result: FAILED. 2 passed\n");
        report.err(b"de\nskipped: bad: never\nnoise\n");
        let outcomes = report.outcomes();
        assert_eq!(outcomes.len(), 4);
        assert_eq!(outcomes["near"], Outcome::Passed);
        assert_eq!(outcomes["far"], Outcome::Skipped("one node".to_owned()));
        assert_eq!(outcomes["bad"], Outcome::Failed);
        assert_eq!(outcomes["old"], Outcome::Ignored);
    }
}
