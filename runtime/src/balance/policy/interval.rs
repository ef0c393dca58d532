//! When the next pass comes: fast while remote, slowly when settled, by the four-mode table.
//!
//! | touches | next pass |
//! |---|---|
//! | none | slower |
//! | local, private | slower |
//! | local (active nodes of the group count), shared | slower |
//! | remote, private (the kernel slows down here: T2) | fast |
//! | remote, shared | fast |
//!
//! A local share that fell since the last pass, and a plan that moves affinities, are followed at the fastest pace, one that only copies when half of that is done,
//! whatever the touches say. Failed migrations have no say
//! at all (T1).

use super::config::{ACTIVE_FRACTION, LOCAL_THRESHOLD};
use super::node_set::MAX_NODES;
use super::plan::{Mode, Plan};
use super::snapshot::{Kind, Snapshot};
use super::state::State;
use std::time::Duration;

/// Extent moves below this share of the touched extents' bytes are trickle and do not hasten the next pass.
const TRICKLE: f64 = 0.01;
/// Fall of the local share that should wake the policy before its time.
const WAKE_DROP: f64 = 0.05;

/// Whether the driver should run a pass now, before [`Plan::next_pass`] is over: the local share fell by more than
/// five points since the last pass. New or ended affinities, a changed group, pin or set of usable nodes are reasons
/// too, which the driver knows without asking.
///
/// ```
/// use numart_runtime::balance::policy::must_wake;
/// assert!(must_wake(0.99, 0.80) && !must_wake(0.99, 0.97));
/// ```
pub fn must_wake(local_share_then: f64, local_share_now: f64) -> bool {
    local_share_now < local_share_then - WAKE_DROP
}

/// Mode and local share of the window.
pub(crate) fn measure(state: &State, snapshot: &Snapshot, group_of: &[Option<usize>], groups: usize) -> (Mode, f64) {
    let n = snapshot.nodes.len().min(MAX_NODES);
    let mut cpus = vec![0.0; groups * n];
    for (a, group) in group_of.iter().enumerate() {
        if let Some(g) = group {
            state.use_by_node(a, snapshot.affinities[a].home, &mut cpus[g * n..(g + 1) * n]);
        }
    }
    let most: Vec<f64> = (0..groups).map(|g| cpus[g * n..(g + 1) * n].iter().copied().fold(0.0, f64::max)).collect();
    let active = |g: usize, node: usize| node < n && cpus[g * n + node] > most[g] * ACTIVE_FRACTION;
    let (mut local, mut total, mut private) = (0.0, 0.0, 0.0);
    for touch in &snapshot.touches {
        let bytes = touch.bytes as f64;
        let (memory, using) = (usize::from(touch.memory), usize::from(touch.using));
        total += bytes;
        if touch.kind == Kind::Private {
            private += bytes;
        }
        let group = group_of.get(touch.affinity as usize).copied().flatten();
        let spread = touch.kind == Kind::Shared && group.is_some_and(|g| active(g, memory) && active(g, using));
        if memory == using || spread {
            local += bytes;
        }
    }
    if total <= 0.0 {
        return (Mode::Idle, 1.0);
    }
    let share = local / total;
    let mode = match (share >= LOCAL_THRESHOLD, private * 2.0 >= total) {
        (true, true) => Mode::LocalPrivate,
        (true, false) => Mode::LocalShared,
        (false, true) => Mode::RemotePrivate,
        (false, false) => Mode::RemoteShared,
    };
    (mode, share)
}

/// The time to the next pass, remembered in the state. `touched`: bytes of the extents that were touched.
pub(crate) fn next(state: &mut State, snapshot: &Snapshot, touched: u64, plan: &Plan) -> Duration {
    let moved: u64 = plan.extents.iter().fold(0, |sum, m| sum.saturating_add(m.bytes));
    let changed = !plan.moves.is_empty() || !plan.swaps.is_empty();
    let copying = moved as f64 > TRICKLE * touched as f64;
    let (least, most) = (state.config.min_pass, state.config.max_pass.max(state.config.min_pass));
    let slower = |by: f64| state.interval.mul_f64(by);
    // After a minute of calm, faster by a part would still be most of a minute.
    let fell = must_wake(state.local_share, plan.local_share);
    state.local_share = plan.local_share;
    state.interval = if changed || fell {
        least
    } else if copying {
        // Homes are settled and the copier has work: back when half of it is done, to keep it busy.
        let ordered = moved.saturating_add(snapshot.backlog_bytes) as f64;
        Duration::from_secs_f64((ordered / state.config.migration_bytes_per_s.max(1.0) / 2.0).min(0.5)).max(least)
    } else {
        match plan.mode {
            // Kernel: one to three tenths a pass, the more the more local.
            Mode::Idle => slower(1.3),
            Mode::LocalPrivate | Mode::LocalShared => {
                slower(1.0 + (plan.local_share * 10.0 - 7.0).clamp(1.0, 3.0) / 10.0)
            }
            // Up to seven tenths faster a pass.
            Mode::RemotePrivate | Mode::RemoteShared => {
                slower(1.0 - (7.0 - plan.local_share * 10.0).clamp(1.0, 7.0) / 10.0)
            }
        }
    }
    .clamp(least, most);
    state.interval
}
