//! `join`: two closures, perhaps at the same time.
//!
//! The price of a `join` that nobody helps with: a job written to the stack, two words and an index written to the ring,
//! one flag read; then an index written and a border read to take it back. No allocation, no atomic
//! read-modify-write, no fence.

use std::mem;

use super::stack_job::StackJob;
use crate::runtime::global_registry;
use crate::sched::job::JobHeader;
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
/// About 2 ns when `b` is not taken; see `docs/performance.md`.
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
        Some(worker) => join_on(worker, a, |_| b()),
        None => global_registry().install(|| join(a, b)),
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
        Some(worker) => {
            join_on(worker, || a(JoinContext { migrated: false }), |migrated| b(JoinContext { migrated }))
        }
        None => global_registry().install(|| {
            let worker = Worker::current().expect("install runs on a worker");
            join_on(worker, || a(JoinContext { migrated: true }), |migrated| b(JoinContext { migrated }))
        }),
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
    let half = StackJob::new(b, worker.sleeper());
    let index = worker.push(half.as_job(worker.strand()));
    // If `a` unwinds, the guard sees to it that `b` is done before our frame, which `b` may borrow from, goes. (Not
    // `catch_unwind`: that keeps `a` from being inlined, which is most of a small join's cost.)
    let guard = Settle { worker, half: &half, index };
    let result_a = a();
    mem::forget(guard);
    if worker.pop_at(index) {
        // SAFETY: taken back: JOB-ONCE.
        let result_b = unsafe { half.run_inline(false) };
        return (result_a, result_b);
    }
    if settle(worker, &half, index) == Settled::TakenBack {
        // SAFETY: as above.
        let result_b = unsafe { half.run_inline(false) };
        return (result_a, result_b);
    }
    (result_a, half.into_result())
}

#[derive(PartialEq, Eq)]
enum Settled {
    /// The half is ours again, not started.
    TakenBack,
    /// Somebody ran it.
    Done,
}

/// The half is not simply on top: find it, or wait for whoever has it.
#[cold]
#[inline(never)]
fn settle<F, R>(worker: &Worker, half: &StackJob<F, R>, index: usize) -> Settled
where
    F: FnOnce(bool) -> R + Send,
    R: Send,
{
    let header: *const JobHeader = half.as_job(std::ptr::null()).header;
    while worker.mark() > index {
        match worker.pop() {
            Some(job) if std::ptr::eq(job.header, header) => return Settled::TakenBack,
            // A scope further out got a job while `a` ran. It is not ours to run here.
            Some(stranger) => worker.put_aside(stranger),
            None => break,
        }
    }
    let wait = Wait {
        latch: &half.latch,
        id: half.wait_id(),
        base: index,
        own: std::ptr::null(),
        at_bound: AtBound::RunAnything,
    };
    let waited = worker.wait(&wait);
    debug_assert!(waited.is_ok());
    Settled::Done
}

/// Runs when `a` unwinds.
struct Settle<'a, F, R>
where
    F: FnOnce(bool) -> R + Send,
    R: Send,
{
    worker: &'a Worker,
    half: &'a StackJob<F, R>,
    index: usize,
}

impl<F, R> Drop for Settle<'_, F, R>
where
    F: FnOnce(bool) -> R + Send,
    R: Send,
{
    #[cold]
    fn drop(&mut self) {
        if self.worker.pop_at(self.index) || settle(self.worker, self.half, self.index) == Settled::TakenBack {
            // `a`'s panic wins; `b` is still owed its run. Its own panic must not leave this destructor.
            let body = std::panic::AssertUnwindSafe(|| {
                // SAFETY: taken back: JOB-ONCE.
                drop(unsafe { self.half.run_inline(false) });
            });
            if let Err(payload) = std::panic::catch_unwind(body) {
                crate::sched::registry::drop_quietly(payload);
            }
        }
        // If somebody else ran it, its result is dropped with the half (see `StackJob`'s outcome).
    }
}
