//! Single moves: an affinity goes to its memory, to its group, or to where it waits less.
//!
//! A plain move is always tried, also when every CPU of the target is busy: trying swaps only is how the kernel of
//! before 2014 failed to converge (seed 3). Every candidate is weighed by the true change of the whole cost, never by
//! a shortcut (T4), and distances are those to the very node tried (T3).

use super::config::{MAX_TRIALS, RESETTLE, SMALL_GAIN};
use super::cost::{Cost, Placement};
use super::imbalance::allowed_imbalance;
use super::node_set::NodeSet;
use super::plan::ReasonKind;
use super::snapshot::Snapshot;
use super::state::State;
use super::ties::{self, Cheapest};

/// What the search may still do in this pass.
pub(crate) struct Budget {
    trials: usize,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Budget { trials: MAX_TRIALS }
    }

    /// Takes one trial; false when there is none left.
    pub(crate) fn spend(&mut self) -> bool {
        let left = self.trials > 0;
        self.trials = self.trials.saturating_sub(1);
        left
    }
}

/// Why the change from `before` to `after` is good: less memory time, or else less waiting or queueing.
pub(crate) fn reason(before: Cost, after: Cost) -> ReasonKind {
    let stall = after.stall - before.stall;
    if stall <= 1e-12 {
        let others = [
            (ReasonKind::Memory, before.stall + before.copy - after.stall - after.copy),
            (ReasonKind::Load, before.wait - after.wait),
            (ReasonKind::Bandwidth, before.queue - after.queue),
        ];
        let most = others.into_iter().max_by(|x, y| x.1.total_cmp(&y.1));
        return most.map_or(ReasonKind::Memory, |m| m.0);
    }
    if before.wait - after.wait >= before.queue - after.queue { ReasonKind::Load } else { ReasonKind::Bandwidth }
}

/// The affinities in the order the search looks at them: it goes on where the last pass ran out of trials.
pub(crate) fn order(state: &State, count: usize) -> impl Iterator<Item = usize> {
    let start = if count == 0 { 0 } else { state.search_from % count };
    (0..count).map(move |k| (start + k) % count)
}

/// Whether the policy may give `a` another home now: free, and its statistics have settled since the last time.
pub(crate) fn may_move(state: &State, snapshot: &Snapshot, placement: &Placement<'_>, a: usize) -> bool {
    let view = placement.view;
    let settled = state.histories[a].moved.is_none_or(|(at, _)| {
        let since = snapshot.now_ns.saturating_sub(at);
        since >= RESETTLE.as_nanos() as u64 || snapshot.now_ns < at
    });
    view.affinities[a].pinned.is_none() && settled
}

/// What a step of `a` must gain: a share of its memory time, and a little of its CPU time so that nothing wanders for
/// nothing.
pub(crate) fn bar(placement: &Placement<'_>, a: usize, share: f64) -> f64 {
    let view = placement.view;
    let affinity = &view.affinities[a];
    let own = placement.own_cost(a, placement.homes[a]).0;
    let shared = affinity.shared * super::config::LOCAL_LINE_S;
    share * (own + shared) + 1e-3 * affinity.demand + 1e-9
}

/// Improves `placement` by single moves until none is worth it or the budget is spent.
pub(crate) fn improve(state: &mut State, snapshot: &Snapshot, placement: &mut Placement<'_>, budget: &mut Budget) {
    for _round in 0..3 {
        let mut moved = false;
        let list: Vec<usize> = order(state, placement.homes.len()).collect();
        for a in list {
            if !may_move(state, snapshot, placement, a) {
                continue;
            }
            match best(state, snapshot, placement, a, budget) {
                Ok(Some(to)) => {
                    placement.set_home(a, NodeSet::single(to));
                    moved = true;
                }
                Ok(None) => {}
                Err(OutOfTrials) => {
                    state.search_from = a;
                    return;
                }
            }
        }
        if !moved {
            return;
        }
    }
}

struct OutOfTrials;

