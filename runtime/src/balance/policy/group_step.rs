//! The group step: every group gets a home set, the fewest and closest nodes that hold its CPU use.
//!
//! Moves and swaps of single tasks alone stick: a group scattered over too many nodes has its memory there too, calls
//! that local, and sees no gradient. So each pass packs all groups afresh, as if nobody had a home, and takes the
//! result only if the whole arrangement is cheaper by a margin:
//!
//! ```text
//! wide groups first (they need whole clusters), then by memory: who has most in one place chooses first
//!   candidate sets: grown from each node over the closest nodes with room, until they hold the group
//!   the cheapest set wins: latency inside it + copying what lies outside + queueing + moving
//! members go to the set's nodes by what they would lose elsewhere
//! ```

use super::config::{LOCAL_LINE_S, REPACK_GAIN};
use super::cost::{Placement, fractions};
use super::home_set::{Chooser, Unit, Used};
use super::node_set::NodeSet;
use super::snapshot::Snapshot;
use super::state::State;
use super::ties::{self, Cheapest};
use super::view::{View, with_slack};
use std::borrow::Cow;

/// Packs all groups afresh and returns the homes if they are better than `now` by a margin.
pub(crate) fn repack(state: &State, snapshot: &Snapshot, now: &Placement<'_>) -> Option<Vec<NodeSet>> {
    let view = now.view;
    if view.tasks.is_empty() || view.affinities.is_empty() {
        return None;
    }
    let homes = pack(snapshot, view);
    let changed: Vec<usize> = (0..homes.len()).filter(|&a| homes[a] != now.homes[a]).collect();
    if changed.is_empty() {
        return None;
    }
    if changed.iter().any(|&a| state.just_left(a, homes[a], snapshot.now_ns)) {
        return None;
    }
    let packed = Placement::new(view, homes);
    let gain = now.cost().sum() - packed.cost().sum();
    // The bar: a share of the memory time of those that would move, and a little of their CPU time so that groups
    // without memory do not wander for nothing.
    let bar: f64 = changed
        .iter()
        .map(|&a| {
            let own = now.own_cost(a, now.homes[a]).0;
            let affinity = &view.affinities[a];
            REPACK_GAIN * (own + affinity.shared * LOCAL_LINE_S) + 1e-3 * affinity.demand + 1e-9
        })
        .sum();
    (gain > bar).then_some(packed.homes)
}

fn pack(snapshot: &Snapshot, view: &View) -> Vec<NodeSet> {
    let n = view.n;
    let mut homes: Vec<NodeSet> = view.affinities.iter().map(|a| a.home).collect();
    let mut used = Used::nothing(n);
    // Those that cannot move take their room first.
    for (a, affinity) in view.affinities.iter().enumerate() {
        if let Some(pinned) = affinity.pinned {
            homes[a] = pinned;
            used.add(view, a, pinned);
        }
    }
    let chooser = Chooser::new(snapshot, view);
    let mut units = units(view);
    units.sort_by_cached_key(|unit| {
        let wide = unit.demand > with_slack(chooser.biggest);
        let most = unit.held.iter().copied().fold(0.0, f64::max);
        let first = if wide { unit.demand } else { most };
        // Descending; the values are not negative, so their bits are in their order.
        (!wide, !first.to_bits(), !unit.demand.to_bits(), ties::hash(view.seed, unit.key, 1))
    });
    for unit in &units {
        if let Some((set, fill)) = chooser.choose(unit, &used) {
            assign(view, unit, set, fill, &mut homes);
            for &a in &unit.members {
                used.add(view, a, homes[a]);
            }
        }
    }
    homes
}

