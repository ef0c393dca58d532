//! How much a future may do in one poll: so that one that finds everything ready gives way all the same.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Units in one poll.
const BUDGET: u32 = 128;
const UNCONSTRAINED: u32 = u32::MAX;

thread_local! {
    /// What is left of this thread's poll. Outside of polls nothing is limited.
    static LEFT: Cell<u32> = const { Cell::new(UNCONSTRAINED) };
}

/// Calls `poll` with what `left` says, and puts back what was there.
fn with<R>(left: u32, poll: impl FnOnce() -> R) -> R {
    struct PutBack(u32);
    impl Drop for PutBack {
        fn drop(&mut self) {
            // A future may be polled by the destructor of a thread-local.
            _ = LEFT.try_with(|now| now.set(self.0));
        }
    }
    let _put_back = PutBack(LEFT.try_with(|now| now.replace(left)).unwrap_or(UNCONSTRAINED));
    poll()
}

/// Calls `poll` with a full budget.
pub(super) fn fresh<R>(poll: impl FnOnce() -> R) -> R {
    with(BUDGET, poll)
}

/// Calls `poll` with no limit.
pub(super) fn free<R>(poll: impl FnOnce() -> R) -> R {
    with(UNCONSTRAINED, poll)
}

/// Takes one unit. False: none was left; the task has been woken and should return `Pending`.
pub(super) fn take_one(cx: &Context<'_>) -> bool {
    let left = LEFT.try_with(Cell::get).unwrap_or(UNCONSTRAINED);
    match left {
        UNCONSTRAINED => true,
        0 => {
            cx.waker().wake_by_ref();
            false
        }
        _ => {
            LEFT.set(left - 1);
            true
        }
    }
}

/// Takes one unit of the task's budget; when that is used up, gives way to other tasks as [`yield_now`](crate::yield_now)
/// does. For loops that may find everything ready for a long time.
///
/// A poll has a budget of 128 units. Awaiting a [`JoinHandle`](crate::JoinHandle) or a [`JoinSet`](crate::JoinSet) takes one
/// too. A few ns; giving way costs one trip through the node's queue.
///
/// ```
/// let sum = numart_runtime::spawn(async {
///     let mut sum = 0u64;
///     for i in 0..10_000 {
///         sum += i;
///         numart_runtime::consume_budget().await;
///     }
///     sum
/// });
/// assert_eq!(sum.join().unwrap(), 49_995_000);
/// ```
pub async fn consume_budget() {
    std::future::poll_fn(|cx| if take_one(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// The future, with no budget: it gives way only where it is pending of itself. What it awaits may find everything ready
/// and keep its worker for as long as it likes; others of its node wait.
///
/// ```
/// let task = numart_runtime::spawn(numart_runtime::unconstrained(async {
///     for _ in 0..1_000 {
///         numart_runtime::consume_budget().await; // never gives way
///     }
/// }));
/// task.join().unwrap();
/// ```
pub fn unconstrained<F: Future>(future: F) -> Unconstrained<F> {
    Unconstrained { future }
}

/// See [`unconstrained`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct Unconstrained<F> {
    future: F,
}

impl<F: Future> Future for Unconstrained<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is pinned with us: it is never moved out, and there is no `Drop` here.
        let future = unsafe { self.map_unchecked_mut(|this| &mut this.future) };
        free(|| future.poll(cx))
    }
}
