//! One runtime's shared state: its nodes, its worker slots, and what any thread may do with them (queue a root job,
//! wake somebody, start a spare, shut down).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;

use numart_alloc::sys;
use numart_alloc::topology::NodeId;
use parking_lot::{Condvar, Mutex};

use super::alive::Alive;
use super::config::Config;
use super::counters::WorkerCounters;
use super::deque::SplitDeque;
use super::gate::{Gate, Working};
use super::inbox::Inbox;
use super::job::Job;
use super::roots::{RootQueue, Taken};
use super::sleep::{NodeSleep, Sleeper};
use super::slot::Slot;
use super::spare::Spares;
use super::strand::Strand;
use super::thread::worker_main;
use super::waking::Then;
use super::worker::Worker;

/// What other threads see of a worker.
pub(crate) struct WorkerShared {
    pub(crate) deque: SplitDeque,
    pub(crate) inbox: Inbox,
    pub(crate) slot: Slot,
    /// Set when its thread starts; empty for a spare slot that was never used.
    pub(crate) sleeper: OnceLock<Arc<Sleeper>>,
    /// The strand it works on: null when idle. A hint for waiters (STRAND-STABLE makes following it harmless).
    pub(crate) strand: AtomicPtr<Strand>,
    /// A worker by `use_current_thread` whose runtime was dropped elsewhere: nobody will look into its inbox.
    pub(crate) gone: AtomicBool,
    /// L3 group of the CPU it was last seen on; `u32::MAX` if unknown.
    pub(crate) l3: AtomicU32,
    pub(crate) node: usize,
    pub(crate) counters: WorkerCounters,
}

/// One node's pool.
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) sleep: NodeSleep,
    pub(crate) roots: RootQueue,
    pub(crate) spares: Spares,
    /// Regular workers' slots.
    pub(crate) regular: std::ops::Range<usize>,
    /// All nodes but this one, nearest first.
    pub(crate) others: Vec<usize>,
}

impl Node {
    /// Slots whose threads exist.
    pub(crate) fn slots(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        self.regular.clone().chain(self.spares.started_slots())
    }
}

/// See the module's page.
pub(crate) struct Registry {
    this: Weak<Registry>,
    pub(crate) config: Config,
    pub(crate) nodes: Box<[Node]>,
    pub(crate) workers: Box<[WorkerShared]>,
    pub(crate) gate: Gate,
    pub(crate) alive: Alive,
    /// Thieves may force splits: membarrier is there. If not, every push is published.
    can_force: AtomicBool,
    /// Threads that are not idle. At 0, with the gate closed and the queues empty, nothing can ever come again.
    pub(super) working: Working,
    /// Started threads, to be joined.
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
    /// Threads that have bound themselves to their CPUs, or failed to and said so.
    started: (Mutex<usize>, Condvar),
    warnings: Mutex<Vec<String>>,
    pub(crate) panics: AtomicUsize,
    /// Tasks spawned by threads that are no workers of this runtime.
    pub(crate) spawned_outside: AtomicUsize,
    /// Node index by CPU number, for the home of what outside threads spawn; empty on mock nodes.
    node_of_cpu: Vec<Option<usize>>,
}

