//! One worker thread: its life, and how it runs a job.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use numart_alloc::sys;
use numart_alloc::topology::CpuSet;

use super::clock::{COARSE, nanos, stamp};
use super::config::Pinning;
use super::deque::{NONE_PUBLIC, Owner, STARVING};
use super::gate::Phase;
use super::job::{Job, JobHeader, Verb};
use super::registry::{Node, Registry, Then, WorkerShared};
use super::roots::{Observation, Taken};
use super::sleep::{Sleeper, current_sleeper};
use super::strand::{Strand, StrandGuard, WaitId};

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
    pub(super) seed: Cell<u64>,
    /// What it remembers of other nodes' root queues, by node.
    pub(super) observed: Vec<Cell<Observation>>,
    /// Last, so that it is dropped last: `owner` points into it.
    pub(crate) registry: Arc<Registry>,
}

/// First nap of the watcher, which doubles up to [`LONGEST_NAP`]. Two hundred wake-ups a second cost 0.1 % of a CPU.
const FIRST_NAP: Duration = Duration::from_micros(50);
const LONGEST_NAP: Duration = Duration::from_millis(5);

impl Worker {
    /// # Safety
    /// Slot `index` has no other worker: invariant ONE-OWNER of the deque.
    unsafe fn new(registry: Arc<Registry>, index: usize) -> Worker {
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

    /// The worker that this thread is for a call of its own code. As `current`, but the worker of `use_current_thread`
    /// whose runtime another thread has dropped is let go at its first call after that: the thread is an ordinary one
    /// again, as if it had dropped the runtime itself.
    pub(crate) fn here<'a>() -> Option<&'a Worker> {
        let worker = Worker::current()?;
        if !worker.is_in_strand() && worker.shared().gone.load(Ordering::SeqCst) {
            worker.publish_all();
            CURRENT.with(|current| current.set(ptr::null()));
            return None;
        }
        Some(worker)
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

    /// Calls `body` inside a strand. A worker thread with a main loop always is in one; the worker of
    /// `use_current_thread` is not while its thread runs code of its own (ADOPTED-FREE).
    pub(crate) fn rooted<R>(&self, body: impl FnOnce() -> R) -> R {
        struct Leave<'a>(&'a Worker);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.strand.set(ptr::null());
                self.0.shared().strand.store(ptr::null_mut(), Ordering::Release);
                if self.0.shared().gone.load(Ordering::SeqCst) {
                    // The runtime was dropped inside: this thread is no worker any more.
                    CURRENT.with(|current| current.set(ptr::null()));
                }
            }
        }
        if self.is_in_strand() {
            return body();
        }
        let guard = StrandGuard::new(WaitId::NONE, ptr::null(), self.sleeper(), false);
        self.strand.set(guard.record());
        self.shared().strand.store(guard.record().cast_mut(), Ordering::Release);
        let _leave = Leave(self);
        body()
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
        if self.owner.publish(count) > 0 {
            self.shared().counters.own.published.add(count as u64);
            self.signal_published();
        }
        if !self.registry.can_force() {
            self.owner.keep_hungry(NONE_PUBLIC);
        }
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
        let count = self.owner.publish(usize::MAX);
        if count > 0 {
            self.shared().counters.own.published.add(count as u64);
            self.signal_published();
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
        let mut ran = false;
        // SAFETY: taken out of a queue by us: JOB-ONCE.
        self.as_strand(taken, || ran = unsafe { taken.job.execute(verb) });
        if ran {
            self.shared().counters.own.jobs.bump();
        }
    }

    /// Calls `body`, which runs the job, as a strand of its own.
    pub(crate) fn as_strand(&self, taken: Taken, body: impl FnOnce()) {
        let shared = self.shared();
        let guard = StrandGuard::new(WaitId::of(taken.job.header), taken.job.strand, self.sleeper(), taken.strict);
        let outer = self.strand.replace(guard.record());
        shared.strand.store(guard.record().cast_mut(), Ordering::Release);
        body();
        self.strand.set(outer);
        shared.strand.store(outer.cast_mut(), Ordering::Release);
    }

    /// Runs `job` within the strand we are in: it was made there, for the wait we are in.
    pub(super) fn run_own(&self, job: Job) {
        self.shared().counters.own.jobs.bump();
        // SAFETY: popped from our own deque: JOB-ONCE.
        _ = unsafe { job.execute(Verb::Run) };
    }

    // ---- life --------------------------------------------------------------------------------------------------

    fn main_loop(&self) {
        let counters = &self.shared().counters.own;
        while let Some(taken) = self.next_job() {
            let now = nanos();
            counters.set_busy_since(now);
            self.note_cpu();
            self.run(taken);
            loop {
                if self.is_surplus() {
                    break;
                }
                match self.find_any() {
                    Some(taken) => self.run(taken),
                    None => break,
                }
            }
            counters.busy_ns.add(nanos() - now);
            counters.set_busy_since(0);
        }
    }

