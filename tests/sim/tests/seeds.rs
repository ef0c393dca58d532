//! The figures to beat. Each claim has a named subset, run by default, and its full number of seeds, ignored by default and
//! run by `cargo test --release -p numart-sim -- --include-ignored`; the bars are the same.

use numart_sim::claims::{Verdict, placement, stability, throughput};
use numart_sim::column::Column;
use numart_sim::constants::{Constants, MODELS};
use numart_sim::machine::Machine;
use numart_sim::runs::subset;
use numart_sim::seed0::{self, Shape, Start};
use numart_sim::{seed3, tables};

fn under_both(claim: impl Fn(&Constants) -> Verdict) {
    let mut all = Verdict::default();
    MODELS.iter().for_each(|c| all.add(claim(c)));
    all.judge();
}

#[test]
fn seed0_reaches_pinned() {
    let seeds = subset("seed 0, seeds", 20, 2, 1);
    let sizes = &[25.0, 400.0][..subset("seed 0, sizes (25, 400 MiB)", 2, 2, 1) as usize];
    under_both(|c| throughput::seed0(c, sizes, seeds));
}

#[test]
#[ignore = "full: 20 seeds, two minutes in a release build"]
fn seed0_reaches_pinned_full() {
    under_both(|c| throughput::seed0(c, &[25.0, 400.0], 20));
}

#[test]
fn seed0_the_group_step_is_worth_it() {
    // Model B, two instances of 40 from a uniform start: without home sets the same policy sticks.
    let c = MODELS[1];
    let shape = Shape::of(2, 25.0, Start::Uniform);
    let pinned = tables::pinned_rate(&c, shape);
    let steady = |column| {
        let world = seed0::build(Machine::eight_by_ten(&c), &c, shape, column, 0);
        seed0::run(world, 120.0).steady.iter().sum::<f64>() / pinned
    };
    assert!(steady(Column::Numart) > 0.98);
    assert!(steady(Column::NoGroupStep) < 0.95);
}

#[test]
fn churn_is_left_alone() {
    let cases = subset("churn, cases (I to IV)", 4, 4, 1);
    let seconds = subset("churn, seconds", 240, 240, 60) as f64;
    under_both(|c| throughput::churn(c, cases, seconds));
    if subset("churn, run without the rule", 1, 1, 0) == 1 {
        let without = tables::churn_share(&MODELS[0], 1, Column::NoPayback, 240.0);
        assert!(without > 0.01, "the rule is what does it: {without}");
    }
}

#[test]
fn noise_without_change_of_load_moves_nothing() {
    let seeds = subset("noise, seeds", 20, 1, 1);
    under_both(|c| throughput::quiet_under_noise(c, seeds));
}

#[test]
#[ignore = "full: 20 seeds"]
fn noise_without_change_of_load_moves_nothing_full() {
    under_both(|c| throughput::quiet_under_noise(c, 20));
}

#[test]
fn no_group_collapses_onto_fewer_nodes_than_its_load_needs() {
    let seeds = subset("widths, seeds", 20, 2, 1);
    under_both(|c| throughput::no_collapse(c, seeds));
}

#[test]
#[ignore = "full: 20 seeds"]
fn no_group_collapses_onto_fewer_nodes_than_its_load_needs_full() {
    under_both(|c| throughput::no_collapse(c, 20));
}

#[test]
fn seed4_reaches_manual_with_small_and_huge_pages() {
    let seeds = subset("seed 4, seeds", 10, 1, 1);
    let sizes = &[true, false][..subset("seed 4, extents (2 MiB, 4 KiB)", 2, 2, 1) as usize];
    under_both(|c| throughput::seed4(c, sizes, seeds));
}

#[test]
#[ignore = "full: 10 seeds"]
fn seed4_reaches_manual_with_small_and_huge_pages_full() {
    under_both(|c| throughput::seed4(c, &[false, true], 10));
}

#[test]
fn seed3_converges_and_stays() {
    let seeds = subset("seed 3, seeds", 200, 20, 4);
    under_both(|c| placement::seed3(c, seeds));
    under_both(|c| placement::seed3_kick(c, seeds.min(2)));
    // As before 2014: with swaps only it does not converge.
    let c = MODELS[0];
    let machine = Machine::direct("4x20", 4, 20, &c);
    let mut world = seed3::build(machine, &c, (8, 20, 1000.0, true), Column::SwapsOnly, 1);
    assert!(seed3::run(&mut world, 60.0).strong_at.is_none());
}

#[test]
#[ignore = "full: 200 seeds"]
fn seed3_converges_and_stays_full() {
    under_both(|c| placement::seed3(c, 200));
    under_both(|c| placement::seed3_kick(c, 20));
}

#[test]
fn seed3_all_sixteen_shapes() {
    let seeds = subset("seed 3, seeds of the sixteen shapes", 20, 3, 1);
    under_both(|c| placement::seed3_shapes(c, seeds));
}

#[test]
#[ignore = "full: 20 seeds"]
fn seed3_all_sixteen_shapes_full() {
    under_both(|c| placement::seed3_shapes(c, 20));
}

#[test]
fn seed1_is_within_a_twentieth_of_hard_binding_and_locality_beats_warmth() {
    let warmths = &[0.001, 0.0][..subset("seed 1, warmths (1, 0.3, 0 ms)", 3, 2, 1) as usize];
    let seeds = subset("seed 1, seeds", 10, 1, 1);
    under_both(|c| placement::seed1(c, seeds, warmths));
}

#[test]
#[ignore = "full: 10 seeds, three warmths"]
fn seed1_is_within_a_twentieth_of_hard_binding_and_locality_beats_warmth_full() {
    under_both(|c| placement::seed1(c, 10, &[0.0, 0.0003, 0.001]));
}

#[test]
fn seed2_is_no_worse_and_no_less_stable_than_none() {
    let seeds = subset("seed 2, runs", 100, 20, 5);
    let cases = subset("seed 2, cases", 30, 4, 2) as usize;
    for (per_socket, work) in
        [(2, tables::WORKS[2]), (2, tables::WORKS[5]), (1, tables::WORKS[6]), (4, tables::WORKS[7])]
            .into_iter()
            .take(cases)
    {
        under_both(|c| stability::seed2(c, per_socket, &[work], seeds));
    }
}

#[test]
#[ignore = "full: 100 runs of ten workloads on one, two and four nodes per socket; STREAM also 10 runs"]
fn seed2_is_no_worse_and_no_less_stable_than_none_full() {
    under_both(|c| {
        let mut all = Verdict::default();
        for per_socket in [1, 2, 4] {
            all.add(stability::seed2(c, per_socket, &tables::WORKS, 100));
            all.add(stability::seed2(c, per_socket, &tables::WORKS[8..], 10));
        }
        all
    });
}

#[test]
fn a_small_program_stays_together() {
    let seeds = subset("small program, seeds", 20, 3, 1);
    under_both(|c| stability::small_program(c, seeds));
}

#[test]
fn phases_are_followed() {
    let seeds = subset("phases, seeds", 20, 2, 1);
    under_both(|c| stability::phases(c, seeds));
}

#[test]
fn tasks_may_come_and_go() {
    let seeds = subset("tasks that come and go, seeds", 20, 2, 1);
    under_both(|c| stability::coming_and_going(c, seeds));
}

#[test]
#[ignore = "full: 20 seeds"]
fn small_programs_phases_and_coming_tasks_full() {
    under_both(|c| {
        let mut all = stability::small_program(c, 20);
        all.add(stability::phases(c, 20));
        all.add(stability::coming_and_going(c, 20));
        all
    });
}