impl Registry {
    pub(crate) fn new(config: Config) -> Arc<Registry> {
        let mut warnings: Vec<String> = config.topology.warnings().to_vec();
        let can_force = config.forced_splits
            && match sys::membarrier::register() {
                Ok(()) => true,
                Err(error) => {
                    warnings.push(format!(
                        "membarrier is not available ({error}): every join half is published at once, which makes a \
                         join some 20 ns slower; allow membarrier(2) in the seccomp profile to avoid that"
                    ));
                    false
                }
            };
        let node_count = config.nodes.len();
        let mut workers = Vec::new();
        let mut first = 0;
        let total: usize = config.nodes.iter().map(|node| node.workers).sum();
        let mut nodes = Vec::with_capacity(node_count);
        for (index, node) in config.nodes.iter().enumerate() {
            let mut others: Vec<usize> = (0..node_count).filter(|&other| other != index).collect();
            // Stable sort: among equals the next higher index first, so that not all nodes prefer node 0.
            others.sort_by_key(|&other| {
                let distance = config.topology.distance(node.id, config.nodes[other].id).unwrap_or(20);
                (distance, (other + node_count - index) % node_count)
            });
            let spares = total + index * config.spare_threads;
            nodes.push(Node {
                id: node.id,
                sleep: NodeSleep::new(),
                roots: RootQueue::new(),
                spares: Spares::new(spares..spares + config.spare_threads),
                regular: first..first + node.workers,
                others,
            });
            first += node.workers;
        }
        let slot = |node: usize| WorkerShared {
            deque: SplitDeque::new(),
            inbox: Inbox::new(),
            slot: Slot::new(),
            sleeper: OnceLock::new(),
            strand: AtomicPtr::new(std::ptr::null_mut()),
            gone: AtomicBool::new(false),
            l3: AtomicU32::new(u32::MAX),
            node,
            counters: WorkerCounters::new(node_count),
        };
        for (index, node) in config.nodes.iter().enumerate() {
            workers.extend((0..node.workers).map(|_| slot(index)));
        }
        for index in 0..node_count {
            workers.extend((0..config.spare_threads).map(|_| slot(index)));
        }
        let mut node_of_cpu = Vec::new();
        if !config.topology.is_mock() {
            for (index, node) in config.nodes.iter().enumerate() {
                for cpu in node.cpus.iter() {
                    let cpu = cpu.0 as usize;
                    if node_of_cpu.len() <= cpu {
                        node_of_cpu.resize(cpu + 1, None);
                    }
                    node_of_cpu[cpu] = Some(index);
                }
            }
        }
        Arc::new_cyclic(|this| Registry {
            this: this.clone(),
            config,
            nodes: nodes.into(),
            workers: workers.into(),
            gate: Gate::new(),
            alive: Alive::new(),
            can_force: AtomicBool::new(can_force),
            working: Working::new(),
            threads: Mutex::new(Vec::new()),
            started: (Mutex::new(0), Condvar::new()),
            warnings: Mutex::new(warnings),
            panics: AtomicUsize::new(0),
            spawned_outside: AtomicUsize::new(0),
            node_of_cpu,
        })
    }

    /// This registry's own reference. `None` only while it is being dropped.
    pub(crate) fn arc(&self) -> Option<Arc<Registry>> {
        self.this.upgrade()
    }

    /// Starts the thread of slot `index`. It counts as awake and working from here on, so that nobody takes the runtime
    /// for idle before it runs.
    pub(crate) fn start_thread(&self, index: usize) -> std::io::Result<()> {
        let info = self.info(index);
        let name = match &self.config.name {
            Some(name) => catch_unwind(AssertUnwindSafe(|| name(info))).unwrap_or_else(|_| {
                self.warn_once("the thread name callback panicked: default names are used".into());
                default_name(info)
            }),
            None => default_name(info),
        };
        let node = &self.nodes[self.workers[index].node];
        node.sleep.add_awake();
        self.working.add();
        let registry = self.arc().expect("the caller holds a reference");
        let spawned = std::thread::Builder::new()
            // A name with a NUL byte would make the builder panic.
            .name(name.replace('\0', "?"))
            .stack_size(self.config.stack_size)
            .spawn(move || worker_main(registry, index));
        match spawned {
            Ok(handle) => {
                self.threads.lock().push(handle);
                Ok(())
            }
            Err(error) => {
                node.sleep.sub_awake();
                self.working.sub();
                Err(error)
            }
        }
    }

    pub(super) fn note_started(&self) {
        *self.started.0.lock() += 1;
        self.started.1.notify_all();
    }

    /// Waits until the regular workers from `first` on have bound themselves, so that `warnings` is complete when the
    /// builder returns.
    pub(crate) fn wait_until_started(&self, first: usize) {
        let mut started = self.started.0.lock();
        while *started < self.regular_workers() - first {
            self.started.1.wait(&mut started);
        }
    }

