//! Scopes: any number of jobs that may borrow from the caller's frame, all done when the scope returns.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crossbeam_deque::{Injector, Steal};

use crate::runtime::{current_registry, global_registry, panic_if_shut_down};
use crate::sched::job::{Job, JobHeader, Verb};
use crate::sched::latch::Latch;
use crate::sched::registry::{Registry, drop_quietly};
use crate::sched::sleep::{Sleeper, current_sleeper};
use crate::sched::strand::{Strand, StrandGuard, WaitId};
use crate::sched::wait::{AtBound, Wait, wait_outside};
use crate::sched::worker::Worker;
use crate::task::handle::JoinError;

/// What both kinds of scope are made of. Lies in the frame of the call that opened it.
struct Base {
    registry: Arc<Registry>,
    /// Index of the node of whoever opened it: its jobs that no worker spawned wait there.
    home: usize,
    /// Jobs not finished, plus one for the body.
    pending: AtomicUsize,
    latch: Latch,
    /// The first panic of a job.
    panic: AtomicPtr<Box<dyn Any + Send>>,
    /// The scope's own record: its jobs lie below it, wherever they were spawned.
    strand: *const Strand,
}

// SAFETY: everything is atomic, shared, or (the strand) STRAND-STABLE.
unsafe impl Sync for Base {}

impl Base {
    /// Address that a waiter for this scope waits for.
    fn wait_id(&self) -> WaitId {
        WaitId::of(&self.latch)
    }

    /// Queues a job that counts as pending already.
    fn push(&self, job: Job) {
        match Worker::current_of(&self.registry) {
            Some(worker) => {
                worker.shared().counters.own.spawned.bump();
                worker.push(job);
            }
            // A thread outside, or another runtime's worker: the node's line of scope jobs without a deque.
            None => self.registry.push_scope_job(self.home, job),
        }
    }

    fn keep_panic(&self, payload: Box<dyn Any + Send>) {
        let boxed = Box::into_raw(Box::new(payload));
        let first = self.panic.compare_exchange(std::ptr::null_mut(), boxed, Ordering::AcqRel, Ordering::Relaxed);
        if first.is_err() {
            // SAFETY: made three lines above and not given away.
            drop_quietly(*unsafe { Box::from_raw(boxed) });
        }
    }

    /// One job (or the body) is done.
    ///
    /// # Safety
    /// `this` is alive, and the caller's job counts as pending. Not touched after the last one.
    unsafe fn complete_one(this: *const Base) {
        // SAFETY: the caller's promise.
        if unsafe { &(*this).pending }.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: LATCH-ALIVE: the opener waits for the latch.
            unsafe { Latch::set(&raw const (*this).latch) };
        }
    }

    /// Runs one job's body.
    ///
    /// # Safety
    /// As [`Base::complete_one`].
    unsafe fn execute(this: *const Base, body: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
            // SAFETY: the job counts as pending, so the scope is alive.
            unsafe { &*this }.keep_panic(payload);
        }
        // SAFETY: as above.
        unsafe { Base::complete_one(this) };
    }

    /// Waits for all jobs and rethrows the first panic: the body's if it panicked, else a job's.
    fn finish<R>(&self, base: usize, result: std::thread::Result<R>) -> R {
        // SAFETY: the body counts as pending.
        unsafe { Base::complete_one(self) };
        if !self.latch.is_set() {
            match Worker::current() {
                Some(worker) => {
                    let ours = std::ptr::eq(&*worker.registry, &*self.registry);
                    let wait = Wait {
                        latch: &self.latch,
                        id: self.wait_id(),
                        base: if ours { base } else { usize::MAX },
                        own: self.strand,
                        at_bound: AtBound::RunAnything,
                    };
                    let waited = worker.wait(&wait);
                    debug_assert!(waited.is_ok());
                }
                None => wait_outside(&self.latch),
            }
        }
        let panic = self.panic.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: from `Box::into_raw` in `keep_panic`; the swap made it ours.
        let panic = (!panic.is_null()).then(|| unsafe { *Box::from_raw(panic) });
        match (result, panic) {
            (Err(payload), other) => {
                if let Some(other) = other {
                    drop_quietly(other);
                }
                resume_unwind(payload)
            }
            (Ok(_), Some(payload)) => resume_unwind(payload),
            (Ok(result), None) => result,
        }
    }
}

