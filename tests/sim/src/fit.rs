//! How well a set of constants gives seed 0's eight figures.

use crate::constants::Constants;
use crate::machine::Machine;
use crate::rates::{Class, Loads, solve};

/// Seed 0, per warehouse relative to pinned I: pinned I to IV, then none I to IV (issue 6, from the mail's sums).
pub const TARGETS: [f64; 8] = [1.0, 0.864, 0.706, 0.455, 0.491, 0.457, 0.426, 0.305];

/// The eight figures under `c`, in the order of [`TARGETS`].
pub fn figures(c: &Constants) -> [f64; 8] {
    let machine = Machine::eight_by_ten(c);
    let mut out = [0.0; 8];
    for (i, width) in [1usize, 2, 4, 8].into_iter().enumerate() {
        out[i] = per_warehouse(&machine, c, width, true);
        out[4 + i] = per_warehouse(&machine, c, width, false);
    }
    let unit = out[0];
    out.map(|f| f / unit)
}

/// The largest difference from [`TARGETS`].
pub fn worst_error(c: &Constants) -> f64 {
    figures(c).iter().zip(TARGETS).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// Busy time of a transaction of an instance that is `width` nodes wide.
pub fn busy_us(c: &Constants, width: f64) -> f64 {
    c.cpu_us + c.width_us * (width - 1.0).max(0.0)
}

/// Transactions per microsecond of one warehouse, all 80 CPUs busy: pinned (private memory local, shared memory over
/// the instance's nodes) or left to chance (all memory over all nodes).
fn per_warehouse(machine: &Machine, c: &Constants, width: usize, pinned: bool) -> f64 {
    let n = machine.nodes();
    let classes: Vec<Class> = (0..n)
        .map(|node| {
            let mut lines = vec![0.0; n];
            if pinned {
                lines[node] += c.private_lines;
                let first = node / width * width;
                for m in first..first + width {
                    lines[m] += c.shared_lines / width as f64;
                }
            } else {
                lines[node] += c.private_lines * c.sticky;
                for line in &mut lines {
                    *line += (c.private_lines * (1.0 - c.sticky) + c.shared_lines) / n as f64;
                }
            }
            let share = if pinned { 1.0 } else { 1.0 - c.idle_loss };
            Class { node, count: 10.0, share, busy_us: busy_us(c, width as f64), lines }
        })
        .collect();
    let rates = solve(machine, &classes, &[], &mut Loads::default());
    rates.iter().sum::<f64>() / n as f64
}

/// Load of one memory controller in pinned I, as a share of its bandwidth: tells model sets apart that fit equally well.
pub fn pinned_controller_load(c: &Constants) -> f64 {
    let machine = Machine::eight_by_ten(c);
    let rate = per_warehouse(&machine, c, 1, true);
    10.0 * rate * (c.private_lines + c.shared_lines) / c.controller
}
