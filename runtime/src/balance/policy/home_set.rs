//! The home set of one unit: the cheapest set of nodes that holds it, given what is taken already.
//!
//! Nearly all units fit one node, and ten thousand of them are tried on 64 nodes each: that path takes no square root
//! and no look at a node's queue once the rest of its cost has lost. Sets are grown node by node.

use super::config::{FIT_SLACK, FIT_SLACK_CPUS, HORIZON, LOCAL_LINE_S, MOVE_S};
use super::cost::{excess, fractions, queueing};
use super::node_set::{MAX_NODES, NodeSet};
use super::snapshot::Snapshot;
use super::ties::Cheapest;
use super::topology_class;
use super::view::{View, with_slack};
use std::borrow::Cow;
use std::cell::OnceCell;

/// Nodes from which sets are grown at most. Up to this many nodes all are tried; on larger machines those with the most of the
/// unit's memory, tasks and room: the others would grow into these.
const MAX_SEEDS: usize = 8;

/// A group, or an affinity that is alone: what is packed as one.
pub(crate) struct Unit<'v> {
    pub members: Vec<usize>,
    pub demand: f64,
    pub variance: f64,
    pub private: f64,
    pub shared: f64,
    /// Bytes held by node, private and shared.
    pub held: Cow<'v, [f64]>,
    pub held_total: f64,
    /// CPUs it runs by node now, nodes with none left out.
    pub now: Vec<(u8, f64)>,
    pub fixed: Vec<f64>,
    pub fixed_total: f64,
    pub key: u64,
}

/// What the packing has used so far.
pub(crate) struct Used {
    cpus: Vec<f64>,
    variance: Vec<f64>,
    lines: Vec<f64>,
    memory: Vec<f64>,
}

impl Unit<'_> {
    pub(crate) fn empty() -> Self {
        Unit {
            members: Vec::new(),
            demand: 0.0,
            variance: 0.0,
            private: 0.0,
            shared: 0.0,
            held: Cow::Borrowed(&[]),
            held_total: 0.0,
            now: Vec::new(),
            fixed: Vec::new(),
            fixed_total: 0.0,
            key: 0,
        }
    }

    pub(crate) fn add_now(&mut self, node: usize, cpus: f64) {
        match self.now.iter_mut().find(|(i, _)| usize::from(*i) == node) {
            Some((_, sum)) => *sum += cpus,
            None => self.now.push((node as u8, cpus)),
        }
    }

    fn now(&self, node: usize) -> f64 {
        self.now.iter().find(|(i, _)| usize::from(*i) == node).map_or(0.0, |(_, cpus)| *cpus)
    }
}

impl Used {
    pub(crate) fn nothing(n: usize) -> Used {
        Used { cpus: vec![0.0; n], variance: vec![0.0; n], lines: vec![0.0; n], memory: vec![0.0; n] }
    }

    pub(crate) fn add(&mut self, view: &View, a: usize, home: NodeSet) {
        let affinity = &view.affinities[a];
        for (i, f) in fractions(view, home) {
            self.cpus[i] += f * affinity.demand;
            self.variance[i] += f * affinity.variance;
            self.lines[view.near[i]] += f * (affinity.private + affinity.shared);
            self.memory[view.near[i]] += f * affinity.held_total;
        }
    }

    /// CPUs of `unit` the node can take with one standard deviation to spare, so that tasks which come and go find a
    /// CPU five times in six. Solves `x + sqrt(variance + x * spread) = free` for x.
    fn room(&self, view: &View, unit: &Unit, node: usize) -> f64 {
        let free = (view.fair_cap(node) - self.cpus[node]).max(0.0);
        let spread = if unit.demand > 0.0 { unit.variance / unit.demand } else { 0.0 };
        let variance = self.variance[node].max(0.0);
        let root = if spread < 1e-9 {
            variance.sqrt()
        } else {
            (-spread + (spread * spread + 4.0 * (free * spread + variance)).sqrt()) / 2.0
        };
        (free - root).max(0.0)
    }
}

/// The least room `x` for which `with_slack(x)` is `demand`.
fn without_slack(demand: f64) -> f64 {
    (demand / (1.0 + FIT_SLACK)).max(demand - FIT_SLACK_CPUS)
}

