//! `block_on`: a thread that is no task waits for a future.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

use super::budget;
use crate::sched::latch::Latch;
use crate::sched::sleep::current_sleeper;
use crate::sched::strand::{Strand, WaitId};
use crate::sched::wait::{AtBound, Wait, wait_outside};
use crate::sched::worker::Worker;

/// Why [`try_block_on`] did not even begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockOnError {
    /// The caller is inside a future's poll (or in a `join` or `scope` below one): it would block the worker, which may be
    /// the one that the future needs. Use `.await`.
    InsidePoll,
}

impl fmt::Display for BlockOnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("block_on was called inside a future, where it would block a worker: use `.await` instead")
    }
}

impl std::error::Error for BlockOnError {}

thread_local! {
    /// A thread that is no worker polls a future for `block_on`. (Workers have it in their strand.)
    static POLLS: Cell<bool> = const { Cell::new(false) };
}

/// Where the waker finds the thread. One lock, which only this call and wakers of its future take.
struct Signal(Mutex<State>);

struct State {
    woken: bool,
    /// In the frame of the thread that waits, which takes it back under the lock or sees it set.
    latch: Option<WaitingLatch>,
}

struct WaitingLatch(*const Latch);
// SAFETY: a latch is `Sync`; it is alive while it is in the signal.
unsafe impl Send for WaitingLatch {}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.0.lock();
        state.woken = true;
        if let Some(WaitingLatch(latch)) = state.latch.take() {
            // SAFETY: LATCH-ALIVE: its thread waits for it; taken out of the signal, so set once.
            unsafe { Latch::set(latch) };
        }
    }
}

/// Runs a future on this thread and waits for its output.
///
/// In a closure task it waits by the waiting rule: between polls the worker helps with nothing that is not below this wait,
/// and parks, while a spare thread stands in for it if the node has work and nobody awake. On any other thread it blocks.
/// The future itself need not be `Send`; what it spawns goes where any spawn from here goes.
///
/// # Panics
/// With the future's panic. Inside a future's poll: use `.await` there ([`try_block_on`] returns an error instead).
///
/// # Cost
/// One allocation, a lock per wake-up, a park and an unpark for each wait that takes longer than some 10 us.
///
/// ```
/// let handle = numart_runtime::spawn(async { 6 * 7 });
/// assert_eq!(numart_runtime::block_on(handle).unwrap(), 42);
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    match try_block_on(future) {
        Ok(output) => output,
        Err(error) => panic!("{error}"),
    }
}

/// As [`block_on`].
///
/// # Errors
/// [`BlockOnError::InsidePoll`]; the future is dropped unpolled.
///
/// # Panics
/// With the future's panic.
///
/// ```
/// let inside = numart_runtime::spawn(async { numart_runtime::try_block_on(async { 1 }) });
/// assert_eq!(inside.join().unwrap(), Err(numart_runtime::BlockOnError::InsidePoll));
/// ```
pub fn try_block_on<F: Future>(future: F) -> Result<F::Output, BlockOnError> {
    let worker = Worker::here();
    match worker {
        Some(worker) if Strand::is_in_poll(worker.strand()) => Err(BlockOnError::InsidePoll),
        Some(worker) => Ok(worker.rooted(|| run(future, Some(worker)))),
        None if POLLS.get() => Err(BlockOnError::InsidePoll),
        None => Ok(run(future, None)),
    }
}

fn run<F: Future>(future: F, worker: Option<&Worker>) -> F::Output {
    let sleeper = current_sleeper();
    let signal = Arc::new(Signal(Mutex::new(State { woken: false, latch: None })));
    let waker = Waker::from(signal.clone());
    let mut future = pin!(future);
    loop {
        let polled = {
            let _mark = worker.map(|worker| Strand::begin_block_on(worker.strand()));
            let _outside = worker.is_none().then(Outside::enter);
            budget::fresh(|| future.as_mut().poll(&mut Context::from_waker(&waker)))
        };
        if let Poll::Ready(output) = polled {
            return output;
        }
        let latch = Latch::new(Arc::as_ptr(&sleeper));
        {
            let mut state = signal.0.lock();
            if std::mem::take(&mut state.woken) {
                continue;
            }
            state.latch = Some(WaitingLatch(&latch));
        }
        match worker {
            None => wait_outside(&latch),
            Some(worker) => {
                let id = WaitId::of(Arc::as_ptr(&signal));
                let own = std::ptr::null();
                let wait = Wait { latch: &latch, id, base: usize::MAX, own, at_bound: AtBound::RunAnything };
                let waited = worker.wait(&wait);
                debug_assert!(waited.is_ok(), "only `GiveUp` gives up");
            }
        }
        // The latch is set, so it is out of the signal.
        signal.0.lock().woken = false;
    }
}

/// This thread, no worker, polls.
struct Outside;

impl Outside {
    fn enter() -> Outside {
        POLLS.set(true);
        Outside
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        POLLS.set(false);
    }
}
