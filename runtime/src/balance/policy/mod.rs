//! The balancing policy: a snapshot in, a plan out; no clocks, threads or randomness of its own.
//!
//! ```text
//!            Snapshot (one window: who used CPU, who touched what, where everything is)
//!                |
//!   state  <- fold: decayed statistics per affinity, history per extent    decay, state, extents
//!                |
//!            groups: joined by the user or by write-sharing                group_form
//!                |
//!            one cost: stall + copy + wait + queue                         view, cost
//!                |
//!      1.    group step: home sets, the whole machine packed afresh        group_step, home_set, topology_class
//!      2.    moves of single affinities                                    moves, imbalance
//!      3.    swaps of sets of equal CPU use                                swaps
//!      4.    extents follow, shared ones spread                            extents, interleave
//!      5.    copies of read-mostly data                                    replicas
//!      6.    time of the next pass                                         interval
//!                |
//!              Plan (every step with its reason as data)
//! ```
//!
//! Every step of 1 to 3 lowers the one cost by a margin, so a plan never raises predicted time, never undoes itself on
//! unchanged input, and comes to rest. Every tie is decided by a seeded hash ([`Config::seed`]); the same snapshots
//! give the same plans. `docs/balancer-rules.md` names for every rule its place, its reason, the source of its
//! constant and the test that fails without it.
//!
//! ```
//! use numart_runtime::balance::policy::{Affinity, Config, Kind, Node, NodeSet, Snapshot, State, Touch, plan};
//!
//! // Two nodes. The affinity lives on node 0; the memory it may not move is on node 1.
//! let mut state = State::new(Config::default());
//! let mut snapshot = Snapshot {
//!     nodes: vec![Node::new(4, 1 << 30), Node::new(4, 1 << 30)],
//!     distance: vec![10, 21, 21, 10],
//!     affinities: vec![Affinity { cpu_ns: 100_000_000, ..Affinity::new(7, NodeSet::single(0)) }],
//!     touches: vec![Touch { affinity: 0, memory: 1, using: 0, away: false, kind: Kind::Fixed, bytes: 64 << 20 }],
//!     ..Snapshot::default()
//! };
//! plan(&mut state, &snapshot); // the first snapshot has no length yet
//! snapshot.now_ns = 100_000_000;
//! let plan = plan(&mut state, &snapshot);
//! assert_eq!(plan.moves[0].to, NodeSet::single(1));
//! assert!(plan.predicted.1 < plan.predicted.0);
//! ```

mod config;
mod cost;
mod decay;
mod extent_history;
mod extents;
mod group_form;
mod group_step;
mod home_set;
mod imbalance;
mod interleave;
mod interval;
mod moves;
mod node_set;
mod plan;
mod replicas;
mod snapshot;
mod state;
mod swaps;
mod ties;
mod topology_class;
mod view;

pub use config::{Config, Rules};
pub use group_form::{JOIN_SHARE, SPLIT_SHARE};
pub use imbalance::allowed_imbalance;
pub use interval::must_wake;
pub use node_set::{MAX_NODES, NodeSet};
pub use plan::{
    ExtentMove, ExtentReason, GroupHome, GroupStep, Mode, Move, Plan, Reason, ReasonKind, ReplicaStep, Swap, Weights,
};
pub use snapshot::{Affinity, Extent, Kind, NO_AFFINITY, Node, ReadMostly, Snapshot, Touch, WriteShare};
pub use state::State;
pub use topology_class::{TopologyClass, topology_class};

use cost::{Cost, Placement};
use extent_history::{Holdings, Scratch};
use view::View;

