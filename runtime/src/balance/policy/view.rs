//! One pass's numbers in dense form: rates instead of sums, groups as ranges, the machine in seconds and lines.

use super::config::{
    DEFAULT_LINES_MIN, DEFAULT_LINES_PER_CPU, FIT_SLACK, FIT_SLACK_CPUS, HORIZON, LINE, LOCAL_LINE_S, MAX_STALL,
    PAY_TIMES, Rules,
};
use super::extent_history::Holdings;
use super::node_set::{MAX_NODES, NodeSet};
use super::snapshot::Snapshot;
use super::state::{Row, State};

/// The machine and the affinities of one pass.
pub(crate) struct View {
    pub n: usize,
    pub seed: u64,
    pub rules: Rules,
    /// Nodes that may be homes.
    pub tasks: NodeSet,
    /// Nodes that may get memory.
    pub memory: NodeSet,
    /// CPUs usable, by node.
    pub cap: Vec<f64>,
    /// CPUs demanded over CPUs usable, at least 1.
    pub overcommit: f64,
    /// Seconds per line, row-major.
    pub line_s: Vec<f64>,
    /// The longest of them.
    pub farthest_s: f64,
    /// Lines per second a node's controllers serve.
    pub line_cap: Vec<f64>,
    /// The nearest node with memory, by node: where the private memory of its tasks goes.
    pub near: Vec<usize>,
    /// Seconds per second that one byte costs which must still be copied: the copy, paid twice, over the horizon.
    pub copy_s: f64,
    pub affinities: Vec<AffinityView>,
    /// Lines per second to fixed memory by node, of those that have any.
    fixed: Vec<f64>,
    /// Private bytes held, `affinity * n + node`.
    pub held: Vec<f64>,
    /// Groups of two or more affinities.
    pub groups: Vec<GroupView>,
    /// Shared bytes held, `group * n + node`.
    pub group_held: Vec<f64>,
    /// Share of the group's touches done from each node, as measured, `group * n + node`.
    pub group_use: Vec<f64>,
}

/// One affinity's rates.
pub(crate) struct AffinityView {
    pub id: u64,
    /// Index into [`View::groups`]; none if it is alone.
    pub group: Option<usize>,
    /// Home before this pass.
    pub home: NodeSet,
    /// Nodes it may not leave: pinned by the user, or a long closure holds it where it is.
    pub pinned: Option<NodeSet>,
    /// CPUs it uses or waits for.
    pub demand: f64,
    /// Variance of its demand: a task that runs now and then, against one that always runs.
    pub variance: f64,
    /// Lines per second to private memory (and all its movable memory, if it is alone).
    pub private: f64,
    /// Lines per second to its group's shared memory.
    pub shared: f64,
    pub fixed_total: f64,
    /// Where its row of [`View::fixed`] begins; it has one if `fixed_total` is not 0.
    fixed_at: usize,
    pub held_total: f64,
    /// Misses over touched lines, at most 1: declared bytes may hit the caches.
    pub scale: f64,
}

/// A group of two or more.
pub(crate) struct GroupView {
    /// Lowest id of its members.
    pub id: u64,
    pub members: Vec<usize>,
    pub demand: f64,
    pub shared: f64,
    pub held_total: f64,
    pub scale: f64,
}

impl View {
    /// `group_of[i]` is the group index of affinity `i`, as [`group_form`](super::group_form) found them.
    pub(crate) fn new(snapshot: &Snapshot, state: &State, group_of: &[Option<usize>], holdings: Holdings) -> View {
        let n = snapshot.nodes.len().min(MAX_NODES);
        let group_count = holdings.shared_total.len();
        let nodes = &snapshot.nodes[..n];
        let tasks = nodes_that(snapshot, super::Node::takes_tasks);
        let memory = nodes_that(snapshot, super::Node::takes_memory);
        let line_s: Vec<f64> =
            (0..n * n).map(|i| LOCAL_LINE_S * f64::from(snapshot.distance(i / n, i % n)) / 10.0).collect();
        let near = (0..n).map(|i| nearest(&line_s, n, i, memory)).collect();
        let mut view = View {
            n,
            seed: state.config.seed,
            rules: state.config.rules,
            tasks,
            memory,
            cap: (0..n).map(|i| state.capacity.get(i).copied().unwrap_or(0.0)).collect(),
            overcommit: 1.0,
            line_cap: nodes.iter().map(line_capacity).collect(),
            near,
            farthest_s: line_s.iter().copied().fold(0.0, f64::max),
            line_s,
            copy_s: PAY_TIMES / state.config.migration_bytes_per_s.max(1.0) / HORIZON.as_secs_f64(),
            affinities: Vec::with_capacity(snapshot.affinities.len()),
            fixed: Vec::new(),
            held: holdings.own,
            groups: holdings
                .shared_total
                .iter()
                .map(|&held_total| GroupView {
                    id: u64::MAX,
                    members: Vec::new(),
                    demand: 0.0,
                    shared: 0.0,
                    held_total,
                    scale: 1.0,
                })
                .collect(),
            group_held: holdings.shared,
            group_use: vec![0.0; group_count * n],
        };
        for (i, group) in group_of.iter().enumerate() {
            view.add_affinity(snapshot, state, i, *group, holdings.own_total[i]);
        }
        let demand: f64 = view.affinities.iter().map(|a| a.demand).sum();
        let cap: f64 = view.cap.iter().sum();
        view.overcommit = if cap > 0.0 { (demand / cap).max(1.0) } else { 1.0 };
        view.use_groups(state);
        view
    }

