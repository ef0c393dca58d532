//! No runtime: what the others are compared with.

use super::Peer;
use crate::work::{Work, job, mix, store, store_skewed};
use std::hint::black_box;

pub struct Serial;

impl Peer for Serial {
    fn name(&self) -> &str {
        "serial"
    }

    fn can(&self, _: &Work) -> bool {
        true
    }

    fn run(&self, work: &Work, times: u32, salt: u32) -> u64 {
        let mut result = 0;
        for _ in 0..times {
            match black_box(work) {
                Work::Tree(tree) => result = tree.sum(),
                Work::Spawn { jobs, spins } => (0..*jobs).for_each(|_| job(*spins)),
                Work::Store(cells) => (0..cells.len()).for_each(|i| store(cells, i, salt)),
                Work::Sum(n) => result = (0..*n).map(mix).fold(0, u64::wrapping_add),
                Work::Skewed(cells) => (0..cells.len()).for_each(|i| store_skewed(cells, i, salt)),
            }
        }
        result
    }
}
