//! The cell of a spawned future: polled by workers, one at a time, until it is ready, panics or is aborted.
//!
//! The state word and who owns what: `task/cell/future/README.md`.

mod waker;

use std::cell::UnsafeCell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::task::{Context, Poll};

use super::budget;
use super::cell::future::Pause;
use super::cell::{Claim, State};
use super::handle::{JoinError, JoinHandle};
use super::header::{NO_WORKER, Next, TaskHeader, TaskVtable, entry_of, queue_again, release_early};
use super::spawn::Destination;
use crate::sched::gate::Phase;
use crate::sched::job::{JobHeader, Verb};
use crate::sched::registry::Registry;
use crate::sched::roots::Taken;
use crate::sched::strand::Strand;
use crate::sched::waking::Then;
use crate::sched::worker::Worker;

/// Future until it is done, then output.
union Stage<F, T> {
    future: ManuallyDrop<F>,
    output: ManuallyDrop<Result<T, JoinError>>,
}

/// The task cell: one allocation. The future never moves from its birth here to its drop.
#[repr(C)]
struct FutureCell<F, T> {
    header: TaskHeader,
    stage: UnsafeCell<Stage<F, T>>,
}

/// In `TaskHeader::place`: spawned on a runtime that had ended.
const NOT_LISTED: u32 = u32::MAX;

/// How a future ended.
enum End<T> {
    Ready(T),
    Panicked(JoinError),
    /// Dropped before its end: the error says why.
    Cancelled(JoinError),
}