    fn add_affinity(&mut self, snapshot: &Snapshot, state: &State, i: usize, group: Option<usize>, held_total: f64) {
        let n = self.n;
        let affinity = &snapshot.affinities[i];
        let history = &state.histories[i];
        let seconds = history.seconds;
        let rate = |bytes: f64| {
            if seconds > 0.0 { bytes / seconds / LINE } else { 0.0 }
        };
        let cpus = if seconds > 0.0 { history.cpu / seconds } else { 0.0 };
        let demand = if seconds > 0.0 { (history.cpu + history.wait) / seconds } else { 0.0 };
        // What it would wait for memory if every touched line missed and all were local. Not where it is now: then a
        // move would change what the same traffic counts, and with it the cost of the way back.
        let home = affinity.home.intersection(NodeSet::first(n));
        let mut stall = 0.0;
        let mut sums = [0.0; 3];
        for (k, row) in [Row::Private, Row::Shared, Row::Fixed].into_iter().enumerate() {
            for (_, bytes) in history.row(row) {
                stall += rate(bytes) * LOCAL_LINE_S;
                sums[k] += rate(bytes);
            }
        }
        let scale = if stall > 0.0 { (MAX_STALL * cpus / stall).min(1.0) } else { 1.0 };
        let fixed_total = sums[2] * scale;
        let fixed_at = self.fixed.len();
        if fixed_total > 0.0 {
            self.fixed.resize(fixed_at + n, 0.0);
            for (m, bytes) in history.row(Row::Fixed) {
                self.fixed[fixed_at + m] = rate(bytes) * scale;
            }
        }
        // A group of one shares with nobody: its shared memory is its own.
        let (private, shared) = match group {
            Some(_) => (sums[0], sums[1]),
            None => (sums[0] + sums[1], 0.0),
        };
        let pinned = match affinity.pinned {
            // Anywhere within the pin is where the user wants it.
            Some(pinned) if !home.is_empty() && home.is_subset(pinned) => Some(home),
            Some(pinned) => Some(pinned),
            None => affinity.running_long.then_some(affinity.home),
        };
        self.affinities.push(AffinityView {
            id: affinity.id,
            group,
            home,
            pinned,
            demand,
            // Running or not is a coin with probability `demand`; of a wide one only the last CPU is uncertain.
            variance: if demand <= 1.0 { demand * (1.0 - demand) } else { 0.25 },
            private: private * scale,
            shared: shared * scale,
            fixed_total,
            fixed_at,
            held_total,
            scale,
        });
        if let Some(g) = group {
            let group = &mut self.groups[g];
            group.id = group.id.min(affinity.id);
            group.members.push(i);
            group.demand += demand;
            group.shared += shared * scale;
        }
    }

    /// Lines per second of affinity `a` to fixed memory, by node; empty if it has none.
    pub(crate) fn fixed(&self, a: usize) -> &[f64] {
        let affinity = &self.affinities[a];
        if affinity.fixed_total > 0.0 { &self.fixed[affinity.fixed_at..affinity.fixed_at + self.n] } else { &[] }
    }

    /// Adds up from where each group uses its memory.
    fn use_groups(&mut self, state: &State) {
        let n = self.n;
        for (g, group) in self.groups.iter_mut().enumerate() {
            let shares = &mut self.group_use[g * n..(g + 1) * n];
            for &a in &group.members {
                for (node, bytes) in state.histories[a].row(Row::Use) {
                    shares[node] += bytes;
                }
            }
            let total: f64 = shares.iter().sum::<f64>().max(1e-9);
            shares.iter_mut().for_each(|share| *share /= total);
            let sum: f64 = group.members.iter().map(|&a| self.affinities[a].scale).sum();
            group.scale = sum / group.members.len().max(1) as f64;
        }
    }

    /// CPUs of a node at which it counts as full: its share and a little.
    pub(crate) fn full(&self, node: usize) -> f64 {
        with_slack(self.fair_cap(node))
    }

    /// CPUs of a node before anybody counts as waiting: its own, times the overcommitment all share.
    pub(crate) fn fair_cap(&self, node: usize) -> f64 {
        self.cap[node] * self.overcommit
    }
}

/// `cpus` and what a measured demand may be above it and still fit: see [`FIT_SLACK`].
pub(crate) fn with_slack(cpus: f64) -> f64 {
    cpus + (FIT_SLACK * cpus).min(FIT_SLACK_CPUS)
}

/// The nodes of a snapshot that are as `is` says.
pub(crate) fn nodes_that(snapshot: &Snapshot, is: impl Fn(&super::Node) -> bool) -> NodeSet {
    let nodes = snapshot.nodes.iter().take(MAX_NODES).enumerate();
    nodes.filter(|(_, node)| is(node)).fold(NodeSet::EMPTY, |set, (i, _)| set.union(NodeSet::single(i)))
}

fn line_capacity(node: &super::Node) -> f64 {
    match node.bandwidth {
        Some(bytes) if bytes.is_finite() && bytes > 0.0 => bytes / LINE,
        _ => (f64::from(node.cpus) * DEFAULT_LINES_PER_CPU).max(DEFAULT_LINES_MIN),
    }
}

/// The node of `among` nearest to `from`; `from` itself if there is none. Equal distances: the lowest, since this is
/// a property of the machine and not a choice between affinities.
fn nearest(line_s: &[f64], n: usize, from: usize, among: NodeSet) -> usize {
    if among.contains(from) {
        return from;
    }
    among.iter().min_by(|&a, &b| line_s[from * n + a].total_cmp(&line_s[from * n + b])).unwrap_or(from)
}
