//! What the policy remembers between passes: decayed statistics per affinity, and what became of each extent.

use super::config::{AWAY_WINDOWS, CAPACITY_HALF_LIFE, Config, HORIZON, INPUT_CHANGED};
use super::decay;
use super::extent_history::{ExtentHistory, Scratch};
use super::group_form::Pairs;
use super::node_set::{MAX_NODES, NodeSet};
use super::replicas::ReplicaHistory;
use super::snapshot::{Kind, Snapshot};
use std::collections::BTreeMap;
use std::time::Duration;

/// Everything the policy remembers. Owned by whoever calls [`plan`](super::plan); one per balanced process.
///
/// Cost: about `4 x nodes x 8` bytes per affinity and 64 bytes per extent slot.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) config: Config,
    pub(crate) last_ns: Option<u64>,
    nodes: usize,
    /// Ids of the last snapshot's affinities, in its order; `histories` is parallel.
    ids: Vec<u64>,
    pub(crate) histories: Vec<History>,
    pub(crate) extents: Vec<ExtentHistory>,
    pub(crate) pairs: Pairs,
    pub(crate) replicas: BTreeMap<u64, ReplicaHistory>,
    pub(crate) interval: Duration,
    /// Local share of the last window.
    pub(crate) local_share: f64,
    /// Predicted time of the last plan's homes.
    pub(crate) expected: Option<f64>,
    /// When the input last changed, as far as predicted time shows.
    pub(crate) changed_ns: u64,
    /// Smoothed capacity of each node, CPUs.
    pub(crate) capacity: Vec<f64>,
    /// Where the bounded search goes on in the next pass.
    pub(crate) search_from: usize,
    /// Memory that passes use one after the other.
    pub(crate) scratch: Scratch,
}

/// Decayed sums of one affinity.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// Seconds the sums were gathered in.
    pub seconds: f64,
    /// CPU seconds.
    pub cpu: f64,
    /// Seconds of runnable waiting.
    pub wait: f64,
    /// Bytes by memory node (three rows) and by using node (one): see [`Row`].
    rows: Box<[f64]>,
    /// Nodes with anything in any row: most affinities know few of 64.
    known: NodeSet,
    /// The away node of the last windows, and for how many.
    away: (u8, u8),
    /// What counts of the present window: see [`decay::within`].
    part: f64,
    /// When the policy last gave it a new home, and which one it left.
    pub moved: Option<(u64, NodeSet)>,
}

/// The rows of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    Private = 0,
    Shared = 1,
    Fixed = 2,
    Use = 3,
}

impl History {
    fn new(nodes: usize) -> Self {
        History {
            seconds: 0.0,
            cpu: 0.0,
            wait: 0.0,
            rows: vec![0.0; 4 * nodes].into_boxed_slice(),
            known: NodeSet::EMPTY,
            away: (0, 0),
            part: 1.0,
            moved: None,
        }
    }

    /// One row, by node, without the nodes that have nothing in any row.
    pub(crate) fn row(&self, row: Row) -> impl Iterator<Item = (usize, f64)> {
        let nodes = self.rows.len() / 4;
        let values = &self.rows[row as usize * nodes..(row as usize + 1) * nodes];
        self.known.iter().map(|node| (node, values[node]))
    }

    /// Bytes touched, all kinds.
    pub(crate) fn touched(&self) -> f64 {
        [Row::Private, Row::Shared, Row::Fixed].into_iter().flat_map(|row| self.row(row)).map(|(_, bytes)| bytes).sum()
    }

    fn add(&mut self, row: Row, node: usize, bytes: f64) {
        let nodes = self.rows.len() / 4;
        self.rows[row as usize * nodes + node] += bytes;
        self.known = self.known.union(NodeSet::single(node));
    }

    fn shrink(&mut self, factor: f64) {
        let nodes = self.rows.len() / 4;
        for node in self.known.iter() {
            let mut left = false;
            for row in 0..4 {
                let sum = &mut self.rows[row * nodes + node];
                decay::shrink(std::slice::from_mut(sum), factor);
                left |= *sum > 0.0;
            }
            if !left {
                self.known = self.known.minus(NodeSet::single(node));
            }
        }
    }