/// One pass: adds the window in `snapshot` to `state` and says what to do.
///
/// Nodes beyond [`MAX_NODES`] and entries that name affinities or nodes that do not exist are ignored; nothing panics.
/// The first snapshot has no length, so it only starts the clock.
///
/// Cost: linear in extents and touches, affinities x nodes for the group step, and a bounded number of tried moves;
/// 64 nodes, 10,000 affinities and 1,000,000 extents took 44 ms (median; `cargo bench --bench plan`) on two cores of a 2.6 GHz
/// Xeon, the very first pass 74 ms, which gets its memory from the system.
pub fn plan(state: &mut State, snapshot: &Snapshot) -> Plan {
    let elapsed_s = state.elapsed_s(snapshot);
    state.fold_affinities(snapshot, elapsed_s);
    state.fold_capacity(snapshot, elapsed_s);
    let config = state.config;
    let group_steps = state.pairs.fold(snapshot, &state.histories, elapsed_s, &config);
    // A clock that ran backwards starts a new window at the old time: nothing is counted twice.
    state.last_ns = Some(snapshot.now_ns);
    let mut plan = Plan::nothing(state.interval);
    plan.group_steps = group_steps;
    if snapshot.nodes.is_empty() {
        return plan;
    }
    let (group_of, groups) = group_form::groups(snapshot, &state.pairs);
    let memory = view::nodes_that(snapshot, Node::takes_memory);
    let folded = extent_history::fold(state, snapshot, elapsed_s, &group_of, groups, memory);
    let mut view = View::new(snapshot, state, &group_of, folded.holdings);
    (plan.mode, plan.local_share) = interval::measure(state, snapshot, &group_of, groups);

    let start = Placement::new(&view, view.affinities.iter().map(|a| a.home).collect());
    let (planned, swaps, before) = place(state, snapshot, &view, &start);
    describe(snapshot, &start, before, &planned, &swaps, &mut plan);
    for (a, history) in state.histories.iter_mut().enumerate() {
        if planned.homes[a] != start.homes[a] {
            history.moved = Some((snapshot.now_ns, start.homes[a]));
        }
    }
    state.expected = Some(plan.predicted.1);
    if config.rules.extents {
        (plan.extents, plan.weights) = extents::plan(state, snapshot, &folded.briefs, &planned);
    }
    plan.replicas = replicas::plan(state, snapshot, &view, elapsed_s);
    plan.next_pass = interval::next(state, snapshot, folded.touched_bytes, &plan);
    state.scratch = Scratch::keep(std::mem::take(&mut view.held), folded.briefs);
    plan
}

/// Predicted time lost per second if the affinities of `snapshot` had these homes, under the statistics in `state`
/// (which the snapshot must have been folded into by [`plan`]). For tests and for showing alternatives to a user.
pub fn predicted_time(state: &State, snapshot: &Snapshot, homes: &[NodeSet]) -> f64 {
    let (group_of, groups) = group_form::groups(snapshot, &state.pairs);
    let view = View::new(snapshot, state, &group_of, Holdings::of(snapshot, state, &group_of, groups));
    Placement::new(&view, homes.to_vec()).cost().sum()
}

/// Steps 1 to 3: the planned homes, and the swaps among the changes.
fn place<'v>(
    state: &mut State,
    snapshot: &Snapshot,
    view: &'v View,
    start: &Placement<'v>,
) -> (Placement<'v>, Vec<swaps::Made>, Cost) {
    let mut homes = start.homes.clone();
    for (a, home) in homes.iter_mut().enumerate() {
        *home = usable_home(view, a, *home);
    }
    let mut placement = Placement::new(view, homes);
    // A home that may not be used has no price: what the plan is compared with starts after these forced moves.
    let forced = placement.cost();
    state.notice_change(forced.sum(), snapshot.now_ns);
    if view.rules.group_step
        && let Some(homes) = group_step::repack(state, snapshot, &placement)
    {
        placement = Placement::new(view, homes);
    }
    let mut budget = moves::Budget::new();
    if view.rules.moves {
        moves::improve(state, snapshot, &mut placement, &mut budget);
    }
    let swaps =
        if view.rules.swaps { swaps::improve(state, snapshot, &mut placement, &mut budget) } else { Vec::new() };
    // Sums that were changed step by step are off in the last digits: what is reported is counted afresh.
    let planned = Placement::new(view, placement.homes);
    debug_assert!(planned.cost().sum() <= forced.sum() * (1.0 + 1e-6) + 1e-6);
    (planned, swaps, forced)
}

