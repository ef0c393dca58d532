//! Extents: memory follows its task, and only if that pays.
//!
//! - *Private* (one affinity had nine tenths of the bytes, two windows in a row): to the owner's home.
//! - One node had two thirds over two windows: to that node.
//! - Otherwise shared: see [`interleave`](super::interleave).
//!
//! A move must be expected to pay its copy twice before the owner changes, and it is expected to keep its owner as
//! long as it has kept it so far, or 10 s if it never churned. An extent whose owner changed before its last move had paid back is *churning*: it
//! is left alone, for twice as long each time. A failed move is tried again after a second and slows nothing else (T1).

use super::config::{FREE_SHARE, LINE, MAX_EXTENT_MOVES, OTHERS_SHARE, PAY_TIMES};
use super::cost::Placement;
use super::extent_history::{Brief, Decoded};
use super::interleave;
use super::node_set::{MAX_NODES, NodeSet};
use super::plan::{ExtentMove, ExtentReason, Weights};
use super::snapshot::{Extent, Snapshot};
use super::state::State;
use super::ties;

/// Seconds of one plan's moves: enough to keep the copier busy until the next pass, few enough to change one's mind.
const PLAN_SECONDS: f64 = 1.0;
/// Free memory a plan may still use, by node.
pub(crate) struct Free(Vec<f64>);

impl Free {
    pub(crate) fn new(snapshot: &Snapshot, n: usize) -> Self {
        let spare =
            |i: usize| snapshot.nodes[i].memory_free as f64 - FREE_SHARE * snapshot.nodes[i].memory_total as f64;
        Free((0..n).map(spare).collect())
    }

    /// Whether `bytes` fit on `node`.
    pub(crate) fn fits(&self, node: usize, bytes: f64) -> bool {
        self.0[node] >= bytes
    }

    /// Uses them up, if they fit.
    pub(crate) fn take(&mut self, node: usize, bytes: f64) -> bool {
        let fits = self.0[node] >= bytes;
        if fits {
            self.0[node] -= bytes;
        }
        fits
    }
}

/// Chooses the extents to move under the planned homes, and the shares shared memory should have.
///
/// `briefs` are those of [`fold`](super::extent_history::fold): most extents are where they belong, and their line of the
/// snapshot need not be read again.
pub(crate) fn plan(
    state: &mut State,
    snapshot: &Snapshot,
    briefs: &[Brief],
    planned: &Placement<'_>,
) -> (Vec<ExtentMove>, Vec<Weights>) {
    let view = planned.view;
    let n = view.n;
    let mut wanted: Vec<ExtentMove> = Vec::new();
    let mut shared: Vec<Vec<usize>> = vec![Vec::new(); view.groups.len()];
    let targets = private_targets(state, planned);
    for (index, brief) in briefs.iter().enumerate() {
        match brief.decode() {
            Decoded::Rests => continue,
            Decoded::Private { owner, at } if targets[owner] == Some(at) => continue,
            _ => {}
        }
        let extent = &snapshot.extents[index];
        let Some(history) = state.extents.get(extent.slot as usize) else {
            continue;
        };
        let at = usize::from(extent.node);
        if !extent.movable || at >= n || (extent.touched == 0 && view.memory.contains(at)) {
            continue;
        }
        let doubtful_now = history.fails && history.paused_until_ns > snapshot.now_ns;
        let misplaced = !view.memory.contains(at) && !snapshot.nodes[at].allowed;
        if misplaced && !view.memory.is_empty() && !doubtful_now {
            push(
                &mut wanted,
                extent,
                view.near[at],
                ExtentReason::NotAllowed,
                f64::INFINITY,
                state.config.migration_bytes_per_s,
            );
            continue;
        }
        let owner = extent.owner as usize;
        let group = view.affinities.get(owner).and_then(|a| a.group);
        if let Some((to, reason)) = follow(state, extent, planned) {
            let now = snapshot.now_ns;
            if to != at && !resting(state, extent, now) && !just_left(state, extent, to, now) {
                let user = match reason {
                    // Where it is used from: a thief that stayed is at the other end already.
                    ExtentReason::Private => {
                        let away = state.histories[owner].settled_away().filter(|&i| i < n);
                        away.or(planned.homes[owner].only()).unwrap_or(to)
                    }
                    _ => usize::from(history.top_node),
                };
                let scale = view.affinities.get(owner).map_or(1.0, |a| a.scale);
                let saved = view.line_s[user * n + at] - view.line_s[user * n + to];
                let gain = history.rate / LINE * scale * saved * history.stay_s(snapshot.now_ns);
                if pays(state, extent, gain) && saved > 0.0 {
                    push(&mut wanted, extent, to, reason, gain, state.config.migration_bytes_per_s);
                }
            }
        } else if let (Some(g), true) = (group, history.windows >= 2 && !history.private) {
            shared[g].push(index);
        }
    }
    let mut weights = Vec::new();
    let mut free = Free::new(snapshot, n);
    for m in &wanted {
        free.take(usize::from(m.to), m.bytes as f64);
    }
    for (g, extents) in shared.iter().enumerate() {
        interleave::plan(state, snapshot, planned, g, extents, &mut free, &mut wanted, &mut weights);
    }
    (limit(state, snapshot, wanted, n), weights)
}

