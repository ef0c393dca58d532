//! What every task's cell begins with, whatever its body, and how references to it are given up.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::task::Waker;

use super::affinity::AffinityInner;
use super::cell::State;
use super::cell::future::Left;
use crate::sched::job::{Job, JobHeader, Verb};
use crate::sched::latch::Latch;
use crate::sched::registry::Registry;
use crate::sched::roots::Taken;

/// Whom a finished task tells.
pub(super) enum Waiter {
    /// A thread in `JoinHandle::join`.
    Latch(*const Latch),
    /// A task that awaits the handle.
    Waker(Waker),
}

/// See the module's page.
#[repr(C)]
pub(super) struct TaskHeader {
    pub(super) job: JobHeader,
    pub(super) state: State,
    pub(super) vtable: &'static TaskVtable,
    pub(super) registry: Arc<Registry>,
    /// Filled by the handle before `offer_waiter`, emptied by the claimer after `finish`.
    pub(super) waiter: UnsafeCell<Option<Waiter>>,
    /// What outlives the task and carries its statistics. Held, not read yet: the balancer will.
    pub(super) _affinity: Option<Arc<AffinityInner>>,
    /// Index of the home node.
    pub(super) home: u32,
    /// A future's place in the list of those not done; written before anybody else knows the task.
    pub(super) place: u32,
    /// The worker that polled it last, [`NO_WORKER`] before that: a hint.
    pub(super) last: AtomicU16,
    pub(super) strict: bool,
}

/// No worker has polled it, or one whose index does not fit: no hint.
pub(super) const NO_WORKER: u16 = u16::MAX;

/// What the handle needs to know of a body it does not know.
pub(super) struct TaskVtable {
    /// Claims the task for a waiter, and runs it to its end or its next wait (or cancels it). False: nothing to claim.
    /// The caller holds a reference.
    pub(super) claim: unsafe fn(NonNull<TaskHeader>, Verb) -> bool,
    /// Moves the output into the place pointed to (a `Result<T, JoinError>`).
    pub(super) take_output: unsafe fn(NonNull<TaskHeader>, *mut ()),
    /// Drops the output.
    pub(super) drop_output: unsafe fn(NonNull<TaskHeader>),
    /// Frees the cell, whose stage is empty.
    pub(super) free: unsafe fn(NonNull<TaskHeader>),
}

impl TaskHeader {
    pub(super) fn home(&self) -> usize {
        self.home as usize
    }

    /// After `finish` said so: wakes the waiter.
    ///
    /// # Safety
    /// The caller finished the task, `Finished::wake` was set, and this is called once.
    pub(super) unsafe fn wake_waiter(&self) {
        // SAFETY: `wake`: the handle filled the slot and left it to us.
        match unsafe { (*self.waiter.get()).take() } {
            // SAFETY: LATCH-ALIVE: the handle waits for it.
            Some(Waiter::Latch(latch)) => unsafe { Latch::set(latch) },
            Some(Waiter::Waker(waker)) => {
                // A waker may be anybody's.
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                    self.registry.report_panic(payload);
                }
            }
            None => {}
        }
    }
}

/// The queue entry of a task.
pub(super) fn entry_of(task: NonNull<TaskHeader>) -> Job {
    Job { header: task.as_ptr().cast_const().cast(), strand: std::ptr::null() }
}

/// Gives up a reference to a closure, or to a task that is done.
///
/// # Safety
/// The caller owns one reference and does not use it again.
pub(super) unsafe fn release(task: NonNull<TaskHeader>) {
    // SAFETY: alive: the caller's reference.
    let header = unsafe { task.as_ref() };
    if header.state.release() {
        // SAFETY: the last reference.
        unsafe { (header.vtable.free)(task) };
    }
}

/// Gives up a reference to any task, done or not.
///
/// # Safety
/// As [`release`].
pub(super) unsafe fn release_early(task: NonNull<TaskHeader>) {
    // SAFETY: alive: the caller's reference. What is left is done once, by us.
    unsafe { settle(task, task.as_ref().state.release_early()) };
}

/// Does what a reference that was given up leaves to do.
///
/// # Safety
/// `left` is the state's answer to this caller, obeyed once.
pub(super) unsafe fn settle(task: NonNull<TaskHeader>, left: Left) {
    match left {
        Left::Nothing => {}
        // SAFETY: the reference is the entry's now.
        Left::Push => unsafe { queue_again(task, Next::Soon) },
        // SAFETY: the last reference.
        Left::Free => unsafe { (task.as_ref().vtable.free)(task) },
    }
}

/// Where in the line a future goes that is queued again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Woken: next on this worker if it is at home here and this is a poll, which will end soon; else to its home's queue,
    /// and the worker that ran it last is woken for it.
    Soon,
    /// It gives way to others: to the end of its home's queue.
    InLine,
}

/// Queues a future that has been admitted already.
///
/// # Safety
/// The state word said so to this caller, whose reference is the entry's from here on.
pub(super) unsafe fn queue_again(task: NonNull<TaskHeader>, next: Next) {
    use crate::sched::worker::Worker;

    // SAFETY: alive: the entry's reference. The registry is held on its own, since the task may be over before we are.
    let (registry, home, strict, last) = unsafe {
        let header = task.as_ref();
        let last = header.last.load(std::sync::atomic::Ordering::Relaxed);
        (&raw const *header.registry, header.home(), header.strict, last)
    };
    // SAFETY: alive as long as the task is, which nobody else has yet.
    let worker = Worker::current_of(unsafe { &*registry });
    let taken = Taken { job: entry_of(task), strict };
    let taken = match worker {
        Some(worker) if next == Next::Soon && worker.node_index() == home => match worker.run_next(taken) {
            Ok(()) => return,
            Err(taken) => taken,
        },
        _ => taken,
    };
    let last = (next == Next::Soon && last != NO_WORKER).then_some(usize::from(last));
    // The call needs the registry after the entry is out of our hands; the worker's own reference will do, if there is one.
    match worker {
        // SAFETY: the entry's reference keeps the cell alive until it is popped, once.
        Some(worker) => unsafe { worker.registry.push_again(home, taken, last) },
        None => {
            // SAFETY: not pushed yet: the task holds its registry.
            let registry = unsafe { (*registry).arc() };
            if let Some(registry) = registry {
                // SAFETY: as above.
                unsafe { registry.push_again(home, taken, last) };
            }
        }
    }
}
