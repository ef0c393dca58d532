//! The figures to beat, as a named subset: fewer seeds than the tables of `cargo bench --bench seeds`, the same bars.

use numart_sim::column::Column;
use numart_sim::constants::MODELS;
use numart_sim::machine::Machine;
use numart_sim::rng::Rng;
use numart_sim::seed0::{self, Shape, Start};
use numart_sim::stats::{cov_percent, max, median, min};
use numart_sim::{noise, seed1, seed2, seed3, seed4, tables};

#[test]
fn seed0_reaches_pinned() {
    for c in MODELS {
        for index in 0..4 {
            for mib in [25.0, 400.0] {
                for start in [Start::FirstNode, Start::Uniform] {
                    let shape = Shape::of(index, mib, start);
                    let pinned = tables::pinned_rate(&c, shape);
                    for seed in 0..2 {
                        let run = seed0::run(
                            seed0::build(
                                Machine::eight_by_ten(&c),
                                &c,
                                shape,
                                Column::Numart,
                                seed,
                            ),
                            240.0,
                        );
                        let case = format!("model {} {shape:?} seed {seed}: {run:?}", c.name);
                        assert!(
                            run.steady.iter().sum::<f64>() >= 0.98 * pinned,
                            "steady sum, {case}"
                        );
                        assert!(
                            min(&run.steady) >= 0.97 * pinned / shape.instances as f64,
                            "worst instance, {case}"
                        );
                        assert!(
                            max(&run.steady) / min(&run.steady) <= 1.02,
                            "spread, {case}"
                        );
                        let copying = shape.all_bytes() / 2e9;
                        let whole = run.whole.iter().sum::<f64>() / pinned;
                        let bar = if mib < 100.0 {
                            0.98
                        } else {
                            0.98 - copying / 240.0
                        };
                        assert!(whole >= bar, "whole {whole} of {bar}, {case}");
                        let local = run.local_at.expect("95 % local at some time");
                        assert!(local <= 1.3 * copying + 2.0, "95 % local, {case}");
                    }
                }
            }
        }
    }
}

#[test]
fn seed0_the_group_step_is_worth_it() {
    // Model B, two instances of 40 from a uniform start: without home sets the same policy sticks.
    let c = MODELS[1];
    let shape = Shape::of(2, 25.0, Start::Uniform);
    let pinned = tables::pinned_rate(&c, shape);
    let steady = |column| {
        seed0::run(
            seed0::build(Machine::eight_by_ten(&c), &c, shape, column, 0),
            120.0,
        )
        .steady
        .iter()
        .sum::<f64>()
            / pinned
    };
    assert!(steady(Column::Numart) > 0.98);
    assert!(steady(Column::NoGroupStep) < 0.95);
}

#[test]
fn churn_is_left_alone() {
    for c in MODELS {
        for index in 0..4 {
            let share = tables::churn_share(&c, index, Column::Numart);
            assert!(share <= 0.01, "model {} case {index}: {share}", c.name);
        }
    }
    assert!(
        tables::churn_share(&MODELS[0], 1, Column::NoPayback) > 0.01,
        "the rule is what does it"
    );
}

#[test]
fn noise_without_change_of_load_moves_nothing() {
    for c in MODELS {
        for index in 0..4 {
            let mut world = seed0::build(
                Machine::eight_by_ten(&c),
                &c,
                Shape::of(index, 25.0, Start::Uniform),
                Column::Numart,
                1,
            );
            world.run(60.0);
            let (before, minutes) = (world.migrated, 5.0);
            noise::run_preempted(&mut world, 60.0 * minutes, 1.0, 2.0, &mut Rng::new(1));
            let all: f64 = world.extents.iter().map(|e| e.bytes).sum();
            let share = (world.migrated - before) / all / minutes;
            assert!(
                share <= 0.001,
                "model {} case {index}: {share} per minute",
                c.name
            );
        }
    }
}

#[test]
fn no_group_collapses_onto_fewer_nodes_than_its_load_needs() {
    // A lone task, half load, full load, twice the load: the nodes used hold the load, or all of them are used.
    for c in MODELS {
        for (warehouses, least) in [(1, 1), (40, 4), (80, 8), (160, 8)] {
            let shape = Shape {
                instances: 1,
                warehouses,
                ..Shape::of(3, 25.0, Start::FirstNode)
            };
            let mut world = seed0::build(Machine::eight_by_ten(&c), &c, shape, Column::Numart, 3);
            world.run(20.0);
            let used = world.nodes_of_group(0).len();
            assert!(used >= least, "{warehouses} tasks on {used} nodes");
            let mut load = [0usize; 8];
            world.tasks.iter().for_each(|t| load[t.home] += 1);
            let most = *load.iter().max().unwrap();
            assert!(most <= (warehouses / 8).max(10) + 1, "{load:?}");
        }
        let shape = Shape {
            instances: 1,
            warehouses: 1,
            ..Shape::of(3, 25.0, Start::FirstNode)
        };
        let mut world = seed0::build(Machine::eight_by_ten(&c), &c, shape, Column::Numart, 3);
        world.run(5.0);
        assert!(
            world.local_share() > 0.99,
            "a lone task and its memory meet"
        );
    }
}