/// The home itself if it may be used; else what of it may, else the nearest node that may.
fn usable_home(view: &View, a: usize, home: NodeSet) -> NodeSet {
    if let Some(pinned) = view.affinities[a].pinned {
        return pinned;
    }
    let rest = home.intersection(view.tasks);
    if !rest.is_empty() || view.tasks.is_empty() {
        return if rest.is_empty() { home } else { rest };
    }
    let from = home.lowest().filter(|&i| i < view.n).unwrap_or(0);
    let mut contest = ties::Cheapest::new(view.seed, view.affinities[a].id);
    for i in view.tasks.iter() {
        contest.offer(view.line_s[from * view.n + i], i as u64, NodeSet::single(i));
    }
    contest.take().map_or(home, |(_, set)| set)
}

/// Turns the difference between two placements into steps with reasons.
fn describe(
    snapshot: &Snapshot,
    start: &Placement<'_>,
    before: Cost,
    planned: &Placement<'_>,
    made: &[swaps::Made],
    plan: &mut Plan,
) {
    let view = start.view;
    let after = planned.cost();
    plan.predicted = (before.sum(), after.sum());
    let whole = |kind| Reason { kind, before: before.sum(), after: after.sum() };
    let mut told = vec![false; view.affinities.len()];
    for swap in made {
        let (from, to) = (NodeSet::single(swap.from), NodeSet::single(swap.to));
        let went = |a: usize, x: NodeSet, y: NodeSet| start.homes[a] == x && planned.homes[a] == y;
        if went(swap.a, from, to) && swap.b.iter().all(|&b| went(b, to, from)) {
            told[swap.a] = true;
            swap.b.iter().for_each(|&b| told[b] = true);
            let members = |list: &[usize]| list.iter().map(|&a| a as u32).collect();
            plan.swaps.push(Swap {
                a: members(&[swap.a]),
                b: members(&swap.b),
                node_a: swap.from as u8,
                node_b: swap.to as u8,
                reason: whole(moves::reason(before, after)),
            });
        }
    }
    let sets =
        |p: &Placement<'_>, g: usize| view.groups[g].members.iter().fold(NodeSet::EMPTY, |s, &a| s.union(p.homes[a]));
    let mut regrouped = vec![false; view.groups.len()];
    for (g, group) in view.groups.iter().enumerate() {
        let (from, to) = (sets(start, g), sets(planned, g));
        regrouped[g] = from != to;
        if from != to {
            plan.group_homes.push(GroupHome {
                group: group.id,
                from,
                to,
                demand: group.demand,
                reason: whole(kind_of(before, after, ReasonKind::GroupHome)),
            });
        }
    }
    for (a, affinity) in view.affinities.iter().enumerate() {
        let (from, to) = (start.homes[a], planned.homes[a]);
        if from == to || told[a] {
            continue;
        }
        let kind = if !from.is_subset(view.tasks) || from.is_empty() {
            ReasonKind::NotAllowed
        } else if affinity.group.is_some_and(|g| regrouped[g]) {
            kind_of(before, after, ReasonKind::GroupHome)
        } else {
            moves::reason(before, after)
        };
        plan.moves.push(Move { affinity: a as u32, from, to, reason: whole(kind) });
    }
    debug_assert!(snapshot.affinities.len() == view.affinities.len());
}

/// `kind`, unless memory time rises: then the reason can only be load or bandwidth.
fn kind_of(before: Cost, after: Cost, kind: ReasonKind) -> ReasonKind {
    if after.stall <= before.stall + 1e-12 { kind } else { moves::reason(before, after) }
}