/// Chooses home sets, for one packing.
pub(crate) struct Chooser<'v> {
    snapshot: &'v Snapshot,
    view: &'v View,
    /// CPUs of the biggest node.
    pub biggest: f64,
    /// Lines per second of the best fed node.
    best_fed: f64,
    /// Seconds per line of the node closest to its memory.
    nearest_s: f64,
    /// Clusters around each node, counted when the first set is grown.
    clusters: OnceCell<Vec<Vec<NodeSet>>>,
}

impl<'v> Chooser<'v> {
    pub(crate) fn new(snapshot: &'v Snapshot, view: &'v View) -> Self {
        let most = |f: &dyn Fn(usize) -> f64| view.tasks.iter().map(f).fold(0.0, f64::max);
        Chooser {
            snapshot,
            view,
            biggest: most(&|i| view.fair_cap(i)),
            best_fed: most(&|i| view.line_cap[view.near[i]]),
            nearest_s: view.tasks.iter().map(|i| view.line_s[i * view.n + view.near[i]]).fold(f64::INFINITY, f64::min),
            clusters: OnceCell::new(),
        }
    }

    /// The cheapest set for a unit, and how many CPUs of it go to each node.
    pub(crate) fn choose(&self, unit: &Unit, used: &Used) -> Option<(NodeSet, Vec<f64>)> {
        let view = self.view;
        // Even half a controller's worth on the best node: it may gain from several.
        let saturates = unit.private + unit.shared > 0.5 * self.best_fed;
        let single = self.single(unit, used);
        match single {
            Some(node) if !saturates => {
                let mut fill = vec![0.0; view.n];
                fill[node] = unit.demand;
                Some((NodeSet::single(node), fill))
            }
            _ => self.several(unit, used, saturates),
        }
    }

    /// The cheapest node that holds the unit; for a task that cannot be split, the one where the least comes of it that none
    /// does.
    fn single(&self, unit: &Unit, used: &Used) -> Option<usize> {
        let view = self.view;
        let mut contest = Cheapest::new(view.seed, unit.key);
        // Room with one standard deviation to spare (see `Used::room`) is at least `least` if what is free beyond `least`
        // is at least that deviation: no root needed.
        let least = without_slack(unit.demand);
        let spread = if unit.demand > 0.0 { unit.variance / unit.demand } else { 0.0 };
        let holds = |i: usize| {
            let beyond = view.fair_cap(i) - used.cpus[i] - least;
            let variance = used.variance[i].max(0.0) + least * spread;
            unit.demand <= 0.0 || (beyond >= 0.0 && beyond * beyond >= variance)
        };
        // First where it has memory or runs; everywhere else it pays all of the copying and moving, and if that has lost before
        // any queue is counted, the rest need no look.
        let known = |i: usize| unit.held[view.near[i]] > 0.0 || unit.now(i) > 0.0;
        view.tasks
            .iter()
            .filter(|&i| known(i) && holds(i))
            .for_each(|i| self.offer_single(&mut contest, unit, used, i, 0.0));
        let elsewhere = (unit.private + unit.shared) * self.nearest_s
            + unit.demand * MOVE_S / HORIZON.as_secs_f64()
            + unit.held_total * view.copy_s;
        if !contest.beats(elsewhere) {
            view.tasks
                .iter()
                .filter(|&i| !known(i) && holds(i))
                .for_each(|i| self.offer_single(&mut contest, unit, used, i, 0.0));
        }
        let split = unit.members.len() > 1 || unit.demand > with_slack(self.biggest);
        if let Some((_, node)) = contest.take() {
            return Some(node);
        }
        if split {
            return None;
        }
        let mut contest = Cheapest::new(view.seed, unit.key);
        for i in view.tasks.iter() {
            let wait = |cpus: f64, variance: f64| excess(cpus, variance.max(0.0), view.full(i));
            let (cpus, variance) = (used.cpus[i], used.variance[i]);
            let more = wait(cpus + unit.demand, variance + unit.variance) - wait(cpus, variance);
            self.offer_single(&mut contest, unit, used, i, more);
        }
        contest.take().map(|(_, node)| node)
    }

