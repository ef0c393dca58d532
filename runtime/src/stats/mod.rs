//! What users read: where the work ran.

mod display;

use numart_alloc::topology::NodeId;

use crate::sched::clock::nanos;
use crate::sched::registry::{Registry, WorkerShared};

/// A snapshot of a runtime's counters, all since its start. `Display` prints it as tables.
///
/// Counters are read one after the other while work goes on, so sums may be off by what happened meanwhile; with
/// everything idle they are exact.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stats {
    /// By node, ascending id.
    pub nodes: Vec<NodeStats>,
    /// By worker, ascending index, spare threads that have run last.
    pub workers: Vec<WorkerStats>,
    /// Jobs taken by workers of node `i` (row, as in `nodes`) from workers of node `j` (column): the diagonal is steals
    /// within the node.
    pub steals: Vec<Vec<u64>>,
    /// Root jobs taken by workers of node `i` from the queue of node `j`.
    pub roots: Vec<Vec<u64>>,
    /// Tasks spawned by threads that are no workers.
    pub spawned_outside: u64,
    /// Panics that nobody joined.
    pub panics: u64,
    /// The nodes are only written down; workers are not bound.
    pub mock: bool,
    /// What is not as it should be, and what to do.
    pub warnings: Vec<String>,
}

/// What one node did.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct NodeStats {
    /// The node's id.
    pub node: u32,
    /// Workers, spare threads not counted.
    pub workers: usize,
    /// Spare threads ever started.
    pub spare_threads: usize,
    /// Root jobs waiting in its queue now.
    pub queue_depth: usize,
    /// Sum over its workers and spare threads.
    pub counts: Counts,
}

/// What one worker did.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct WorkerStats {
    /// Its index.
    pub worker: usize,
    /// Its node's id.
    pub node: u32,
    /// A spare thread.
    pub spare: bool,
    /// Its counters.
    pub counts: Counts,
}

/// Counters of a worker, or sums of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Counts {
    /// Jobs taken from a queue and run, from their begin on: what was joined is counted. A `join` half that its own worker takes back is a plain call and not counted.
    pub jobs: u64,
    /// Tasks and scope jobs spawned by the worker.
    pub spawned: u64,
    /// Jobs it took from workers of its own node.
    pub stolen_same_node: u64,
    /// Jobs it took from workers of other nodes.
    pub stolen_other_nodes: u64,
    /// Jobs it made public for thieves.
    pub published: u64,
    /// Splits it forced on workers that did not look.
    pub forced_splits: u64,
    /// Times it went to sleep with nothing to do.
    pub parks: u64,
    /// Times it was woken for a job.
    pub wakeups: u64,
    /// Times it slept in a wait (`join`, scope, handle).
    pub parked_waits: u64,
    /// Waits that ran anything because no spare thread was left.
    pub waits_at_bound: u64,
    /// Time with a job, in nanoseconds, waits included.
    pub busy_ns: u64,
    /// Time looking for a job, in nanoseconds.
    pub search_ns: u64,
}

impl Counts {
    fn of(shared: &WorkerShared, nodes: usize) -> Counts {
        let own = &shared.counters.own;
        let since = own.busy_since.get();
        let running = if since == 0 { 0 } else { nanos().saturating_sub(since) };
        let stolen = |own_node: bool| {
            (0..nodes)
                .filter(|&node| (node == shared.node) == own_node)
                .map(|node| shared.counters.stolen.get(node))
                .sum()
        };
        Counts {
            jobs: own.jobs.get(),
            spawned: own.spawned.get(),
            stolen_same_node: stolen(true),
            stolen_other_nodes: stolen(false),
            published: own.published.get(),
            forced_splits: own.forced.get(),
            parks: own.parks.get(),
            wakeups: own.wakeups.get(),
            parked_waits: own.waits_parked.get(),
            waits_at_bound: own.waits_at_bound.get(),
            busy_ns: own.busy_ns.get() + running,
            search_ns: own.search_ns.get(),
        }
    }

    fn add(&mut self, other: &Counts) {
        self.jobs += other.jobs;
        self.spawned += other.spawned;
        self.stolen_same_node += other.stolen_same_node;
        self.stolen_other_nodes += other.stolen_other_nodes;
        self.published += other.published;
        self.forced_splits += other.forced_splits;
        self.parks += other.parks;
        self.wakeups += other.wakeups;
        self.parked_waits += other.parked_waits;
        self.waits_at_bound += other.waits_at_bound;
        self.busy_ns += other.busy_ns;
        self.search_ns += other.search_ns;
    }
}

impl Stats {
    pub(crate) fn of(registry: &Registry) -> Stats {
        let count = registry.nodes.len();
        let mut nodes = Vec::with_capacity(count);
        let mut workers = Vec::new();
        let mut steals = vec![vec![0; count]; count];
        let mut roots = vec![vec![0; count]; count];
        for (index, node) in registry.nodes.iter().enumerate() {
            let mut sum = Counts::default();
            for slot in node.slots() {
                let shared = &registry.workers[slot];
                let counts = Counts::of(shared, count);
                sum.add(&counts);
                for from in 0..count {
                    steals[index][from] += shared.counters.stolen.get(from);
                    roots[index][from] += shared.counters.roots.get(from);
                }
                workers.push(WorkerStats {
                    worker: slot,
                    node: node.id.0,
                    spare: slot >= registry.regular_workers(),
                    counts,
                });
            }
            nodes.push(NodeStats {
                node: node.id.0,
                workers: node.regular.len(),
                spare_threads: node.spares.started(),
                queue_depth: node.roots.depth(),
                counts: sum,
            });
        }
        workers.sort_by_key(|worker| worker.worker);
        use std::sync::atomic::Ordering::Relaxed;
        Stats {
            nodes,
            workers,
            steals,
            roots,
            spawned_outside: registry.spawned_outside.load(Relaxed) as u64,
            panics: registry.panics.load(Relaxed) as u64,
            mock: registry.config.topology.is_mock(),
            warnings: registry.warnings(),
        }
    }

    /// All nodes together.
    pub fn totals(&self) -> Counts {
        let mut sum = Counts::default();
        self.nodes.iter().for_each(|node| sum.add(&node.counts));
        sum
    }

    /// One node's figures.
    pub fn node(&self, id: NodeId) -> Option<&NodeStats> {
        self.nodes.iter().find(|node| node.node == id.0)
    }
}
