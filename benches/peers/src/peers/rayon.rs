//! rayon: a pool of its own, entered with `install`. The calling thread sleeps meanwhile.

use super::Peer;
use crate::cpu;
use crate::work::{Node, Work, job, mix, store, store_skewed};
use rayon::prelude::*;
use std::hint::black_box;

pub struct Rayon {
    pool: rayon::ThreadPool,
    name: &'static str,
}

/// Where the threads may run.
#[derive(Clone, Copy, PartialEq)]
pub enum Pinning {
    /// Anywhere, as rayon has it.
    None,
    /// Each on one CPU, by a `start_handler`.
    Cpu,
}

impl Rayon {
    pub fn new(workers: usize, pinning: Pinning) -> Rayon {
        let cpus = cpu::allowed();
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(workers)
            .start_handler(move |index| {
                if pinning == Pinning::Cpu && !cpus.is_empty() {
                    cpu::pin_to(cpus[index % cpus.len()]);
                }
            })
            .build()
            .expect("rayon starts its threads");
        let name = match pinning {
            Pinning::None => "rayon",
            Pinning::Cpu => "rayon, pinned",
        };
        Rayon { pool, name }
    }
}

impl Peer for Rayon {
    fn name(&self) -> &str {
        self.name
    }

    fn can(&self, _: &Work) -> bool {
        true
    }

    fn run(&self, work: &Work, times: u32, salt: u32) -> u64 {
        self.pool.install(|| {
            let mut result = 0;
            for _ in 0..times {
                match black_box(work) {
                    Work::Tree(tree) => result = sum(tree),
                    Work::Spawn { jobs, spins } => rayon::scope(|scope| {
                        for _ in 0..*jobs {
                            scope.spawn(|_| job(*spins));
                        }
                    }),
                    Work::Store(cells) => (0..cells.len()).into_par_iter().for_each(|i| store(cells, i, salt)),
                    Work::Sum(n) => result = (0..*n).into_par_iter().map(mix).reduce(|| 0, u64::wrapping_add),
                    Work::Skewed(cells) => {
                        (0..cells.len()).into_par_iter().for_each(|i| store_skewed(cells, i, salt));
                    }
                }
            }
            result
        })
    }
}

fn sum(node: &Node) -> u64 {
    let (left, right) = rayon::join(|| node.left.as_deref().map_or(0, sum), || node.right.as_deref().map_or(0, sum));
    node.val + left + right
}
