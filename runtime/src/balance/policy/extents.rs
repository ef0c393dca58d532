//! Extents: memory follows its task, and only if that pays.
//!
//! - *Private* (one affinity had nine tenths of the bytes, two windows in a row): to the owner's home.
//! - One node had two thirds over two windows: to that node.
//! - Otherwise shared: see [`interleave`](super::interleave).
//!
//! A move must be expected to pay its copy twice before the owner changes, and it is expected to keep its owner as
//! long as it has kept it so far, or 10 s if it never churned. An extent whose owner changed before its last move had paid back is *churning*: it
//! is left alone, for twice as long each time. A failed move is tried again after a second and slows nothing else (T1).

use super::config::{
    CHURN_PAUSE, CHURN_PAUSE_MAX, FOLLOW_SHARE, FREE_SHARE, FRESH_STAY, HORIZON, LINE, MAX_EXTENT_MOVES, OTHERS_SHARE,
    PAY_TIMES, PRIVATE_SHARE,
};
use super::cost::Placement;
use super::interleave;
use super::node_set::MAX_NODES;
use super::plan::{ExtentMove, ExtentReason, Weights};
use super::snapshot::{Extent, NO_AFFINITY, Snapshot};
use super::state::State;
use super::ties;

/// Pause of an extent whose migration failed: its page is pinned or in use, which rarely lasts.
const FAILED_PAUSE_NS: u64 = 1_000_000_000;
/// Seconds of one plan's moves: enough to keep the copier busy until the next pass, few enough to change one's mind.
const PLAN_SECONDS: f64 = 1.0;
/// Slots a snapshot may use; a higher one is ignored (4 million extents of 2 MiB are 8 TiB).
const MAX_SLOTS: u32 = 1 << 22;

/// What is remembered of one extent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExtentHistory {
    generation: u32,
    /// Windows in a row with the same owner, and with the same node on top.
    windows: u8,
    top_windows: u8,
    top_node: u8,
    /// Share of the last window's bytes that node had.
    top_share: f32,
    churns: u8,
    /// Where it was, and whether moves of it failed since it got there.
    node: u8,
    fails: bool,
    private: bool,
    /// Id of the owner; any id while shared.
    owner: u64,
    since_ns: u64,
    /// Until when the last move has not paid back; 0 if there was none.
    pays_ns: u64,
    paused_until_ns: u64,
    /// When it was last spread; 0 if never.
    spread_ns: u64,
    /// The node it left then.
    spread_from: u8,
    /// Bytes touched per second, decayed.
    rate: f64,
    last_ns: u64,
}

impl ExtentHistory {
    /// Whether one affinity owns it.
    pub(crate) fn is_private(&self) -> bool {
        self.private
    }
}

/// The node that used an extent most in the window and its bytes: tasks at home, or an away node that has settled.
fn user(state: &State, extent: &Extent) -> (u8, u64) {
    let away = extent.owner != NO_AFFINITY
        && extent.away_bytes > extent.top_bytes
        && state
            .histories
            .get(extent.owner as usize)
            .is_some_and(|h| h.settled_away() == Some(usize::from(extent.away_node)));
    if away { (extent.away_node, extent.away_bytes) } else { (extent.top_node, extent.top_bytes) }
}

