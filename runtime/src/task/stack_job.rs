//! A job on its waiter's stack: a `join` half, an `install`, one call of a broadcast.

use std::any::Any;
use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sched::job::{Job, JobHeader, Verb};
use crate::sched::latch::Latch;
use crate::sched::sleep::Sleeper;
use crate::sched::strand::{Strand, WaitId};
use crate::sched::worker::Worker;

/// How a job ended.
pub(crate) enum Outcome<R> {
    Ok(R),
    Panicked(Box<dyn Any + Send>),
    /// The runtime was shut down before it started.
    Cancelled,
}

/// Waits to be run by somebody else; or is taken back and run in place. The closure is told whether it migrated.
#[repr(C)]
pub(crate) struct StackJob<F, R> {
    header: JobHeader,
    pub(crate) latch: Latch,
    /// Read out exactly once: by `execute`, by `run_inline`, or on cancellation (JOB-ONCE).
    body: UnsafeCell<ManuallyDrop<F>>,
    /// Written before the latch is set, and read out once after.
    outcome: UnsafeCell<MaybeUninit<Outcome<R>>>,
}

impl<F, R> StackJob<F, R>
where
    F: FnOnce(bool) -> R + Send,
    R: Send,
{
    /// `waiter` is the sleep cell of the thread on whose stack this lies.
    #[inline(always)]
    pub(crate) fn new(body: F, waiter: *const Sleeper) -> Self {
        StackJob {
            header: JobHeader { execute: Self::execute },
            latch: Latch::new(waiter),
            body: UnsafeCell::new(ManuallyDrop::new(body)),
            outcome: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// The queue entry. Whoever queues it keeps `self` in place until the latch is set or the entry was taken back.
    #[inline(always)]
    pub(crate) fn as_job(&self, strand: *const Strand) -> Job {
        Job { header: &self.header, strand }
    }

    pub(crate) fn wait_id(&self) -> WaitId {
        WaitId::of(&self.header)
    }

    /// The body, to be run in place.
    ///
    /// # Safety
    /// The entry was never queued or has been taken back: JOB-ONCE.
    #[inline(always)]
    pub(crate) unsafe fn take_body(&self) -> F {
        // SAFETY: JOB-ONCE: nobody else reads the body.
        unsafe { ManuallyDrop::take(&mut *self.body.get()) }
    }

    /// # Safety
    /// `header` is the header of a `StackJob<F, R>`; JOB-ONCE.
    unsafe fn execute(header: *const JobHeader, verb: Verb) -> bool {
        if verb == Verb::Sweep {
            return false;
        }
        let this: *const Self = header.cast();
        // SAFETY: `header` is the first field (repr C) of a job that lives until its latch is set.
        let job = unsafe { &*this };
        // SAFETY: JOB-ONCE.
        let body = unsafe { ManuallyDrop::take(&mut *job.body.get()) };
        let outcome = match verb {
            Verb::Run => {
                let migrated = Worker::current().is_none_or(|worker| worker.sleeper() != job.latch.waiter());
                match catch_unwind(AssertUnwindSafe(|| body(migrated))) {
                    Ok(result) => Outcome::Ok(result),
                    Err(payload) => Outcome::Panicked(payload),
                }
            }
            Verb::Cancel | Verb::Sweep | Verb::Close | Verb::End => match catch_unwind(AssertUnwindSafe(|| drop(body)))
            {
                Ok(()) => Outcome::Cancelled,
                Err(payload) => Outcome::Panicked(payload),
            },
        };
        // SAFETY: nobody reads the outcome before the latch is set.
        unsafe { (*job.outcome.get()).write(outcome) };
        // SAFETY: LATCH-ALIVE: the waiter keeps the job and its sleep cell until it sees the latch set. `this` is not
        // touched again.
        unsafe { Latch::set(&raw const (*this).latch) };
        true
    }

    /// The outcome.
    ///
    /// # Safety
    /// The latch is set, and this is called once.
    pub(crate) unsafe fn take_outcome(&self) -> Outcome<R> {
        debug_assert!(self.latch.is_set());
        // SAFETY: written before the latch was set; read once.
        unsafe { (*self.outcome.get()).assume_init_read() }
    }
}
