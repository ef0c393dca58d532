//! Claims of stability: seed 2's workloads are no slower and no less stable than with no balancing at all, phases are followed,
//! and tasks may come and go.

use super::Verdict;
use crate::column::Column;
use crate::constants::Constants;
use crate::machine::Machine;
use crate::rng::Rng;
use crate::runs::over;
use crate::seed0::{self, Shape, Start};
use crate::seed2::{self, RunNoise, Work};
use crate::stats::{cov_percent, max, median, min};
use crate::{noise, tables};

/// Seed 2: `works` on `per_socket` nodes per socket; `seeds` runs of each.
pub fn seed2(c: &Constants, per_socket: usize, works: &[Work], seeds: u64) -> Verdict {
    let mut verdict = Verdict::default();
    for &work in works {
        let target = tables::tip_cov(per_socket, work);
        let go = |column| over(seeds, |seed| seed2::run(c, per_socket, work, column, seed));
        let (none, ours) = (go(Column::None), go(Column::Numart));
        let noise = RunNoise::making(cov_percent(&none), target);
        let (none, ours) = (noise.applied_to(&none), noise.applied_to(&ours));
        let (middle, least) = (median(&ours) / median(&none), min(&ours) / min(&none));
        let case = format!(
            "seed 2 model {} NPS{per_socket} {work:?}, {seeds} runs: CoV none {:.2} % (aim {target}) numart {:.2} %; median {middle:.4}, minimum {least:.4} of none's",
            c.name,
            cov_percent(&none),
            cov_percent(&ours),
        );
        let calm = cov_percent(&ours) <= cov_percent(&none) * 1.001;
        verdict.hold(calm && middle >= 0.98 && least >= 0.95, || case.clone());
        verdict.line(case);
    }
    verdict
}

/// A small program stays together on an otherwise idle machine, and what it costs if every imbalance is evened out.
pub fn small_program(c: &Constants, seeds: u64) -> Verdict {
    let mut verdict = Verdict::default();
    for per_socket in [1, 2, 4] {
        let go = |column| {
            let runs = over(seeds, |seed| seed2::run(c, per_socket, Work::Together(8), column, seed));
            median(&runs)
        };
        let (ours, eager) = (go(Column::Numart), go(Column::NoImbalance));
        let case = format!(
            "small program model {} NPS{per_socket}, {seeds} seeds: without allowed imbalance {:.3} of numart",
            c.name,
            eager / ours
        );
        verdict.hold(eager < 0.95 * ours, || case.clone());
        verdict.line(case);
    }
    verdict
}

/// Seed 0 II with 25 MiB: after a minute all tasks of an instance go on with each other's memory. It is local again within the
/// time copying it takes, and steady as before.
pub fn phases(c: &Constants, seeds: u64) -> Verdict {
    let shape = Shape::of(1, 25.0, Start::Uniform);
    let pinned = tables::pinned_rate(c, shape);
    let runs = over(seeds, |seed| {
        let mut world = seed0::build(Machine::eight_by_ten(c), c, shape, Column::Numart, seed);
        world.run(60.0);
        noise::change_phase(&mut world);
        let lost = world.local_share();
        let mut at = 60.0;
        while world.local_share() < 0.95 && at < 120.0 {
            at += 0.1;
            world.run(at);
        }
        let done = |w: &crate::world::World| w.done_by_group().iter().sum::<f64>();
        world.run(120.0);
        let before = done(&world);
        world.run(150.0);
        (lost, at - 60.0, (done(&world) - before) / 30.0 / pinned)
    });
    let figures = |f: &dyn Fn(&(f64, f64, f64)) -> f64| runs.iter().map(f).collect::<Vec<f64>>();
    let (lost, again, steady) = (max(&figures(&|r| r.0)), max(&figures(&|r| r.1)), min(&figures(&|r| r.2)));
    let bar = 1.3 * shape.all_bytes() / 2e9 + 2.0;
    let case = format!(
        "phases model {}, {seeds} seeds: local share {lost:.2} when the phase changes, 0.95 after {again:.1} s (bar {bar:.1}), steady {steady:.4} of pinned",
        c.name
    );
    let mut verdict = Verdict::default();
    verdict.hold(lost < 0.95 && again <= bar && steady >= 0.98, || case.clone());
    verdict.line(case);
    verdict
}

/// Seed 0 II with 25 MiB, a task replaced every second for four minutes: steady share of pinned, local share, and the load.
pub fn coming_and_going(c: &Constants, seeds: u64) -> Verdict {
    let shape = Shape::of(1, 25.0, Start::Uniform);
    let pinned = tables::pinned_rate(c, shape);
    let runs = over(seeds, |seed| {
        let mut world = seed0::build(Machine::eight_by_ten(c), c, shape, Column::Numart, seed);
        world.run(30.0);
        let before = world.done_by_group().iter().sum::<f64>();
        noise::run_coming_and_going(&mut world, 240.0, 1.0, &mut Rng::new(seed ^ 0xC0));
        let rate = (world.done_by_group().iter().sum::<f64>() - before) / 240.0;
        (rate / pinned, world.local_share())
    });
    let rate = min(&runs.iter().map(|r| r.0).collect::<Vec<_>>());
    let local = min(&runs.iter().map(|r| r.1).collect::<Vec<_>>());
    let case = format!(
        "tasks that come and go model {}, {seeds} seeds: {rate:.4} of pinned, local share {local:.3} at the end",
        c.name
    );
    let mut verdict = Verdict::default();
    verdict.hold(rate >= 0.97 && local >= 0.95, || case.clone());
    verdict.line(case);
    verdict
}
