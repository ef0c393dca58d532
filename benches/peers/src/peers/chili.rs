//! chili: `join` and nothing else. The calling thread is one of the workers.

use super::Peer;
use crate::work::{Node, Work};
use chili::{Config, Scope, ThreadPool};
use std::hint::black_box;
use std::num::NonZero;

pub struct Chili {
    pool: ThreadPool,
}

impl Chili {
    pub fn new(workers: usize) -> Chili {
        // The count includes the calling thread.
        let config = Config { thread_count: NonZero::new(workers), ..Config::default() };
        Chili { pool: ThreadPool::with_config(config) }
    }
}

impl Peer for Chili {
    fn name(&self) -> &str {
        "chili"
    }

    fn can(&self, work: &Work) -> bool {
        matches!(work, Work::Tree(_))
    }

    fn run(&self, work: &Work, times: u32, _: u32) -> u64 {
        // The heartbeat thread runs while this lives, so it must not live between the samples.
        let mut scope = self.pool.scope();
        let mut result = 0;
        for _ in 0..times {
            if let Work::Tree(tree) = black_box(work) {
                result = sum(tree, &mut scope);
            }
        }
        result
    }
}

/// Names the left half second, because chili runs the second closure first.
fn sum(node: &Node, scope: &mut Scope<'_>) -> u64 {
    let (right, left) = scope.join(
        |scope| node.right.as_deref().map_or(0, |node| sum(node, scope)),
        |scope| node.left.as_deref().map_or(0, |node| sum(node, scope)),
    );
    node.val + left + right
}