impl<F> FutureCell<F, F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    const VTABLE: TaskVtable = TaskVtable {
        claim: Self::claim,
        take_output: Self::take_output,
        drop_output: Self::drop_output,
        free: Self::free,
    };

    /// The queue's entry was popped, or the runtime ends (`Close`, `End`).
    ///
    /// # Safety
    /// `header` is the first field of such a cell. The entry's reference passes to this call; with `Close` the list's lock
    /// is held instead; with `End` the reference that `Close` took.
    unsafe fn execute(header: *const JobHeader, verb: Verb) -> bool {
        // SAFETY: never null.
        let task = unsafe { NonNull::new_unchecked(header.cast_mut().cast::<TaskHeader>()) };
        // SAFETY: the caller's promise.
        let state = unsafe { &task.as_ref().state };
        match verb {
            Verb::Close => return state.close(),
            Verb::End => {
                // SAFETY: claimed by `Close`.
                unsafe { Self::complete(task, End::Cancelled(JoinError::Shutdown)) };
                return true;
            }
            Verb::Sweep if state.is_queued() => return false,
            Verb::Sweep | Verb::Run | Verb::Cancel => {}
        }
        let claim = if verb == Verb::Sweep { Claim::No } else { state.begin_poll(false) };
        // SAFETY: the entry's reference, or its claim.
        unsafe {
            match (claim, verb) {
                (Claim::No, _) => release_early(task),
                (Claim::Run, Verb::Run) => Self::poll(task),
                (Claim::Run | Claim::Drop, _) => Self::cancel(task, claim),
            }
        }
        claim != Claim::No || verb == Verb::Sweep
    }

    /// For a waiter: polls it once, in place.
    ///
    /// # Safety
    /// The caller holds a reference.
    unsafe fn claim(task: NonNull<TaskHeader>, verb: Verb) -> bool {
        // SAFETY: the caller's reference.
        let claim = unsafe { task.as_ref() }.state.begin_poll(true);
        // SAFETY: claimed, with a reference.
        unsafe {
            match (claim, verb) {
                (Claim::No, _) => return false,
                (Claim::Run, Verb::Run) => Self::poll(task),
                (Claim::Run | Claim::Drop, _) => Self::cancel(task, claim),
            }
        }
        true
    }

    /// # Safety
    /// The caller has claimed the future, and a reference passes to this call.
    unsafe fn poll(task: NonNull<TaskHeader>) {
        let cell = task.cast::<Self>();
        // SAFETY: a reference is held; the stage is only touched by the claimer now.
        let (header, stage) = unsafe { (&(*cell.as_ptr()).header, (*cell.as_ptr()).stage.get()) };
        let worker = Worker::current();
        if let Some(worker) = worker {
            header.last.store(u16::try_from(worker.index).unwrap_or(NO_WORKER), Ordering::Relaxed);
        }
        let polled = {
            let _mark = Strand::begin_poll(worker.map_or(std::ptr::null(), Worker::strand));
            // SAFETY: our reference outlives the poll.
            let waker = unsafe { waker::borrowed(task) };
            // SAFETY: claimed and not done, so the future is there; it stays in its place until it is dropped there.
            let future = unsafe { Pin::new_unchecked(&mut *(*stage).future) };
            budget::fresh(|| catch_unwind(AssertUnwindSafe(|| future.poll(&mut Context::from_waker(&waker)))))
        };
        match polled {
            Ok(Poll::Pending) => match header.state.pause() {
                Pause::Idle => {}
                // SAFETY: the reference is the entry's now.
                Pause::Again => unsafe { queue_again(task, Next::InLine) },
                // SAFETY: still claimed.
                Pause::Drop => unsafe { Self::cancel(task, Claim::Drop) },
            },
            // SAFETY: still claimed.
            Ok(Poll::Ready(value)) => unsafe { Self::complete(task, End::Ready(value)) },
            // SAFETY: still claimed.
            Err(payload) => unsafe { Self::complete(task, End::Panicked(JoinError::from_panic(payload))) },
        }
    }

    /// `claim`: what the claim said. `Run`: it is cancelled by its runtime; `Drop`: by `abort`, or by the runtime's end.
    ///
    /// # Safety
    /// As [`Self::poll`].
    unsafe fn cancel(task: NonNull<TaskHeader>, claim: Claim) {
        // SAFETY: a reference is held.
        let phase = unsafe { task.as_ref() }.registry.gate.phase();
        let why = match (claim, phase) {
            (Claim::Drop, Phase::Open | Phase::Draining) => JoinError::Aborted,
            _ => JoinError::Shutdown,
        };
        // SAFETY: the caller's promise.
        unsafe { Self::complete(task, End::Cancelled(why)) };
    }

    /// Drops the future, stores the output, tells the waiter, leaves the list, gives up the reference.
    ///
    /// # Safety
    /// As [`Self::poll`].
    unsafe fn complete(task: NonNull<TaskHeader>, end: End<F::Output>) {
        let cell = task.cast::<Self>();
        // SAFETY: as in `poll`.
        let (header, stage) = unsafe { (&(*cell.as_ptr()).header, (*cell.as_ptr()).stage.get()) };
        let registry = &*header.registry;
        // SAFETY: claimed and not done: there, and dropped once, in its place.
        let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { ManuallyDrop::drop(&mut (*stage).future) }));
        let output = match (end, dropped) {
            (End::Ready(value), Ok(())) => Ok(value),
            (End::Panicked(error), Ok(())) => Err(error),
            (End::Panicked(error), Err(second)) => {
                registry.report_panic(second);
                Err(error)
            }
            // As for a closure: a captured value whose drop panics is the task's panic.
            (End::Ready(value), Err(payload)) => {
                drop_value(registry, value);
                Err(JoinError::from_panic(payload))
            }
            (End::Cancelled(why), Ok(())) => Err(why),
            (End::Cancelled(_), Err(payload)) => Err(JoinError::from_panic(payload)),
        };
        // SAFETY: still only ours, until `finish`.
        unsafe { (*stage).output = ManuallyDrop::new(output) };
        let finished = header.state.finish();
        if finished.wake {
            // SAFETY: `finish` said so, to us.
            unsafe { header.wake_waiter() };
        }
        if finished.unread {
            // SAFETY: the output is ours.
            unsafe { Self::drop_output(task) };
        }
        if header.place != NOT_LISTED {
            registry.alive.remove(entry_of(task).header, header.place);
        }
        // The list's reference, and ours.
        if header.state.release_many(2) {
            // SAFETY: the last ones.
            unsafe { Self::free(task) };
        }
    }

    /// # Safety
    /// Done, the output is the caller's and not read yet; `to` has room for a `Result<F::Output, JoinError>`.
    unsafe fn take_output(task: NonNull<TaskHeader>, to: *mut ()) {
        let cell = task.cast::<Self>();
        // SAFETY: the caller's promise.
        unsafe {
            let output = std::ptr::read(&raw const (*(*cell.as_ptr()).stage.get()).output);
            to.cast::<Result<F::Output, JoinError>>().write(ManuallyDrop::into_inner(output));
        }
    }

    /// Drops an output that nobody reads. A panic in it, or in its own drop, goes to the panic hook.
    ///
    /// # Safety
    /// As [`Self::take_output`].
    unsafe fn drop_output(task: NonNull<TaskHeader>) {
        let cell = task.cast::<Self>();
        // SAFETY: the caller holds a reference.
        let registry = unsafe { &(*cell.as_ptr()).header.registry };
        // SAFETY: the caller's promise: ours, read once.
        let output = unsafe { std::ptr::read(&raw const (*(*cell.as_ptr()).stage.get()).output) };
        match ManuallyDrop::into_inner(output) {
            Ok(value) => drop_value(registry, value),
            Err(JoinError::Panic(panic)) => registry.report_panic(panic.into_inner()),
            Err(_) => {}
        }
    }

    /// # Safety
    /// The last reference, the stage is empty.
    unsafe fn free(task: NonNull<TaskHeader>) {
        // SAFETY: from `spawn_future`. The stage is a union: nothing in it is dropped.
        drop(unsafe { Box::from_raw(task.cast::<Self>().as_ptr()) });
    }
}

