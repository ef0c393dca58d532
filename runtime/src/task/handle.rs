//! `JoinHandle`: what `spawn` returns.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::abort::{AbortHandle, TaskId};
use super::budget;
pub use super::error::{JoinError, PanicPayload};
use super::header::{TaskHeader, Waiter, entry_of, release, release_early};
use crate::sched::gate::Phase;
use crate::sched::job::Verb;
use crate::sched::latch::Latch;
use crate::sched::roots::Taken;
use crate::sched::sleep::current_sleeper;
use crate::sched::strand::{Strand, WaitId};
use crate::sched::wait::{AtBound, Wait, wait_outside};
use crate::sched::worker::Worker;

/// The handle of a spawned task. Dropping it detaches the task, which runs on; a panic that nobody joins goes to the
/// runtime's panic hook.
///
/// ```
/// let handle = numart_runtime::spawn(|| "done");
/// assert_eq!(handle.join().unwrap(), "done");
/// ```
///
/// It is a future too, of `Result<T, JoinError>`: inside a future say `handle.await`. Dropping it while it is awaited
/// detaches the task as ever.
///
/// # Panics
/// When polled again after it was ready.
#[must_use = "dropping the handle detaches the task: its result and its panic are lost to you"]
pub struct JoinHandle<T> {
    /// One reference to the cell, whose output is a `Result<T, JoinError>`.
    task: NonNull<TaskHeader>,
    output: PhantomData<T>,
}

// SAFETY: the handle hands a `T` from the worker that made it to whoever joins.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: `&JoinHandle` only reads the state word.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// # Safety
    /// `task` is a cell with output `Result<T, JoinError>`; its `HANDLE` bit and one reference pass to the handle.
    pub(super) unsafe fn from_task(task: NonNull<TaskHeader>) -> JoinHandle<T> {
        JoinHandle { task, output: PhantomData }
    }

    fn header(&self) -> &TaskHeader {
        // SAFETY: the handle's reference.
        unsafe { self.task.as_ref() }
    }

    /// The task has ended, one way or another: `join` will not wait.
    pub fn is_finished(&self) -> bool {
        self.header().state.is_done()
    }

    /// Ends the task before its end, if it is not too late. A closure that has not started is dropped, one that runs runs
    /// on. A future is dropped at its next `.await`, by a worker; if its last poll ends meanwhile it has its output. Then
    /// the handle returns [`JoinError::Aborted`]. Returns at once; any thread may call it, also the task itself.
    ///
    /// ```
    /// let handle = numart_runtime::spawn(std::future::pending::<()>());
    /// handle.abort();
    /// assert!(matches!(handle.join(), Err(numart_runtime::JoinError::Aborted)));
    /// ```
    pub fn abort(&self) {
        // SAFETY: the handle's reference.
        unsafe { super::abort::abort(self.task) };
    }

    /// A handle that can only abort: it neither keeps the output nor gets it.
    pub fn abort_handle(&self) -> AbortHandle {
        // SAFETY: the handle's reference.
        unsafe { AbortHandle::of(self.task) }
    }

    /// The task's number.
    pub fn id(&self) -> TaskId {
        TaskId::of(self.task)
    }

    /// Waits for the task and returns its output.
    ///
    /// On a worker of the same runtime a task that has not started is run here and now (unless it is `strict` and at
    /// home elsewhere); otherwise the worker helps with jobs below the task, and parks if there are none. On any other
    /// thread this blocks. A future is polled here once if it is queued; from then on its wake-ups go where they always go.
    ///
    /// In a future use `.await`: this keeps the worker, and a spare thread has to stand in for it.
    ///
    /// # Panics
    /// If the output has been taken by `.await`.
    ///
    /// # Errors
    /// [`JoinError::Panic`] with the task's panic, [`JoinError::Shutdown`], [`JoinError::Own`],
    /// [`JoinError::WouldDeadlock`].
    pub fn join(self) -> Result<T, JoinError> {
        self.wait()?;
        self.into_output()
    }

    fn wait(&self) -> Result<(), JoinError> {
        let header = self.header();
        assert!(header.state.has_handle(), "the handle has been awaited to its end: its output is gone");
        if header.state.is_done() {
            return Ok(());
        }
        let id = WaitId::of(&header.job);
        let worker = Worker::here();
        self.forget_waker();
        if let Some(worker) = worker {
            if Strand::below_from_inside(worker.strand(), id) {
                return Err(JoinError::Own);
            }
            self.claim_for(worker);
            if header.state.is_done() {
                return Ok(());
            }
        }
        let sleeper = current_sleeper();
        let latch = Latch::new(Arc::as_ptr(&sleeper));
        // SAFETY: the slot is the handle's until it is offered.
        unsafe { *header.waiter.get() = Some(Waiter::Latch(&latch)) };
        if !header.state.offer_waiter() {
            // SAFETY: not taken: done already.
            unsafe { *header.waiter.get() = None };
            return Ok(());
        }
        let Some(worker) = worker else {
            wait_outside(&latch);
            return Ok(());
        };
        let wait = Wait { latch: &latch, id, base: usize::MAX, own: std::ptr::null(), at_bound: AtBound::GiveUp };
        if worker.wait(&wait).is_ok() {
            return Ok(());
        }
        if header.state.withdraw_waiter() {
            // SAFETY: withdrawn: the slot is the handle's again.
            unsafe { *header.waiter.get() = None };
            return Err(JoinError::WouldDeadlock);
        }
        // Done at the last moment: the claimer is about to set our latch.
        wait_outside(&latch);
        Ok(())
    }

    /// Runs the task on `worker` if nobody has started it and it may run there.
    fn claim_for(&self, worker: &Worker) {
        let header = self.header();
        let same = std::ptr::eq(&*worker.registry, &*header.registry);
        if !same || (header.strict && header.home() != worker.node_index()) || !header.state.is_queued() {
            return;
        }
        let job = entry_of(self.task);
        let verb = match worker.registry.gate.phase() {
            Phase::Cancelling | Phase::Terminated => Verb::Cancel,
            _ => Verb::Run,
        };
        worker.shared().counters.own.jobs.bump();
        let mut claimed = false;
        worker.as_strand(Taken { job, strict: header.strict }, || {
            // SAFETY: the handle's reference is held.
            claimed = unsafe { (header.vtable.claim)(self.task, verb) };
        });
        if claimed {
            // Its queue entry is stale now.
            header.registry.nodes[header.home()].roots.note_stale();
        } else {
            worker.shared().counters.own.jobs.take_back();
        }
        // On an idle thread this poll was an outermost one, but we do not look for another job now.
        worker.empty_slot();
    }

    fn into_output(self) -> Result<T, JoinError> {
        let mut output = MaybeUninit::<Result<T, JoinError>>::uninit();
        // SAFETY: done, and the handle, which owns the output, is used up here.
        unsafe {
            (self.header().vtable.take_output)(self.task, output.as_mut_ptr().cast());
            release(self.task);
        }
        mem::forget(self);
        // SAFETY: written by `take_output`.
        unsafe { output.assume_init() }
    }
}

