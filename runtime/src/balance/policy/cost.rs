//! The one cost function: time lost per second, for load and for placement alike.
//!
//! | part | what | when |
//! |---|---|---|
//! | stall | lines x idle latency of their distance | private memory at its task's node, shared memory spread over the group's active nodes: the *settled* state a home leads to |
//! | copy | bytes not there yet, copied at the machine's pace, paid twice, spread over 60 s | |
//! | wait | tasks in excess of a node's share of CPUs, x load / share | its mean where demand varies, see `excess` |
//! | queue | lines x local latency x rho^2 / (1 - rho) of the controller | |
//!
//! Since the settled state is judged and what it takes to get there is charged, a step that lowers this sum stays
//! good in the next pass, and a step back can never look good on unchanged input: the sum is a potential, every
//! accepted step lowers it by a margin, so the policy reaches a fixed point. All parts have one unit, so a big
//! group's flat gain and a lone task's sharp one are compared as what they are (T10).

use super::config::{ACTIVE_FRACTION, HORIZON, INACTIVE_FRACTION, LOCAL_LINE_S, MOVE_S};
use super::node_set::NodeSet;
use super::view::View;

/// Seconds lost per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    pub stall: f64,
    pub copy: f64,
    pub wait: f64,
    pub queue: f64,
}

impl Cost {
    pub(crate) fn sum(self) -> f64 {
        self.stall + self.copy + self.wait + self.queue
    }
}

/// Homes for all affinities, and what they cost; one home can be changed at a time.
pub(crate) struct Placement<'v> {
    pub view: &'v View,
    pub homes: Vec<NodeSet>,
    /// CPUs demanded, by node.
    pub load: Vec<f64>,
    /// Their variance.
    variance: Vec<f64>,
    /// Lines per second, by memory node.
    pub lines: Vec<f64>,
    /// CPUs of each group by node, `group * n + node`.
    pub group_cpus: Vec<f64>,
    /// Shared lines of each group by using node.
    group_lines: Vec<f64>,
    group_cost: Vec<(f64, f64)>,
    own: (f64, f64),
    shared: (f64, f64),
    /// Waiting and queueing of each node, up to date except for the `stale` ones: counting them takes an exponential each.
    node_cost: Vec<(f64, f64)>,
    stale: NodeSet,
}

/// Extra latency of a part loaded to `rho`, as a share of its idle latency (M/M/1 sojourn, flattened at low load;
/// linear above 0.9 so that it stays finite).
pub(crate) fn queueing(rho: f64) -> f64 {
    if rho < 0.9 { rho * rho / (1.0 - rho) } else { 8.1 + (rho - 0.9) * 99.0 }
}

/// Share of each node of a wide home: by its CPUs.
pub(crate) fn fractions(view: &View, home: NodeSet) -> impl Iterator<Item = (usize, f64)> {
    let total: f64 = home.iter().filter(|&i| i < view.n).map(|i| view.cap[i].max(1e-3)).sum();
    home.iter().filter(|&i| i < view.n).map(move |i| (i, view.cap[i].max(1e-3) / total))
}

/// How a group's shared memory should lie: over its active nodes, in proportion to use and bandwidth.
pub(crate) fn spread(view: &View, cpus: &[f64], out: &mut [f64]) {
    out.fill(0.0);
    let most = cpus.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    for (i, &c) in cpus.iter().enumerate() {
        let part = (c / most - INACTIVE_FRACTION) / (ACTIVE_FRACTION - INACTIVE_FRACTION);
        out[view.near[i]] += part.clamp(0.0, 1.0) * c * view.line_cap[view.near[i]];
    }
    let total: f64 = out.iter().sum();
    out.iter_mut().for_each(|w| *w /= total);
}

impl<'v> Placement<'v> {
    /// Costs of `homes`, from scratch: affinities x nodes at worst.
    pub(crate) fn new(view: &'v View, homes: Vec<NodeSet>) -> Self {
        let (n, groups) = (view.n, view.groups.len());
        let mut placement = Placement {
            view,
            load: vec![0.0; n],
            variance: vec![0.0; n],
            lines: vec![0.0; n],
            group_cpus: vec![0.0; groups * n],
            group_lines: vec![0.0; groups * n],
            group_cost: vec![(0.0, 0.0); groups],
            own: (0.0, 0.0),
            shared: (0.0, 0.0),
            node_cost: vec![(0.0, 0.0); n],
            stale: NodeSet::first(n),
            homes,
        };
        for a in 0..placement.homes.len() {
            placement.put(a, 1.0);
        }
        for g in 0..groups {
            placement.put_group(g, 1.0);
        }
        placement.freshen();
        placement
    }