fn drop_value<T>(registry: &Registry, value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        registry.report_panic(payload);
    }
}

pub(super) fn spawn_future<F>(to: Destination, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let Destination { registry, home, strict, affinity, in_line } = to;
    let worker = Worker::current_of(&registry);
    match worker {
        Some(worker) => worker.shared().counters.own.spawned.bump(),
        None => _ = registry.spawned_outside.fetch_add(1, Ordering::Relaxed),
    }
    let cell = Box::into_raw(Box::new(FutureCell::<F, F::Output> {
        header: TaskHeader {
            job: JobHeader { execute: FutureCell::<F, F::Output>::execute },
            state: State::new_future(),
            vtable: &FutureCell::<F, F::Output>::VTABLE,
            registry: registry.clone(),
            waiter: UnsafeCell::new(None),
            _affinity: affinity,
            home: u32::try_from(home).expect("a machine has fewer nodes"),
            place: NOT_LISTED,
            last: AtomicU16::new(NO_WORKER),
            strict,
        },
        stage: UnsafeCell::new(Stage { future: ManuallyDrop::new(future) }),
    }));
    // SAFETY: just made.
    let task = unsafe { NonNull::new_unchecked(cell.cast::<TaskHeader>()) };
    // SAFETY: the handle's reference.
    let handle = unsafe { JoinHandle::from_task(task) };
    let entry = entry_of(task);
    // The list's lock is held while the place is written, and who closes the list reads no place.
    match registry.alive.insert(entry.header) {
        // SAFETY: nobody else knows the task but the list, which does not look at this field.
        Some(place) => unsafe { (&raw mut (*cell).header.place).write(place) },
        None => {
            // SAFETY: JOB-ONCE: it is in no queue.
            _ = unsafe { entry.execute(Verb::Cancel) };
            return handle;
        }
    }
    // A poll that spawns is about to wait for what it spawned, or to end.
    let taken = match worker {
        Some(worker) if !in_line && worker.node_index() == home && registry.gate.admits(true) => {
            worker.run_next(Taken { job: entry, strict })
        }
        _ => Err(Taken { job: entry, strict }),
    };
    if let Err(taken) = taken {
        // SAFETY: the entry's reference keeps the cell alive until it is popped, once.
        if let Err(job) = unsafe { registry.push_root(home, taken.job, strict, Then::RunsOn) } {
            // SAFETY: given back: JOB-ONCE.
            _ = unsafe { job.execute(Verb::Cancel) };
        }
    }
    handle
}