    /// Searches, sleeps, searches: until there is a job, or the runtime has ended (`None`).
    fn next_job(&self) -> Option<Taken> {
        let registry = &*self.registry;
        let sleep = &self.node().sleep;
        let counters = &self.shared().counters.own;
        let mut handed = false;
        let mut from = nanos();
        let count_search = |from: u64| counters.search_ns.add(nanos() - from);
        loop {
            if registry.gate.phase() == Phase::Terminated {
                return None;
            }
            if self.is_surplus() {
                self.bench(&mut from);
                continue;
            }
            let mut look_again = None;
            if handed || sleep.try_search() {
                let found = self.search(&mut look_again);
                if sleep.end_search() && found.is_some() && self.more_to_do() {
                    // We promised to look for others' jobs too; pass the promise on.
                    self.wake_for_published();
                }
                if found.is_some() {
                    count_search(from);
                    return found;
                }
                handed = false;
            } else if let Some(taken) = self.find(&mut look_again) {
                count_search(from);
                return Some(taken);
            }
            if registry.gate.phase() == Phase::Terminated {
                return None;
            }
            if self.is_spare() {
                self.bench(&mut from);
                continue;
            }
            sleep.fall_asleep(self.index, self.sleep_cell());
            registry.sub_working();
            count_search(from);
            counters.parks.bump();
            handed = self.nap(look_again);
            registry.add_working();
            from = nanos();
        }
    }

    /// A spare without work leaves until it is called. `from`: since when it has been searching.
    fn bench(&self, from: &mut u64) {
        self.publish_all();
        self.shared().counters.own.search_ns.add(nanos() - *from);
        self.sit_on_bench();
        *from = nanos();
    }

    /// Asleep in the node's list. Returns when taken out (true: as a searcher) or after leaving it because there is
    /// something to do.
    fn nap(&self, look_again: Option<Duration>) -> bool {
        let registry = &*self.registry;
        let sleep = &self.node().sleep;
        let mut nap = FIRST_NAP;
        let look_again = look_again.or_else(|| self.work_abroad());
        loop {
            if registry.gate.phase() == Phase::Terminated || self.has_work_for_idle() {
                self.stop_watching();
                if sleep.cancel(self.index, self.sleep_cell()) {
                    return false;
                }
                self.shared().counters.own.wakeups.bump();
                return self.sleep_cell().take_handed();
            }
            let watching = registry.anybody_works() && self.start_watching();
            let limit = match (watching, look_again) {
                (true, Some(wait)) => Some(nap.min(wait)),
                (true, None) => Some(nap),
                (false, wait) => wait,
            };
            self.sleep_cell().park(limit);
            if !self.sleep_cell().is_idle() {
                self.stop_watching();
                self.shared().counters.own.wakeups.bump();
                return self.sleep_cell().take_handed();
            }
            if look_again.is_some() {
                // Time to look at another node's queue again.
                self.stop_watching();
                if sleep.cancel(self.index, self.sleep_cell()) {
                    return false;
                }
                return self.sleep_cell().take_handed();
            }
            if watching {
                if self.somebody_hides() {
                    // Search, and force a split if need be.
                    self.stop_watching();
                    return if sleep.cancel(self.index, self.sleep_cell()) {
                        false
                    } else {
                        self.sleep_cell().take_handed()
                    };
                }
                if !registry.anybody_works() {
                    self.stop_watching();
                }
                nap = (nap * 2).min(LONGEST_NAP);
            }
        }
    }

    fn start_watching(&self) -> bool {
        self.node().sleep.is_watcher(self.index) || self.node().sleep.try_watch(self.index)
    }

    fn stop_watching(&self) {
        if self.node().sleep.is_watcher(self.index) {
            self.node().sleep.stop_watch(self.index);
        }
    }

    /// Remembers which L3 group we run in, for the steal order.
    fn note_cpu(&self) {
        let topology = &self.registry.config.topology;
        if topology.is_mock() {
            return;
        }
        let l3 = sys::current_cpu().and_then(|cpu| topology.cpu(cpu)).map_or(u32::MAX, |cpu| cpu.l3);
        self.shared().l3.store(l3, Ordering::Relaxed);
    }
}

/// Makes `worker` the thread's current one for the call.
pub(crate) fn enter<R>(worker: &Worker, run: impl FnOnce() -> R) -> R {
    struct Reset(*const Worker);
    impl Drop for Reset {
        fn drop(&mut self) {
            CURRENT.with(|current| current.set(self.0));
        }
    }
    let _reset = Reset(CURRENT.with(|current| current.replace(worker)));
    run()
}

/// The worker that a thread became by `use_current_thread`. Every call that holds on to it while a user's code runs does so
/// inside a strand ([`Worker::rooted`]), so outside any it may be freed; if the runtime is dropped inside one it stays until
/// the next runtime is built here, or the thread ends: invariant ADOPTED-FREE.
struct Adopted(Box<Worker>);

impl Drop for Adopted {
    fn drop(&mut self) {
        CURRENT.with(|current| {
            if ptr::eq(current.get(), &*self.0) {
                current.set(ptr::null());
            }
        });
        self.0.publish_all();
        self.0.registry.give_up_adopted(self.0.index);
    }
}

