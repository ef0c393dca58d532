//! One worker thread: its life, and how it runs a job.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::clock::{COARSE, stamp};
use super::deque::{NONE_PUBLIC, Owner, STARVING};
use super::gate::Phase;
use super::job::{Job, JobHeader, Verb};
use super::registry::{Node, Registry, WorkerShared};
use super::roots::{Observation, Taken};
use super::sleep::{Sleeper, current_sleeper};
use super::strand::{Strand, StrandGuard, WaitId};
use super::waking::Then;

thread_local! {
    /// The worker whose thread this is. Const-initialised and without a destructor: one load to read.
    static CURRENT: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

/// The thread's own half of a worker. Lives on its thread's stack (or in a box, for
/// `use_current_thread`).
pub(crate) struct Worker {
    pub(crate) index: usize,
    owner: Owner<'static>,
    /// The strand it works on; null when idle.
    strand: Cell<*const Strand>,
    /// Where `sleeper` points.
    sleep_cell: *const Sleeper,
    sleeper: Arc<Sleeper>,
    /// When it last published, by `clock::stamp`.
    last_publish: Cell<u64>,
    pub(super) tick: Cell<u32>,
    /// Jobs it has run from its slot in a row.
    pub(super) from_slot: Cell<u32>,
    pub(super) seed: Cell<u64>,
    /// What it remembers of other nodes' root queues, by node.
    pub(super) observed: Vec<Cell<Observation>>,
    /// Last, so that it is dropped last: `owner` points into it.
    pub(crate) registry: Arc<Registry>,
}

impl Worker {
    /// # Safety
    /// Slot `index` has no other worker: invariant ONE-OWNER of the deque.
    pub(super) unsafe fn new(registry: Arc<Registry>, index: usize) -> Worker {
        let shared: *const WorkerShared = &registry.workers[index];
        let sleeper = current_sleeper();
        // A slot has one thread in its life, so this is the first time.
        let _ = registry.workers[index].sleeper.set(sleeper.clone());
        let nodes = registry.nodes.len();
        Worker {
            index,
            // SAFETY: `shared` lives as long as `registry`, which the worker holds and drops last; ONE-OWNER is the
            // caller's promise.
            owner: unsafe { (*shared).deque.owner() },
            strand: Cell::new(ptr::null()),
            sleep_cell: Arc::as_ptr(&sleeper),
            sleeper,
            last_publish: Cell::new(0),
            tick: Cell::new(0),
            from_slot: Cell::new(0),
            seed: Cell::new(0x9E37_79B9_7F4A_7C15 ^ ((index as u64 + 1) << 17)),
            observed: vec![Cell::new(Observation::default()); nodes],
            registry,
        }
    }

    /// The worker whose thread this is.
    #[inline(always)]
    pub(crate) fn current<'a>() -> Option<&'a Worker> {
        // SAFETY: set while the worker is alive, on this thread only, and reset before it goes. The lifetime is the
        // caller's frame's in truth: nobody keeps the reference beyond the job that asked.
        unsafe { CURRENT.with(Cell::get).as_ref() }
    }

    /// The current worker, if it belongs to `registry`.
    pub(crate) fn current_of<'a>(registry: &Registry) -> Option<&'a Worker> {
        Worker::current().filter(|worker| ptr::eq(&*worker.registry, registry))
    }

    #[inline(always)]
    pub(crate) fn shared(&self) -> &WorkerShared {
        &self.registry.workers[self.index]
    }

    pub(crate) fn node_index(&self) -> usize {
        self.shared().node
    }

    pub(crate) fn node(&self) -> &Node {
        &self.registry.nodes[self.shared().node]
    }

    pub(super) fn is_spare(&self) -> bool {
        self.index >= self.registry.regular_workers()
    }

    #[inline(always)]
    pub(crate) fn sleeper(&self) -> *const Sleeper {
        self.sleep_cell
    }

    pub(super) fn sleep_cell(&self) -> &Sleeper {
        &self.sleeper
    }

    #[inline(always)]
    pub(crate) fn strand(&self) -> *const Strand {
        self.strand.get()
    }

    #[inline(always)]
    pub(crate) fn is_in_strand(&self) -> bool {
        !self.strand.get().is_null()
    }

    // ---- the hot path ------------------------------------------------------------------------------------------

    /// Pushes a `join` or scope job. Returns its index, for [`Worker::pop_at`].
    #[inline]
    pub(crate) fn push(&self, job: Job) -> usize {
        let pushed = self.owner.push(job);
        if pushed.hungry {
            self.feed();
        }
        pushed.index
    }

    /// Takes back the job pushed at `index`, if nobody has.
    #[inline]
    pub(crate) fn pop_at(&self, index: usize, header: *const JobHeader) -> bool {
        self.owner.pop_at(index, header)
    }

    pub(crate) fn pop(&self) -> Option<Job> {
        let job = self.owner.pop();
        if self.owner.hungry() != 0 {
            self.feed();
        }
        job
    }

    /// Where the next push will go: jobs from here on are newer than the caller's frame.
    pub(crate) fn mark(&self) -> usize {
        self.owner.tail()
    }

    /// Thieves ask for something: publish, and wake somebody if that is worth it.
    #[cold]
    #[inline(never)]
    pub(crate) fn feed(&self) {
        let private = self.owner.private_len();
        if private == 0 {
            return;
        }
        let count = if !self.registry.can_force() {
            // Nobody could force what we hide.
            private
        } else if self.owner.hungry() & STARVING != 0 {
            private.div_ceil(2)
        } else {
            1
        };
        self.publish(count);
    }

    /// Somebody is idle and finds nothing of ours: a loop should split. A few loads.
    pub(crate) fn is_wanted(&self) -> bool {
        if self.owner.len() > 0 {
            return false;
        }
        self.node().sleep.has_idle()
            || (!Strand::is_strict(self.strand.get())
                && self.node().others.iter().any(|&other| self.registry.nodes[other].sleep.has_idle()))
    }

    /// Makes everything we hold public: we are about to be busy with nothing.
    pub(super) fn publish_all(&self) {
        self.publish(usize::MAX);
        self.empty_slot();
    }

    /// The future in our slot goes to the node's queue: to the end of the line, and whoever wants takes it.
    pub(crate) fn empty_slot(&self) {
        if let Some(taken) = self.shared().slot.take() {
            // SAFETY: taken out of the slot: JOB-ONCE.
            unsafe { self.registry.push_again(self.node_index(), taken, None) };
        }
    }

    /// Takes a future that a poll on this thread woke or spawned, to run it next. Gives it back if this is no poll of a
    /// main loop, which would come round to it soon. The one that was in the slot goes to the node's queue.
    pub(crate) fn run_next(&self, taken: Taken) -> Result<(), Taken> {
        if !Strand::is_outermost_poll(self.strand()) {
            return Err(taken);
        }
        if let Some(before) = self.shared().slot.replace(taken) {
            // SAFETY: taken out of the slot: JOB-ONCE.
            unsafe { self.registry.push_again(self.node_index(), before, None) };
        }
        // Nobody is woken for it: we come round to it at once, unless this poll is a long one. Then the watcher finds it, as
        // it does a private job. Without a watcher somebody must be told, as for a job that was published.
        std::sync::atomic::fence(Ordering::SeqCst);
        if !self.node().sleep.has_watcher() {
            self.wake_for_published();
        }
        Ok(())
    }

    fn publish(&self, at_most: usize) {
        let count = self.owner.publish(at_most);
        if count > 0 {
            self.shared().counters.own.published.add(count as u64);
            self.signal_published();
        }
        if !self.registry.can_force() {
            // Publishing quenches it, but the next push must publish too: nobody could force what it hides.
            self.owner.keep_hungry(NONE_PUBLIC);
        }
    }

    /// Wakes a thief for what was just published.
    ///
    /// A wake-up costs 2 to 5 us of the waker's time. If our last publication was long ago the work is coarse (or just
    /// beginning) and gets one at once. If it was a moment ago, joins are a few ns apart here, and a job that stays
    /// public long enough to be worth a thief is found by the watcher.
    fn signal_published(&self) {
        std::sync::atomic::fence(Ordering::SeqCst);
        let now = stamp();
        let coarse = now.wrapping_sub(self.last_publish.replace(now)) > COARSE;
        let sleep = &self.node().sleep;
        if coarse || !sleep.has_watcher() {
            self.wake_for_published();
        }
    }

    pub(super) fn wake_for_published(&self) {
        let home = self.node_index();
        if self.registry.wake_at(home, Then::RunsOn) || self.node().sleep.has_searcher() {
            return;
        }
        // Whoever waits for what we do may help us.
        for waiter in Strand::ancestors(self.strand.get()) {
            // SAFETY: the frames on our own chain wait for us, so their threads and sleep cells are alive.
            if unsafe { waiter.as_ref() }.is_some_and(Sleeper::wake_waiter) {
                return;
            }
        }
        if !Strand::is_strict(self.strand.get()) {
            self.registry.wake_elsewhere(home, Then::RunsOn);
        }
    }

    // ---- running a job -----------------------------------------------------------------------------------------

    /// Runs a job taken from a queue as a strand of its own.
    pub(crate) fn run(&self, taken: Taken) {
        let verb = match self.registry.gate.phase() {
            // Only root jobs can be cancelled, and they are those without a strand to wait for them.
            Phase::Cancelling | Phase::Terminated if taken.job.strand.is_null() => Verb::Cancel,
            _ => Verb::Run,
        };
        // Before it runs: who is told that it is done finds it counted.
        self.shared().counters.own.jobs.bump();
        let mut ran = false;
        // SAFETY: taken out of a queue by us: JOB-ONCE.
        self.as_strand(taken, || ran = unsafe { taken.job.execute(verb) });
        if !ran {
            self.shared().counters.own.jobs.take_back();
        }
    }

    /// Calls `body`, which runs the job, as a strand of its own.
    pub(crate) fn as_strand(&self, taken: Taken, body: impl FnOnce()) {
        let guard = StrandGuard::new(WaitId::of(taken.job.header), taken.job.strand, self.sleeper(), taken.strict);
        let outer = self.work_on(guard.record());
        if outer.is_null() {
            guard.set_outermost();
        }
        body();
        self.work_on(outer);
    }

    /// The strand it works on from now on; returns the one before.
    pub(super) fn work_on(&self, strand: *const Strand) -> *const Strand {
        self.shared().strand.store(strand.cast_mut(), Ordering::Release);
        self.strand.replace(strand)
    }

    /// Runs `job` within the strand we are in: it was made there, for the wait we are in.
    pub(super) fn run_own(&self, job: Job) {
        self.shared().counters.own.jobs.bump();
        // SAFETY: popped from our own deque: JOB-ONCE.
        _ = unsafe { job.execute(Verb::Run) };
    }
}

/// Makes `worker` this thread's current one, or none. It stays where it is until another call takes it away.
pub(super) fn set_current(worker: Option<&Worker>) {
    CURRENT.with(|current| current.set(worker.map_or(ptr::null(), ptr::from_ref)));
}
