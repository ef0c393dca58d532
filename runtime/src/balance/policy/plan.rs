//! What the policy answers: every step with its reason as data.

use super::node_set::NodeSet;
use std::time::Duration;

/// Why a task-side step was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasonKind {
    /// Its group was given another home set.
    GroupHome,
    /// Its memory is there, or comes there more cheaply.
    Memory,
    /// It waits less for a CPU there; remote use may rise.
    Load,
    /// Its memory traffic queues less there; remote use may rise.
    Bandwidth,
    /// Its old home may not be used any more.
    NotAllowed,
}

/// A reason and its numbers. Times are seconds lost per second of wall time, summed over the affinities concerned:
/// memory stalls, queueing at controllers, waiting for CPUs, and the copying the step causes, spread over 60 s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reason {
    /// The kind.
    pub kind: ReasonKind,
    /// Predicted time lost per second before the step.
    pub before: f64,
    /// And after it.
    pub after: f64,
}

/// A group's home set changed.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupHome {
    /// The group: the lowest id of its affinities.
    pub group: u64,
    /// Nodes it ran on.
    pub from: NodeSet,
    /// The fewest and closest nodes that hold it.
    pub to: NodeSet,
    /// CPUs it uses.
    pub demand: f64,
    /// Why.
    pub reason: Reason,
}

/// An affinity gets a new home.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// Index into the snapshot's affinities.
    pub affinity: u32,
    /// Its home until now.
    pub from: NodeSet,
    /// Its home from its next root job or poll on.
    pub to: NodeSet,
    /// Why.
    pub reason: Reason,
}

/// Two sets of affinities of equal CPU use change places.
#[derive(Clone, Debug, PartialEq)]
pub struct Swap {
    /// Affinities that leave `node_a` for `node_b`.
    pub a: Vec<u32>,
    /// Affinities that leave `node_b` for `node_a`.
    pub b: Vec<u32>,
    /// One node.
    pub node_a: u8,
    /// The other.
    pub node_b: u8,
    /// Why.
    pub reason: Reason,
}

/// Why an extent moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentReason {
    /// Its one owner lives there.
    Private,
    /// One node did two thirds of the touching over two windows.
    OneNode,
    /// Pseudo-interleaving over the group's active nodes.
    Interleave,
    /// It is on a node that may not be used.
    NotAllowed,
}

/// An extent should move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExtentMove {
    /// Slot of the extent.
    pub slot: u32,
    /// Where it is.
    pub from: u8,
    /// Where it should be.
    pub to: u8,
    /// Its size.
    pub bytes: u64,
    /// Why.
    pub reason: ExtentReason,
    /// Seconds it is expected to save before its owner changes.
    pub gain_s: f64,
    /// Seconds one copy of it costs.
    pub copy_s: f64,
}

/// How a group's shared memory, and its new allocations of it, should lie.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// The group.
    pub group: u64,
    /// Node and share; the shares add up to 1.
    pub shares: Vec<(u8, f64)>,
}

/// What to do about a read-mostly region.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplicaStep {
    /// Make it a `Replicated<T>`: all these nodes read it and almost nobody writes.
    Recommend {
        /// The region.
        id: u64,
        /// Nodes that should hold a copy.
        nodes: NodeSet,
        /// Seconds saved per second.
        gain: f64,
    },
    /// Add a copy.
    Add {
        /// The region.
        id: u64,
        /// Where.
        node: u8,
        /// Seconds saved per second.
        gain: f64,
    },
    /// Drop a copy.
    Drop {
        /// The region.
        id: u64,
        /// Where.
        node: u8,
    },
}

/// A group formed or ended by write-sharing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GroupStep {
    /// These two affinities (ids) share enough writes to belong together.
    Join {
        /// One.
        a: u64,
        /// The other.
        b: u64,
        /// Share of the smaller one's touches.
        share: f64,
    },
    /// They no longer do.
    Split {
        /// One.
        a: u64,
        /// The other.
        b: u64,
    },
}

/// Which of the four states the touches are in: it decides how soon the next pass comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing was touched: slower.
    Idle,
    /// Mostly local, mostly private: slower.
    LocalPrivate,
    /// Mostly local (or spread over the group's active nodes), mostly shared: slower.
    LocalShared,
    /// Mostly remote, mostly private: fast (T2).
    RemotePrivate,
    /// Mostly remote, mostly shared: fast.
    RemoteShared,
}

/// The answer to one snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Groups formed and split.
    pub group_steps: Vec<GroupStep>,
    /// Groups with a new home set; their affinities' moves are in `moves`.
    pub group_homes: Vec<GroupHome>,
    /// Affinity moves.
    pub moves: Vec<Move>,
    /// Swaps.
    pub swaps: Vec<Swap>,
    /// Extent moves, the most rewarding first, no more than the machine can copy in about a second.
    pub extents: Vec<ExtentMove>,
    /// Shares for shared memory, per group that runs on more than one node.
    pub weights: Vec<Weights>,
    /// Copies.
    pub replicas: Vec<ReplicaStep>,
    /// When to ask again at the latest; sooner after an event (see [`must_wake`](super::must_wake)).
    pub next_pass: Duration,
    /// The state the touches were in.
    pub mode: Mode,
    /// Share of the window's touches that were local, active nodes of a group counting as local for its shared memory.
    pub local_share: f64,
    /// Predicted time lost per second with the homes as they are, and as planned. Never higher after.
    pub predicted: (f64, f64),
}

impl Plan {
    /// A plan that changes nothing.
    pub(crate) fn nothing(next_pass: Duration) -> Self {
        Plan {
            group_steps: Vec::new(),
            group_homes: Vec::new(),
            moves: Vec::new(),
            swaps: Vec::new(),
            extents: Vec::new(),
            weights: Vec::new(),
            replicas: Vec::new(),
            next_pass,
            mode: Mode::Idle,
            local_share: 1.0,
            predicted: (0.0, 0.0),
        }
    }

    /// Whether it moves no affinity, no extent and no copy.
    pub fn is_quiet(&self) -> bool {
        self.moves.is_empty()
            && self.swaps.is_empty()
            && self.extents.is_empty()
            && self.replicas.iter().all(|r| matches!(r, ReplicaStep::Recommend { .. }))
    }

    /// The homes after the plan, given those before (by affinity index).
    pub fn apply_homes(&self, homes: &mut [NodeSet]) {
        for m in &self.moves {
            homes[m.affinity as usize] = m.to;
        }
        for s in &self.swaps {
            for &a in &s.a {
                homes[a as usize] = NodeSet::single(usize::from(s.node_b));
            }
            for &b in &s.b {
                homes[b as usize] = NodeSet::single(usize::from(s.node_a));
            }
        }
    }
}