    /// Counts again what waits and queues at the stale nodes.
    fn freshen(&mut self) {
        // Without the small-imbalance rule everybody's waiting depends on everybody's load.
        let stale = if self.view.rules.small_imbalance { self.stale } else { NodeSet::first(self.view.n) };
        for i in stale.iter() {
            let queue = self.lines[i] * LOCAL_LINE_S * queueing(self.lines[i] / self.view.line_cap[i]);
            self.node_cost[i] = (self.wait_at(i, self.load[i]), queue);
        }
        self.stale = NodeSet::EMPTY;
    }

    /// The whole cost. Nodes many steps.
    pub(crate) fn cost(&self) -> Cost {
        let mut cost = Cost { stall: self.own.0 + self.shared.0, copy: self.own.1 + self.shared.1, ..Cost::default() };
        debug_assert!(self.stale.is_empty());
        for (wait, queue) in &self.node_cost {
            cost.wait += wait;
            cost.queue += queue;
        }
        cost
    }

    /// Time lost queueing at the memory of `node`.
    fn queue(&self, node: usize) -> f64 {
        self.node_cost[node].1
    }

    fn wait(&self, node: usize) -> f64 {
        self.node_cost[node].0
    }

    /// Time lost waiting for the CPUs of `node` if `load` CPUs were wanted there. Overcommitment that all nodes share is nobody's fault; a node over
    /// its share makes its tasks slower by load / share. A little more than full counts as full: CPU time is
    /// measured. Without the small-imbalance rule every task above the machine's average waits.
    fn wait_at(&self, node: usize, load: f64) -> f64 {
        let load = load.max(0.0);
        if load == 0.0 {
            return 0.0;
        }
        let share = if self.view.rules.small_imbalance {
            self.view.full(node)
        } else {
            let (all, cap) = (self.load.iter().sum::<f64>(), self.view.cap.iter().sum::<f64>());
            self.view.cap[node] * all / cap.max(1e-9)
        };
        // A node without CPUs still has a price, and not one that drowns all others.
        let share = share.max(0.05);
        excess(load, self.variance[node], share) * (load / share).max(1.0)
    }

    /// Gives `a` another home.
    pub(crate) fn set_home(&mut self, a: usize, home: NodeSet) {
        let group = self.view.affinities[a].group;
        if let Some(g) = group {
            self.put_group(g, -1.0);
        }
        self.put(a, -1.0);
        self.homes[a] = home;
        self.put(a, 1.0);
        if let Some(g) = group {
            self.put_group(g, 1.0);
        }
        self.freshen();
    }

    /// What changing one home would change, leaving everything as it is.
    pub(crate) fn try_home(&mut self, a: usize, home: NodeSet) -> Cost {
        let old = self.homes[a];
        self.set_home(a, home);
        let cost = self.cost();
        self.set_home(a, old);
        cost
    }

    /// No move of `a` can gain more than this: what it and its group could save in latency, all the waiting and
    /// queueing of the node it leaves, less the waiting it causes. Saves trying most moves to full nodes.
    pub(crate) fn move_gain_at_most(&self, a: usize, from: usize, to: usize) -> f64 {
        let view = self.view;
        let affinity = &view.affinities[a];
        let own = |i: usize| {
            let (stall, copy) = own_cost(view, a, NodeSet::single(i));
            stall + copy
        };
        let far = view.farthest_s;
        // Its own shared touches come nearer, and the group's to the memory that follows it.
        let group = affinity.group.map_or(0.0, |g| {
            let part = affinity.demand / view.groups[g].demand.max(1e-9);
            (affinity.shared + view.groups[g].shared * part.min(1.0)) * far
                + view.groups[g].held_total * part.min(1.0) * view.copy_s
        });
        let relief = |i: usize| self.queue(i) + self.wait(i);
        let traffic = affinity.private + affinity.fixed_total + affinity.shared > 0.0;
        let queues: f64 = if traffic && affinity.group.is_some() {
            (0..view.n).map(|i| self.queue(i)).sum()
        } else {
            self.queue(view.near[from])
        };
        let caused = self.wait_at(to, self.load[to] + affinity.demand) - self.wait(to);
        own(from) - own(to) + group + queues + relief(from) - caused
    }

    /// Stall and copy of affinity `a` alone if its home were `home`; without its shared memory.
    pub(crate) fn own_cost(&self, a: usize, home: NodeSet) -> (f64, f64) {
        own_cost(self.view, a, home)
    }

