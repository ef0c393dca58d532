//! `spawn`: a closure that runs on its own, with a handle.

use std::cell::UnsafeCell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use super::affinity::AffinityInner;
use super::cell::{Claim, State};
use super::future::spawn_future;
use super::handle::{JoinError, JoinHandle};
use super::header::{NO_WORKER, TaskHeader, TaskVtable, entry_of, release};
use crate::runtime::{current_registry, global_registry, panic_if_shut_down};
use crate::sched::gate::Phase;
use crate::sched::job::{JobHeader, Verb};
use crate::sched::registry::Registry;
use crate::sched::waking::Then;
use crate::sched::worker::Worker;

/// Body until claimed, output from `finish` on.
union Stage<F, T> {
    body: ManuallyDrop<F>,
    output: ManuallyDrop<Result<T, JoinError>>,
}

/// The task cell: one allocation.
#[repr(C)]
struct TaskCell<F, T> {
    header: TaskHeader,
    stage: UnsafeCell<Stage<F, T>>,
}

impl<F, T> TaskCell<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    const VTABLE: TaskVtable = TaskVtable {
        claim: Self::claim,
        take_output: Self::take_output,
        drop_output: Self::drop_output,
        free: Self::free,
    };

    fn boxed(
        registry: Arc<Registry>,
        home: usize,
        strict: bool,
        affinity: Option<Arc<AffinityInner>>,
        body: F,
    ) -> NonNull<TaskHeader> {
        let cell = Box::new(TaskCell::<F, T> {
            header: TaskHeader {
                job: JobHeader { execute: Self::execute },
                state: State::new(),
                vtable: &Self::VTABLE,
                registry,
                waiter: UnsafeCell::new(None),
                _affinity: affinity,
                home: u32::try_from(home).expect("a machine has fewer nodes"),
                place: 0,
                last: AtomicU16::new(NO_WORKER),
                strict,
            },
            stage: UnsafeCell::new(Stage { body: ManuallyDrop::new(body) }),
        });
        NonNull::from(Box::leak(cell)).cast()
    }

    /// The queue's entry was popped.
    ///
    /// # Safety
    /// `header` is the first field of a `TaskCell<F, T>`, and the queue's reference passes to this call.
    unsafe fn execute(header: *const JobHeader, verb: Verb) -> bool {
        // SAFETY: never null.
        let task = unsafe { NonNull::new_unchecked(header.cast_mut().cast::<TaskHeader>()) };
        // SAFETY: the queue's reference.
        let state = unsafe { &task.as_ref().state };
        if verb == Verb::Sweep {
            if state.is_queued() {
                return false;
            }
            // SAFETY: the queue's reference, given up here.
            unsafe { release(task) };
            return true;
        }
        debug_assert!(matches!(verb, Verb::Run | Verb::Cancel), "closures are not in the list of pending futures");
        // SAFETY: the queue's reference.
        let claimed = unsafe { Self::claim(task, verb) };
        // SAFETY: the queue's reference, given up here. (Its waiter may have claimed the task meanwhile.)
        unsafe { release(task) };
        claimed
    }

    /// # Safety
    /// The caller holds a reference.
    unsafe fn claim(task: NonNull<TaskHeader>, verb: Verb) -> bool {
        // SAFETY: the caller's reference.
        let header = unsafe { task.as_ref() };
        let instead = match header.state.claim() {
            Claim::No => return false,
            Claim::Run if verb == Verb::Run => None,
            Claim::Drop if matches!(header.registry.gate.phase(), Phase::Open | Phase::Draining) => {
                Some(JoinError::Aborted)
            }
            Claim::Run | Claim::Drop => Some(JoinError::Shutdown),
        };
        // SAFETY: claimed by us.
        unsafe { Self::run_claimed(task, instead) };
        true
    }

    /// Runs the closure, or drops it with the error given.
    ///
    /// # Safety
    /// The caller has claimed the task and holds a reference.
    unsafe fn run_claimed(task: NonNull<TaskHeader>, instead: Option<JoinError>) {
        let cell = task.cast::<TaskCell<F, T>>();
        // SAFETY: a reference is held; the stage is only touched by the claimer now.
        let (header, stage) = unsafe { (&(*cell.as_ptr()).header, (*cell.as_ptr()).stage.get()) };
        // SAFETY: claimed once, so the body is there and read once.
        let body = ManuallyDrop::into_inner(unsafe { std::ptr::read(&raw const (*stage).body) });
        let output = match instead {
            None => catch_unwind(AssertUnwindSafe(body)).map_err(JoinError::from_panic),
            Some(error) => match catch_unwind(AssertUnwindSafe(|| drop(body))) {
                Ok(()) => Err(error),
                Err(payload) => Err(JoinError::from_panic(payload)),
            },
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
    }

    /// # Safety
    /// Done, the output is the caller's and not read yet; `to` has room for a `Result<T, JoinError>`.
    unsafe fn take_output(task: NonNull<TaskHeader>, to: *mut ()) {
        let cell = task.cast::<TaskCell<F, T>>();
        // SAFETY: the caller's promise.
        unsafe {
            let stage = (*cell.as_ptr()).stage.get();
            let output = std::ptr::read(&raw const (*stage).output);
            to.cast::<Result<T, JoinError>>().write(ManuallyDrop::into_inner(output));
        }
    }

    /// Drops an output that nobody reads. A panic in it, or in its own drop, goes to the panic hook.
    ///
    /// # Safety
    /// As [`Self::take_output`].
    unsafe fn drop_output(task: NonNull<TaskHeader>) {
        let cell = task.cast::<TaskCell<F, T>>();
        // SAFETY: the caller holds a reference.
        let registry = unsafe { &(*cell.as_ptr()).header.registry };
        // SAFETY: the caller's promise: ours, read once.
        let output = unsafe { std::ptr::read(&raw const (*(*cell.as_ptr()).stage.get()).output) };
        match ManuallyDrop::into_inner(output) {
            Ok(value) => {
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
                    registry.report_panic(payload);
                }
            }
            Err(JoinError::Panic(panic)) => registry.report_panic(panic.into_inner()),
            Err(_) => {}
        }
    }

    /// # Safety
    /// The last reference, the stage is empty.
    unsafe fn free(task: NonNull<TaskHeader>) {
        // SAFETY: from `boxed`. The stage is a union: nothing in it is dropped.
        drop(unsafe { Box::from_raw(task.cast::<TaskCell<F, T>>().as_ptr()) });
    }
}

