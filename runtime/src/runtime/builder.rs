//! The builder: what a runtime can be asked to be, and how many workers go where.

use std::any::Any;
use std::sync::Arc;

use numart_alloc::topology::{CpuSet, NodeId, Topology};

use super::error::BuildError;
use super::handle::{Handle, Runtime};
use crate::sched::clock::Clock;
use crate::sched::config::{
    AroundHook, Config, HomeDelay, NameFn, NodeConfig, PanicHook, Pinning, Waiting, WorkerHook, WorkerInfo,
};

/// The environment variable that overrides the number of workers.
const WORKERS_VARIABLE: &str = "NUMART_WORKERS";
/// Reserved, not used: pages of it come into being when touched. Deep recursion is what fork-join programs do.
const STACK_SIZE: usize = 16 << 20;
/// Spare threads per node, at most. Each waits in a stack of its own; a program that needs more waits in a chain this
/// deep inside tasks.
const SPARE_THREADS: usize = 64;
/// Threads of a runtime, spares included: below 65,536, which `Working` counts to, and far above what a machine has.
const MOST_THREADS: usize = 60_000;

#[derive(Clone, Copy)]
enum Count {
    Machine,
    Total(usize),
    PerNode(usize),
}

/// Builds a [`Runtime`]. Every setting has a default that suits most programs.
///
/// ```
/// use numart_runtime::{Pinning, Runtime};
/// let runtime = Runtime::builder()
///     .workers(2)
///     .pinning(Pinning::Node)
///     .thread_name(|worker| format!("search-{}", worker.index))
///     .build()?;
/// assert_eq!(runtime.num_workers(), 2);
/// # Ok::<(), numart_runtime::BuildError>(())
/// ```
pub struct Builder {
    topology: Option<Result<Topology, BuildError>>,
    nodes: Option<Vec<NodeId>>,
    count: Count,
    environment: bool,
    pinning: Pinning,
    waiting: Waiting,
    home_delay: HomeDelay,
    clock: Clock,
    spare_threads: usize,
    use_current_thread: bool,
    forced_splits: bool,
    stack_size: usize,
    name: Option<NameFn>,
    on_start: Option<WorkerHook>,
    on_stop: Option<WorkerHook>,
    on_panic: Option<PanicHook>,
    around: Option<AroundHook>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            topology: None,
            nodes: None,
            count: Count::Machine,
            environment: true,
            pinning: Pinning::default(),
            waiting: Waiting::default(),
            home_delay: HomeDelay::default(),
            clock: Clock::system(),
            spare_threads: SPARE_THREADS,
            use_current_thread: false,
            forced_splits: true,
            stack_size: STACK_SIZE,
            name: None,
            on_start: None,
            on_stop: None,
            on_panic: None,
            around: None,
        }
    }
}