/// For each affinity the node its settled private extents belong on, if that is the same for all of them.
fn private_targets(state: &State, planned: &Placement<'_>) -> Vec<Option<u8>> {
    let view = planned.view;
    let target = |(owner, home): (usize, &NodeSet)| {
        let home = home.only().filter(|&i| i < view.n)?;
        // Where else its memory may have to go is `follow`'s business.
        state.histories[owner].settled_away().is_none().then(|| view.near[home] as u8)
    };
    planned.homes.iter().enumerate().map(target).collect()
}

/// Where an extent that has one user should go.
fn follow(state: &State, extent: &Extent, planned: &Placement<'_>) -> Option<(usize, ExtentReason)> {
    let view = planned.view;
    let history = &state.extents[extent.slot as usize];
    let owner = extent.owner as usize;
    if history.private {
        if history.windows < 2 {
            return Some((usize::from(extent.node), ExtentReason::Private)); // wait and see
        }
        let home = match planned.homes[owner].only() {
            // A thief that stayed, or a long closure elsewhere: memory goes where it is used.
            Some(home) => state.histories[owner].settled_away().filter(|&i| i < view.n).unwrap_or(home),
            // A wide home has its memory spread over its nodes, and its loops run each part where it lies.
            None if planned.homes[owner].contains(usize::from(extent.node)) => {
                return Some((usize::from(extent.node), ExtentReason::Private));
            }
            None if history.top_windows >= 2 => usize::from(history.top_node),
            None => return Some((usize::from(extent.node), ExtentReason::Private)),
        };
        return (home < view.n).then(|| (view.near[home], ExtentReason::Private));
    }
    let top = usize::from(history.top_node);
    let persistent = history.top_windows >= 2 && top < view.n;
    // Samples are few: two windows of the same node are the two-stage filter; a group's shared extents then still go
    // by use (interleave), as the kernel's rule h/i does.
    let sampled_shared = extent.sampled && view.affinities.get(owner).is_some_and(|a| a.group.is_some());
    // Its users are about to leave that node: following would send it the wrong way.
    let stays = view.affinities.get(owner).is_none_or(|a| {
        a.group.map_or(planned.homes[owner].contains(top), |g| planned.group_cpus[g * view.n + top] > 1e-9)
    });
    // Nor is it this node's own if the node does that much of all the group's touching.
    let own = view.affinities.get(owner).and_then(|a| a.group).is_none_or(|g| {
        let others = 1.0 - view.group_use[g * view.n + top.min(view.n - 1)];
        1.0 - f64::from(history.top_share) <= OTHERS_SHARE * others
    });
    (persistent && stays && own && !sampled_shared).then(|| (view.near[top], ExtentReason::OneNode))
}

/// Whether a move pays its copy as often as it must.
pub(crate) fn pays(state: &State, extent: &Extent, gain_s: f64) -> bool {
    let copy_s = extent.bytes as f64 / state.config.migration_bytes_per_s.max(1.0);
    !state.config.rules.payback || gain_s >= PAY_TIMES * copy_s
}