/// Where a task goes.
pub(super) struct Destination {
    pub(super) registry: Arc<Registry>,
    pub(super) home: usize,
    pub(super) strict: bool,
    pub(super) affinity: Option<Arc<AffinityInner>>,
    /// Spawned by `spawn_fifo`: in the order of the calls, whatever it is.
    pub(super) in_line: bool,
}

impl Destination {
    /// Home of a plain spawn: the spawner's node.
    pub(crate) fn here(registry: Arc<Registry>) -> Destination {
        let home = registry.home_of_caller();
        Destination { registry, home, strict: false, affinity: None, in_line: false }
    }
}

pub(super) fn spawn_closure<F, T>(to: Destination, body: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let Destination { registry, home, strict, affinity, in_line: _ } = to;
    match Worker::current_of(&registry) {
        Some(worker) => worker.shared().counters.own.spawned.bump(),
        None => _ = registry.spawned_outside.fetch_add(1, Ordering::Relaxed),
    }
    let task = TaskCell::<F, T>::boxed(registry.clone(), home, strict, affinity, body);
    // SAFETY: the handle's reference.
    let handle = unsafe { JoinHandle::from_task(task) };
    let job = entry_of(task);
    // SAFETY: the queue's reference keeps the cell alive until the entry is popped, once.
    if let Err(job) = unsafe { registry.push_root(home, job, strict, Then::RunsOn) } {
        // SAFETY: given back: JOB-ONCE.
        _ = unsafe { job.execute(Verb::Cancel) };
    }
    handle
}

mod sealed {
    pub trait Sealed<M> {}
}

/// Something that can be spawned: a closure or a future.
///
/// `M` tells the kinds apart and is always inferred. A closure that *returns* a future yields that future, unpolled.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be spawned",
    label = "neither a closure without arguments nor a future",
    note = "numart::spawn takes `|| …` or `async {{ … }}`"
)]
pub trait Task<M>: sealed::Sealed<M> {
    /// What the handle returns.
    type Output;
    #[doc(hidden)]
    fn spawn_to(self, to: SpawnTo) -> JoinHandle<Self::Output>
    where
        Self: Send + 'static,
        Self::Output: Send + 'static;
}

/// A destination, opaque to users.
#[doc(hidden)]
pub struct SpawnTo(pub(super) Destination);

impl SpawnTo {
    pub(crate) fn here(registry: Arc<Registry>) -> SpawnTo {
        SpawnTo(Destination::here(registry))
    }

    /// For `spawn_fifo`.
    pub(crate) fn in_line(registry: Arc<Registry>) -> SpawnTo {
        SpawnTo(Destination { in_line: true, ..Destination::here(registry) })
    }
}

/// The marker of closures.
#[derive(Debug)]
pub enum Closure {}

impl<F: FnOnce() -> T, T> sealed::Sealed<Closure> for F {}

impl<F, T> Task<Closure> for F
where
    F: FnOnce() -> T,
{
    type Output = T;

    fn spawn_to(self, to: SpawnTo) -> JoinHandle<T>
    where
        Self: Send + 'static,
        T: Send + 'static,
    {
        spawn_closure(to.0, self)
    }
}

/// The marker of futures.
#[derive(Debug)]
pub enum Async {}

impl<F: Future> sealed::Sealed<Async> for F {}