impl<T> JoinHandle<T> {
    /// Takes back the waker that the last poll left, if any.
    fn forget_waker(&self) {
        let header = self.header();
        if header.state.has_waiter() && header.state.withdraw_waiter() {
            // SAFETY: withdrawn: the slot is the handle's again.
            let waiter = unsafe { (*header.waiter.get()).take() };
            drop(waiter);
        }
    }

    /// Leaves a waker in the slot. False: the task is done.
    fn leave_waker(&self, waker: &Waker) -> bool {
        let header = self.header();
        if header.state.has_waiter() {
            if !header.state.withdraw_waiter() {
                return false;
            }
            // SAFETY: withdrawn: the slot is the handle's again.
            let slot = unsafe { &mut *header.waiter.get() };
            if !matches!(slot, Some(Waiter::Waker(left)) if left.will_wake(waker)) {
                *slot = Some(Waiter::Waker(waker.clone()));
            }
        } else {
            // SAFETY: the slot is the handle's until it is offered, and empty.
            unsafe { *header.waiter.get() = Some(Waiter::Waker(waker.clone())) };
        }
        if header.state.offer_waiter() {
            return true;
        }
        // SAFETY: not taken: the slot is the handle's still.
        unsafe { *header.waiter.get() = None };
        false
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let header = self.header();
        assert!(header.state.has_handle(), "the handle was polled after it was ready");
        if !budget::take_one(cx) {
            return Poll::Pending;
        }
        if !header.state.is_done() && self.leave_waker(cx.waker()) {
            return Poll::Pending;
        }
        let mut output = MaybeUninit::<Result<T, JoinError>>::uninit();
        // SAFETY: done, and the handle, which owns the output, says below that it has read it. Its reference stays.
        unsafe { (header.vtable.take_output)(self.task, output.as_mut_ptr().cast()) };
        header.state.drop_handle();
        // SAFETY: written by `take_output`.
        Poll::Ready(unsafe { output.assume_init() })
    }
}

impl<T> Unpin for JoinHandle<T> {}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        self.forget_waker();
        let header = self.header();
        // SAFETY: if done, the output is ours, and unread if the handle was there; then the handle's reference is given
        // up, once.
        unsafe {
            if header.state.has_handle() && header.state.drop_handle() {
                (header.vtable.drop_output)(self.task);
            }
            release_early(self.task);
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("finished", &self.is_finished()).finish_non_exhaustive()
    }
}
