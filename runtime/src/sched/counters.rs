//! Per-worker counters: written by their worker alone with plain loads and stores, summed when somebody reads.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

/// A counter with one writer.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self, by: u64) {
        // One writer: no read-modify-write needed.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn bump(&self) {
        self.add(1);
    }

    /// The last bump was for nothing.
    pub(crate) fn take_back(&self) {
        self.add(u64::MAX);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one worker counts.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) jobs: Count,
    pub(crate) spawned: Count,
    pub(crate) published: Count,
    pub(crate) forced: Count,
    pub(crate) parks: Count,
    pub(crate) wakeups: Count,
    pub(crate) waits_parked: Count,
    pub(crate) waits_at_bound: Count,
    pub(crate) busy_ns: Count,
    pub(crate) search_ns: Count,
    /// When the current busy stretch began (`clock::nanos`), 0 if not busy: so that a reader can add what is running.
    pub(crate) busy_since: Count,
}

impl Counters {
    pub(crate) fn set_busy_since(&self, now: u64) {
        self.busy_since.0.store(now, Ordering::Relaxed);
    }
}

/// Counters by the node that jobs came from.
pub(crate) struct ByNode(Box<[Count]>);

impl ByNode {
    pub(crate) fn new(nodes: usize) -> ByNode {
        ByNode((0..nodes).map(|_| Count::default()).collect())
    }

    pub(crate) fn take_back(&self, node: usize) {
        self.0[node].take_back();
    }

    pub(crate) fn bump(&self, node: usize) {
        self.0[node].bump();
    }

    pub(crate) fn get(&self, node: usize) -> u64 {
        self.0[node].get()
    }
}

/// All of one worker's, on cache lines of their own.
pub(crate) struct WorkerCounters {
    pub(crate) own: CachePadded<Counters>,
    /// Jobs taken from workers' deques (and strays) by the victim's node.
    pub(crate) stolen: ByNode,
    /// Root jobs taken by the node in whose queue they waited.
    pub(crate) roots: ByNode,
}

impl WorkerCounters {
    pub(crate) fn new(nodes: usize) -> WorkerCounters {
        WorkerCounters {
            own: CachePadded::new(Counters::default()),
            stolen: ByNode::new(nodes),
            roots: ByNode::new(nodes),
        }
    }
}