impl<F> Task<Async> for F
where
    F: Future,
{
    type Output = F::Output;

    fn spawn_to(self, to: SpawnTo) -> JoinHandle<F::Output>
    where
        Self: Send + 'static,
        F::Output: Send + 'static,
    {
        spawn_future(to.0, self)
    }
}

/// Runs a closure or a future on the runtime and returns its handle at once. **A closure that returns a future yields that
/// future as its output, unpolled**: write `spawn(async move { … })`, not `spawn(|| async { … })`.
///
/// Its home is the spawner's node: it waits in that node's queue, first in first out, and leaves only if it waits there
/// longer than the runtime's `home_delay`. Dropping the handle lets it run on, detached. Called on a worker it goes to
/// that worker's runtime, else to the global one.
///
/// A future keeps its home: woken, it goes back to its node, and is polled next by the worker that woke it if that is
/// one of the node's and polls a future itself, else it waits in the node's queue. A pending future that nobody can wake
/// any more (no waker, no handle left) is dropped.
///
/// # Errors
/// None here; after a shutdown the handle returns [`JoinError::Shutdown`].
///
/// # Cost
/// One allocation, one push to the node's queue and, if a worker sleeps there, one wake-up. A pending future takes 80 bytes
/// more than itself or its output, whichever is larger, and one entry in a list.
///
/// ```
/// let closure = numart_runtime::spawn(|| 6 * 7);
/// let future = numart_runtime::spawn(async { closure.await.map(|answer| answer + 1) });
/// assert_eq!(future.join().unwrap().unwrap(), 43);
/// ```
pub fn spawn<M, K>(task: K) -> JoinHandle<K::Output>
where
    K: Task<M> + Send + 'static,
    K::Output: Send + 'static,
{
    task.spawn_to(SpawnTo::here(current_registry()))
}

/// As [`spawn`], and tasks spawned by one thread with one home start in that order.
///
/// Node queues are first in first out, so for closures the two are the same, and code that relies on the order says so by
/// this. A future spawned by [`spawn`] inside a poll runs next; by this it takes its place in the queue.
///
/// ```
/// let first = numart_runtime::spawn_fifo(|| 1);
/// let second = numart_runtime::spawn_fifo(|| 2);
/// assert_eq!(first.join().unwrap() + second.join().unwrap(), 3);
/// ```
pub fn spawn_fifo<M, K>(task: K) -> JoinHandle<K::Output>
where
    K: Task<M> + Send + 'static,
    K::Output: Send + 'static,
{
    task.spawn_to(SpawnTo::in_line(current_registry()))
}

/// Runs a closure inside the global runtime (or where the caller is already inside one) and waits for it.
///
/// ```
/// assert!(numart_runtime::install(|| numart_runtime::current_worker()).is_some());
/// ```
///
/// # Panics
/// With the closure's panic.
pub fn install<F, R>(body: F) -> R
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    match Worker::here() {
        Some(_) => body(),
        None => global_registry().install(body),
    }
}

impl Registry {
    /// Runs `body` on a worker of this runtime and waits: in place if this is one.
    pub(crate) fn install<F, R>(&self, body: F) -> R
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        panic_if_shut_down(self.try_install(body))
    }

    /// As [`Registry::install`]; an error if the runtime is shut down and the body was dropped unrun.
    pub(crate) fn try_install<F, R>(&self, body: F) -> Result<R, JoinError>
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        use super::stack_job::{Outcome, StackJob};
        use crate::sched::sleep::current_sleeper;
        use crate::sched::wait::wait_for;

        if Worker::current_of(self).is_some() {
            return Ok(body());
        }
        let caller = Worker::here();
        let sleeper = current_sleeper();
        let job = StackJob::new(|_| body(), Arc::as_ptr(&sleeper));
        let strand = caller.map_or(std::ptr::null(), Worker::strand);
        let entry = job.as_job(strand);
        let then = if caller.is_none() { Then::Blocks } else { Then::RunsOn };
        match caller.and_then(|_| self.waiting_ancestor(strand)) {
            // One of our workers waits for the caller, so this job lies below its wait: it may run it, and so may
            // anybody idle.
            Some(worker) if self.gate.admits(true) => self.push_below(self.workers[worker].node, worker, entry),
            _ => {
                // SAFETY: `job` stays in this frame until its latch is set.
                let pushed = unsafe { self.push_root(self.home_of_caller(), entry, false, then) };
                if pushed.is_err() {
                    // SAFETY: given back: JOB-ONCE.
                    unsafe { entry.execute(Verb::Cancel) };
                }
            }
        }
        wait_for(caller, &job.latch, job.wait_id());
        // SAFETY: the latch is set; once.
        match unsafe { job.take_outcome() } {
            Outcome::Ok(result) => Ok(result),
            Outcome::Panicked(payload) => std::panic::resume_unwind(payload),
            Outcome::Cancelled => Err(JoinError::Shutdown),
        }
    }
}
