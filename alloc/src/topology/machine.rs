//! The result type of all sources.

use super::{CpuId, CpuSet, NodeId};
use std::sync::Arc;

/// Where a topology was read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Source {
    /// Linux's `/sys/devices/system`, of this machine or recorded.
    Sysfs,
    /// The C library hwloc (feature `hwloc`).
    Hwloc,
    /// A text or a shape such as `4x2`.
    Written,
    /// The machine could not be asked: one node with the right CPU count.
    Fallback,
}

/// One logical CPU that is online.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cpu {
    /// Its number.
    pub id: CpuId,
    /// Its node. `None` if the kernel shows it in no node; no worker runs on
    /// such a CPU.
    pub node: Option<NodeId>,
    /// The index of its core, counted from 0 over the whole machine. CPUs of
    /// the same core share an index (SMT).
    pub core: u32,
    /// The index of its L3 group, counted from 0 over the whole machine. CPUs
    /// with the same L3 cache share an index; where no L3 is shown the cache of
    /// the next lower level counts, and where none is shown the node. A group
    /// may span nodes (sub-NUMA clustering).
    pub l3: u32,
    /// Whether this process may run on it: affinity mask and cpuset.
    pub allowed: bool,
    pub(super) core_cpus: Arc<CpuSet>,
    pub(super) l3_cpus: Arc<CpuSet>,
}

impl Cpu {
    /// The online CPUs of the same core, this one included.
    pub fn smt_siblings(&self) -> &CpuSet {
        &self.core_cpus
    }

    /// The online CPUs of the same L3 group, this one included.
    pub fn l3_siblings(&self) -> &CpuSet {
        &self.l3_cpus
    }
}

/// One node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    pub(super) id: NodeId,
    pub(super) cpus: CpuSet,
    pub(super) allowed: CpuSet,
    pub(super) memory: u64,
    pub(super) memory_allowed: bool,
}

impl Node {
    /// Its number.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Its online CPUs, whether this process may use them or not.
    pub fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// Those of its CPUs that this process may use. Empty on a node that the
    /// affinity mask or the cpuset excludes.
    pub fn allowed_cpus(&self) -> &CpuSet {
        &self.allowed
    }

    /// Its memory in bytes, used and free; 0 if it has none or the source does
    /// not say.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Whether this process may allocate there (`Mems_allowed_list`).
    pub fn memory_allowed(&self) -> bool {
        self.memory_allowed
    }

    /// Whether no CPU of the node is online: GPU memory, CXL, or a node whose
    /// CPUs were taken offline.
    pub fn is_memory_only(&self) -> bool {
        self.cpus.is_empty()
    }
}

/// The nodes and CPUs of a machine, real or written down, and what this process
/// may use of them.
///
/// It is a snapshot: CPUs that come or go later do not change it. Cloning
/// copies a pointer.
///
/// `Display` prints a table. [`Topology::to_text`] gives the form that
/// [`Topology::parse`] reads.
#[derive(Clone, PartialEq, Debug)]
pub struct Topology {
    pub(super) parts: Arc<Parts>,
}

/// What [`Topology`] shares between its clones. `assemble` establishes the
/// invariants.
#[derive(PartialEq, Debug)]
pub(super) struct Parts {
    /// Ascending by id, at least one.
    pub(super) nodes: Vec<Node>,
    /// Ascending by id, at least one.
    pub(super) cpus: Vec<Cpu>,
    /// Row by row in the order of `nodes`.
    pub(super) distances: Vec<u32>,
    pub(super) source: Source,
    pub(super) mock: bool,
    pub(super) quota: Option<f64>,
    pub(super) warnings: Vec<String>,
}

impl Topology {
    /// All nodes in ascending order of their numbers: compute nodes, excluded
    /// nodes and memory-only nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.parts.nodes
    }

    /// The nodes on which this process may run: those with at least one allowed
    /// CPU, in ascending order. There is always one.
    pub fn compute_nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes().iter().filter(|n| !n.allowed.is_empty())
    }

    /// The node with that number. Cost: a binary search.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.node_index(id).map(|i| &self.parts.nodes[i])
    }

    fn node_index(&self, id: NodeId) -> Option<usize> {
        self.parts.nodes.binary_search_by_key(&id, |n| n.id).ok()
    }

    /// The node of a CPU; `None` if the CPU is offline, unknown or in no node.
    /// Cost: a binary search.
    pub fn node_of_cpu(&self, cpu: CpuId) -> Option<NodeId> {
        self.cpu(cpu)?.node
    }

    /// The distance from one node to another in SLIT units: 10 is local, 20
    /// twice as far. `None` if one of the nodes does not exist.
    ///
    /// The matrix need not be symmetric. Where the machine does not say, it is
    /// 10 to the node itself and 20 to others. Cost: two binary searches.
    pub fn distance(&self, from: NodeId, to: NodeId) -> Option<u32> {
        let (from, to) = (self.node_index(from)?, self.node_index(to)?);
        Some(self.parts.distances[from * self.parts.nodes.len() + to])
    }

    /// The online CPU with that number. Cost: a binary search.
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        let i = self.parts.cpus.binary_search_by_key(&id, |c| c.id).ok()?;
        Some(&self.parts.cpus[i])
    }

    /// The online CPUs in ascending order of their numbers.
    pub fn cpus(&self) -> &[Cpu] {
        &self.parts.cpus
    }

    /// Whether the nodes are only written down (a text, or the recorded tree of
    /// another machine). Workers must not be bound to them.
    pub fn is_mock(&self) -> bool {
        self.parts.mock
    }

    /// Where it was read.
    pub fn source(&self) -> Source {
        self.parts.source
    }

    /// How many CPUs' worth of time the control groups of this process grant
    /// it: the tightest quota on the way from its cgroup up to the root of the
    /// mount. `None` if there is no quota, or the nodes are mock nodes.
    pub fn cpu_quota(&self) -> Option<f64> {
        self.parts.quota
    }

    /// How many workers use what this process has: the allowed CPUs of the
    /// compute nodes, or the CPU quota rounded up if that is less; at least 1.
    pub fn default_workers(&self) -> usize {
        let cpus = self.compute_nodes().map(|n| n.allowed.len()).sum();
        // A float cast saturates, so that a huge quota cannot wrap.
        let quota = self.parts.quota.map_or(usize::MAX, |q| q.ceil() as usize);
        quota.min(cpus).max(1)
    }

    /// What a user should know: excluded nodes, unreadable files, guesses. Each
    /// names the thing and the remedy.
    pub fn warnings(&self) -> &[String] {
        &self.parts.warnings
    }
}
