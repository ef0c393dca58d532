//! What a runtime was asked to be. Filled in by the builder, never changed afterwards.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use numart_alloc::topology::{CpuSet, NodeId, Topology};

use super::clock::Clock;

/// Which CPUs a worker may run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Pinning {
    /// All allowed CPUs of its node (default): memory stays near, and the kernel may still move the thread out of the
    /// way of another program.
    #[default]
    Node,
    /// One CPU each. For a machine of one's own: on a shared one a worker waits for its CPU while others are free.
    Core,
    /// Wherever the kernel likes.
    None,
}

/// What a worker does while it waits for a `join` half, a scope or a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Waiting {
    /// Only what it waits for, and jobs made below that wait (default). No stranger runs on top of the caller's locks
    /// or stack; if there is nothing to do the worker parks and a spare thread stands in for it when needed.
    #[default]
    Related,
    /// Any job, as rayon does: no CPU is ever idle while there is work, at the price of deadlocks with locks held over
    /// a `join`, and of deep stacks.
    Any,
}

/// How long another node leaves a root job to its busy home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HomeDelay {
    /// Take one when the queue, as it stood at some moment, was not drained for this long while nobody at home was idle.
    After(Duration),
    /// Homes keep their root jobs, however long the queue.
    Never,
}

impl Default for HomeDelay {
    /// 200 microseconds: some tens of wake-ups (2 to 5 us each), so that a home that merely wakes up slowly keeps its
    /// jobs, and a fraction of what a thread waits for a busy CPU.
    fn default() -> Self {
        HomeDelay::After(Duration::from_micros(200))
    }
}

/// How a runtime ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Shutdown {
    /// Run everything that is queued and what that spawns, then stop (default, also on drop).
    #[default]
    Drain,
    /// Finish what runs; drop what is queued unstarted. Its handles get [`JoinError::Shutdown`](crate::JoinError).
    Cancel,
}

/// Which worker a hook is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerInfo {
    /// Unique in its runtime: 0 up to the number of workers; spare threads come after.
    pub index: usize,
    /// The node it works for.
    pub node: NodeId,
    /// A spare thread, that stands in for waiting workers.
    pub spare: bool,
}

/// Called on a worker thread.
pub(crate) type WorkerHook = Arc<dyn Fn(WorkerInfo) + Send + Sync>;
/// Gets the payload of a panic that nobody else will see.
pub(crate) type PanicHook = Arc<dyn Fn(Box<dyn Any + Send>) + Send + Sync>;
/// Wraps a worker's whole life.
pub(crate) type AroundHook = Arc<dyn Fn(&mut dyn FnMut()) + Send + Sync>;
/// Names a thread.
pub(crate) type NameFn = Arc<dyn Fn(WorkerInfo) -> String + Send + Sync>;

/// One node's pool.
pub(crate) struct NodeConfig {
    pub(crate) id: NodeId,
    pub(crate) workers: usize,
    /// Allowed CPUs; workers are bound to them unless the topology is mock.
    pub(crate) cpus: CpuSet,
}

/// See the module's page.
pub(crate) struct Config {
    pub(crate) topology: Arc<Topology>,
    /// Compute nodes with at least one worker, ascending id.
    pub(crate) nodes: Vec<NodeConfig>,
    pub(crate) pinning: Pinning,
    pub(crate) waiting: Waiting,
    pub(crate) home_delay: HomeDelay,
    pub(crate) clock: Clock,
    pub(crate) spare_threads: usize,
    pub(crate) use_current_thread: bool,
    pub(crate) forced_splits: bool,
    pub(crate) stack_size: usize,
    pub(crate) name: Option<NameFn>,
    pub(crate) on_start: Option<WorkerHook>,
    pub(crate) on_stop: Option<WorkerHook>,
    pub(crate) on_panic: Option<PanicHook>,
    pub(crate) around: Option<AroundHook>,
}