    /// [`set_cost`] for one node, plus `more`, if it can still win.
    fn offer_single(&self, contest: &mut Cheapest<usize>, unit: &Unit, used: &Used, i: usize, more: f64) {
        let view = self.view;
        let n = view.n;
        let m = view.near[i];
        let own = unit.private + unit.shared;
        let mut cost = more + own * view.line_s[i * n + m];
        if unit.fixed_total > 0.0 {
            cost += unit.fixed.iter().zip(&view.line_s[i * n..]).map(|(l, s)| l * s).sum::<f64>();
        }
        cost += (unit.demand - unit.now(i)).max(0.0) * MOVE_S / HORIZON.as_secs_f64();
        // Memory that does not fit stays remote for good: count it as copied ten times over.
        let missing = (unit.held_total - unit.held[m]).max(0.0);
        let free = (self.snapshot.nodes[m].memory_free as f64 - (used.memory[m] - unit.held[m]).max(0.0)).max(0.0);
        cost += (missing + 10.0 * (missing - free).max(0.0)) * view.copy_s;
        if contest.beats(cost) {
            return;
        }
        let rho = (used.lines[m] + own) / view.line_cap[m];
        contest.offer(cost + own * LOCAL_LINE_S * queueing(rho), i as u64, i);
    }

    /// The cheapest of the sets grown from each seed.
    fn several(&self, unit: &Unit, used: &Used, saturates: bool) -> Option<(NodeSet, Vec<f64>)> {
        let view = self.view;
        let mut rooms = [0.0; MAX_NODES];
        view.tasks.iter().for_each(|i| rooms[i] = used.room(view, unit, i));
        let mut contest: Cheapest<(NodeSet, Vec<f64>)> = Cheapest::new(view.seed, unit.key);
        for seed in self.seeds(unit, &rooms).iter() {
            let mut growth = Growth::new(self, unit, &rooms, seed);
            let mut room = 0.0;
            // The fewest nodes that hold it, and up to twice as many: if its memory traffic gains more from their
            // controllers than its sharing loses by the distance, the cost says so.
            let mut fewest = None;
            while let Some(next) = growth.next() {
                room += rooms[next];
                let size = growth.order.len();
                if with_slack(room) < unit.demand && size < view.tasks.len() {
                    continue;
                }
                let least = *fewest.get_or_insert(size);
                if size > 2 * least && !saturates {
                    break;
                }
                let fill = fill(view.n, unit.demand, &rooms, &growth.order, size > least);
                let cost = set_cost(view, unit, used, &fill);
                contest.offer(cost, seed as u64, (growth.set, fill));
            }
        }
        contest.take().map(|(_, best)| best)
    }

    /// Nodes to grow sets from.
    fn seeds(&self, unit: &Unit, rooms: &[f64; MAX_NODES]) -> NodeSet {
        let view = self.view;
        if view.tasks.len() <= MAX_SEEDS {
            return view.tasks;
        }
        let score = |i: usize| {
            let part = |x: f64, of: f64| if of > 0.0 { (x / of).min(1.0) } else { 0.0 };
            part(unit.held[view.near[i]], unit.held_total)
                + part(unit.now(i), unit.demand)
                + part(rooms[i], unit.demand)
        };
        let tie = |i: usize| super::ties::hash(view.seed, unit.key, i as u64);
        let mut ranked: Vec<(f64, usize)> = view.tasks.iter().map(|i| (score(i), i)).collect();
        ranked.sort_by(|x, y| y.0.total_cmp(&x.0).then_with(|| tie(x.1).cmp(&tie(y.1))));
        ranked.iter().take(MAX_SEEDS).fold(NodeSet::EMPTY, |set, (_, i)| set.union(NodeSet::single(*i)))
    }

    fn clusters(&self, seed: usize) -> &[NodeSet] {
        let view = self.view;
        let all = self.clusters.get_or_init(|| topology_class::all_clusters(self.snapshot, view.tasks, view.n));
        &all[seed]
    }
}

/// A set that grows from a seed: closest to those it has, then most room, then most memory. Nodes with a leftover of room that
/// would not help come when nothing else is left, and the smallest cluster around the seed is filled before the next.
struct Growth<'g> {
    chooser: &'g Chooser<'g>,
    unit: &'g Unit<'g>,
    rooms: &'g [f64; MAX_NODES],
    clusters: &'g [NodeSet],
    order: Vec<usize>,
    set: NodeSet,
    left: NodeSet,
    useful: NodeSet,
    /// Sum of the distances to the set's nodes.
    distance: [f64; MAX_NODES],
    seed: Option<usize>,
}

impl<'g> Growth<'g> {
    fn new(chooser: &'g Chooser<'g>, unit: &'g Unit<'g>, rooms: &'g [f64; MAX_NODES], seed: usize) -> Self {
        let view = chooser.view;
        let helps = |i: usize| rooms[i] >= (0.1 * view.fair_cap(i)).min(unit.demand);
        let useful = view.tasks.iter().filter(|&i| helps(i)).fold(NodeSet::EMPTY, |s, i| s.union(NodeSet::single(i)));
        Growth {
            chooser,
            unit,
            rooms,
            clusters: chooser.clusters(seed),
            order: Vec::with_capacity(view.tasks.len()),
            set: NodeSet::EMPTY,
            left: view.tasks,
            useful,
            distance: [0.0; MAX_NODES],
            seed: Some(seed),
        }
    }

