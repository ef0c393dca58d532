//! What the policy is told: the machine, the affinities, who touched what since the last pass.
//!
//! A snapshot is plain data. The runtime's driver and the simulator fill the same type; the vectors may be kept and
//! refilled. All counts are of the *window*: what happened since the previous snapshot. The policy keeps history
//! itself, in [`State`](super::State).

use super::node_set::NodeSet;

/// No affinity: an extent nobody owns.
pub const NO_AFFINITY: u32 = u32::MAX;

/// One NUMA node as the policy sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// CPUs of the node that this process may use; 0 makes it memory-only.
    pub cpus: u32,
    /// CPUs' worth of time this process could get there, on average over the window: `cpus` less what neighbours
    /// took. Between 0 and `cpus`. The average matters: a momentary figure, seen once a minute, is noise.
    pub capacity: f64,
    /// Last-level caches of the node (1 if unknown).
    pub l3_groups: u32,
    /// Whether the process may use the node at all.
    pub allowed: bool,
    /// Whether the user named this memory-only node; if not, it gets nothing.
    pub named: bool,
    /// Bytes of memory; 0 makes the node memoryless.
    pub memory_total: u64,
    /// Bytes free.
    pub memory_free: u64,
    /// Bytes per second of its memory controllers, if measured or told.
    pub bandwidth: Option<f64>,
}

impl Node {
    /// A node of `cpus` CPUs and `memory` bytes, all free, all allowed, of unknown bandwidth.
    pub fn new(cpus: u32, memory: u64) -> Self {
        Node {
            cpus,
            capacity: f64::from(cpus),
            l3_groups: 1,
            allowed: true,
            named: false,
            memory_total: memory,
            memory_free: memory,
            bandwidth: None,
        }
    }

    /// Whether tasks may have their home here.
    pub fn takes_tasks(&self) -> bool {
        self.allowed && self.cpus > 0 && self.capacity > 0.0
    }

    /// Whether memory may be sent here: memory-only nodes get nothing unless the user names them.
    pub fn takes_memory(&self) -> bool {
        self.allowed && self.memory_total > 0 && (self.cpus > 0 || self.named)
    }
}

/// One affinity and what it did in the window.
#[derive(Clone, Debug, PartialEq)]
pub struct Affinity {
    /// Its identity; stable for its life, never used twice.
    pub id: u64,
    /// The group the user joined it to.
    pub group: Option<u64>,
    /// Where its root jobs go now.
    pub home: NodeSet,
    /// The nodes the user fixed it to (`.on`); never overridden.
    pub pinned: Option<NodeSet>,
    /// A closure of it has run longer than a pass: it cannot move now, so its memory comes to it.
    pub running_long: bool,
    /// CPU time its tasks used in the window, ns.
    pub cpu_ns: u64,
    /// Time its runnable tasks waited for a CPU in the window, ns.
    pub wait_ns: u64,
}

impl Affinity {
    /// An affinity at `home`, in no group, that has done nothing yet.
    pub fn new(id: u64, home: NodeSet) -> Self {
        Affinity { id, group: None, home, pinned: None, running_long: false, cpu_ns: 0, wait_ns: 0 }
    }
}

/// What kind of memory was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Movable memory of which the affinity does nine tenths of the touching.
    Private,
    /// Movable memory that its group shares.
    Shared,
    /// Memory that may not move: a fixed placement, or not numart's.
    Fixed,
}

/// Bytes one affinity touched in the window: from where, and where the memory was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Touch {
    /// Index into [`Snapshot::affinities`].
    pub affinity: u32,
    /// Node of the memory.
    pub memory: u8,
    /// Node of the worker.
    pub using: u8,
    /// Whether the task ran off its home (stolen).
    pub away: bool,
    /// Private, shared or fixed.
    pub kind: Kind,
    /// Bytes.
    pub bytes: u64,
}

/// One extent and who touched it in the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// Dense index the region table gave it; the policy's memory of extents is a table by slot.
    pub slot: u32,
    /// Counts the uses of the slot: history of another generation is not this extent's.
    pub generation: u32,
    /// Where it is.
    pub node: u8,
    /// Whether its placement lets the policy move it (`Placement::Auto`) and it is not being moved now.
    pub movable: bool,
    /// Whether its touches are page samples instead of declared bytes.
    pub sampled: bool,
    /// Whether the last attempt to move it failed.
    pub failed: bool,
    /// Size, bytes.
    pub bytes: u64,
    /// Bytes touched in the window by everybody.
    pub touched: u64,
    /// The affinity that touched it most (index), or [`NO_AFFINITY`].
    pub owner: u32,
    /// Bytes the owner touched.
    pub owner_bytes: u64,
    /// Node with the most touches by tasks at home.
    pub top_node: u8,
    /// Those bytes.
    pub top_bytes: u64,
    /// Node with the most touches by tasks away from home.
    pub away_node: u8,
    /// Those bytes.
    pub away_bytes: u64,
}

/// Two affinities wrote and touched the same extents.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteShare {
    /// Index of one.
    pub a: u32,
    /// Index of the other.
    pub b: u32,
    /// Bytes of touches to extents that both touched and one wrote, in the window.
    pub bytes: u64,
}

/// A region that could have, or has, copies on several nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadMostly {
    /// Its identity.
    pub id: u64,
    /// Size of one copy, bytes.
    pub bytes: u64,
    /// Nodes that hold a copy (one node, or where most of it is, if it is not a `Replicated`).
    pub copies: NodeSet,
    /// Whether it is a `Replicated<T>`: only then can copies be added and dropped.
    pub replicated: bool,
    /// Bytes read in the window, by node.
    pub reads: Vec<(u8, u64)>,
    /// Bytes written in the window.
    pub written: u64,
}

/// Everything the policy may look at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Monotonic time, ns. A clock that goes backwards counts as no time passed.
    pub now_ns: u64,
    /// The nodes, at most [`MAX_NODES`](super::MAX_NODES).
    pub nodes: Vec<Node>,
    /// Distances, row-major, 10 = local. Missing or zero entries count as 10 on the diagonal and 20 elsewhere.
    pub distance: Vec<u16>,
    /// The live affinities.
    pub affinities: Vec<Affinity>,
    /// Who touched what.
    pub touches: Vec<Touch>,
    /// The extents that exist; untouched ones may be left out.
    pub extents: Vec<Extent>,
    /// Write-sharing seen.
    pub sharing: Vec<WriteShare>,
    /// Regions that may be worth copying.
    pub read_mostly: Vec<ReadMostly>,
    /// Bytes ordered to move by earlier plans and not done yet.
    pub backlog_bytes: u64,
}

impl Snapshot {
    /// Distance between two nodes, with the defaults for what is missing.
    pub fn distance(&self, from: usize, to: usize) -> u16 {
        let given = self.distance.get(from * self.nodes.len() + to).copied().unwrap_or(0);
        match given {
            0 if from == to => 10,
            0 => 20,
            d => d.max(1),
        }
    }
}
