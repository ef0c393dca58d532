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

use super::config::{HORIZON, LOCAL_LINE_S, MOVE_S, REPACK_GAIN};
use super::cost::{Placement, excess, fractions, queueing};
use super::node_set::{MAX_NODES, NodeSet};
use super::snapshot::Snapshot;
use super::state::State;
use super::ties::{self, Cheapest};
use super::topology_class;
use super::view::{View, with_slack};

/// A group, or an affinity that is alone: what is packed as one.
struct Unit {
    members: Vec<usize>,
    group: Option<usize>,
    demand: f64,
    variance: f64,
    private: f64,
    shared: f64,
    /// Bytes held by node, private and shared.
    held: Vec<f64>,
    held_total: f64,
    /// CPUs it runs by node now.
    now: Vec<f64>,
    fixed: Vec<f64>,
    fixed_total: f64,
    key: u64,
}

/// What the packing has used so far.
struct Used {
    cpus: Vec<f64>,
    variance: Vec<f64>,
    lines: Vec<f64>,
    memory: Vec<f64>,
}

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
    let mut used = Used { cpus: vec![0.0; n], variance: vec![0.0; n], lines: vec![0.0; n], memory: vec![0.0; n] };
    // Those that cannot move take their room first.
    for (a, affinity) in view.affinities.iter().enumerate() {
        if let Some(pinned) = affinity.pinned {
            homes[a] = pinned;
            used.add(view, a, pinned);
        }
    }
    let mut units = units(view);
    let biggest = view.tasks.iter().map(|i| view.fair_cap(i)).fold(0.0, f64::max);
    let rank = |u: &Unit| {
        let wide = u.demand > with_slack(biggest);
        let most = u.held.iter().copied().fold(0.0, f64::max);
        (wide, if wide { u.demand } else { most })
    };
    units.sort_by(|x, y| {
        let ((wx, mx), (wy, my)) = (rank(x), rank(y));
        wy.cmp(&wx)
            .then(my.total_cmp(&mx))
            .then(y.demand.total_cmp(&x.demand))
            .then(ties::hash(view.seed, x.key, 1).cmp(&ties::hash(view.seed, y.key, 1)))
    });
    for unit in &units {
        if let Some((set, fill)) = choose(snapshot, view, unit, &used) {
            assign(view, unit, set, fill, &mut homes);
            for &a in &unit.members {
                used.add(view, a, homes[a]);
            }
        }
    }
    homes
}