    /// Adds the next node and returns it.
    fn next(&mut self) -> Option<usize> {
        let next = match self.seed.take() {
            Some(seed) => seed,
            None => self.closest()?,
        };
        let view = self.chooser.view;
        self.order.push(next);
        self.set = self.set.union(NodeSet::single(next));
        self.left = self.left.minus(NodeSet::single(next));
        for i in self.left.iter() {
            self.distance[i] += view.line_s[next * view.n + i];
        }
        Some(next)
    }

    fn closest(&self) -> Option<usize> {
        let (view, unit) = (self.chooser.view, self.unit);
        let useful = self.left.intersection(self.useful);
        let inside = self.clusters.iter().map(|c| c.intersection(useful)).find(|c| !c.is_empty());
        let mut contest = Cheapest::new(view.seed, unit.key);
        for i in inside.unwrap_or(self.left).iter() {
            let distance = self.distance[i] / self.order.len() as f64;
            let held = if unit.held_total > 0.0 { unit.held[i] / unit.held_total } else { 0.0 };
            let room = self.rooms[i].min(unit.demand) / unit.demand.max(1e-9);
            contest.offer(distance * 1e9 - 10.0 * room - 5.0 * held, i as u64, i);
        }
        contest.take().map(|(_, i)| i)
    }
}

/// CPUs by node: full nodes first, in order, so that the rest of the last one stays free for others.
fn fill(n: usize, demand: f64, rooms: &[f64; MAX_NODES], order: &[usize], spread: bool) -> Vec<f64> {
    let mut fill = vec![0.0; n];
    let room: f64 = order.iter().map(|&i| rooms[i]).sum();
    if demand >= room || spread {
        // Too big for the set (by the slack, or for good), or it wants all the controllers: in proportion.
        for &i in order {
            fill[i] = demand * if room > 0.0 { rooms[i] / room } else { 1.0 / order.len() as f64 };
        }
        return fill;
    }
    let mut left = demand;
    for &i in order {
        fill[i] = rooms[i].min(left);
        left -= fill[i];
    }
    fill
}

fn set_cost(view: &View, unit: &Unit, used: &Used, fill: &[f64]) -> f64 {
    let n = view.n;
    let total: f64 = fill.iter().sum::<f64>().max(1e-9);
    let mut weights = [0.0; MAX_NODES];
    for (i, f) in fill.iter().enumerate() {
        weights[view.near[i]] += f / total;
    }
    let own = unit.private + unit.shared;
    // An affinity wider than a node has its own memory spread over its nodes, as a group its shared memory.
    let wide = unit.members.len() == 1 && fill.iter().filter(|f| **f > 0.0).count() > 1;
    let (private, shared_lines) = if wide { (0.0, own) } else { (unit.private, unit.shared) };
    let (mut stall, mut copy, mut moving, mut queue, mut wait) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for i in 0..n {
        let share = fill[i] / total;
        if share > 0.0 {
            let shared: f64 = weights[..n].iter().zip(&view.line_s[i * n..]).map(|(w, s)| w * s).sum();
            stall += share * (shared_lines * shared + private * view.line_s[i * n + view.near[i]]);
            if unit.fixed_total > 0.0 {
                stall += share * unit.fixed.iter().zip(&view.line_s[i * n..]).map(|(l, s)| l * s).sum::<f64>();
            }
            let load = used.cpus[i] + fill[i];
            let share_of_node = view.full(i).max(1e-3);
            let variance = used.variance[i].max(0.0) + unit.variance * share;
            wait += excess(load, variance, share_of_node) * (load / share_of_node).max(1.0);
        }
        copy += (unit.held[i] - weights[i] * unit.held_total).max(0.0) * view.copy_s;
        moving += (fill[i] - unit.now(i)).max(0.0) * MOVE_S / HORIZON.as_secs_f64();
        if weights[i] > 0.0 {
            queue += own * weights[i] * LOCAL_LINE_S * queueing((used.lines[i] + own * weights[i]) / view.line_cap[i]);
        }
    }
    stall + copy + moving + queue + wait
}