    /// The away node that has persisted long enough to count as use.
    pub(crate) fn settled_away(&self) -> Option<usize> {
        (self.away.1 >= AWAY_WINDOWS).then_some(usize::from(self.away.0))
    }
}

impl State {
    /// Whether affinity `a` left `home` so recently, on input that has not changed since, that going back would only
    /// show that one of the two steps was wrong.
    pub(crate) fn just_left(&self, a: usize, home: NodeSet, now_ns: u64) -> bool {
        self.histories[a]
            .moved
            .is_some_and(|(at, left)| left == home && now_ns >= at && now_ns - at < HORIZON.as_nanos() as u64)
    }

    /// Compares what the last plan expected with what its homes cost now; forgets the homes that were left if the
    /// input has changed.
    pub(crate) fn notice_change(&mut self, cost: f64, now_ns: u64) {
        let changed = self.expected.is_none_or(|e| (cost - e).abs() > INPUT_CHANGED * e.abs().max(cost.abs()));
        if changed {
            self.changed_ns = now_ns;
            for history in &mut self.histories {
                if let Some((_, left)) = &mut history.moved {
                    *left = NodeSet::EMPTY;
                }
            }
        }
    }

    /// Nothing remembered.
    pub fn new(config: Config) -> Self {
        State {
            config,
            last_ns: None,
            nodes: 0,
            ids: Vec::new(),
            histories: Vec::new(),
            extents: Vec::new(),
            pairs: Pairs::default(),
            replicas: BTreeMap::new(),
            interval: config.min_pass,
            local_share: 0.0,
            expected: None,
            changed_ns: 0,
            capacity: Vec::new(),
            search_from: 0,
            scratch: Scratch::default(),
        }
    }

    /// How it was set up.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Seconds since the last snapshot; 0 at first and when the clock went backwards.
    pub(crate) fn elapsed_s(&self, snapshot: &Snapshot) -> f64 {
        let last = self.last_ns.unwrap_or(snapshot.now_ns);
        snapshot.now_ns.saturating_sub(last) as f64 * 1e-9
    }

    /// Follows each node's capacity slowly; a node that may not be used any more, or that was not known, at once.
    pub(crate) fn fold_capacity(&mut self, snapshot: &Snapshot, elapsed_s: f64) {
        let keep = decay::factor(elapsed_s, CAPACITY_HALF_LIFE, 0.0, 0.0, false);
        self.capacity.resize(snapshot.nodes.len(), f64::NAN);
        for (smooth, node) in self.capacity.iter_mut().zip(&snapshot.nodes) {
            let now = if node.takes_tasks() { node.capacity.clamp(1e-3, f64::from(node.cpus)) } else { 0.0 };
            *smooth =
                if smooth.is_nan() || *smooth == 0.0 || now == 0.0 { now } else { *smooth * keep + now * (1.0 - keep) };
        }
    }