#[test]
fn seed4_reaches_manual_with_small_and_huge_pages() {
    for c in MODELS {
        for (huge, bar) in [(false, 0.987), (true, 0.997)] {
            for start in [Start::FirstNode, Start::Uniform] {
                let steady = |column, seed| {
                    seed0::run(seed4::build(&c, huge, start, column, seed), 40.0)
                        .steady
                        .iter()
                        .sum::<f64>()
                };
                let pinned = seed0::run(seed4::build(&c, huge, start, Column::Pinned, 1), 2.0)
                    .steady
                    .iter()
                    .sum::<f64>();
                let ours = steady(Column::Numart, 1) / pinned;
                assert!(
                    ours >= bar,
                    "model {} huge {huge} {start:?}: {ours}",
                    c.name
                );
                if huge {
                    assert!(
                        steady(Column::MemoryOnly, 1) / pinned < 0.9
                            && steady(Column::TasksOnly, 1) / pinned < 0.9
                    );
                }
            }
        }
    }
}

#[test]
fn seed3_converges_and_stays() {
    for c in MODELS {
        let build = |seed| {
            seed3::build(
                Machine::direct("4x20", 4, 20, &c),
                &c,
                (8, 20, 1000.0, true),
                Column::Numart,
                seed,
            )
        };
        let runs: Vec<_> = (0..40).map(|s| seed3::run(&mut build(s), 120.0)).collect();
        let at: Vec<f64> = runs
            .iter()
            .map(|r| r.strong_at.expect("converged"))
            .collect();
        assert!(median(&at) <= 2.0 && max(&at) <= 10.0, "{at:?}");
        for (run, at) in runs.iter().zip(&at) {
            assert!(
                !run.relapsed && run.memory_share > 0.95 && run.balance == 0,
                "{run:?}"
            );
            assert!(
                run.memory_at.unwrap() <= at + 1.2 * 8.0 * 1000.0 * 1048576.0 / 2e9,
                "{run:?}"
            );
        }
        let mut world = build(1);
        seed3::run(&mut world, 30.0);
        seed3::kick(&mut world);
        let again = seed3::run(&mut world, 60.0);
        assert!(
            again.strong_at.is_some_and(|t| t <= 2.0) && !again.relapsed,
            "after a kick: {again:?}"
        );
    }
    // As before 2014: with swaps only it does not converge.
    let c = MODELS[0];
    let mut world = seed3::build(
        Machine::direct("4x20", 4, 20, &c),
        &c,
        (8, 20, 1000.0, true),
        Column::SwapsOnly,
        1,
    );
    assert!(seed3::run(&mut world, 60.0).strong_at.is_none());
}

#[test]
fn seed3_all_sixteen_shapes() {
    for c in MODELS {
        for shape in seed3::SHAPES {
            for seed in 0..3 {
                let mut world = seed3::build(
                    Machine::direct("4x20", 4, 20, &c),
                    &c,
                    shape,
                    Column::Numart,
                    seed,
                );
                let run = seed3::run(&mut world, 30.0);
                assert!(
                    run.strong_at.is_some_and(|t| t <= 10.0) && !run.relapsed,
                    "model {} {shape:?}: {run:?}",
                    c.name
                );
            }
        }
    }
}

#[test]
fn seed1_is_within_a_twentieth_of_hard_binding_and_locality_beats_warmth() {
    for c in MODELS {
        for test in seed1::TESTS {
            let hard = seed1::run(&c, test, Column::Pinned, 0.0, false, 1).elapsed;
            for warmth in [0.0, 0.001] {
                let here = seed1::run(&c, test, Column::Numart, warmth, false, 1);
                let warm = seed1::run(&c, test, Column::Numart, warmth, true, 1);
                assert!(
                    here.elapsed <= 1.05 * hard,
                    "model {} {}: {here:?} against {hard}",
                    c.name,
                    test.name
                );
                assert!(
                    here.elapsed <= 1.01 * warm.elapsed,
                    "{}: {here:?} against {warm:?}",
                    test.name
                );
                let budget = if test.name == "numa01" { 0.017 } else { 0.01 };
                assert!(here.balancing <= budget, "{}: {here:?}", test.name);
            }
        }
    }
}

#[test]
fn seed2_is_no_worse_and_no_less_stable_than_none() {
    for c in MODELS {
        for (per_socket, work) in [
            (1, tables::WORKS[6]),
            (2, tables::WORKS[2]),
            (2, tables::WORKS[5]),
            (4, tables::WORKS[7]),
        ] {
            let noise =
                tables::run_noise(&c, per_socket, work, tables::tip_cov(per_socket, work), 20);
            let go = |column| {
                (0..20)
                    .map(|s| seed2::run(&c, per_socket, work, column, noise, s))
                    .collect::<Vec<f64>>()
            };
            let (none, ours) = (go(Column::None), go(Column::Numart));
            let case = format!("model {} NPS{per_socket} {work:?}", c.name);
            assert!(
                cov_percent(&ours) <= cov_percent(&none) * 1.001,
                "{case}: {} {}",
                cov_percent(&ours),
                cov_percent(&none)
            );
            assert!(
                median(&ours) >= 0.98 * median(&none) && min(&ours) >= 0.95 * min(&none),
                "{case}"
            );
        }
    }
}
