//! `JoinHandle`: what `spawn` returns.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::ptr::NonNull;
use std::sync::Arc;

use super::spawn::{TaskHeader, Waiter, release};
use crate::sched::gate::Phase;
use crate::sched::job::{Job, Verb};
use crate::sched::latch::Latch;
use crate::sched::roots::Taken;
use crate::sched::sleep::current_sleeper;
use crate::sched::strand::{Strand, WaitId};
use crate::sched::wait::{AtBound, Wait, wait_outside};
use crate::sched::worker::Worker;

/// Why a task has no output.
#[derive(Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// Its closure panicked.
    Panic(PanicPayload),
    /// The runtime was shut down before it started; what it captured has been dropped.
    Shutdown,
    /// A task tried to join its own handle, or a job below it did: that can never end. Return the handle to a caller, or
    /// join it elsewhere.
    Own,
    /// All threads of the node wait, no spare is left, jobs are queued there, and none has begun in the runtime for 100 ms,
    /// or for 5 s if the task itself runs or is queued elsewhere. Raise the builder's `spare_threads`, or join fewer handles
    /// inside tasks. The task itself goes on, detached.
    WouldDeadlock,
}

impl JoinError {
    pub(crate) fn from_panic(payload: Box<dyn Any + Send>) -> JoinError {
        let message = payload
            .downcast_ref::<&'static str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned());
        JoinError::Panic(PanicPayload { message, payload })
    }

    /// The task panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self, JoinError::Panic(_))
    }

    /// The panic's payload, for [`std::panic::resume_unwind`].
    ///
    /// # Errors
    /// Gives the error back if it is not a panic.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send>, JoinError> {
        match self {
            JoinError::Panic(panic) => Ok(panic.into_inner()),
            other => Err(other),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Panic(panic) => match panic.message() {
                Some(message) => write!(f, "the task panicked: {message}"),
                None => f.write_str("the task panicked"),
            },
            JoinError::Shutdown => f.write_str("the runtime was shut down before the task started"),
            JoinError::Own => f.write_str("a task cannot join its own handle: the wait would never end"),
            JoinError::WouldDeadlock => f.write_str(
                "every worker of the node waits and no spare thread is left to run what they wait for; raise \
                 Builder::spare_threads",
            ),
        }
    }
}

impl std::error::Error for JoinError {}

/// A panic's payload, with its message if it was a string.
pub struct PanicPayload {
    message: Option<String>,
    payload: Box<dyn Any + Send>,
}

// SAFETY: `&PanicPayload` gives access to the message only; the payload, which need not be `Sync`, is reached by value.
unsafe impl Sync for PanicPayload {}

impl PanicPayload {
    /// The text given to `panic!`, if any.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// The payload itself.
    pub fn into_inner(self) -> Box<dyn Any + Send> {
        self.payload
    }
}

impl fmt::Debug for PanicPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PanicPayload").field(&self.message).finish()
    }
}

/// The handle of a spawned task. Dropping it detaches the task, which runs on; a panic that nobody joins goes to the
/// runtime's panic hook.
///
/// ```
/// let handle = numart_runtime::spawn(|| "done");
/// assert_eq!(handle.join().unwrap(), "done");
/// ```
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

    /// Waits for the task and returns its output.
    ///
    /// On a worker of the same runtime a task that has not started is run here and now (unless it is `strict` and at
    /// home elsewhere); otherwise the worker helps with jobs below the task, and parks if there are none. On any other
    /// thread this blocks.
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
        if header.state.is_done() {
            return Ok(());
        }
        match Worker::here() {
            Some(worker) if !worker.is_in_strand() => worker.rooted(|| self.wait_on(Some(worker))),
            worker => self.wait_on(worker),
        }
    }

    fn wait_on(&self, worker: Option<&Worker>) -> Result<(), JoinError> {
        let header = self.header();
        let id = WaitId::of(&header.job);
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
        unsafe { *header.waiter.get() = Some(Waiter(&latch)) };
        if !header.state.offer_waiter() {
            // SAFETY: not taken: done already.
            unsafe { *header.waiter.get() = None };
            return Ok(());
        }
        let Some(worker) = worker else {
            wait_outside(&latch);
            return Ok(());
        };
        let hopeless = || header.state.is_queued() && header.registry.stands_still(header.home);
        let at_bound = AtBound::GiveUp(&hopeless);
        let wait = Wait { latch: &latch, id, base: usize::MAX, own: std::ptr::null(), at_bound };
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
        // A chain of tasks that each join the next goes on in another stack.
        if !same || worker.is_deep() || (header.strict && header.home != worker.node_index()) || !header.state.claim() {
            return;
        }
        let job = Job { header: self.task.as_ptr().cast_const().cast(), strand: std::ptr::null() };
        let verb = match worker.registry.gate.phase() {
            Phase::Cancelling | Phase::Terminated => Verb::Cancel,
            _ => Verb::Run,
        };
        // Its queue entry is stale now.
        header.registry.nodes[header.home].roots.note_stale();
        let counters = &worker.shared().counters;
        counters.own.jobs.bump();
        counters.roots.bump(header.home);
        worker.as_strand(Taken { strict: header.strict, ..Taken::of(job) }, || {
            // SAFETY: claimed by us; the handle's reference is held.
            unsafe { (header.vtable.run_claimed)(self.task, verb) };
        });
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

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let header = self.header();
        // SAFETY: if done, the output is ours and unread; then the handle's reference is given up, once.
        unsafe {
            if header.state.drop_handle() {
                (header.vtable.drop_output)(self.task);
            }
            release(self.task);
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("finished", &self.is_finished()).finish_non_exhaustive()
    }
}
