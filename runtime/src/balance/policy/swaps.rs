//! Swaps: sets of affinities of equal CPU use change places, for when the target has no room.

use super::config::{SMALL_GAIN, SWAP_MARGIN};
use super::cost::Placement;
use super::moves::{Budget, bar, may_move, order};
use super::node_set::NodeSet;
use super::snapshot::Snapshot;
use super::state::State;
use super::ties::Cheapest;

/// Partners weighed in full per swap: the ones that lose least. Ten is the tasks of one node on seed 0's machine.
const PARTNERS: usize = 10;
/// Members of a set exchanged against one affinity at most.
const SET: usize = 8;

/// A swap that was made.
pub(crate) struct Made {
    pub a: usize,
    pub b: Vec<usize>,
    pub from: usize,
    pub to: usize,
}

/// Improves `placement` by swaps; returns those made.
pub(crate) fn improve(
    state: &mut State,
    snapshot: &Snapshot,
    placement: &mut Placement<'_>,
    budget: &mut Budget,
) -> Vec<Made> {
    let view = placement.view;
    let mut made: Vec<Made> = Vec::new();
    let mut used = vec![false; placement.homes.len()];
    for _round in 0..2 {
        let count = made.len();
        let mut members = at_nodes(placement);
        let list: Vec<usize> = order(state, placement.homes.len()).collect();
        for a in list {
            let Some(from) = placement.homes[a].only() else {
                continue;
            };
            if used[a] || !may_move(state, snapshot, placement, a) {
                continue;
            }
            let wanted = wanted(placement, a, from);
            for to in wanted.iter() {
                if state.just_left(a, NodeSet::single(to), snapshot.now_ns) {
                    continue;
                }
                match try_swap(state, snapshot, placement, a, from, to, &members[to], &used, budget) {
                    Some(b) if !b.is_empty() => {
                        used[a] = true;
                        b.iter().for_each(|&b| used[b] = true);
                        made.push(Made { a, b, from, to });
                        members = at_nodes(placement);
                        break;
                    }
                    Some(_) => {}
                    None => {
                        state.search_from = a;
                        return made;
                    }
                }
            }
        }
        if made.len() == count {
            break;
        }
    }
    debug_assert!(view.n <= super::MAX_NODES);
    made
}

fn at_nodes(placement: &Placement<'_>) -> Vec<Vec<usize>> {
    let mut at = vec![Vec::new(); placement.view.n];
    for (a, home) in placement.homes.iter().enumerate() {
        if let Some(i) = home.only().filter(|&i| i < at.len()) {
            at[i].push(a);
        }
    }
    at
}

/// Full nodes where `a` would be cheaper by itself, or where more of its group is.
fn wanted(placement: &Placement<'_>, a: usize, from: usize) -> NodeSet {
    let view = placement.view;
    let affinity = &view.affinities[a];
    let here = placement.own_cost(a, NodeSet::single(from));
    let slack = SMALL_GAIN * (here.0 + 1e-9);
    view.tasks
        .iter()
        .filter(|&i| i != from && placement.load[i] + affinity.demand > view.full(i))
        .filter(|&i| {
            let there = placement.own_cost(a, NodeSet::single(i));
            let own = there.0 + there.1 + slack < here.0 + here.1;
            let group = affinity.group.is_some_and(|g| {
                let cpus = |i: usize| placement.group_cpus[g * view.n + i];
                affinity.shared > 0.0 && cpus(i) > cpus(from) - affinity.demand * 0.5
            });
            own || group
        })
        .fold(NodeSet::EMPTY, |set, i| set.union(NodeSet::single(i)))
}

