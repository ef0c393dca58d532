//! `join`: two closures, perhaps at the same time.
//!
//! The price of a `join` that nobody helps with: a job written to the stack, two words and an index written to the ring,
//! one flag read; then an index written and a border read to take it back. No allocation, no atomic
//! read-modify-write, no fence.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::stack_job::{Outcome, StackJob};
use crate::runtime::global_registry;
use crate::sched::job::JobHeader;
use crate::sched::registry::drop_quietly;
use crate::sched::wait::{AtBound, Wait};
use crate::sched::worker::Worker;

/// Tells a closure of [`join_context`] how it came to run.
#[derive(Clone, Copy, Debug)]
pub struct JoinContext {
    migrated: bool,
}

impl JoinContext {
    /// True if the closure runs on another thread than the one that called `join_context`.
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}

/// Runs both closures, perhaps in parallel, and returns both results.
///
/// `a` runs on this thread; `b` runs on whatever worker takes it first, or here after `a`. Outside a runtime the call
/// moves into the global one. While it waits for a stolen `b`, this worker runs only jobs made below this call.
///
/// # Panics
/// With `a`'s panic, else with `b`'s; in either case after both are done.
///
/// # Cost
/// 3 to 6 ns when `b` is not taken, 0.2 to 1 us when it is; see `docs/performance.md`.
///
/// ```
/// let numbers = [1, 2, 3, 4];
/// let (left, right) = numbers.split_at(2);
/// let (a, b) = numart_runtime::join(|| left.iter().sum::<i32>(), || right.iter().sum::<i32>());
/// assert_eq!(a + b, 10);
/// ```
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    match Worker::current() {
        Some(worker) if worker.is_in_strand() => join_on(worker, a, |_| b()),
        _ => on_worker(|worker| join_on(worker, a, |_| b())),
    }
}

/// Like [`join`], and tells each closure whether it [`migrated`](JoinContext::migrated).
///
/// ```
/// numart_runtime::join_context(
///     |context| if context.migrated() { /* came in from outside */ },
///     |context| if context.migrated() { /* was stolen: split finer */ },
/// );
/// ```
///
/// # Panics
/// As [`join`].
#[inline]
pub fn join_context<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(JoinContext) -> RA + Send,
    B: FnOnce(JoinContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    match Worker::current() {
        Some(worker) if worker.is_in_strand() => {
            join_on(worker, || a(JoinContext { migrated: false }), |migrated| b(JoinContext { migrated }))
        }
        outside => {
            let migrated = outside.is_none();
            on_worker(|worker| join_on(worker, || a(JoinContext { migrated }), |migrated| b(JoinContext { migrated })))
        }
    }
}

/// Calls `body` on a worker, inside a strand: on this thread if it is one, else in the global runtime.
#[cold]
#[inline(never)]
pub(super) fn on_worker<R: Send>(body: impl FnOnce(&Worker) -> R + Send) -> R {
    match Worker::here() {
        Some(worker) => worker.rooted(|| body(worker)),
        None => global_registry().install(|| body(Worker::current().expect("install runs on a worker"))),
    }
}

/// `join` on a known worker.
#[inline]
pub(super) fn join_on<A, B, RA, RB>(worker: &Worker, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce(bool) -> RB + Send,
    RA: Send,
    RB: Send,
{
    // If `a` unwinds, dropping the frame sees to it that `b` is done before what it may borrow goes. (Not
    // `catch_unwind`: that keeps `a` from being inlined, which is most of a small join's cost.)
    let mut frame = Frame { half: StackJob::new(b, worker.sleeper()), index: 0 };
    frame.index = worker.push(frame.half.as_job(worker.strand()));
    let result_a = a();
    if worker.pop_at(frame.index, frame.header()) || frame.settle(worker) == Settled::TakenBack {
        // SAFETY: taken back: JOB-ONCE. Nobody else knows the frame any more, so it may move, and it is forgotten
        // before the body runs.
        let b = unsafe { frame.half.take_body() };
        mem::forget(frame);
        return (result_a, b(false));
    }
    // SAFETY: the latch is set; once.
    let result_b = unsafe { frame.half.take_outcome() };
    mem::forget(frame);
    match result_b {
        Outcome::Ok(result_b) => (result_a, result_b),
        Outcome::Panicked(payload) => resume_unwind(payload),
        Outcome::Cancelled => unreachable!("a join half always runs"),
    }
}

#[derive(PartialEq, Eq)]
enum Settled {
    /// The half is ours again, not started.
    TakenBack,
    /// Somebody ran it.
    Done,
}

/// The queued half, and where it is. Stays in place from the push until it is settled.
struct Frame<F, R>
where
    F: FnOnce(bool) -> R + Send,
    R: Send,
{
    half: StackJob<F, R>,
    index: usize,
}

impl<F, R> Frame<F, R>
where
    F: FnOnce(bool) -> R + Send,
    R: Send,
{
    #[inline(always)]
    fn header(&self) -> *const JobHeader {
        self.half.as_job(std::ptr::null()).header
    }

    /// The half is not simply on top: find it, or wait for whoever has it.
    #[cold]
    #[inline(never)]
    fn settle(&self, worker: &Worker) -> Settled {
        let header = self.header();
        while worker.mark() > self.index {
            match worker.pop() {
                Some(job) if std::ptr::eq(job.header, header) => return Settled::TakenBack,
                // A scope further out got a job while `a` ran. It is not ours to run here.
                Some(stranger) => worker.put_aside(stranger),
                None => break,
            }
        }
        let wait = Wait {
            latch: &self.half.latch,
            id: self.half.wait_id(),
            base: self.index,
            own: std::ptr::null(),
            at_bound: AtBound::RunAnything,
        };
        let waited = worker.wait(&wait);
        debug_assert!(waited.is_ok());
        Settled::Done
    }
}

impl<F, R> Drop for Frame<F, R>
where
    F: FnOnce(bool) -> R + Send,
    R: Send,
{
    /// `a` unwinds: its panic wins, and `b` is still owed its run. A panic of `b` must not leave this destructor.
    #[cold]
    fn drop(&mut self) {
        let worker = Worker::current().expect("a join stays on its worker");
        let payload = if worker.pop_at(self.index, self.header()) || self.settle(worker) == Settled::TakenBack {
            // SAFETY: taken back: JOB-ONCE.
            let b = unsafe { self.half.take_body() };
            catch_unwind(AssertUnwindSafe(|| drop(b(false)))).err()
        } else {
            // SAFETY: the latch is set; once.
            match unsafe { self.half.take_outcome() } {
                Outcome::Ok(result) => catch_unwind(AssertUnwindSafe(|| drop(result))).err(),
                Outcome::Panicked(payload) => Some(payload),
                Outcome::Cancelled => None,
            }
        };
        if let Some(payload) = payload {
            drop_quietly(payload);
        }
    }
}