thread_local! {
    static ADOPTED: RefCell<Vec<Adopted>> = const { RefCell::new(Vec::new()) };
}

/// Makes this thread worker `index` of its runtime, without a main loop: `use_current_thread`.
pub(crate) fn adopt_current_thread(registry: &Arc<Registry>, index: usize) {
    registry.nodes[registry.workers[index].node].sleep.add_awake();
    registry.add_working();
    // SAFETY: the slot has no thread of its own (the builder skips it): ONE-OWNER.
    let worker = Box::new(unsafe { Worker::new(registry.clone(), index) });
    CURRENT.with(|current| current.set(&*worker));
    ADOPTED.with(|adopted| adopted.borrow_mut().push(Adopted(worker)));
}

/// Frees the workers that this thread was, of runtimes that have ended, if it is in no call of theirs.
pub(crate) fn forget_ended_adopted() {
    let ended = ADOPTED.with(|adopted| {
        adopted
            .borrow_mut()
            .extract_if(.., |worker| !worker.0.is_in_strand() && worker.0.shared().gone.load(Ordering::SeqCst))
            .collect::<Vec<_>>()
    });
    drop(ended);
}

/// The runtime of this thread's adopted worker is shutting down, by this thread. Outside any call: works until the runtime
/// has ended, and is no worker any more. Inside one: leaves the rest to others. False if this thread is no such worker.
pub(crate) fn end_adopted(registry: &Registry) -> bool {
    let adopted = Worker::current_of(registry).filter(|worker| registry.config.use_current_thread && worker.index == 0);
    let Some(worker) = adopted else { return false };
    if worker.is_in_strand() {
        worker.publish_all();
        registry.give_up_adopted(0);
        return true;
    }
    worker.main_loop();
    CURRENT.with(|current| current.set(ptr::null()));
    worker.shared().gone.store(true, Ordering::SeqCst);
    forget_ended_adopted();
    true
}

/// The whole life of a worker thread.
pub(super) fn worker_main(registry: Arc<Registry>, index: usize) {
    bind(&registry, index);
    registry.note_started();
    // SAFETY: one thread per slot: `start_thread` is called once for each.
    let worker = unsafe { Worker::new(registry.clone(), index) };
    let info = registry.info(index);
    enter(&worker, || {
        guarded(&registry, "the start hook", || {
            if let Some(hook) = &registry.config.on_start {
                hook(info);
            }
        });
        let mut ran = false;
        let mut run = || {
            ran = true;
            // Here and not before the hooks, which may bind the thread as they like.
            worker.sleep_cell().choose_place();
            worker.main_loop();
        };
        match &registry.config.around {
            Some(around) => {
                guarded(&registry, "the around_worker hook", || around(&mut run));
                if !ran {
                    registry.warn_once(
                        "the around_worker hook did not call `run`: workers run without what it should set up".into(),
                    );
                    worker.main_loop();
                }
            }
            None => run(),
        }
        guarded(&registry, "the stop hook", || {
            if let Some(hook) = &registry.config.on_stop {
                hook(info);
            }
        });
    });
    let node = worker.node_index();
    worker.publish_all();
    drop(worker);
    registry.nodes[node].sleep.sub_awake();
    registry.sub_working();
}

/// Calls a user's hook; a panic in it is reported, never passed on.
fn guarded(registry: &Registry, what: &str, hook: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(hook)) {
        registry.warn_once(format!("{what} panicked; the worker went on"));
        if catch_unwind(AssertUnwindSafe(|| registry.report_panic(payload))).is_err() {
            registry.warn_once("the panic hook itself panicked".into());
        }
    }
}

/// Binds this thread to its node's CPUs, or one of them; where that is denied, says so and goes on unbound.
fn bind(registry: &Registry, index: usize) {
    let shared = &registry.workers[index];
    let node = &registry.nodes[shared.node];
    let cpus = &registry.config.nodes[shared.node].cpus;
    if registry.config.topology.is_mock() || cpus.is_empty() {
        return;
    }
    let set = match registry.config.pinning {
        Pinning::None => return,
        Pinning::Node => cpus.clone(),
        Pinning::Core => {
            // A spare has the whole node: it stands in for any of the others.
            let Some(place) = node.regular.clone().position(|slot| slot == index) else {
                return bind_to(registry, cpus, node);
            };
            let cpu = cpus.iter().nth(place % cpus.len()).expect("the set is not empty");
            CpuSet::from_iter([cpu])
        }
    };
    bind_to(registry, &set, node);
}

fn bind_to(registry: &Registry, cpus: &CpuSet, node: &Node) {
    if let Err(error) = sys::set_current_thread_affinity(cpus) {
        registry.warn_once(format!(
            "workers of node {} could not be bound to CPUs {cpus} ({error}): they run unbound, memory may be far; allow \
             sched_setaffinity(2), or ask for Pinning::None",
            node.id
        ));
    }
}
