//! The queueing model: from where tasks run and where their memory is, to how fast they go.
//!
//! A closed network. One transaction of a task on node `n` takes
//!
//! ```text
//! T = cpu + width + sum over m of lines[m] * latency[n][m] * (1 + q(controller m) + q(port m out, port n in) + q(cross))
//! q(rho) = rho^2 / (1 - rho)             (continued linearly above rho = 0.9)
//! ```
//!
//! and the loads `rho` follow from the rates `1 / T`, so both are solved together by damped iteration. Rates hold
//! until the next event; no single transaction is simulated.

use crate::machine::Machine;

/// Tasks that are alike: same node, same memory, same work.
#[derive(Clone, Debug)]
pub struct Class {
    /// Node it runs on.
    pub node: usize,
    /// How many tasks.
    pub count: f64,
    /// Share of one CPU each of them gets, 0 to 1.
    pub share: f64,
    /// Microseconds of a transaction that are not memory time.
    pub busy_us: f64,
    /// Lines of a transaction by memory node.
    pub lines: Vec<f64>,
}

/// The loads of the machine's parts at the solution, as shares of their bandwidth; kept as the next start.
#[derive(Clone, Debug, Default)]
pub struct Loads {
    /// By node.
    pub controller: Vec<f64>,
    /// By node: lines its memory sends to other nodes.
    pub out: Vec<f64>,
    /// By node: lines its CPUs fetch from other nodes.
    pub inward: Vec<f64>,
    /// By direction (lower half to upper, upper to lower).
    pub cross: [f64; 2],
}

/// Extra latency, as a share of the idle latency, of a part loaded to `rho`.
pub fn queueing(rho: f64) -> f64 {
    const KNEE: f64 = 0.9;
    let rho = rho.max(0.0);
    if rho < KNEE {
        rho * rho / (1.0 - rho)
    } else {
        // Value and slope at the knee; a closed network settles far below, the line only guides the iteration.
        KNEE * KNEE / (1.0 - KNEE) + (rho - KNEE) * (2.0 * KNEE * (1.0 - KNEE) + KNEE * KNEE) / (1.0 - KNEE).powi(2)
    }
}

/// Transactions per microsecond of one task of each class. `copy` is background traffic (migrations) by node, in
/// lines per microsecond. `loads` is where the iteration starts and what it found; its cost is about
/// 20 iterations x classes x nodes.
pub fn solve(machine: &Machine, classes: &[Class], copy: &[f64], loads: &mut Loads) -> Vec<f64> {
    let n = machine.nodes();
    if loads.controller.len() != n {
        *loads = Loads { controller: vec![0.3; n], out: vec![0.1; n], inward: vec![0.1; n], cross: [0.1; 2] };
    }
    let mut rates = vec![0.0; classes.len()];
    let mut inflation = vec![0.0; n * n];
    let mut next = loads.clone();
    let mut damping = 0.5;
    let mut last_change = f64::INFINITY;
    for _ in 0..400 {
        for i in 0..n {
            for m in 0..n {
                inflation[i * n + m] = machine.latency[i * n + m] * path_inflation(machine, loads, i, m);
            }
        }
        next.controller.fill(0.0);
        next.out.fill(0.0);
        next.inward.fill(0.0);
        next.cross = [0.0; 2];
        for (class, rate) in classes.iter().zip(rates.iter_mut()) {
            let i = class.node;
            let memory: f64 = class.lines.iter().zip(&inflation[i * n..]).map(|(l, t)| l * t).sum();
            let time = class.busy_us + memory;
            *rate = if time > 0.0 { class.share / time } else { 0.0 };
            let flow = *rate * class.count;
            for m in 0..n {
                let lines = flow * class.lines[m];
                next.controller[m] += lines / machine.controller[m];
                if m != i {
                    next.out[m] += lines / machine.port[m];
                    next.inward[i] += lines / machine.port[i];
                    if machine.half[m] != machine.half[i] {
                        next.cross[usize::from(machine.half[m] > machine.half[i])] += lines / machine.cross;
                    }
                }
            }
        }
        for m in 0..n {
            next.controller[m] += copy.get(m).copied().unwrap_or(0.0) / machine.controller[m];
        }
        let change = loads.approach(&next, damping);
        // Overshoot shows as a change that does not shrink: then take smaller steps.
        if change > last_change * 0.9 {
            damping = (damping * 0.8_f64).max(0.05);
        }
        last_change = change;
        if change < 1e-7 {
            break;
        }
    }
    rates
}

fn path_inflation(machine: &Machine, loads: &Loads, i: usize, m: usize) -> f64 {
    let mut q = 1.0 + queueing(loads.controller[m]);
    if i != m {
        q += queueing(loads.out[m].max(loads.inward[i]));
        if machine.half[m] != machine.half[i] {
            q += queueing(loads.cross[usize::from(machine.half[m] > machine.half[i])]);
        }
    }
    q
}

impl Loads {
    /// One damped step towards `target`; returns the largest distance before the step.
    fn approach(&mut self, target: &Loads, damping: f64) -> f64 {
        let mut worst: f64 = 0.0;
        let mut step = |own: &mut f64, goal: f64| {
            worst = worst.max((goal - *own).abs());
            *own += (goal - *own) * damping;
        };
        for (own, goal) in self.controller.iter_mut().zip(&target.controller) {
            step(own, *goal);
        }
        for (own, goal) in self.out.iter_mut().zip(&target.out) {
            step(own, *goal);
        }
        for (own, goal) in self.inward.iter_mut().zip(&target.inward) {
            step(own, *goal);
        }
        for (own, goal) in self.cross.iter_mut().zip(&target.cross) {
            step(own, *goal);
        }
        worst
    }
}
