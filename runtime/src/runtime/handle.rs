//! A running runtime and the handles to it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use numart_alloc::topology::{NodeId, Topology};

use super::builder::Builder;
use super::current_registry;
use super::error::BuildError;
use crate::sched::adopted::{adopt_current_thread, end_adopted, forget_ended_adopted};
use crate::sched::config::{Config, Shutdown};
use crate::sched::gate::Phase;
use crate::sched::registry::Registry;
use crate::sched::worker::Worker;
use crate::stats::Stats;
use crate::task::affinity::{Affinity, Group};
use crate::task::broadcast::BroadcastContext;
use crate::task::handle::{JoinError, JoinHandle};
use crate::task::scope::{Scope, ScopeFifo, in_place_fifo_on, in_place_on};
use crate::task::spawn::{SpawnTo, Task};

/// A pool of workers per node. Dropping it runs what is queued, then ends the threads and waits for them.
///
/// Derefs to [`Handle`], which has all the calls. A process may hold many runtimes.
///
/// ```
/// use numart_runtime::Runtime;
/// let runtime = Runtime::builder().workers(2).build()?;
/// let sum = runtime.install(|| numart_runtime::reduce(0..10, || 0, |i| i, |a, b| a + b));
/// assert_eq!(sum, 45);
/// # Ok::<(), numart_runtime::BuildError>(())
/// ```
pub struct Runtime {
    handle: Handle,
}

impl Runtime {
    /// A builder with the defaults.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A runtime with all defaults: this machine (or `NUMART_TOPOLOGY`), one worker per usable CPU.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn new() -> Result<Runtime, BuildError> {
        Runtime::builder().build()
    }

    pub(super) fn start(config: Config) -> Result<Runtime, BuildError> {
        if config.use_current_thread {
            forget_ended_adopted();
        }
        if config.use_current_thread && Worker::current().is_some() {
            return Err(BuildError::AlreadyWorker);
        }
        let registry = Registry::new(config);
        let own = registry.config.use_current_thread;
        for index in usize::from(own)..registry.regular_workers() {
            if let Err(error) = registry.start_thread(index) {
                registry.begin_shutdown(Phase::Cancelling);
                registry.join_threads();
                return Err(BuildError::Thread(error));
            }
        }
        registry.wait_until_started(usize::from(own));
        if own {
            adopt_current_thread(&registry, 0);
        }
        Ok(Runtime { handle: Handle { registry } })
    }

    /// A handle, which does not keep the runtime running.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Ends the runtime: no task is taken any more, those queued are run or dropped as asked, and all threads are waited
    /// for. Called by a task (of whatever runtime, since a worker of this one may wait for it) it returns at once, and the
    /// last worker cleans up.
    ///
    /// With [`Shutdown::Drain`] tasks may go on spawning tasks, and the end is when there is none left.
    ///
    /// ```
    /// use numart_runtime::{Runtime, Shutdown};
    /// let runtime = Runtime::builder().workers(1).build()?;
    /// let handle = runtime.spawn(|| 1);
    /// runtime.shutdown(Shutdown::Drain);
    /// assert_eq!(handle.join().unwrap(), 1);
    /// # Ok::<(), numart_runtime::BuildError>(())
    /// ```
    pub fn shutdown(mut self, how: Shutdown) {
        self.end(how);
    }

    fn end(&mut self, how: Shutdown) {
        let registry = &self.handle.registry;
        let phase = match how {
            Shutdown::Drain => Phase::Draining,
            Shutdown::Cancel => Phase::Cancelling,
        };
        registry.begin_shutdown(phase);
        if registry.config.use_current_thread && !end_adopted(registry) && !registry.workers[0].gone.load(SeqCst) {
            registry.warn_once(
                "a runtime built with use_current_thread was dropped on another thread: what was addressed to that \
                 worker alone is cancelled; drop it where it was built"
                    .into(),
            );
            registry.give_up_adopted(0);
        }
        // A task, of whatever runtime, must not wait for our workers: one of them may wait for it.
        let inside = Worker::current().is_some_and(Worker::is_in_strand);
        if !inside {
            registry.join_threads();
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.end(Shutdown::Drain);
    }
}

impl std::ops::Deref for Runtime {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Runtime").field(&self.handle).finish()
    }
}

/// A way to a runtime: cheap to clone, does not keep its workers running. After the shutdown `spawn` gives handles with
/// [`JoinError::Shutdown`], and calls that have no error to return panic.
#[derive(Clone)]
pub struct Handle {
    registry: Arc<Registry>,
}