/// Adds the window to the histories. One step per extent.
pub(crate) fn fold(state: &mut State, snapshot: &Snapshot, elapsed_s: f64) {
    let slots = snapshot.extents.iter().map(|e| e.slot).filter(|&s| s < MAX_SLOTS).max();
    if let Some(most) = slots.filter(|&s| s as usize >= state.extents.len()) {
        state.extents.resize(most as usize + 1, ExtentHistory::default());
    }
    let now = snapshot.now_ns;
    let keep = (-elapsed_s / state.config.half_life.as_secs_f64().max(1e-3)).exp2();
    for extent in &snapshot.extents {
        let (node, bytes) = user(state, extent);
        let Some(history) = state.extents.get_mut(extent.slot as usize) else {
            continue;
        };
        if history.generation != extent.generation || history.last_ns == 0 {
            *history = ExtentHistory {
                generation: extent.generation,
                since_ns: now,
                owner: u64::MAX,
                ..ExtentHistory::default()
            };
        }
        history.last_ns = now.max(1);
        history.fails = extent.failed || (history.fails && history.node == extent.node);
        history.node = extent.node;
        if extent.failed {
            history.paused_until_ns = history.paused_until_ns.max(now.saturating_add(FAILED_PAUSE_NS));
        }
        if elapsed_s > 0.0 {
            let fresh = extent.touched as f64 / elapsed_s;
            history.rate = if history.rate == 0.0 { fresh } else { history.rate * keep + fresh * (1.0 - keep) };
        }
        if extent.touched == 0 {
            continue;
        }
        let whole = extent.touched as f64;
        let on_top = bytes as f64 >= FOLLOW_SHARE * whole;
        history.top_windows = match on_top {
            true if history.top_node == node => history.top_windows.saturating_add(1),
            true => 1,
            false => 0,
        };
        history.top_node = node;
        history.top_share = (bytes as f64 / whole) as f32;
        let affinity = snapshot.affinities.get(extent.owner as usize);
        let private = affinity.is_some() && extent.owner_bytes as f64 >= PRIVATE_SHARE * whole;
        let owner = if private { affinity.map_or(u64::MAX, |a| a.id) } else { history.owner };
        if private == history.private && owner == history.owner {
            history.windows = history.windows.saturating_add(1);
        } else {
            history.new_owner(owner, private, now);
        }
    }
}

impl ExtentHistory {
    fn new_owner(&mut self, owner: u64, private: bool, now: u64) {
        if self.pays_ns > now {
            // It was moved for someone who has left it before the copy was worth it.
            self.churns = self.churns.saturating_add(1);
            let pause = CHURN_PAUSE.saturating_mul(1 << u32::from(self.churns - 1).min(10)).min(CHURN_PAUSE_MAX);
            self.paused_until_ns = now.saturating_add(pause.as_nanos() as u64);
        }
        self.pays_ns = 0;
        (self.owner, self.private, self.since_ns, self.windows) = (owner, private, now, 1);
    }

    /// Seconds it is expected to stay with its owner: as long as it has so far, and long if it never churned.
    fn stay_s(&self, now: u64) -> f64 {
        let fresh = if self.churns == 0 { FRESH_STAY.as_secs_f64() } else { 0.0 };
        (now.saturating_sub(self.since_ns) as f64 * 1e-9).clamp(fresh, HORIZON.as_secs_f64())
    }
}

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
pub(crate) fn plan(state: &mut State, snapshot: &Snapshot, planned: &Placement<'_>) -> (Vec<ExtentMove>, Vec<Weights>) {
    let view = planned.view;
    let n = view.n;
    let mut wanted: Vec<ExtentMove> = Vec::new();
    let mut shared: Vec<Vec<usize>> = vec![Vec::new(); view.groups.len()];
    for (index, extent) in snapshot.extents.iter().enumerate() {
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
            if to != at && !resting(state, extent, snapshot.now_ns) {
                let user = if reason == ExtentReason::Private {
                    planned.homes[owner].only().unwrap_or(to)
                } else {
                    usize::from(history.top_node)
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

/// Whether it was spread within the last 30 s, the horizon its move was judged over. Of a group whose moves do not all
/// come to pass (full nodes, failing pages) small extents would otherwise fill in for big ones, to and fro.
pub(crate) fn just_spread(state: &State, extent: &Extent, now: u64) -> bool {
    let at = state.extents[extent.slot as usize].spread_ns;
    at != 0 && now >= at && now - at < HORIZON.as_nanos() as u64
}

/// Whether it was spread from `node` within that time, on input that has not changed since.
pub(crate) fn just_left(state: &State, extent: &Extent, node: usize, now: u64) -> bool {
    let history = &state.extents[extent.slot as usize];
    just_spread(state, extent, now) && usize::from(history.spread_from) == node && history.spread_ns > state.changed_ns
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
            if m.reason == ExtentReason::Interleave {
                let history = &mut state.extents[m.slot as usize];
                history.spread_ns = snapshot.now_ns.max(1);
                history.spread_from = m.from;
            }
            planned.push(m);
        }
    }
    planned
}
