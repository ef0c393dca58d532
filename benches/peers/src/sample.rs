//! Interleaved rounds: in each round every column runs once, and a cache line is bounced before and after each sample.

use crate::bounce::Bouncer;
use crate::peers::Peer;
use crate::work::{Work, jobs_done};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// One measured run of one column.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The name of the work.
    pub bench: String,
    /// Workers of the runtime.
    pub workers: usize,
    /// The name of the column.
    pub column: String,
    /// Nanoseconds of a cache line's round trip before and after, or NaN if there are no two CPUs.
    pub bounces: [f64; 2],
    /// Nanoseconds of one node, job or element.
    pub ns: f64,
}

/// How far apart the two CPUs were during a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// Near before and after.
    Near,
    /// Far before and after.
    Far,
    /// It changed meanwhile, or could not be told.
    Mixed,
}

impl Sample {
    /// Near if both round trips took less than `threshold` nanoseconds, far if both took longer.
    pub fn distance(&self, threshold: f64) -> Distance {
        match self.bounces.map(|ns| ns.partial_cmp(&threshold)) {
            [Some(before), Some(after)] if before != after => Distance::Mixed,
            [Some(std::cmp::Ordering::Less), _] => Distance::Near,
            [Some(_), Some(_)] => Distance::Far,
            _ => Distance::Mixed,
        }
    }

    /// One line of a file of samples.
    pub fn to_line(&self) -> String {
        let [before, after] = self.bounces;
        let mut line = String::new();
        write!(line, "{};{};{};{before:.1};{after:.1};{:.5}", self.bench, self.workers, self.column, self.ns)
            .expect("writing to a string cannot fail");
        line
    }

    /// The sample in such a line.
    pub fn from_line(line: &str) -> Option<Sample> {
        let fields: Vec<&str> = line.split(';').collect();
        let [bench, workers, column, before, after, ns] = fields.try_into().ok()?;
        Some(Sample {
            bench: bench.to_owned(),
            workers: workers.parse().ok()?,
            column: column.to_owned(),
            bounces: [before.parse().ok()?, after.parse().ok()?],
            ns: ns.parse().ok()?,
        })
    }
}

/// A work with the name the tables give it.
pub struct Bench {
    name: String,
    work: Work,
    items: u64,
    /// What a run returns, from the plain program.
    expected: u64,
}

impl Bench {
    /// Runs the work once with `plain`, to know its result.
    pub fn new(name: &str, work: Work, plain: &dyn Peer) -> Bench {
        let expected = plain.run(&work, 1, 0);
        Bench { name: name.to_owned(), items: work.items(), work, expected }
    }

    /// Runs all columns that can do this work, `rounds` times by turns. A sample lasts at least `at_least`.
    pub fn measure(
        &self,
        workers: usize,
        columns: &[Box<dyn Peer>],
        rounds: usize,
        at_least: Duration,
        bouncer: Option<&Bouncer>,
    ) -> Vec<Sample> {
        let columns: Vec<&dyn Peer> = columns.iter().map(|column| &**column).filter(|c| c.can(&self.work)).collect();
        let times: Vec<u32> = columns.iter().map(|column| self.calibrate(*column, at_least)).collect();
        let bounce = || bouncer.map_or(f64::NAN, Bouncer::measure);
        let mut samples = Vec::new();
        for round in 0..rounds {
            for turn in 0..columns.len() {
                // Each round begins with another column, so that none always comes after the same one.
                let which = (round + turn) % columns.len();
                let (column, times, salt) = (columns[which], times[which], (round * columns.len() + turn) as u32);
                // Wakes the workers, and lets the one sample be as warm as the other.
                column.run(&self.work, times / 8, salt);
                let before = bounce();
                let took = self.run(column, times, salt);
                samples.push(Sample {
                    bench: self.name.clone(),
                    workers,
                    column: column.name().to_owned(),
                    bounces: [before, bounce()],
                    ns: took.as_nanos() as f64 / (f64::from(times) * self.items as f64),
                });
            }
        }
        samples
    }

    /// How often the work must run for a sample of at least that time.
    fn calibrate(&self, column: &dyn Peer, at_least: Duration) -> u32 {
        let mut times = 1;
        loop {
            let took = self.run(column, times, u32::MAX);
            if took >= at_least {
                return times;
            }
            // A fifth more than needed, for a slow first run; at most tenfold, for a fast one.
            let factor = 1.2 * at_least.as_secs_f64() / took.as_secs_f64().max(1e-9);
            times = (f64::from(times) * factor.clamp(1.1, 10.0)).ceil() as u32;
        }
    }

    /// One timed run, whose result is checked.
    fn run(&self, column: &dyn Peer, times: u32, salt: u32) -> Duration {
        let jobs_before = jobs_done();
        let begin = Instant::now();
        let result = column.run(&self.work, times, salt);
        let took = begin.elapsed();
        let who = format!("{} on {}", self.name, column.name());
        assert_eq!(result, self.expected, "{who}: wrong result");
        assert!(self.work.left_behind(salt), "{who}: some element was not visited");
        if let Work::Spawn { jobs, .. } = self.work {
            let jobs = u64::from(jobs) * u64::from(times);
            assert_eq!(jobs_done() - jobs_before, jobs, "{who}: wrong number of jobs");
        }
        took
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(before: f64, after: f64) -> Sample {
        Sample { bench: "b".into(), workers: 2, column: "c, pinned".into(), bounces: [before, after], ns: 1.5 }
    }

    #[test]
    fn a_sample_is_near_or_far_only_if_both_bounces_agree() {
        assert_eq!(sample(60.0, 70.0).distance(140.0), Distance::Near);
        assert_eq!(sample(320.0, 300.0).distance(140.0), Distance::Far);
        assert_eq!(sample(60.0, 300.0).distance(140.0), Distance::Mixed);
        assert_eq!(sample(f64::NAN, f64::NAN).distance(140.0), Distance::Mixed);
    }

    #[test]
    fn a_line_holds_the_whole_sample() {
        let sample = sample(60.0, 320.5);
        assert_eq!(Sample::from_line(&sample.to_line()), Some(sample));
        assert_eq!(Sample::from_line("b;2;c;60"), None);
    }

    #[test]
    fn every_column_gives_the_right_result() {
        use crate::peers::columns;
        for workers in [1, 2] {
            let columns = columns(workers);
            let works = [
                ("tree", Work::Tree(crate::work::Node::tree(8))),
                ("spawn", Work::Spawn { jobs: 300, spins: 10 }),
                ("store", Work::Store(Work::cells(20_000))),
                ("sum", Work::Sum(20_000)),
                ("skewed", Work::Skewed(Work::cells(2_500))),
            ];
            for (name, work) in works {
                // The first column is the plain one. `measure` panics at a wrong result.
                let bench = Bench::new(name, work, &*columns[0]);
                let samples = bench.measure(workers, &columns, 2, Duration::ZERO, None);
                assert!(samples.len() >= 2 * 2, "{name}: {samples:?}");
            }
        }
    }
}
