//! Claims of throughput: seed 0 (I to IV), its churn, group widths and quiet noise, and seed 4.

use super::Verdict;
use crate::column::Column;
use crate::constants::Constants;
use crate::machine::Machine;
use crate::rng::Rng;
use crate::runs::over;
use crate::seed0::{self, Outcome, Shape, Start};
use crate::stats::{max, min};
use crate::{noise, seed4, tables};

const CASES: [&str; 4] = ["I", "II", "III", "IV"];

fn sum(values: &[f64]) -> f64 {
    values.iter().sum()
}

/// Seed 0: I to IV, the given sizes per warehouse, both starts, 240 s.
pub fn seed0(c: &Constants, sizes_mib: &[f64], seeds: u64) -> Verdict {
    let mut verdict = Verdict::default();
    for index in 0..4 {
        for &mib in sizes_mib {
            for start in [Start::FirstNode, Start::Uniform] {
                let shape = Shape::of(index, mib, start);
                let pinned = tables::pinned_rate(c, shape);
                let runs = over(seeds, |seed| {
                    let world = seed0::build(Machine::eight_by_ten(c), c, shape, Column::Numart, seed);
                    seed0::run(world, 240.0)
                });
                let name = format!("seed 0 model {} {} {mib} MiB {start:?}", c.name, CASES[index]);
                judge_seed0(&mut verdict, &name, shape, pinned, &runs);
            }
        }
    }
    verdict
}

fn judge_seed0(verdict: &mut Verdict, name: &str, shape: Shape, pinned: f64, runs: &[Outcome]) {
    let figures = |f: &dyn Fn(&Outcome) -> f64| runs.iter().map(f).collect::<Vec<f64>>();
    let steady = min(&figures(&|r| sum(&r.steady) / pinned));
    let worst = min(&figures(&|r| min(&r.steady) * shape.instances as f64 / pinned));
    let spread = max(&figures(&|r| max(&r.steady) / min(&r.steady)));
    let whole = min(&figures(&|r| sum(&r.whole) / pinned));
    let local = max(&figures(&|r| r.local_at.unwrap_or(f64::INFINITY)));
    let copying = shape.all_bytes() / 2e9;
    let whole_bar = if shape.bytes < 100.0 * 1048576.0 { 0.98 } else { 0.98 - copying / 240.0 };
    let local_bar = 1.3 * copying + 2.0;
    verdict.line(format!(
        "{name}, {} seeds: steady {steady:.4} worst instance {worst:.4} spread {spread:.4} whole {whole:.4} (bar {whole_bar:.4}) 95 % local {local:.1} s (bar {local_bar:.1})",
        runs.len()
    ));
    let bars = [
        ("steady of pinned", steady >= 0.98),
        ("worst instance", worst >= 0.97),
        ("spread", spread <= 1.02),
        ("whole of pinned", whole >= whole_bar),
        ("time to 95 % local", local <= local_bar),
    ];
    for (bar, held) in bars {
        verdict.hold(held, || format!("{name}: {bar}"));
    }
}

/// Owners reshuffled every half second: at most 1 % of the touched bytes migrated in cases I to IV (or fewer of them).
pub fn churn(c: &Constants, cases: u64, seconds: f64) -> Verdict {
    let shares = over(cases, |index| tables::churn_share(c, index as usize, Column::Numart, seconds));
    let mut verdict = Verdict::default();
    verdict.line(format!(
        "churn model {}, {seconds} s, I to {}: {:.3?} % of touched bytes migrated",
        c.name,
        CASES[cases as usize - 1],
        shares.iter().map(|s| 100.0 * s).collect::<Vec<_>>()
    ));
    for (index, share) in shares.iter().enumerate() {
        verdict.hold(*share <= 0.01, || format!("churn model {} {}: {share}", c.name, CASES[index]));
    }
    verdict
}