/// Opens a scope on this thread and runs `body` with it.
fn open<T, R>(
    registry: Arc<Registry>,
    make: impl FnOnce(Base) -> T,
    base_of: impl FnOnce(&T) -> &Base,
    body: impl FnOnce(&T) -> R,
) -> R {
    let sleeper: Arc<Sleeper> = current_sleeper();
    let worker = Worker::here();
    if let Some(worker) = worker.filter(|worker| !worker.is_in_strand()) {
        return worker.rooted(|| open(registry, make, base_of, body));
    }
    if Worker::current_of(&registry).is_none() {
        let keep = registry.clone();
        let result = keep.hold_open(|| open_here(registry, worker, sleeper, make, base_of, body));
        return panic_if_shut_down(result.ok_or(JoinError::Shutdown));
    }
    open_here(registry, worker, sleeper, make, base_of, body)
}

fn open_here<T, R>(
    registry: Arc<Registry>,
    worker: Option<&Worker>,
    sleeper: Arc<Sleeper>,
    make: impl FnOnce(Base) -> T,
    base_of: impl FnOnce(&T) -> &Base,
    body: impl FnOnce(&T) -> R,
) -> R {
    let parent = worker.map_or(std::ptr::null(), Worker::strand);
    let mark = Worker::current_of(&registry).map_or(0, Worker::mark);
    let on_worker = worker.map_or(std::ptr::null(), Worker::sleeper);
    let record = StrandGuard::new(WaitId::NONE, parent, on_worker, false);
    let home = registry.home_of_caller();
    let scope = make(Base {
        registry,
        home,
        pending: AtomicUsize::new(1),
        latch: Latch::new(Arc::as_ptr(&sleeper)),
        panic: AtomicPtr::new(std::ptr::null_mut()),
        strand: record.record(),
    });
    let base = base_of(&scope);
    // Only now has the scope its address.
    record.set_wait(base.wait_id());
    let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
    base.finish(mark, result)
}

/// Where a job of a scope lives until it runs.
#[repr(C)]
struct HeapJob<F> {
    header: JobHeader,
    body: F,
}

impl<F: FnOnce()> HeapJob<F> {
    fn boxed(body: F) -> *const JobHeader {
        Box::into_raw(Box::new(HeapJob { header: JobHeader { execute: Self::execute }, body })).cast_const().cast()
    }

    /// # Safety
    /// `header` came from [`HeapJob::boxed`]; JOB-ONCE.
    unsafe fn execute(header: *const JobHeader, _verb: Verb) -> bool {
        // Cancelling does not apply: a frame waits for this job. The body catches panics.
        // SAFETY: the header is the first field (repr C) of a box made in `boxed`, and JOB-ONCE.
        let job = unsafe { Box::from_raw(header.cast_mut().cast::<HeapJob<F>>()) };
        (job.body)();
        true
    }
}

/// A raw pointer that may travel.
struct Travels<T>(*const T);
// SAFETY: points to a scope, which is `Sync` and outlives its jobs.
unsafe impl<T> Send for Travels<T> {}
impl<T> Travels<T> {
    fn get(self) -> *const T {
        self.0
    }
}

/// A scope: see [`scope`].
pub struct Scope<'scope> {
    base: Base,
    /// Invariant in `'scope`: jobs may borrow mutably from outside the scope.
    marker: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

impl<'scope> Scope<'scope> {
    fn new(base: Base) -> Self {
        Scope { base, marker: PhantomData }
    }

    /// Adds a job. It may run on any worker, before or after this call returns, and is done when the scope returns. It
    /// may spawn more into the same scope.
    ///
    /// A panic in it is rethrown by the scope, once everything is done. Costs one allocation, some 75 ns in all.
    pub fn spawn<F>(&self, body: F)
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        self.base.pending.fetch_add(1, Ordering::Relaxed);
        let this = Travels::<Scope<'scope>>(self);
        let header = HeapJob::boxed(move || {
            let this = this.get();
            // SAFETY: the scope waits for its pending jobs, so `this` is alive until `complete_one` in `execute`.
            unsafe { Base::execute(&raw const (*this).base, || body(&*this)) };
        });
        self.base.push(Job { header, strand: self.base.strand });
    }
}

/// A scope whose jobs, spawned from one worker, start in the order of their spawning: see [`scope_fifo`].
pub struct ScopeFifo<'scope> {
    base: Base,
    /// One line per worker slot, and a last one for everybody else; made when first used, for most never are.
    lines: Box<[OnceLock<Box<Line>>]>,
    marker: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

/// The oldest first, though the deque pops the newest: what goes into the deque is a ticket (the line itself), and
/// whoever runs a ticket runs the line's oldest job.
#[repr(C)]
struct Line {
    header: JobHeader,
    jobs: Injector<Job>,
}

impl Line {
    fn new() -> Line {
        Line { header: JobHeader { execute: Self::execute }, jobs: Injector::new() }
    }

