//! The columns of every table: who decides where tasks run and where memory goes.

use numart_runtime::balance::policy::Rules;

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Each task with its memory on its node, shared memory over the instance's nodes, for ever.
    Pinned,
    /// What numactl does: tasks wander within the instance's nodes, memory is spread over them.
    NodeSet,
    /// Nothing: the operating system moves tasks about, memory stays where it was first touched.
    None,
    /// numart with all rules.
    Numart,
    /// Memory follows, the operating system moves tasks (balancenuma).
    MemoryOnly,
    /// Tasks follow, memory stays.
    TasksOnly,
    /// No group home sets.
    NoGroupStep,
    /// No spreading of shared extents over the active nodes.
    NoInterleave,
    /// Single moves only.
    MovesOnly,
    /// Swaps only, as before seed 3.
    SwapsOnly,
    /// No imbalance allowed, as before seed 2.
    NoImbalance,
    /// Copies need not pay, churning extents are followed.
    NoPayback,
    /// Before 2014: 1,280 MB/s of migration in all, of which shared extents that ping-pong take what they want.
    RateLimited,
    /// Statistics halve per pass.
    PassDecay,
}

impl Column {
    /// All, in the order they are printed.
    pub const ALL: [Column; 14] = [
        Column::Pinned,
        Column::NodeSet,
        Column::None,
        Column::Numart,
        Column::MemoryOnly,
        Column::TasksOnly,
        Column::NoGroupStep,
        Column::NoInterleave,
        Column::MovesOnly,
        Column::SwapsOnly,
        Column::NoImbalance,
        Column::NoPayback,
        Column::RateLimited,
        Column::PassDecay,
    ];

    /// Name for tables.
    pub fn name(self) -> &'static str {
        match self {
            Column::Pinned => "pinned",
            Column::NodeSet => "node set",
            Column::None => "none",
            Column::Numart => "numart",
            Column::MemoryOnly => "memory only",
            Column::TasksOnly => "tasks only",
            Column::NoGroupStep => "no group step",
            Column::NoInterleave => "no interleave",
            Column::MovesOnly => "moves only",
            Column::SwapsOnly => "swaps only",
            Column::NoImbalance => "no imbalance",
            Column::NoPayback => "no payback",
            Column::RateLimited => "rate limited",
            Column::PassDecay => "pass decay",
        }
    }

    /// The policy's rules in this column; none if it has no policy.
    pub fn rules(self) -> Option<Rules> {
        let all = Rules::default();
        let memory_only = Rules { group_step: false, moves: false, swaps: false, ..all };
        match self {
            Column::Pinned | Column::NodeSet | Column::None => None,
            Column::Numart => Some(all),
            Column::MemoryOnly => Some(memory_only),
            Column::TasksOnly => Some(Rules { extents: false, ..all }),
            Column::NoGroupStep => Some(Rules { group_step: false, ..all }),
            Column::NoInterleave => Some(Rules { interleave: false, ..all }),
            Column::MovesOnly => Some(Rules { group_step: false, swaps: false, ..all }),
            Column::SwapsOnly => Some(Rules { group_step: false, moves: false, ..all }),
            Column::NoImbalance => Some(Rules { small_imbalance: false, ..all }),
            Column::NoPayback => Some(Rules { payback: false, ..all }),
            Column::RateLimited => Some(Rules { interleave: false, ..all }),
            Column::PassDecay => Some(Rules { time_decay: false, ..all }),
        }
    }

    /// Whether the operating system, not numart, decides where tasks run.
    pub fn system_places(self) -> bool {
        matches!(self, Column::NodeSet | Column::None | Column::MemoryOnly)
    }

    /// Whether tasks and memory start where a careful user would pin them.
    pub fn starts_pinned(self) -> bool {
        matches!(self, Column::Pinned | Column::NodeSet)
    }
}