impl Builder {
    /// The machine to run on, instead of the one found (or written in `NUMART_TOPOLOGY`).
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(Ok(topology));
        self
    }

    /// A written machine: `"4x2"` (nodes x CPUs), or the text form described at [`Topology::parse`]. Gives mock nodes:
    /// everything works, workers are not bound. Errors come with [`Builder::build`].
    pub fn topology_text(mut self, text: &str) -> Self {
        self.topology = Some(Topology::parse(text).map_err(BuildError::from));
        self
    }

    /// Only these nodes. Default: every node with a CPU that this process may use.
    pub fn nodes(mut self, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        self.nodes = Some(nodes.into_iter().collect());
        self
    }

    /// So many workers in all, on the fewest nodes that hold them.
    ///
    /// Default: `NUMART_WORKERS`, else one per CPU that the affinity mask allows, but no more than the cgroup CPU quota
    /// (rounded up).
    pub fn workers(mut self, workers: usize) -> Self {
        self.count = Count::Total(workers);
        self
    }

    /// So many workers on each node.
    pub fn workers_per_node(mut self, workers: usize) -> Self {
        self.count = Count::PerNode(workers);
        self
    }

    /// Does not read `NUMART_TOPOLOGY` and `NUMART_WORKERS`.
    pub fn ignore_environment(mut self) -> Self {
        self.environment = false;
        self
    }

    /// Which CPUs a worker may run on. Default: its node's.
    pub fn pinning(mut self, pinning: Pinning) -> Self {
        self.pinning = pinning;
        self
    }

    /// What a waiting worker may run. Default: only what lies below its wait.
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.waiting = waiting;
        self
    }

    /// How long root jobs are left to a busy home. Default: 200 us.
    pub fn home_delay(mut self, delay: HomeDelay) -> Self {
        self.home_delay = delay;
        self
    }

    /// The clock behind [`Builder::home_delay`]. Default: the machine's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Spare threads per node, at most: they stand in for workers that wait. Default: 64. With 0 a waiting worker runs
    /// anything when the node would stand still, and handles give [`JoinError::WouldDeadlock`](crate::JoinError).
    pub fn spare_threads(mut self, spares: usize) -> Self {
        self.spare_threads = spares;
        self
    }

    /// The thread that calls `build` becomes worker 0 until the [`Runtime`] is dropped, on that thread. It runs jobs only
    /// while it waits in a call into the runtime. It stays the program's own thread: it is not bound to its node's CPUs nor
    /// named, and the hooks around a worker's life are not called for it.
    pub fn use_current_thread(mut self) -> Self {
        self.use_current_thread = true;
        self
    }

    /// Thieves may publish a busy worker's jobs for it (needs `membarrier`; default where that is allowed). Without,
    /// every `join` half is published at once.
    pub fn forced_splits(mut self, forced: bool) -> Self {
        self.forced_splits = forced;
        self
    }

    /// Stack of each thread, in bytes. Default: 16 MiB, of which only what is touched takes memory.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// Names the threads. Default: `numart-n<node>-w<index>`. (Linux shows the first 15 bytes.)
    pub fn thread_name(mut self, name: impl Fn(WorkerInfo) -> String + Send + Sync + 'static) -> Self {
        self.name = Some(Arc::new(name));
        self
    }

    /// Called on each worker thread before its first job.
    pub fn on_thread_start(mut self, hook: impl Fn(WorkerInfo) + Send + Sync + 'static) -> Self {
        self.on_start = Some(Arc::new(hook));
        self
    }

    /// Called on each worker thread after its last job.
    pub fn on_thread_stop(mut self, hook: impl Fn(WorkerInfo) + Send + Sync + 'static) -> Self {
        self.on_stop = Some(Arc::new(hook));
        self
    }

    /// Gets the payload of a panic that nobody joins. Default: it is dropped (the standard panic message has been
    /// printed) and counted in [`Stats::panics`](crate::stats::Stats).
    pub fn panic_handler(mut self, hook: impl Fn(Box<dyn Any + Send>) + Send + Sync + 'static) -> Self {
        self.on_panic = Some(Arc::new(hook));
        self
    }

    /// Wraps each worker's whole life: the hook sets something up, calls its argument once (it returns when the worker
    /// ends), and takes it down again.
    ///
    /// ```
    /// use numart_runtime::Runtime;
    /// std::thread_local!(static DEPTH: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
    /// let runtime = Runtime::builder()
    ///     .around_worker(|run| {
    ///         DEPTH.set(1);
    ///         run();
    ///     })
    ///     .build()?;
    /// assert_eq!(runtime.install(|| DEPTH.get()), 1);
    /// # Ok::<(), numart_runtime::BuildError>(())
    /// ```
    pub fn around_worker(mut self, hook: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static) -> Self {
        self.around = Some(Arc::new(hook));
        self
    }

    /// Starts the runtime.
    ///
    /// # Errors
    /// See [`BuildError`]. A denied system call is no error: the runtime goes on without and says so in
    /// [`Stats::warnings`](crate::stats::Stats).
    pub fn build(self) -> Result<Runtime, BuildError> {
        Runtime::start(self.into_config()?)
    }

    /// Starts the runtime as the global one, behind the free functions.
    ///
    /// # Errors
    /// As [`Builder::build`], and [`BuildError::GlobalExists`].
    pub fn build_global(self) -> Result<&'static Handle, BuildError> {
        super::set_global(self.build()?)
    }

    fn into_config(self) -> Result<Config, BuildError> {
        let topology = match self.topology {
            Some(topology) => topology?,
            None if self.environment => Topology::detect()?,
            None => Topology::this_machine()?,
        };
        let mut count = self.count;
        if let (Count::Machine, true) = (count, self.environment)
            && let Some(value) = std::env::var_os(WORKERS_VARIABLE)
        {
            let text = value.to_string_lossy();
            let number = text.trim().parse().ok().filter(|&workers| workers > 0);
            let bad = || BuildError::Variable { name: WORKERS_VARIABLE, value: text.clone().into_owned() };
            count = Count::Total(number.ok_or_else(bad)?);
        }
        let candidates = candidates(&topology, self.nodes.as_deref())?;
        let asked = match count {
            Count::Machine => 0,
            Count::Total(workers) => workers,
            Count::PerNode(workers) => workers.saturating_mul(candidates.len()),
        };
        let threads = asked.saturating_add(self.spare_threads.saturating_mul(candidates.len()));
        if threads > MOST_THREADS {
            return Err(BuildError::TooManyThreads { asked: threads, most: MOST_THREADS });
        }
        let workers = match count {
            Count::Total(0) | Count::PerNode(0) => return Err(BuildError::NoWorkers),
            Count::PerNode(each) => vec![each; candidates.len()],
            Count::Total(total) => share_out(&candidates, total),
            Count::Machine => {
                let cpus: usize = candidates.iter().map(|(_, cpus)| cpus.len()).sum();
                share_out(&candidates, topology.default_workers().min(cpus).max(1))
            }
        };
        let nodes = candidates
            .into_iter()
            .zip(workers)
            .filter(|(_, workers)| *workers > 0)
            .map(|((id, cpus), workers)| NodeConfig { id, workers, cpus })
            .collect();
        Ok(Config {
            topology: Arc::new(topology),
            nodes,
            pinning: self.pinning,
            waiting: self.waiting,
            home_delay: self.home_delay,
            clock: self.clock,
            spare_threads: self.spare_threads,
            use_current_thread: self.use_current_thread,
            forced_splits: self.forced_splits,
            stack_size: self.stack_size,
            name: self.name,
            on_start: self.on_start,
            on_stop: self.on_stop,
            on_panic: self.on_panic,
            around: self.around,
        })
    }
}

