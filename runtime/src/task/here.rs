//! Where am I: the current worker, its node, its runtime; and `yield_now`.

use numart_alloc::topology::NodeId;

use crate::runtime::current_registry;
use crate::sched::worker::Worker;

/// What [`yield_now`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Yield {
    /// Ran one job.
    Executed,
    /// Found none.
    Idle,
}

/// Runs one job, whichever comes first, on top of this one. `None` on a thread that is no worker.
///
/// Unlike every wait this runs strangers too: do not call it with a lock held that they might take.
///
/// ```
/// assert_eq!(numart_runtime::yield_now(), None); // not on a worker
/// ```
pub fn yield_now() -> Option<Yield> {
    let worker = Worker::here()?;
    Some(match worker.find_any() {
        Some(taken) => {
            worker.run(taken);
            Yield::Executed
        }
        None => Yield::Idle,
    })
}

/// The node this worker works for; `None` on a thread that is no worker.
///
/// ```
/// assert_eq!(numart_runtime::current_node(), None);
/// assert!(numart_runtime::install(numart_runtime::current_node).is_some());
/// ```
pub fn current_node() -> Option<NodeId> {
    Worker::here().map(|worker| worker.node().id)
}

/// This worker's index in its runtime; `None` on a thread that is no worker. Spare threads have indices from
/// [`current_num_workers`] on.
pub fn current_worker() -> Option<usize> {
    Worker::here().map(|worker| worker.index)
}

/// Workers of the current runtime (the global one outside any), spare threads not counted.
pub fn current_num_workers() -> usize {
    current_registry().regular_workers()
}
