//! Claims of where tasks end up and how soon: seed 3 (convergence) and seed 1 (against hard binding).

use super::Verdict;
use crate::column::Column;
use crate::constants::Constants;
use crate::machine::Machine;
use crate::runs::over;
use crate::stats::{max, median};
use crate::{seed1, seed3};

fn four_by_twenty(c: &Constants) -> Machine {
    Machine::direct("4x20", 4, 20, c)
}

/// Seed 3: 8 x 20 tasks, all memory on node 0: the five numbers, no relapse within 120 s.
pub fn seed3(c: &Constants, seeds: u64) -> Verdict {
    let runs = over(seeds, |seed| {
        let shape = (8, 20, 1000.0, true);
        let mut world = seed3::build(four_by_twenty(c), c, shape, Column::Numart, seed);
        seed3::run(&mut world, 120.0)
    });
    let at: Vec<f64> = runs.iter().map(|r| r.strong_at.unwrap_or(f64::INFINITY)).collect();
    // Seconds from convergence until the memory had followed.
    let after: Vec<f64> =
        runs.iter().map(|r| r.memory_at.unwrap_or(f64::INFINITY) - r.strong_at.unwrap_or(0.0)).collect();
    let copying = 1.2 * 8.0 * 1000.0 * 1048576.0 / 2e9;
    let unconverged = runs.iter().filter(|r| r.strong_at.is_none()).count();
    let relapsed = runs.iter().filter(|r| r.relapsed).count();
    let balance = runs.iter().map(|r| r.balance).max().unwrap_or(0);
    let share = crate::stats::min(&runs.iter().map(|r| r.memory_share).collect::<Vec<_>>());
    let speed = crate::stats::min(&runs.iter().map(|r| r.bytes_per_s).collect::<Vec<_>>());
    let mut verdict = Verdict::default();
    let case = format!(
        "seed 3 model {}, {seeds} seeds: strong {:.1} s median {:.1} worst; {unconverged} unconverged, {relapsed} relapsed; most less fewest tasks {balance}; memory {share:.3} there, {:.1} s later at worst (bar {copying:.1}); {:.1} GB/s",
        c.name,
        median(&at),
        max(&at),
        max(&after),
        speed / 1e9
    );
    let held = median(&at) <= 2.0
        && max(&at) <= 10.0
        && unconverged + relapsed + balance == 0
        && share > 0.95
        && max(&after) <= copying;
    verdict.hold(held, || case.clone());
    verdict.line(case);
    verdict
}

/// Re-convergence after one task is kicked to another node.
pub fn seed3_kick(c: &Constants, seeds: u64) -> Verdict {
    let again: Vec<f64> = over(seeds, |seed| {
        let shape = (8, 20, 1000.0, true);
        let mut world = seed3::build(four_by_twenty(c), c, shape, Column::Numart, seed);
        seed3::run(&mut world, 30.0);
        seed3::kick(&mut world);
        let run = seed3::run(&mut world, 60.0);
        if run.relapsed { f64::INFINITY } else { run.strong_at.unwrap_or(f64::INFINITY) }
    });
    let mut verdict = Verdict::default();
    verdict.line(format!(
        "seed 3 model {}, kicked, {seeds} seeds: strong again after {:.1} s at worst",
        c.name,
        max(&again)
    ));
    verdict.hold(max(&again) <= 2.0, || format!("seed 3 model {} kick: {again:?}", c.name));
    verdict
}

/// The sixteen convergence shapes of perf bench.
pub fn seed3_shapes(c: &Constants, seeds: u64) -> Verdict {
    let mut verdict = Verdict::default();
    for shape in seed3::SHAPES {
        let runs = over(seeds, |seed| {
            let mut world = seed3::build(four_by_twenty(c), c, shape, Column::Numart, seed);
            seed3::run(&mut world, 60.0)
        });
        let at: Vec<f64> = runs.iter().map(|r| r.strong_at.unwrap_or(f64::INFINITY)).collect();
        let relapsed = runs.iter().filter(|r| r.relapsed).count();
        let case = format!(
            "seed 3 model {} {} x {} @ {} MiB{}, {seeds} seeds: strong {:.1} s at worst, {relapsed} relapsed",
            c.name,
            shape.0,
            shape.1,
            shape.2,
            if shape.3 { "" } else { " small pages" },
            max(&at)
        );
        verdict.hold(max(&at) <= 10.0 && relapsed == 0, || case.clone());
        verdict.line(case);
    }
    verdict
}

/// Seed 1: at most 1.05 of hard binding; locality first never slower than warmth first by over 1 %, with fewer cross-node
/// moves (where a node is so full that anybody is displaced at all); the balancer's own CPU time.
pub fn seed1(c: &Constants, seeds: u64, warmths: &[f64]) -> Verdict {
    let mut verdict = Verdict::default();
    for test in seed1::TESTS {
        let hard = seed1::run(c, test, Column::Pinned, 0.0, false, 1).elapsed;
        let budget = if test.name == "numa01" { 0.017 } else { 0.01 };
        for &warmth in warmths {
            let pairs = over(seeds, |seed| {
                let here = seed1::run(c, test, Column::Numart, warmth, false, seed);
                (here, seed1::run(c, test, Column::Numart, warmth, true, seed))
            });
            let figures =
                |f: &dyn Fn(&(seed1::Outcome, seed1::Outcome)) -> f64| max(&pairs.iter().map(f).collect::<Vec<f64>>());
            let bound = figures(&|(here, _)| here.elapsed / hard);
            let slower = figures(&|(here, warm)| here.elapsed / warm.elapsed);
            let cpu = figures(&|(here, _)| here.balancing);
            let crossings = |f: &dyn Fn(&(seed1::Outcome, seed1::Outcome)) -> usize| pairs.iter().map(f).sum::<usize>();
            let (here, warm) = (crossings(&|p| p.0.crossings), crossings(&|p| p.1.crossings));
            let fewer = pairs.iter().all(|(h, w)| h.crossings < w.crossings || (h.displaced, w.displaced) == (0, 0));
            let case = format!(
                "seed 1 model {} {} at {} ms, {seeds} seeds: {bound:.4} of hard binding, {slower:.4} of warmth first, crossings {here} against {warm}, balancing {:.3} % of CPU",
                c.name,
                test.name,
                warmth * 1e3,
                cpu * 100.0
            );
            let held = bound <= 1.05 && slower <= 1.01 && fewer && cpu <= budget;
            verdict.hold(held, || case.clone());
            verdict.line(case);
        }
    }
    verdict
}
