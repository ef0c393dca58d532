//! Pseudo-interleaving: a group's shared extents lie over its active nodes in proportion to use and bandwidth.
//!
//! Only what is too much on one node moves, to the node that has too little, with a hysteresis of 9/10 on the
//! ratio of what a node holds to what it should hold; so a spread that is about right is left alone.

use super::config::{LINE, LOCAL_LINE_S, SPREAD_HYSTERESIS};
use super::cost::{Placement, spread};
use super::extents::{Free, doubtful, expected_stay, just_left, just_spread, pays, push, resting, unpaid};
use super::node_set::MAX_NODES;
use super::plan::{ExtentMove, ExtentReason, Weights};
use super::snapshot::Snapshot;
use super::state::State;
use super::ties::{self, Cheapest};

#[allow(clippy::too_many_arguments)] // one call site; a struct would only rename them
/// Plans group `g`'s shared extents (`extents`: indices into the snapshot) and reports its shares.
pub(crate) fn plan(
    state: &State,
    snapshot: &Snapshot,
    planned: &Placement<'_>,
    g: usize,
    extents: &[usize],
    free: &mut Free,
    wanted: &mut Vec<ExtentMove>,
    weights_out: &mut Vec<Weights>,
) {
    let view = planned.view;
    let n = view.n;
    let group = &view.groups[g];
    let mut weights = [0.0; MAX_NODES];
    let weights = &mut weights[..n];
    spread(view, &planned.group_cpus[g * n..(g + 1) * n], weights);
    if weights.iter().sum::<f64>() <= 0.0 {
        return;
    }
    let active: Vec<usize> = (0..n).filter(|&i| weights[i] > 0.0).collect();
    if active.len() > 1 {
        let shares = weights.iter().enumerate().filter(|(_, w)| **w > 0.0).map(|(i, w)| (i as u8, *w)).collect();
        weights_out.push(Weights { group: group.id, shares });
    }
    if !view.rules.interleave && active.len() > 1 {
        return;
    }
    let mut have = vec![0.0; n];
    for &e in extents {
        have[usize::from(snapshot.extents[e].node)] += snapshot.extents[e].bytes as f64;
    }
    let total: f64 = have.iter().sum();
    let mut order: Vec<usize> = extents.to_vec();
    order.sort_by_cached_key(|&e| ties::hash(view.seed, group.id, u64::from(snapshot.extents[e].slot)));
    // Seconds per line from a memory node to the group's tasks, by use.
    let reach = |m: usize| -> f64 {
        let cpus = &planned.group_cpus[g * n..(g + 1) * n];
        cpus.iter().enumerate().map(|(i, c)| c * view.line_s[i * n + m]).sum::<f64>() / group.demand.max(1e-9)
    };
    for e in order {
        let extent = &snapshot.extents[e];
        let from = usize::from(extent.node);
        // What rests still counts as held, or the others would move for it and back.
        if unpaid(state, extent, snapshot.now_ns) || resting(state, extent, snapshot.now_ns) {
            continue;
        }
        // On a node that still counts it stays for a while; from one that does not it may leave at once.
        if weights[from] > 0.0 && just_spread(state, extent, snapshot.now_ns) {
            continue;
        }
        let mut contest = Cheapest::new(view.seed, u64::from(extent.slot));
        for &to in active.iter().filter(|&&to| to != from) {
            // A move that will not fit must not be counted as made: the small extents would make way for it and back.
            if !just_left(state, extent, to, snapshot.now_ns) && free.fits(to, extent.bytes as f64) {
                contest.offer(have[to] / weights[to], to as u64, to);
            }
        }
        let Some((fullness, to)) = contest.take() else {
            continue;
        };
        let bytes = extent.bytes as f64;
        let (now, then) = (have[from] / weights[from].max(1e-12), (have[to] + bytes) / weights[to]);
        if weights[from] > 0.0 && (fullness >= now * SPREAD_HYSTERESIS || then > now) {
            continue;
        }
        // What it saves: latency if it comes nearer, and the queue it leaves, taken as in proportion to the excess.
        let (rate, stay) = expected_stay(state, extent, snapshot.now_ns);
        let relief = if weights[from] > 0.0 { 1.0 - then / now } else { (have[from] / total.max(1.0)).min(1.0) };
        let per_line = reach(from) - reach(to) + LOCAL_LINE_S * relief;
        let gain = rate / LINE * group.scale * per_line * stay;
        if per_line > 0.0 && pays(state, extent, gain) {
            push(wanted, extent, to, ExtentReason::Interleave, gain, state.config.migration_bytes_per_s);
            free.take(to, bytes);
            if !doubtful(state, extent) {
                have[from] -= bytes;
                have[to] += bytes;
            }
        }
    }
}
