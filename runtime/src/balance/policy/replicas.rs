//! Copies of read-mostly data: recommended, added where they pay, dropped where nobody reads them.

use super::config::{HORIZON, LINE, PAY_TIMES};
use super::decay;
use super::node_set::NodeSet;
use super::plan::ReplicaStep;
use super::snapshot::{ReadMostly, Snapshot};
use super::state::State;
use super::view::View;
use std::collections::BTreeMap;

/// Written bytes over read bytes above which data is not read-mostly: every write then costs one per copy.
pub const WRITE_SHARE: f64 = 0.01;
/// A node without this share of the reads of an equal split, for as long as the half-life remembers, loses its copy.
pub const DROP_SHARE: f64 = 0.05;
/// Windows a region must have been seen before anything is done about it.
const WINDOWS: u8 = 2;

/// Decayed reads by node.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplicaHistory {
    seconds: f64,
    reads: Vec<f64>,
    written: f64,
    windows: u8,
}

/// Folds the window and decides.
pub(crate) fn plan(state: &mut State, snapshot: &Snapshot, view: &View, elapsed_s: f64) -> Vec<ReplicaStep> {
    let mut old = std::mem::take(&mut state.replicas);
    let mut kept = BTreeMap::new();
    let mut steps = Vec::new();
    let factor = decay::factor(elapsed_s, state.config.half_life, 0.0, 0.0, !state.config.rules.time_decay);
    let mut free: Vec<f64> = snapshot
        .nodes
        .iter()
        .take(view.n)
        .map(|x| x.memory_free as f64 - super::config::FREE_SHARE * x.memory_total as f64)
        .collect();
    for region in &snapshot.read_mostly {
        let mut history = old.remove(&region.id).unwrap_or_default();
        history.fold(region, view.n, factor, elapsed_s);
        if history.windows >= WINDOWS && history.seconds > 0.0 {
            decide(region, &history, view, &mut free, state.config.migration_bytes_per_s, &mut steps);
        }
        kept.insert(region.id, history);
    }
    state.replicas = kept;
    steps
}

impl ReplicaHistory {
    fn fold(&mut self, region: &ReadMostly, n: usize, factor: f64, elapsed_s: f64) {
        self.reads.resize(n, 0.0);
        decay::shrink(&mut self.reads, factor);
        self.written = self.written * factor + region.written as f64;
        self.seconds = self.seconds * factor + elapsed_s;
        for &(node, bytes) in &region.reads {
            if let Some(sum) = self.reads.get_mut(usize::from(node)) {
                *sum += bytes as f64;
            }
        }
        self.windows = self.windows.saturating_add(1);
    }
}

fn decide(
    region: &ReadMostly,
    history: &ReplicaHistory,
    view: &View,
    free: &mut [f64],
    pace: f64,
    steps: &mut Vec<ReplicaStep>,
) {
    let n = view.n;
    let total: f64 = history.reads.iter().sum();
    let holders = region.copies.intersection(NodeSet::first(n));
    if total <= 0.0 || holders.is_empty() {
        return;
    }
    let mostly_read = history.written <= WRITE_SHARE * total;
    let per_s = |node: usize| history.reads[node] / history.seconds / LINE;
    // Seconds per second a copy on `node` would save; each write must be done on one copy more.
    let nearest = |node: usize| holders.iter().map(|m| view.line_s[node * n + m]).fold(f64::INFINITY, f64::min);
    let gain = |node: usize| {
        per_s(node) * (nearest(node) - view.line_s[node * n + node])
            - history.written / history.seconds / LINE * view.line_s[node * n + node]
    };
    let pays = |node: usize| gain(node) * HORIZON.as_secs_f64() >= PAY_TIMES * region.bytes as f64 / pace.max(1.0);
    let worth: NodeSet = view
        .memory
        .intersection(view.tasks)
        .minus(holders)
        .iter()
        .filter(|&i| mostly_read && pays(i) && free[i] >= region.bytes as f64)
        .fold(NodeSet::EMPTY, |set, i| set.union(NodeSet::single(i)));
    if !region.replicated {
        if !worth.is_empty() {
            let gain = worth.iter().map(gain).sum();
            steps.push(ReplicaStep::Recommend { id: region.id, nodes: holders.union(worth), gain });
        }
        return;
    }
    for node in worth.iter() {
        free[node] -= region.bytes as f64;
        steps.push(ReplicaStep::Add { id: region.id, node: node as u8, gain: gain(node) });
    }
    let fair = total / view.tasks.len().max(1) as f64;
    let mut left = holders.len();
    let most = holders.iter().max_by(|&x, &y| history.reads[x].total_cmp(&history.reads[y]));
    for node in holders.iter() {
        // The copy most read stays whatever happens.
        let unread = history.reads[node] < DROP_SHARE * fair;
        if left > 1
            && Some(node) != most
            && (unread || history.written > 4.0 * WRITE_SHARE * total || !view.memory.contains(node))
        {
            left -= 1;
            steps.push(ReplicaStep::Drop { id: region.id, node: node as u8 });
        }
    }
}
