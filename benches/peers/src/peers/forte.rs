//! Forte: `join` and `scope`. The calling thread is one of the workers.
//!
//! It has no loops. What the tables show for them is what a user of it would write: halves by `join` down to a fixed grain.

use super::Peer;
use crate::work::{Node, Work, job, mix, store, store_skewed};
use forte::{ThreadPool, Worker};
use std::hint::black_box;
use std::ops::Range;

/// The smallest part of a cheap loop: some microseconds.
const GRAIN_CHEAP: usize = 4096;
/// The smallest part of the irregular loop, whose elements take up to some microseconds each.
const GRAIN_SKEWED: usize = 8;

/// Pools must be statics, so there is one for each number of workers that is measured.
static POOLS: [ThreadPool; 2] = [const { ThreadPool::new() }; 2];

pub struct Forte {
    pool: &'static ThreadPool,
}

impl Forte {
    /// `None` for more workers than there are pools.
    pub fn new(workers: usize) -> Option<Forte> {
        let pool = POOLS.get(workers.checked_sub(1)?)?;
        pool.resize_to(workers - 1);
        Some(Forte { pool })
    }
}

impl Peer for Forte {
    fn name(&self) -> &str {
        "forte"
    }

    fn can(&self, _: &Work) -> bool {
        true
    }

    fn run(&self, work: &Work, times: u32, salt: u32) -> u64 {
        self.pool.with_worker(|worker| {
            let mut result = 0;
            for _ in 0..times {
                match black_box(work) {
                    Work::Tree(tree) => result = sum(tree, worker),
                    Work::Spawn { jobs, spins } => worker.scope(|scope| {
                        for _ in 0..*jobs {
                            scope.spawn(|_: &Worker| job(*spins));
                        }
                    }),
                    Work::Store(cells) => {
                        each(worker, 0..cells.len(), GRAIN_CHEAP, &|i| store(cells, i, salt));
                    }
                    Work::Sum(n) => result = sum_range(worker, 0..*n),
                    Work::Skewed(cells) => {
                        each(worker, 0..cells.len(), GRAIN_SKEWED, &|i| store_skewed(cells, i, salt));
                    }
                }
            }
            result
        })
    }
}

/// Names the left half second, because Forte runs the second closure first.
fn sum(node: &Node, worker: &Worker) -> u64 {
    let (right, left) = worker.join(
        |worker| node.right.as_deref().map_or(0, |node| sum(node, worker)),
        |worker| node.left.as_deref().map_or(0, |node| sum(node, worker)),
    );
    node.val + left + right
}

fn each<F: Fn(usize) + Sync>(worker: &Worker, range: Range<usize>, grain: usize, body: &F) {
    if range.len() <= grain {
        return range.for_each(body);
    }
    let middle = range.start + range.len() / 2;
    worker.join(
        |worker| each(worker, middle..range.end, grain, body),
        |worker| each(worker, range.start..middle, grain, body),
    );
}

fn sum_range(worker: &Worker, range: Range<u64>) -> u64 {
    let len = range.end - range.start;
    if len <= GRAIN_CHEAP as u64 {
        return range.map(mix).fold(0, u64::wrapping_add);
    }
    let middle = range.start + len / 2;
    let (right, left) =
        worker.join(|worker| sum_range(worker, middle..range.end), |worker| sum_range(worker, range.start..middle));
    left.wrapping_add(right)
}