    /// Adds the window of `snapshot` to the statistics of its affinities.
    pub(crate) fn fold_affinities(&mut self, snapshot: &Snapshot, elapsed_s: f64) {
        self.align(snapshot);
        let nodes = self.nodes;
        let mut fresh = vec![0.0; self.histories.len()];
        // Away bytes of each affinity's window: the node with the most of them.
        let mut away: BTreeMap<(u32, u8), f64> = BTreeMap::new();
        for touch in &snapshot.touches {
            if let Some(sum) = fresh.get_mut(touch.affinity as usize) {
                *sum += touch.bytes as f64;
                if touch.away {
                    *away.entry((touch.affinity, touch.using)).or_default() += touch.bytes as f64;
                }
            }
        }
        let per_pass = !self.config.rules.time_decay;
        for (i, history) in self.histories.iter_mut().enumerate() {
            let old = history.touched();
            // No time, nothing counted: then nothing is forgotten either.
            let fresh = if elapsed_s > 0.0 { fresh[i] } else { 0.0 };
            let factor = decay::factor(elapsed_s, self.config.half_life, old, fresh, per_pass);
            history.shrink(factor);
            let affinity = &snapshot.affinities[i];
            // Counts without a length of time are no rates: the first snapshot only starts the clock, and one whose clock
            // ran backwards is left out. Counted, they made every demand half as high again in the next pass.
            let part = match elapsed_s > 0.0 {
                false => 0.0,
                true if per_pass => 1.0,
                true => decay::within(factor),
            };
            history.part = part;
            history.seconds = history.seconds * factor + elapsed_s * part;
            history.cpu = history.cpu * factor + affinity.cpu_ns as f64 * 1e-9 * part;
            history.wait = history.wait * factor + affinity.wait_ns as f64 * 1e-9 * part;
        }
        self.count_away_windows(&fresh, &away);
        for touch in &snapshot.touches {
            let (memory, using) = (usize::from(touch.memory), usize::from(touch.using));
            if memory >= nodes || using >= nodes {
                continue;
            }
            let Some(history) = self.histories.get_mut(touch.affinity as usize) else {
                continue;
            };
            let row = match touch.kind {
                Kind::Private => Row::Private,
                Kind::Shared => Row::Shared,
                Kind::Fixed => Row::Fixed,
            };
            let bytes = touch.bytes as f64 * history.part;
            history.add(row, memory, bytes);
            // A thief's touches are not use, or memory would follow thieves; a thief that stays is no thief.
            if !touch.away || history.settled_away() == Some(using) {
                history.add(Row::Use, using, bytes);
            }
        }
    }

    fn count_away_windows(&mut self, fresh: &[f64], away: &BTreeMap<(u32, u8), f64>) {
        let mut top: Vec<Option<(u8, f64)>> = vec![None; self.histories.len()];
        for (&(affinity, node), &bytes) in away {
            let entry = &mut top[affinity as usize];
            if entry.is_none_or(|(_, most)| bytes > most) {
                *entry = Some((node, bytes));
            }
        }
        for (i, history) in self.histories.iter_mut().enumerate() {
            history.away = match top[i] {
                // Only an affinity that is mostly away has moved; a few stolen jobs change nothing.
                Some((node, bytes)) if bytes * 2.0 > fresh[i] => {
                    let seen = if history.away.0 == node { history.away.1 } else { 0 };
                    (node, seen.saturating_add(1))
                }
                // A window without touches says nothing.
                None if fresh[i] == 0.0 => history.away,
                _ => (0, 0),
            };
        }
    }

    /// Makes `histories` parallel to the snapshot's affinities. Affinities that are gone are forgotten; a machine
    /// with another number of nodes starts afresh.
    fn align(&mut self, snapshot: &Snapshot) {
        let nodes = snapshot.nodes.len().min(MAX_NODES);
        if nodes != self.nodes {
            *self = State { nodes, last_ns: self.last_ns, ..State::new(self.config) };
        }
        let same = self.ids.len() == snapshot.affinities.len()
            && self.ids.iter().zip(&snapshot.affinities).all(|(&id, a)| id == a.id);
        if same {
            return;
        }
        let mut old: BTreeMap<u64, History> = self.ids.drain(..).zip(self.histories.drain(..)).collect();
        self.ids.extend(snapshot.affinities.iter().map(|a| a.id));
        self.histories.extend(self.ids.iter().map(|id| old.remove(id).unwrap_or_else(|| History::new(nodes))));
    }

    /// Measured use of each affinity by node, as CPUs: its CPU use split by its share of touches.
    pub(crate) fn use_by_node(&self, affinity: usize, home: NodeSet, out: &mut [f64]) {
        let history = &self.histories[affinity];
        let cpus = if history.seconds > 0.0 { history.cpu / history.seconds } else { 0.0 };
        let total: f64 = history.row(Row::Use).map(|(_, bytes)| bytes).sum();
        if total > 0.0 {
            for (node, bytes) in history.row(Row::Use) {
                out[node] += cpus * bytes / total;
            }
        } else {
            let nodes = out.len();
            for node in home.iter().filter(|&n| n < nodes) {
                out[node] += cpus / home.len() as f64;
            }
        }
    }
}
