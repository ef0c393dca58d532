//! Where am I: the current worker, its node, its runtime; and `yield_now`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use numart_alloc::topology::NodeId;

use crate::runtime::current_registry;
use crate::sched::strand::Strand;
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

/// What [`yield_now`] returns: what it did, and inside a future something to await.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct YieldNow {
    outcome: Option<Yield>,
    gave_way: bool,
}

impl YieldNow {
    /// What the call did. `None` on a thread that is no worker, and inside a future's poll, where it does nothing.
    pub fn outcome(&self) -> Option<Yield> {
        self.outcome
    }
}

impl PartialEq<Option<Yield>> for YieldNow {
    fn eq(&self, other: &Option<Yield>) -> bool {
        self.outcome == *other
    }
}

/// Gives way once: the task goes to the end of its node's queue.
impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.gave_way {
            return Poll::Ready(());
        }
        self.gave_way = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Gives way to others.
///
/// In a closure: runs one job, whichever comes first, on top of this one, and says whether there was one. Unlike every
/// wait this runs strangers too: do not call it with a lock held that they might take.
///
/// In a future: `yield_now().await` lets whatever is queued on the node run before this task's next poll, which may be on
/// another worker. Without the `.await` it does nothing there.
///
/// On a thread that is no worker it does nothing.
///
/// ```
/// assert_eq!(numart_runtime::yield_now(), None); // not on a worker
/// let future = numart_runtime::spawn(async {
///     numart_runtime::yield_now().await;
///     7
/// });
/// assert_eq!(future.join().unwrap(), 7);
/// ```
pub fn yield_now() -> YieldNow {
    let outcome = Worker::here().filter(|worker| !Strand::is_in_poll(worker.strand())).map(|worker| {
        let Some(taken) = worker.find_any() else { return Yield::Idle };
        worker.run(taken);
        // A poll may have left a future there, for a main loop that would come round to it at once.
        worker.empty_slot();
        Yield::Executed
    });
    YieldNow { outcome, gave_way: false }
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