fn units(view: &View) -> Vec<Unit<'_>> {
    let n = view.n;
    let mut units: Vec<Unit> = Vec::with_capacity(view.affinities.len());
    let mut of_group: Vec<Option<usize>> = vec![None; view.groups.len()];
    for (a, affinity) in view.affinities.iter().enumerate() {
        if affinity.pinned.is_some() {
            continue;
        }
        let index = match affinity.group {
            Some(g) => *of_group[g].get_or_insert_with(|| {
                units.push(Unit {
                    key: view.groups[g].id,
                    held_total: view.groups[g].held_total,
                    held: Cow::Owned(view.group_held[g * n..(g + 1) * n].to_vec()),
                    ..Unit::empty()
                });
                units.len() - 1
            }),
            None => {
                units.push(Unit {
                    key: affinity.id,
                    held: Cow::Borrowed(&view.held[a * n..(a + 1) * n]),
                    ..Unit::empty()
                });
                units.len() - 1
            }
        };
        let unit = &mut units[index];
        unit.members.push(a);
        unit.demand += affinity.demand;
        unit.variance += affinity.variance;
        unit.private += affinity.private;
        unit.shared += affinity.shared;
        unit.held_total += affinity.held_total;
        if let Cow::Owned(held) = &mut unit.held {
            held.iter_mut().zip(&view.held[a * n..]).for_each(|(sum, bytes)| *sum += bytes);
        }
        for (i, f) in fractions(view, affinity.home) {
            unit.add_now(i, f * affinity.demand);
        }
        if affinity.fixed_total > 0.0 {
            unit.fixed.resize(n, 0.0);
            unit.fixed_total += affinity.fixed_total;
            unit.fixed.iter_mut().zip(view.fixed(a)).for_each(|(sum, lines)| *sum += lines);
        }
    }
    units
}

/// Gives the members their nodes within the set: those that would lose most elsewhere choose first.
fn assign(view: &View, unit: &Unit, set: NodeSet, mut fill: Vec<f64>, homes: &mut [NodeSet]) {
    let n = view.n;
    if let Some(node) = set.only() {
        for &a in &unit.members {
            homes[a] = NodeSet::single(node);
        }
        return;
    }
    let biggest = set.iter().map(|i| view.fair_cap(i)).fold(0.0, f64::max);
    let used: NodeSet = set.iter().filter(|&i| fill[i] > 1e-9).fold(NodeSet::EMPTY, |s, i| s.union(NodeSet::single(i)));
    let used = if used.is_empty() { set } else { used };
    let mut costs: Vec<(f64, usize, Vec<f64>)> = unit
        .members
        .iter()
        .map(|&a| {
            let own: Vec<f64> = used
                .iter()
                .map(|i| {
                    let (stall, copy) = super::cost::own_cost(view, a, NodeSet::single(i));
                    stall + copy
                })
                .collect();
            let mut sorted = own.clone();
            sorted.sort_by(f64::total_cmp);
            (sorted.get(1).map_or(0.0, |second| second - sorted[0]), a, own)
        })
        .collect();
    costs.sort_by(|x, y| {
        let wide = |a: usize| view.affinities[a].demand > with_slack(biggest);
        wide(y.1).cmp(&wide(x.1)).then(y.0.total_cmp(&x.0)).then_with(|| {
            let tie = |a: usize| ties::hash(view.seed, view.affinities[a].id, 2);
            tie(x.1).cmp(&tie(y.1))
        })
    });
    for (_, a, own) in costs {
        let demand = view.affinities[a].demand;
        if demand > with_slack(biggest) {
            // More than any node has: the whole set is its home.
            homes[a] = used;
            let total: f64 = fill.iter().sum::<f64>().max(1e-9);
            let left = (1.0 - demand / total).max(0.0);
            fill.iter_mut().for_each(|f| *f *= left);
            continue;
        }
        let mut contest = Cheapest::new(view.seed, view.affinities[a].id);
        for (k, i) in used.iter().enumerate() {
            // Half a task over is still the nearest to what was planned; beyond it, by how much it is too full.
            let over = (demand * 0.5 - fill[i] - 1e-9).max(0.0);
            contest.offer(own[k] + over * 1e3, i as u64, i);
        }
        if let Some((_, i)) = contest.take() {
            homes[a] = NodeSet::single(i);
            fill[i] -= demand;
        }
    }
    debug_assert!(unit.members.iter().all(|&a| homes[a].iter().all(|i| i < n)));
}