/// Makes the best swap of `a` with affinities of `to`, if one is worth it. Empty: none was. None: out of trials.
#[allow(clippy::too_many_arguments)] // one call site; a struct would only rename them
fn try_swap(
    state: &State,
    snapshot: &Snapshot,
    placement: &mut Placement<'_>,
    a: usize,
    from: usize,
    to: usize,
    members: &[usize],
    used: &[bool],
    budget: &mut Budget,
) -> Option<Vec<usize>> {
    let view = placement.view;
    let demand = view.affinities[a].demand;
    let here = NodeSet::single(from);
    let mut partners: Vec<(f64, usize)> = members
        .iter()
        .copied()
        .filter(|&b| b != a && !used[b] && placement.homes[b] == NodeSet::single(to))
        .filter(|&b| may_move(state, snapshot, placement, b))
        .filter(|&b| !state.just_left(b, here, snapshot.now_ns))
        .map(|b| {
            let (stay, go) = (placement.own_cost(b, NodeSet::single(to)), placement.own_cost(b, here));
            // Per CPU, so that small ones are not preferred for being small.
            let same_group = view.affinities[a].group.is_some() && view.affinities[a].group == view.affinities[b].group;
            let leaving =
                if same_group { 0.0 } else { tie_to_group(placement, b, to) - tie_to_group(placement, b, from) };
            let loss = go.0 + go.1 - stay.0 - stay.1 + leaving;
            (loss / view.affinities[b].demand.max(1e-6), b)
        })
        .collect();
    partners.sort_by(|x, y| x.0.total_cmp(&y.0).then(view.affinities[x.1].id.cmp(&view.affinities[y.1].id)));
    let equal = |sum: f64| (sum - demand).abs() <= 0.1 * demand + 1e-9;
    let mut sets: Vec<Vec<usize>> =
        partners.iter().filter(|p| equal(view.affinities[p.1].demand)).take(PARTNERS).map(|p| vec![p.1]).collect();
    // And the several small ones that together use as much.
    let mut sum = 0.0;
    let mut set = Vec::new();
    for &(_, b) in partners.iter().filter(|p| view.affinities[p.1].demand < 0.9 * demand) {
        if set.len() < SET && sum + view.affinities[b].demand <= demand * 1.1 {
            sum += view.affinities[b].demand;
            set.push(b);
        }
    }
    if set.len() > 1 && equal(sum) {
        sets.push(set);
    }
    let bar = bar(placement, a, SMALL_GAIN + SWAP_MARGIN);
    // Within a group only the members' own costs change: no need to try what they already tell.
    let here_there = |x: usize, i: usize| {
        let (stall, copy) = placement.own_cost(x, NodeSet::single(i));
        stall + copy
    };
    let gain_a = here_there(a, from) - here_there(a, to);
    let group = view.affinities[a].group;
    sets.retain(|set| {
        let same = group.is_some() && set.iter().all(|&b| view.affinities[b].group == group);
        let loss: f64 = set.iter().map(|&b| here_there(b, from) - here_there(b, to)).sum();
        !same || gain_a - loss > bar
    });
    if sets.is_empty() {
        return Some(Vec::new());
    }
    let before = placement.cost().sum();
    let mut contest = Cheapest::new(view.seed, view.affinities[a].id);
    for set in sets {
        if !budget.spend() {
            return None;
        }
        exchange(placement, a, &set, to, from);
        let gain = before - placement.cost().sum();
        exchange(placement, a, &set, from, to);
        if gain > bar {
            contest.offer(-gain, view.affinities[set[0]].id, set);
        }
    }
    let best = contest.take().map(|(_, set)| set).unwrap_or_default();
    if !best.is_empty() {
        exchange(placement, a, &best, to, from);
    }
    Some(best)
}

/// How much of its shared traffic keeps `b` at a node: lines times the share of its group there.
fn tie_to_group(placement: &Placement<'_>, b: usize, node: usize) -> f64 {
    let view = placement.view;
    let Some(g) = view.affinities[b].group else {
        return 0.0;
    };
    let share = placement.group_cpus[g * view.n + node] / view.groups[g].demand.max(1e-9);
    view.affinities[b].shared * share * super::config::LOCAL_LINE_S
}

fn exchange(placement: &mut Placement<'_>, a: usize, set: &[usize], a_to: usize, set_to: usize) {
    placement.set_home(a, NodeSet::single(a_to));
    for &b in set {
        placement.set_home(b, NodeSet::single(set_to));
    }
}