/// Notes a wanted move.
pub(crate) fn push(
    wanted: &mut Vec<ExtentMove>,
    extent: &Extent,
    to: usize,
    reason: ExtentReason,
    gain_s: f64,
    pace: f64,
) {
    if to < MAX_NODES && to != usize::from(extent.node) {
        let copy_s = extent.bytes as f64 / pace.max(1.0);
        wanted.push(ExtentMove {
            slot: extent.slot,
            from: extent.node,
            to: to as u8,
            bytes: extent.bytes,
            reason,
            gain_s,
            copy_s,
        });
    }
}

/// Interleave gains that were judged; extents know what they wait for.
pub(crate) fn expected_stay(state: &State, extent: &Extent, now: u64) -> (f64, f64) {
    let history = &state.extents[extent.slot as usize];
    (history.rate, history.stay_s(now))
}

/// Whether the extent is to be left alone: it churns, or a move of it failed a moment ago.
pub(crate) fn resting(state: &State, extent: &Extent, now: u64) -> bool {
    state.config.rules.payback && state.extents[extent.slot as usize].paused_until_ns > now
}

/// Whether it was spread within the horizon its move was judged over. Of a group whose moves do not all come to pass (full
/// nodes, failing pages) small extents would otherwise fill in for big ones, to and fro.
pub(crate) fn just_spread(state: &State, extent: &Extent, now: u64) -> bool {
    state.extents[extent.slot as usize].just_spread(now)
}

/// Whether it left `node` within that time, for the same owner and on input that has not changed since: going back would only
/// show that one of the two moves was wrong.
pub(crate) fn just_left(state: &State, extent: &Extent, node: usize, now: u64) -> bool {
    state.extents[extent.slot as usize].just_left(node, now, state.changed_ns)
}

/// Whether moves of it have failed: it is tried, but nothing else is planned as if it would succeed.
pub(crate) fn doubtful(state: &State, extent: &Extent) -> bool {
    state.extents[extent.slot as usize].fails
}

/// Whether the extent's last move has not paid back yet.
pub(crate) fn unpaid(state: &State, extent: &Extent, now: u64) -> bool {
    state.config.rules.payback && state.extents[extent.slot as usize].pays_ns > now
}

/// The most rewarding moves that fit: about a second of copying, the free memory, and a count.
fn limit(state: &mut State, snapshot: &Snapshot, mut wanted: Vec<ExtentMove>, n: usize) -> Vec<ExtentMove> {
    let seed = state.config.seed;
    let better = |x: &ExtentMove, y: &ExtentMove| {
        let per_byte = |m: &ExtentMove| m.gain_s / (m.bytes.max(1) as f64);
        // To a tenth, so that noise in the gain does not decide the order: ties go by the hash.
        let step = |m: &ExtentMove| (per_byte(m).max(1e-300).ln() * 10.0).round();
        step(y)
            .total_cmp(&step(x))
            .then_with(|| ties::hash(seed, u64::from(x.slot), 3).cmp(&ties::hash(seed, u64::from(y.slot), 3)))
    };
    // On a machine without a single node for memory, the nearest such node is the task's own.
    wanted.retain(|m| snapshot.nodes[usize::from(m.to)].takes_memory());
    if wanted.len() > MAX_EXTENT_MOVES {
        wanted.select_nth_unstable_by(MAX_EXTENT_MOVES - 1, better);
        wanted.truncate(MAX_EXTENT_MOVES);
    }
    wanted.sort_unstable_by(better);
    let mut budget = PLAN_SECONDS * state.config.migration_bytes_per_s - snapshot.backlog_bytes as f64;
    let mut free = Free::new(snapshot, n);
    let mut planned = Vec::new();
    for m in wanted {
        // At least one extent however big, or a huge one would never move.
        if budget <= 0.0 {
            break;
        }
        if free.take(usize::from(m.to), m.bytes as f64) {
            budget -= m.bytes as f64;
            let stay = state.extents[m.slot as usize].stay_s(snapshot.now_ns).max(1e-3);
            let pay_s = if m.gain_s.is_finite() && m.gain_s > 0.0 {
                (PAY_TIMES * m.copy_s / (m.gain_s / stay)).min(3600.0)
            } else {
                0.0
            };
            state.extents[m.slot as usize].pays_ns = snapshot.now_ns.saturating_add((pay_s * 1e9) as u64).max(1);
            let spread = m.reason == ExtentReason::Interleave;
            state.extents[m.slot as usize].sent(m.from, spread, snapshot.now_ns);
            planned.push(m);
        }
    }
    planned
}