    /// Adds (`sign` 1) or takes away (-1) what affinity `a` alone contributes at its home.
    fn put(&mut self, a: usize, sign: f64) {
        let view = self.view;
        let n = view.n;
        let affinity = &view.affinities[a];
        let home = self.homes[a];
        let (stall, copy) = own_cost(view, a, home);
        self.own.0 += sign * stall;
        self.own.1 += sign * copy;
        for (i, f) in fractions(view, home) {
            self.stale = self.stale.union(NodeSet::of(&[i, view.near[i]]));
            self.load[i] += sign * f * affinity.demand;
            self.variance[i] += sign * f * affinity.variance;
            self.lines[view.near[i]] += sign * f * affinity.private;
            if let Some(g) = affinity.group {
                self.group_cpus[g * n + i] += sign * f * affinity.demand;
                self.group_lines[g * n + i] += sign * f * affinity.shared;
            }
        }
        if affinity.fixed_total > 0.0 {
            self.stale = NodeSet::first(n);
            for m in 0..n {
                self.lines[m] += sign * view.fixed(a)[m];
            }
        }
    }

    /// Adds or takes away a group's shared part at the present homes of its members.
    fn put_group(&mut self, g: usize, sign: f64) {
        let n = self.view.n;
        if sign > 0.0 {
            self.group_cost[g] = self.shared_cost(g);
        }
        self.shared.0 += sign * self.group_cost[g].0;
        self.shared.1 += sign * self.group_cost[g].1;
        let mut weights = [0.0; super::MAX_NODES];
        spread(self.view, clean(&mut self.group_cpus[g * n..(g + 1) * n]), &mut weights[..n]);
        for (i, w) in weights[..n].iter().enumerate().filter(|(_, w)| **w > 0.0) {
            self.lines[i] += sign * w * self.view.groups[g].shared;
            self.stale = self.stale.union(NodeSet::single(i));
        }
    }

    fn shared_cost(&mut self, g: usize) -> (f64, f64) {
        let view = self.view;
        let n = view.n;
        let mut weights = [0.0; super::MAX_NODES];
        spread(view, clean(&mut self.group_cpus[g * n..(g + 1) * n]), &mut weights[..n]);
        let mut stall = 0.0;
        for (i, &lines) in self.group_lines[g * n..(g + 1) * n].iter().enumerate() {
            if lines > 0.0 {
                let per_line: f64 = weights[..n].iter().zip(&view.line_s[i * n..]).map(|(w, s)| w * s).sum();
                stall += lines * per_line;
            }
        }
        let total = view.groups[g].held_total;
        let misplaced: f64 = (0..n).map(|m| (view.group_held[g * n + m] - weights[m] * total).max(0.0)).sum();
        (stall, misplaced * view.copy_s)
    }
}

/// Mean of what a demand of mean `load` and variance `variance` has above `share`: the normal loss function. Tasks that
/// always run have no variance and may fill a node to the brim; tasks that come and go need room, or they queue.
pub(crate) fn excess(load: f64, variance: f64, share: f64) -> f64 {
    let over = load - share;
    if variance < 1e-9 {
        return over.max(0.0);
    }
    let sigma = variance.sqrt();
    let z = over / sigma;
    // Upper tail of the normal distribution by its logistic approximation (error below 0.0002 of a task).
    let tail = 1.0 / (1.0 + (-(1.5976 * z + 0.070_566 * z * z * z)).exp());
    let density = (-0.5 * z * z).exp() * 0.398_942_280_4;
    (sigma * density + over * tail).max(over.max(0.0))
}

/// Takes out what rounding left of members that have gone.
fn clean(cpus: &mut [f64]) -> &[f64] {
    for c in cpus.iter_mut() {
        if *c < 1e-9 {
            *c = 0.0;
        }
    }
    cpus
}

/// Stall and copy of one affinity at `home`, without its group's shared memory.
pub(crate) fn own_cost(view: &View, a: usize, home: NodeSet) -> (f64, f64) {
    let n = view.n;
    let affinity = &view.affinities[a];
    let (fixed, held) = (view.fixed(a), &view.held[a * n..(a + 1) * n]);
    let mut stall = 0.0;
    let mut in_place = 0.0;
    for (i, f) in fractions(view, home) {
        // A wide home has its memory spread over the same nodes.
        let private: f64 = if home.len() == 1 {
            view.line_s[i * n + view.near[i]]
        } else {
            fractions(view, home).map(|(m, g)| g * view.line_s[i * n + view.near[m]]).sum()
        };
        stall += f * affinity.private * private;
        if affinity.fixed_total > 0.0 {
            stall += f * fixed.iter().zip(&view.line_s[i * n..]).map(|(l, s)| l * s).sum::<f64>();
        }
        in_place += held[view.near[i]].min(f * affinity.held_total);
    }
    let moved = if home == affinity.home { 0.0 } else { MOVE_S / HORIZON.as_secs_f64() };
    (stall, (affinity.held_total - in_place).max(0.0) * view.copy_s + moved)
}