impl Handle {
    /// The runtime whose worker this is; the global one on any other thread.
    pub fn current() -> Handle {
        Handle { registry: current_registry() }
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// As [`spawn`](crate::spawn), on this runtime.
    pub fn spawn<M, K>(&self, task: K) -> JoinHandle<K::Output>
    where
        K: Task<M> + Send + 'static,
        K::Output: Send + 'static,
    {
        task.spawn_to(SpawnTo::here(self.registry.clone()))
    }

    /// As [`spawn_fifo`](crate::spawn_fifo), on this runtime.
    pub fn spawn_fifo<M, K>(&self, task: K) -> JoinHandle<K::Output>
    where
        K: Task<M> + Send + 'static,
        K::Output: Send + 'static,
    {
        task.spawn_to(SpawnTo::in_line(self.registry.clone()))
    }

    /// Runs `body` on a worker of this runtime and waits for it; in place if this thread is one. All free functions
    /// called inside use this runtime.
    ///
    /// # Panics
    /// With the closure's panic; or if the runtime is shut down.
    pub fn install<F, R>(&self, body: F) -> R
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        self.registry.install(body)
    }

    /// As [`Handle::install`].
    ///
    /// # Errors
    /// [`JoinError::Shutdown`]: the runtime is shut down; `body` was dropped unrun.
    ///
    /// # Panics
    /// With the closure's panic.
    pub fn try_install<F, R>(&self, body: F) -> Result<R, JoinError>
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        self.registry.try_install(body)
    }

    /// As [`join`](crate::join), on this runtime.
    ///
    /// # Panics
    /// As [`join`](crate::join) and [`Handle::install`].
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.install(|| crate::task::join::join(a, b))
    }

    /// As [`scope`](crate::scope), on this runtime.
    ///
    /// # Panics
    /// As [`scope`](crate::scope) and [`Handle::install`].
    pub fn scope<'scope, F, R>(&self, body: F) -> R
    where
        F: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| in_place_on(self.registry.clone(), body))
    }

    /// As [`scope_fifo`](crate::scope_fifo), on this runtime.
    ///
    /// # Panics
    /// As [`scope`](crate::scope) and [`Handle::install`].
    pub fn scope_fifo<'scope, F, R>(&self, body: F) -> R
    where
        F: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| in_place_fifo_on(self.registry.clone(), body))
    }

    /// As [`in_place_scope`](crate::in_place_scope), on this runtime.
    ///
    /// # Panics
    /// As [`scope`](crate::scope).
    pub fn in_place_scope<'scope, F, R>(&self, body: F) -> R
    where
        F: FnOnce(&Scope<'scope>) -> R,
    {
        in_place_on(self.registry.clone(), body)
    }

    /// As [`in_place_scope_fifo`](crate::in_place_scope_fifo), on this runtime.
    ///
    /// # Panics
    /// As [`scope`](crate::scope).
    pub fn in_place_scope_fifo<'scope, F, R>(&self, body: F) -> R
    where
        F: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        in_place_fifo_on(self.registry.clone(), body)
    }

    /// As [`broadcast`](crate::broadcast), on this runtime.
    ///
    /// # Panics
    /// As [`broadcast`](crate::broadcast) and [`Handle::install`].
    pub fn broadcast<F, R>(&self, body: F) -> Vec<R>
    where
        F: Fn(BroadcastContext) -> R + Sync,
        R: Send,
    {
        self.registry.broadcast(body)
    }

    /// As [`broadcast_per_node`](crate::broadcast_per_node), on this runtime.
    ///
    /// # Panics
    /// As [`broadcast`](crate::broadcast) and [`Handle::install`].
    pub fn broadcast_per_node<F, R>(&self, body: F) -> Vec<R>
    where
        F: Fn(BroadcastContext) -> R + Sync,
        R: Send,
    {
        self.registry.broadcast_per_node(body)
    }

    /// An affinity of this runtime.
    pub fn affinity(&self) -> Affinity {
        Affinity::of(self.registry.clone())
    }

    /// A group of this runtime.
    pub fn group(&self) -> Group {
        Group::of(self.registry.clone())
    }

    /// The nodes with workers, ascending.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.registry.nodes.iter().map(|node| node.id).collect()
    }

    /// Workers, spare threads not counted.
    pub fn num_workers(&self) -> usize {
        self.registry.regular_workers()
    }

    /// The machine as the runtime sees it.
    pub fn topology(&self) -> &Topology {
        &self.registry.config.topology
    }

    /// What happened so far. Cost: a few microseconds per worker; nothing is stopped.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.registry)
    }

    /// The runtime takes no tasks from outside any more.
    pub fn is_shut_down(&self) -> bool {
        self.registry.gate.phase() != Phase::Open
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("nodes", &self.nodes())
            .field("workers", &self.num_workers())
            .field("shut_down", &self.is_shut_down())
            .finish()
    }
}