    pub(crate) fn info(&self, index: usize) -> super::config::WorkerInfo {
        super::config::WorkerInfo {
            index,
            node: self.nodes[self.workers[index].node].id,
            spare: index >= self.regular_workers(),
        }
    }

    /// Workers, without spares.
    pub(crate) fn regular_workers(&self) -> usize {
        self.nodes.last().map_or(0, |node| node.regular.end)
    }

    /// Index of the node with this id.
    pub(crate) fn node_index(&self, id: NodeId) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == id)
    }

    /// Adds a warning that is not there yet.
    pub(crate) fn warn_once(&self, text: String) {
        let mut warnings = self.warnings.lock();
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    #[inline]
    pub(crate) fn can_force(&self) -> bool {
        self.can_force.load(Ordering::Relaxed)
    }

    /// The kernel has begun to refuse membarrier. From their next push on all owners publish everything; what an owner
    /// that does not look up holds already stays with it until it does.
    pub(super) fn stop_forcing(&self) {
        self.can_force.store(false, Ordering::Relaxed);
        self.warn_once(
            "membarrier was refused after it had been granted: every join half is published at once from now on".into(),
        );
        for worker in &self.workers {
            worker.deque.raise_hungry();
        }
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().clone()
    }

    pub(crate) fn sleeper(&self, index: usize) -> *const Sleeper {
        self.workers[index].sleeper.get().map_or(std::ptr::null(), Arc::as_ptr)
    }

    // ---- root jobs ---------------------------------------------------------------------------------------------

    /// Queues a root job at `node`. `Err` gives it back: the runtime is shut down.
    ///
    /// # Safety
    /// The job stays alive until it is executed or cancelled, which happens once.
    pub(crate) unsafe fn push_root(&self, node: usize, job: Job, strict: bool, then: Then) -> Result<(), Job> {
        let inside = Worker::current().is_some_and(|worker| std::ptr::eq(&*worker.registry, self));
        if !self.gate.admits(inside) {
            return Err(job);
        }
        self.nodes[node].roots.push(job, strict);
        if self.gate.closed_behind() {
            self.cancel_queued();
        } else {
            self.wake_for_root(node, strict, then);
        }
        Ok(())
    }

    /// Queues a root job that was admitted before: a future that is woken, aborted, or gives way. `last`: the worker that
    /// ran it last, whose caches may hold what it needs.
    ///
    /// # Safety
    /// As [`Registry::push_root`].
    pub(crate) unsafe fn push_again(&self, home: usize, taken: Taken, last: Option<usize>) {
        self.nodes[home].roots.push(taken.job, taken.strict);
        if self.gate.closed_behind() {
            self.cancel_queued();
        } else if !last.is_some_and(|last| self.wake_last(home, last)) {
            self.wake_for_root(home, taken.strict, Then::RunsOn);
        }
    }

    /// Queues a scope job of a thread that has no deque here.
    pub(crate) fn push_scope_job(&self, home: usize, job: Job) {
        self.nodes[home].roots.push_stray(job);
        if self.gate.closed_behind() {
            self.cancel_queued();
        } else {
            self.wake_for_root(home, Strand::is_strict(job.strand), Then::RunsOn);
        }
    }

    /// Queues a job that a thread outside waits for and that lies below a wait of `waiter`, one of our workers.
    pub(crate) fn push_below(&self, node: usize, waiter: usize, job: Job) {
        self.nodes[node].roots.push_stray(job);
        if self.gate.closed_behind() {
            self.cancel_queued();
            return;
        }
        let woken = self.workers[waiter].sleeper.get().is_some_and(|sleeper| sleeper.wake_waiter());
        // The waiter may be in another wait on top of that one, for which this job is a stranger.
        if !woken || self.nodes[node].sleep.has_idle() {
            self.wake_for_root(node, Strand::is_strict(job.strand), Then::RunsOn);
        }
    }

    /// The node whose task a plain spawn becomes: the worker's, or the one this thread runs on. On mock nodes (and on
    /// CPUs that are not ours) each thread has one by turns, and keeps it: one thread's tasks stay together.
    pub(crate) fn home_of_caller(&self) -> usize {
        if let Some(worker) = Worker::current_of(self) {
            return worker.node_index();
        }
        if self.nodes.len() == 1 {
            return 0;
        }
        let here = if self.node_of_cpu.is_empty() { None } else { sys::current_cpu() };
        here.and_then(|cpu| self.node_of_cpu.get(cpu.0 as usize).copied().flatten())
            .unwrap_or_else(|| outside_turn() % self.nodes.len())
    }

    /// A worker of this runtime that waits for what `strand` does, nearest first.
    pub(crate) fn waiting_ancestor(&self, strand: *const Strand) -> Option<usize> {
        Strand::ancestors(strand)
            .filter(|cell| !cell.is_null())
            .find_map(|cell| (0..self.workers.len()).find(|&index| std::ptr::eq(self.sleeper(index), cell)))
    }

    /// Something is queued anywhere for anybody (not counting private jobs, whose owners are awake).
    pub(crate) fn has_queued(&self) -> bool {
        self.nodes.iter().any(|node| node.roots.has_any())
            || self
                .workers
                .iter()
                .any(|worker| worker.deque.has_public() || worker.inbox.has_job() || worker.slot.is_full())
    }

    // ---- idle count --------------------------------------------------------------------------------------------

    /// This thread comes out of idleness; it does so itself, before it takes a job, so that a job is always either in
    /// a queue or counted by its worker.
    pub(crate) fn add_working(&self) {
        self.working.add();
    }

    /// This thread is idle now. Ends the runtime if it was the last one and a shutdown waits for that.
    pub(crate) fn sub_working(&self) {
        if self.working.sub() {
            self.end_if_done();
        }
    }

    /// Somebody works (or waits in the middle of a job).
    pub(crate) fn anybody_works(&self) -> bool {
        self.working.count() > 0
    }

    /// Only the caller works (it counts itself).
    pub(crate) fn works_alone(&self) -> bool {
        self.working.count() <= 1
    }

    /// Addresses a job to one worker. False if nobody is there to run it.
    pub(crate) fn push_inbox(&self, index: usize, job: Job) -> bool {
        if self.workers[index].gone.load(Ordering::SeqCst) {
            return false;
        }
        self.workers[index].inbox.push(job);
        if self.gate.closed_behind() || self.workers[index].gone.load(Ordering::SeqCst) {
            self.cancel_inbox(index);
        } else {
            self.wake_worker(index);
        }
        true
    }

    // ---- panics ------------------------------------------------------------------------------------------------

    /// A panic that no handle, `join` or scope will hand on.
    pub(crate) fn report_panic(&self, payload: Box<dyn Any + Send>) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        match &self.config.on_panic {
            Some(hook) => {
                if let Err(second) = catch_unwind(AssertUnwindSafe(|| hook(payload))) {
                    self.warn_once("the panic hook itself panicked".into());
                    drop_quietly(second);
                }
            }
            None => drop_quietly(payload),
        }
    }
}

/// Drops a panic payload whose own `Drop` may panic, with a payload whose `Drop` may panic, and so on: the eighth in such
/// a row is leaked, for there might be no end.
pub(crate) fn drop_quietly(mut payload: Box<dyn Any + Send>) {
    for _ in 0..8 {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(next) => payload = next,
        }
    }
    std::mem::forget(payload);
}

/// This thread's place in the order in which outside threads first spawned something.
fn outside_turn() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static TURN: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    TURN.try_with(|turn| *turn).unwrap_or(0)
}

fn default_name(info: super::config::WorkerInfo) -> String {
    let kind = if info.spare { "spare" } else { "w" };
    format!("numart-n{}-{kind}{}", info.node.0, info.index)
}