    /// # Safety
    /// `header` is a line's; one call for each job put into it.
    unsafe fn execute(header: *const JobHeader, verb: Verb) -> bool {
        // SAFETY: the first field (repr C) of a line of a scope that waits for the job we are about to run.
        let line = unsafe { &*header.cast::<Line>() };
        loop {
            match line.jobs.steal() {
                // SAFETY: taken out of the line: JOB-ONCE.
                Steal::Success(job) => return unsafe { job.execute(verb) },
                Steal::Retry => std::hint::spin_loop(),
                Steal::Empty => unreachable!("one job for each ticket"),
            }
        }
    }
}

impl<'scope> ScopeFifo<'scope> {
    fn new(base: Base) -> Self {
        let lines = (0..=base.registry.workers.len()).map(|_| OnceLock::new()).collect();
        ScopeFifo { base, lines, marker: PhantomData }
    }

    /// Adds a job: as [`Scope::spawn`], and jobs added by one worker start in that order.
    pub fn spawn_fifo<F>(&self, body: F)
    where
        F: FnOnce(&ScopeFifo<'scope>) + Send + 'scope,
    {
        self.base.pending.fetch_add(1, Ordering::Relaxed);
        let this = Travels::<ScopeFifo<'scope>>(self);
        let header = HeapJob::boxed(move || {
            let this = this.get();
            // SAFETY: as in `Scope::spawn`.
            unsafe { Base::execute(&raw const (*this).base, || body(&*this)) };
        });
        let index = Worker::current_of(&self.base.registry).map_or(self.lines.len() - 1, |worker| worker.index);
        let line = self.lines[index].get_or_init(|| Box::new(Line::new()));
        line.jobs.push(Job { header, strand: self.base.strand });
        self.base.push(Job { header: &raw const line.header, strand: self.base.strand });
    }
}

/// Opens a scope inside the runtime: `body` runs on a worker and may spawn jobs that borrow from the caller; `scope`
/// returns when all are done.
///
/// # Panics
/// With the body's panic, else the first of a job's, after all jobs are done.
///
/// ```
/// let mut left = 0;
/// let mut right = 0;
/// numart_runtime::scope(|s| {
///     s.spawn(|_| left = 1);
///     s.spawn(|_| right = 2);
/// });
/// assert_eq!(left + right, 3);
/// ```
pub fn scope<'scope, F, R>(body: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    match Worker::here() {
        Some(worker) => in_place_on(worker.registry.clone(), body),
        None => {
            let registry = global_registry();
            registry.install(|| in_place_on(registry.clone(), body))
        }
    }
}

/// As [`scope`], with jobs in the order of their spawning per worker.
///
/// ```
/// let order = std::sync::Mutex::new(Vec::new());
/// numart_runtime::scope_fifo(|s| {
///     for i in 0..3 {
///         let order = &order;
///         s.spawn_fifo(move |_| order.lock().unwrap().push(i));
///     }
/// });
/// assert_eq!(order.into_inner().unwrap().len(), 3);
/// ```
///
/// # Panics
/// As [`scope`].
pub fn scope_fifo<'scope, F, R>(body: F) -> R
where
    F: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    match Worker::here() {
        Some(worker) => in_place_fifo_on(worker.registry.clone(), body),
        None => {
            let registry = global_registry();
            registry.install(|| in_place_fifo_on(registry.clone(), body))
        }
    }
}

/// As [`scope`], but the body stays on this thread (which need not be `Send`) and only the jobs go to the runtime.
///
/// ```
/// let local = std::rc::Rc::new(7);
/// let mut square = 0;
/// numart_runtime::in_place_scope(|s| {
///     let (value, square) = (*local, &mut square);
///     s.spawn(move |_| *square = value * value);
/// });
/// assert_eq!(square, 49);
/// ```
///
/// # Panics
/// As [`scope`].
pub fn in_place_scope<'scope, F, R>(body: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R,
{
    let registry = current_registry();
    in_place_on(registry, body)
}

/// As [`scope_fifo`] and [`in_place_scope`] together.
///
/// # Panics
/// As [`scope`].
pub fn in_place_scope_fifo<'scope, F, R>(body: F) -> R
where
    F: FnOnce(&ScopeFifo<'scope>) -> R,
{
    let registry = current_registry();
    in_place_fifo_on(registry, body)
}

pub(crate) fn in_place_on<'scope, R>(registry: Arc<Registry>, body: impl FnOnce(&Scope<'scope>) -> R) -> R {
    open(registry, Scope::new, |scope| &scope.base, body)
}

pub(crate) fn in_place_fifo_on<'scope, R>(registry: Arc<Registry>, body: impl FnOnce(&ScopeFifo<'scope>) -> R) -> R {
    open(registry, ScopeFifo::new, |scope| &scope.base, body)
}