/// Neighbours come and go, the load does not change: at most 0.1 % of the memory migrated per minute.
pub fn quiet_under_noise(c: &Constants, seeds: u64) -> Verdict {
    let mut verdict = Verdict::default();
    for index in 0..4 {
        let shares = over(seeds, |seed| {
            let shape = Shape::of(index, 25.0, Start::Uniform);
            let mut world = seed0::build(Machine::eight_by_ten(c), c, shape, Column::Numart, seed);
            world.run(60.0);
            let (before, minutes) = (world.migrated, 5.0);
            noise::run_preempted(&mut world, 60.0 * minutes, 1.0, 2.0, &mut Rng::new(seed));
            let all: f64 = world.extents.iter().map(|e| e.bytes).sum();
            (world.migrated - before) / all / minutes
        });
        verdict.line(format!(
            "noise model {} {}, {seeds} seeds: {:.4} % of the memory migrated per minute at worst",
            c.name,
            CASES[index],
            100.0 * max(&shares)
        ));
        verdict.hold(max(&shares) <= 0.001, || format!("noise model {} {}: {shares:?}", c.name, CASES[index]));
    }
    verdict
}

/// A lone task, half load, full load, twice the load: the nodes used hold the load, and the lone task meets its memory.
pub fn no_collapse(c: &Constants, seeds: u64) -> Verdict {
    let mut verdict = Verdict::default();
    for (warehouses, least) in [(1, 1), (40, 4), (80, 8), (160, 8)] {
        let shape = Shape { instances: 1, warehouses, ..Shape::of(3, 25.0, Start::FirstNode) };
        let runs = over(seeds, |seed| {
            let mut world = seed0::build(Machine::eight_by_ten(c), c, shape, Column::Numart, seed);
            world.run(20.0);
            let mut load = [0usize; 8];
            world.tasks.iter().for_each(|t| load[t.home] += 1);
            let most = load.into_iter().max().unwrap_or(0);
            (world.nodes_of_group(0).len(), most, world.local_share())
        });
        let fewest = runs.iter().map(|r| r.0).min().unwrap_or(0);
        let most = runs.iter().map(|r| r.1).max().unwrap_or(0);
        let local = min(&runs.iter().map(|r| r.2).collect::<Vec<_>>());
        let case = format!(
            "width model {}, {warehouses} tasks, {seeds} seeds: {fewest} nodes or more, {most} tasks on one at most, {local:.3} local",
            c.name
        );
        let held = fewest >= least && most <= (warehouses / 8).max(10) + 1 && (warehouses > 1 || local > 0.99);
        verdict.hold(held, || case.clone());
        verdict.line(case);
    }
    verdict
}

/// Seed 4: four instances on four nodes, 4 KiB or (`huge`) 2 MiB extents, and the half balancers well below.
pub fn seed4(c: &Constants, huge: &[bool], seeds: u64) -> Verdict {
    let mut verdict = Verdict::default();
    for &huge in huge {
        let bar = if huge { 0.997 } else { 0.987 };
        for start in [Start::FirstNode, Start::Uniform] {
            let steady = |column, count| {
                min(&over(count, |seed| sum(&seed0::run(seed4::build(c, huge, start, column, seed), 60.0).steady)))
            };
            let pinned = sum(&seed0::run(seed4::build(c, huge, start, Column::Pinned, 1), 2.0).steady);
            let ours = steady(Column::Numart, seeds) / pinned;
            let half = seeds.min(2);
            let memory = steady(Column::MemoryOnly, half) / pinned;
            let tasks = steady(Column::TasksOnly, half) / pinned;
            let pages = if huge { "2 MiB" } else { "4 KiB" };
            let case = format!(
                "seed 4 model {} {pages} {start:?}, {seeds} seeds: {ours:.4} of manual (bar {bar}), memory only {memory:.3}, tasks only {tasks:.3}",
                c.name
            );
            verdict.hold(ours >= bar && memory < 0.9 && tasks < 0.9, || case.clone());
            verdict.line(case);
        }
    }
    verdict
}