impl Used {
    fn add(&mut self, view: &View, a: usize, home: NodeSet) {
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

fn units(view: &View) -> Vec<Unit> {
    let n = view.n;
    let mut units = Vec::new();
    let mut of_group: Vec<Option<usize>> = vec![None; view.groups.len()];
    for (a, affinity) in view.affinities.iter().enumerate() {
        if affinity.pinned.is_some() {
            continue;
        }
        let new = || Unit {
            members: Vec::new(),
            group: affinity.group,
            demand: 0.0,
            variance: 0.0,
            private: 0.0,
            shared: 0.0,
            held: vec![0.0; n],
            held_total: 0.0,
            now: vec![0.0; n],
            fixed: Vec::new(),
            fixed_total: 0.0,
            key: affinity.id,
        };
        let index = match affinity.group {
            Some(g) => *of_group[g].get_or_insert_with(|| {
                let mut unit = new();
                unit.key = view.groups[g].id;
                unit.held_total = view.groups[g].held_total;
                unit.held.copy_from_slice(&view.group_held[g * n..(g + 1) * n]);
                units.push(unit);
                units.len() - 1
            }),
            None => {
                units.push(new());
                units.len() - 1
            }
        };
        let unit: &mut Unit = &mut units[index];
        unit.members.push(a);
        unit.demand += affinity.demand;
        unit.variance += affinity.variance;
        unit.private += affinity.private;
        unit.shared += affinity.shared;
        unit.held_total += affinity.held_total;
        for i in 0..n {
            unit.held[i] += view.held[a * n + i];
        }
        for (i, f) in fractions(view, affinity.home) {
            unit.now[i] += f * affinity.demand;
        }
        if affinity.fixed_total > 0.0 {
            unit.fixed.resize(n, 0.0);
            unit.fixed_total += affinity.fixed_total;
            for i in 0..n {
                unit.fixed[i] += view.fixed[a * n + i];
            }
        }
    }
    units
}

/// The cheapest set for a unit, and how many CPUs of it go to each node.
fn choose(snapshot: &Snapshot, view: &View, unit: &Unit, used: &Used) -> Option<(NodeSet, Vec<f64>)> {
    let mut contest = Cheapest::new(view.seed, unit.key);
    let holds = |i: usize| with_slack(used.room(view, unit, i)) >= unit.demand;
    let singles = view.tasks.iter().filter(|&i| holds(i));
    let mut fits = false;
    for i in singles {
        fits = true;
        contest.offer(single_cost(snapshot, view, unit, used, i), i as u64, NodeSet::single(i));
    }
    let biggest = view.tasks.iter().map(|i| view.fair_cap(i)).fold(0.0, f64::max);
    if !fits && unit.members.len() == 1 && unit.demand <= with_slack(biggest) {
        // One task cannot be split: where there is no room for it, it goes where the least comes of that.
        for i in view.tasks.iter() {
            let wait = |cpus: f64, variance: f64| excess(cpus, variance.max(0.0), view.full(i));
            let (cpus, variance) = (used.cpus[i], used.variance[i]);
            let more = wait(cpus + unit.demand, variance + unit.variance) - wait(cpus, variance);
            let cost = single_cost(snapshot, view, unit, used, i) + more;
            contest.offer(cost, i as u64, NodeSet::single(i));
        }
        fits = true;
    }
    let own = unit.private + unit.shared;
    let saturates = view.tasks.iter().all(|i| own > 0.5 * view.line_cap[view.near[i]]);
    if fits && !saturates {
        let (_, set) = contest.take()?;
        let mut fill = vec![0.0; view.n];
        fill[set.only()?] = unit.demand;
        return Some((set, fill));
    }
    let mut contest: Cheapest<(NodeSet, Vec<f64>)> = Cheapest::new(view.seed, unit.key);
    for seed in view.tasks.iter() {
        let order = grow(snapshot, view, unit, used, seed);
        let mut set = NodeSet::EMPTY;
        let mut room = 0.0;
        // The fewest nodes that hold it, and up to twice as many: if its memory traffic gains more from their
        // controllers than its sharing loses by the distance, the cost says so.
        let mut fewest = None;
        for (k, &i) in order.iter().enumerate() {
            set = set.union(NodeSet::single(i));
            room += used.room(view, unit, i);
            if with_slack(room) < unit.demand && k + 1 < order.len() {
                continue;
            }
            let least = *fewest.get_or_insert(k + 1);
            if k + 1 > 2 * least && !saturates {
                break;
            }
            let fill = fill(view, unit, used, &order[..=k], k + 1 > least);
            let cost = set_cost(view, unit, used, &fill);
            contest.offer(cost, seed as u64, (set, fill));
        }
    }
    contest.take().map(|(_, best)| best)
}

/// The nodes in the order a set grows from `seed`: closest to those it has, then most room, then most memory. Nodes
/// with a leftover of room that would not help are skipped until nothing else is left.
fn grow(snapshot: &Snapshot, view: &View, unit: &Unit, used: &Used, seed: usize) -> Vec<usize> {
    let mut order = vec![seed];
    let mut left = view.tasks.minus(NodeSet::single(seed));
    let useful = |i: usize| used.room(view, unit, i) >= (0.1 * view.fair_cap(i)).min(unit.demand);
    let clusters = topology_class::clusters(snapshot, view.tasks, seed);
    while !left.is_empty() {
        // Fill the smallest cluster around the seed before crossing to the next.
        let inside = clusters.iter().map(|c| c.intersection(left)).find(|c| c.iter().any(useful)).unwrap_or(left);
        let mut contest = Cheapest::new(view.seed, unit.key);
        for i in inside.iter().filter(|&i| useful(i) || !inside.iter().any(useful)) {
            let distance: f64 = order.iter().map(|&j| view.line_s[j * view.n + i]).sum::<f64>() / order.len() as f64;
            let held = if unit.held_total > 0.0 { unit.held[i] / unit.held_total } else { 0.0 };
            let room = used.room(view, unit, i).min(unit.demand) / unit.demand.max(1e-9);
            contest.offer(distance * 1e9 - 10.0 * room - 5.0 * held, i as u64, i);
        }
        let Some((_, next)) = contest.take() else {
            break;
        };
        order.push(next);
        left = left.minus(NodeSet::single(next));
    }
    order
}

/// CPUs by node: full nodes first, in order, so that the rest of the last one stays free for others.
fn fill(view: &View, unit: &Unit, used: &Used, order: &[usize], spread: bool) -> Vec<f64> {
    let mut fill = vec![0.0; view.n];
    let room: f64 = order.iter().map(|&i| used.room(view, unit, i)).sum();
    if unit.demand >= room || spread {
        // Too big for the set (by the slack, or for good), or it wants all the controllers: in proportion.
        for &i in order {
            let share = if room > 0.0 { used.room(view, unit, i) / room } else { 1.0 / order.len() as f64 };
            fill[i] = unit.demand * share;
        }
        return fill;
    }
    let mut left = unit.demand;
    for &i in order {
        fill[i] = used.room(view, unit, i).min(left);
        left -= fill[i];
    }
    fill
}

/// [`set_cost`] for one node, which is what ten thousand lone affinities need.
fn single_cost(snapshot: &Snapshot, view: &View, unit: &Unit, used: &Used, i: usize) -> f64 {
    let n = view.n;
    let m = view.near[i];
    let own = unit.private + unit.shared;
    let mut stall = own * view.line_s[i * n + m];
    if unit.fixed_total > 0.0 {
        stall += unit.fixed.iter().zip(&view.line_s[i * n..]).map(|(l, s)| l * s).sum::<f64>();
    }
    let moving = (unit.demand - unit.now[i]).max(0.0) * MOVE_S / HORIZON.as_secs_f64();
    // Memory that does not fit stays remote for good: count it as copied ten times over.
    let missing = (unit.held_total - unit.held[m]).max(0.0);
    let free = (snapshot.nodes[m].memory_free as f64 - (used.memory[m] - unit.held[m]).max(0.0)).max(0.0);
    let copy = (missing + 10.0 * (missing - free).max(0.0)) * view.copy_s;
    let rho = (used.lines[m] + own) / view.line_cap[m];
    stall + copy + moving + own * LOCAL_LINE_S * queueing(rho)
}

fn set_cost(view: &View, unit: &Unit, used: &Used, fill: &[f64]) -> f64 {
    let n = view.n;
    let total: f64 = fill.iter().sum::<f64>().max(1e-9);
    let mut weights = [0.0; MAX_NODES];
    for (i, f) in fill.iter().enumerate() {
        weights[view.near[i]] += f / total;
    }
    let own = unit.private + unit.shared;
    let (mut stall, mut copy, mut moving, mut queue, mut wait) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for i in 0..n {
        let share = fill[i] / total;
        if share > 0.0 {
            let shared: f64 = weights[..n].iter().zip(&view.line_s[i * n..]).map(|(w, s)| w * s).sum();
            stall += share * (unit.shared * shared + unit.private * view.line_s[i * n + view.near[i]]);
            if unit.fixed_total > 0.0 {
                stall += share * unit.fixed.iter().zip(&view.line_s[i * n..]).map(|(l, s)| l * s).sum::<f64>();
            }
            let load = used.cpus[i] + fill[i];
            let share_of_node = view.full(i).max(1e-3);
            let variance = used.variance[i].max(0.0) + unit.variance * share;
            wait += excess(load, variance, share_of_node) * (load / share_of_node).max(1.0);
        }
        copy += (unit.held[i] - weights[i] * unit.held_total).max(0.0) * view.copy_s;
        moving += (fill[i] - unit.now[i]).max(0.0) * MOVE_S / HORIZON.as_secs_f64();
        if weights[i] > 0.0 {
            queue += own * weights[i] * LOCAL_LINE_S * queueing((used.lines[i] + own * weights[i]) / view.line_cap[i]);
        }
    }
    stall + copy + moving + queue + wait
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
    let _ = unit.group;
}