/// The nodes that may get workers, ascending id, with their CPUs.
fn candidates(topology: &Topology, wanted: Option<&[NodeId]>) -> Result<Vec<(NodeId, CpuSet)>, BuildError> {
    if wanted.is_some_and(<[NodeId]>::is_empty) {
        return Err(BuildError::NoNodes);
    }
    for &node in wanted.unwrap_or_default() {
        match topology.node(node) {
            None => {
                let nodes = topology.nodes().iter().map(|node| node.id()).collect();
                return Err(BuildError::UnknownNode { node, nodes });
            }
            Some(there) if there.allowed_cpus().is_empty() => return Err(BuildError::NodeWithoutCpus(node)),
            Some(_) => {}
        }
    }
    let chosen: Vec<_> = topology
        .compute_nodes()
        .filter(|node| wanted.is_none_or(|wanted| wanted.contains(&node.id())))
        .map(|node| (node.id(), node.allowed_cpus().clone()))
        .collect();
    if chosen.is_empty() { Err(BuildError::NoWorkers) } else { Ok(chosen) }
}

/// Fewest nodes first: the biggest nodes are filled one after the other; what is more than the machine's CPUs goes
/// round.
fn share_out(nodes: &[(NodeId, CpuSet)], total: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|&node| std::cmp::Reverse(nodes[node].1.len()));
    let mut shares = vec![0; nodes.len()];
    let mut left = total;
    while left > 0 {
        for &node in &order {
            let share = nodes[node].1.len().min(left);
            shares[node] += share;
            left -= share;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(text: &str, total: usize) -> Vec<usize> {
        share_out(&candidates(&Topology::parse(text).unwrap(), None).unwrap(), total)
    }

    #[test]
    fn workers_go_to_the_fewest_nodes() {
        assert_eq!(shares("4x2", 8), [2, 2, 2, 2]);
        assert_eq!(shares("4x2", 2), [2, 0, 0, 0]);
        assert_eq!(shares("4x2", 3), [2, 1, 0, 0]);
        assert_eq!(shares("2x2", 10), [6, 4]);
        assert_eq!(shares("node 0 cpus 0\nnode 5 cpus 1-4", 4), [0, 4]);
    }
}