/// The node `a` should move to, if any is worth it.
fn best(
    state: &State,
    snapshot: &Snapshot,
    placement: &mut Placement<'_>,
    a: usize,
    budget: &mut Budget,
) -> Result<Option<usize>, OutOfTrials> {
    let Some(from) = placement.homes[a].only() else {
        return Ok(None); // a wide home is the group step's business
    };
    let candidates = candidates(placement, a, from);
    if candidates.is_empty() {
        return Ok(None);
    }
    // Counting the whole cost takes longer than to see that most candidates are not worth it.
    let mut before = None;
    let bar = bar(placement, a, SMALL_GAIN);
    let view = placement.view;
    let mut contest = Cheapest::new(view.seed, view.affinities[a].id);
    for to in candidates.iter() {
        if state.just_left(a, NodeSet::single(to), snapshot.now_ns) || placement.move_gain_at_most(a, from, to) <= bar {
            continue;
        }
        if !budget.spend() {
            return Err(OutOfTrials);
        }
        let before = *before.get_or_insert_with(|| placement.cost());
        let after = placement.try_home(a, NodeSet::single(to));
        let gain = before.sum() - after.sum();
        if gain <= bar || !load_is_reason_enough(snapshot, placement, a, from, to, reason(before, after)) {
            continue;
        }
        contest.offer(-gain, to as u64, to);
    }
    Ok(contest.take().map(|(_, to)| to))
}

/// A move for load alone must mend more than the small imbalance that is allowed.
fn load_is_reason_enough(
    snapshot: &Snapshot,
    placement: &Placement<'_>,
    a: usize,
    from: usize,
    to: usize,
    kind: ReasonKind,
) -> bool {
    let view = placement.view;
    if kind != ReasonKind::Load || !view.rules.small_imbalance || !view.tasks.contains(from) {
        return true;
    }
    // Kernel: the allowance is for nodes with room to spare. Who waits may always go where nobody will.
    let demand = view.affinities[a].demand;
    if placement.load[from] > view.full(from) && placement.load[to] + demand <= view.full(to) {
        return true;
    }
    let fullness = |i: usize| placement.load[i] / view.cap[i].max(1e-3);
    let lead = (fullness(from) - fullness(to)) * view.cap[from];
    lead > allowed_imbalance(&snapshot.nodes[from]).min(view.cap[from] * 0.5).max(demand)
}

/// Nodes worth trying: where its own memory is cheapest, where its group runs, and, from a node where it waits or
/// queues, the nearest nodes with room or with the least traffic.
fn candidates(placement: &Placement<'_>, a: usize, from: usize) -> NodeSet {
    let view = placement.view;
    let n = view.n;
    let affinity = &view.affinities[a];
    let mut set = NodeSet::EMPTY;
    if affinity.held_total > 0.0 || affinity.fixed_total > 0.0 {
        let mut contest = Cheapest::new(view.seed, affinity.id);
        // With no fixed memory and its own memory where it goes, only what must be copied differs: where it holds nothing it
        // is the same everywhere, and never less than where it holds something.
        let own_memory = view.tasks.is_subset(view.memory);
        let held = &view.held[a * n..(a + 1) * n];
        let everything = affinity.fixed_total > 0.0 || !own_memory || held[from] <= 0.0;
        for i in view.tasks.iter().filter(|&i| everything || held[i] > 0.0 || affinity.home.contains(i)) {
            let (stall, copy) = placement.own_cost(a, NodeSet::single(i));
            contest.offer(stall + copy, i as u64, i);
        }
        if let Some((_, i)) = contest.take() {
            set = set.union(NodeSet::single(i));
        }
    }
    if let Some(g) = affinity.group {
        for i in view.tasks.iter().filter(|&i| placement.group_cpus[g * n + i] > 1e-9) {
            set = set.union(NodeSet::single(i));
        }
    }
    let waits = placement.load[from] > view.full(from);
    let uneven = !view.rules.small_imbalance;
    if waits || uneven {
        // One per distance is enough: the emptiest of the nearest, of the next, and so on.
        let mut near: Vec<usize> = view.tasks.iter().filter(|&i| i != from).collect();
        near.sort_by(|&x, &y| {
            let free = |i: usize| view.fair_cap(i) - placement.load[i];
            view.line_s[from * n + x].total_cmp(&view.line_s[from * n + y]).then(free(y).total_cmp(&free(x))).then_with(
                || ties::hash(view.seed, affinity.id, x as u64).cmp(&ties::hash(view.seed, affinity.id, y as u64)),
            )
        });
        let mut last = f64::NAN;
        for i in near {
            if view.line_s[from * n + i] != last {
                set = set.union(NodeSet::single(i));
                last = view.line_s[from * n + i];
            }
        }
    }
    let memory = view.near[from];
    if affinity.private + affinity.shared > 0.0 && placement.lines[memory] > 0.5 * view.line_cap[memory] {
        let mut contest = Cheapest::new(view.seed, affinity.id);
        for i in view.tasks.iter().filter(|&i| i != from) {
            let m = view.near[i];
            contest.offer(placement.lines[m] / view.line_cap[m], i as u64, i);
        }
        if let Some((_, i)) = contest.take() {
            set = set.union(NodeSet::single(i));
        }
    }
    set.minus(NodeSet::single(from))
}
