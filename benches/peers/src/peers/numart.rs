//! numart: a runtime of its own, entered with `install`. The calling thread sleeps meanwhile.

use super::Peer;
use crate::work::{Node, Work, job, mix, store, store_skewed};
use numart::{Pinning, Runtime};
use std::hint::black_box;

pub struct Numart {
    runtime: Runtime,
    name: &'static str,
}

/// Those that are worth a column: a single worker has the machine for itself wherever it runs.
pub fn pinnings(workers: usize) -> &'static [Pinning] {
    match workers {
        1 => &[Pinning::None],
        _ => &[Pinning::None, Pinning::Node, Pinning::Core],
    }
}

impl Numart {
    pub fn new(workers: usize, pinning: Pinning) -> Numart {
        let runtime = Runtime::builder()
            .ignore_environment()
            .workers(workers)
            .pinning(pinning)
            .build()
            .expect("numart starts its threads");
        let name = match pinning {
            Pinning::None => "numart",
            Pinning::Node => "numart, node",
            Pinning::Core => "numart, pinned",
            _ => "numart, other",
        };
        Numart { runtime, name }
    }
}

impl Peer for Numart {
    fn name(&self) -> &str {
        self.name
    }

    fn can(&self, _: &Work) -> bool {
        true
    }

    fn run(&self, work: &Work, times: u32, salt: u32) -> u64 {
        self.runtime.install(|| {
            let mut result = 0;
            for _ in 0..times {
                match black_box(work) {
                    Work::Tree(tree) => result = sum(tree),
                    Work::Spawn { jobs, spins } => numart::scope(|scope| {
                        for _ in 0..*jobs {
                            scope.spawn(|_| job(*spins));
                        }
                    }),
                    Work::Store(cells) => {
                        numart::par_for(0..cells.len(), |i| store(cells, i, salt));
                    }
                    Work::Sum(n) => result = numart::reduce(0..*n as usize, || 0, |i| mix(i as u64), u64::wrapping_add),
                    Work::Skewed(cells) => {
                        numart::par_for(0..cells.len(), |i| store_skewed(cells, i, salt));
                    }
                }
            }
            result
        })
    }
}

fn sum(node: &Node) -> u64 {
    let (left, right) = numart::join(|| node.left.as_deref().map_or(0, sum), || node.right.as_deref().map_or(0, sum));
    node.val + left + right
}
