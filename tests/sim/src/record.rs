//! What a run looked like over time, for pictures and for questions about convergence.

use crate::world::{Group, Task};

/// One moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Seconds.
    pub at: f64,
    /// CPUs wanted, by node.
    pub load: Vec<f64>,
    /// Bytes of each group (shared and its tasks') by node.
    pub memory: Vec<Vec<f64>>,
    /// Share of private touches that are local, by group.
    pub local: Vec<f64>,
    /// Moves, swaps and migrated bytes so far.
    pub moves: usize,
    /// See `moves`.
    pub swaps: usize,
    /// See `moves`.
    pub migrated: f64,
    /// Extents waiting to be copied.
    pub queued: usize,
    /// Transactions done so far, by group.
    pub done: Vec<f64>,
}

/// Samples, no closer than `every` seconds.
#[derive(Clone, Debug)]
pub struct Record {
    /// Least time between samples.
    pub every: f64,
    /// The samples.
    pub samples: Vec<Sample>,
}

impl Record {
    /// Records at most every `every` seconds.
    pub fn new(every: f64) -> Record {
        Record { every, samples: Vec::new() }
    }

    pub(crate) fn sample(
        &mut self,
        at: f64,
        tasks: &[Task],
        groups: &[Group],
        totals: (usize, usize, f64),
        queued: usize,
    ) {
        if self.samples.last().is_some_and(|s| at - s.at < self.every - 1e-9) {
            return;
        }
        let n = groups.first().map_or(0, |g| g.bytes.len());
        let mut load = vec![0.0; n];
        let mut memory: Vec<Vec<f64>> = groups.iter().map(|g| g.bytes.clone()).collect();
        let mut local = vec![(0.0, 0.0); groups.len()];
        for task in tasks.iter().filter(|t| !t.ended) {
            load[task.node] += task.demand;
            for (sum, b) in memory[task.group].iter_mut().zip(&task.bytes) {
                *sum += b;
            }
            let own: f64 = task.bytes.iter().sum();
            if own > 0.0 {
                local[task.group].0 += task.bytes[task.node] / own;
                local[task.group].1 += 1.0;
            }
        }
        // A group without private memory: how much of its memory is where its tasks are.
        let local = local
            .iter()
            .enumerate()
            .map(|(g, (sum, count))| {
                if *count > 0.0 {
                    return sum / count;
                }
                let all: f64 = groups[g].bytes.iter().sum();
                let there: f64 = (0..n)
                    .filter(|&i| groups[g].tasks.iter().any(|&t| tasks[t].node == i))
                    .map(|i| groups[g].bytes[i])
                    .sum();
                if all > 0.0 { there / all } else { 1.0 }
            })
            .collect();
        let done = groups.iter().map(|g| g.tasks.iter().map(|&t| tasks[t].done).sum()).collect();
        self.samples.push(Sample {
            at,
            load,
            memory,
            local,
            moves: totals.0,
            swaps: totals.1,
            migrated: totals.2,
            queued,
            done,
        });
    }
}

/// The local share, as the driver follows it.
#[derive(Default)]
pub(crate) struct LocalShare {
    pub now: f64,
    /// Its sum over the window that is running, and the seconds of that.
    pub window: (f64, f64),
    /// Its mean over the window of the last pass: what the policy has seen. A change late in a long window is not in it, so the
    /// driver goes on waking the policy until it is.
    pub at_pass: f64,
}
