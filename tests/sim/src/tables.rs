//! The tables of seeds 0 to 4, beside the mails' figures. `cargo bench --bench seeds` prints them all.

use crate::column::Column;
use crate::constants::{Constants, MODELS};
use crate::machine::Machine;
use crate::runs::over;
use crate::seed0::{self, Shape, Start};
use crate::seed2::{self, RunNoise, Work};
use crate::stats::{cov_percent, max, median, min};
use crate::{noise, seed1, seed3, seed4};

/// The tables there are.
pub const TABLES: [&str; 6] = ["seed0", "churn", "seed4", "seed3", "seed1", "seed2"];

/// Prints the tables named in `which` (all if it is empty) for both models, or for the one named `A` or `B` in it; `seeds` runs
/// per cell (20 and more for the published tables).
pub fn print_all(which: &[String], seeds: u64) {
    let named = |name: &str| which.iter().any(|w| w == name);
    let all = !TABLES.iter().any(|t| named(t));
    for c in MODELS {
        if (named("A") || named("B")) && !named(c.name) {
            continue;
        }
        println!("\n{}\n", c.line());
        for table in TABLES.into_iter().filter(|t| all || named(t)) {
            match table {
                "seed0" => seed0_table(&c, seeds),
                "churn" => churn_table(&c),
                "seed4" => seed4_table(&c, seeds),
                "seed3" => seed3_table(&c, seeds),
                "seed1" => seed1_table(&c),
                _ => seed2_table(&c, seeds),
            }
        }
    }
}

fn sum(values: &[f64]) -> f64 {
    values.iter().sum()
}

/// Transactions per second of the pinned run of a shape.
pub fn pinned_rate(c: &Constants, shape: Shape) -> f64 {
    sum(&seed0::run(seed0::build(Machine::eight_by_ten(c), c, shape, Column::Pinned, 1), 2.0).steady)
}

fn seed0_table(c: &Constants, seeds: u64) {
    println!(
        "seed 0, of pinned: steady worst seed / worst instance / spread max:min / whole / latest 95 % local (allowed), s"
    );
    println!("kernel with patches, of pinned: 0.936 0.936 0.954 0.856; without 0.911 0.812 0.887 0.769");
    for i in 0..4 {
        for mib in [25.0, 400.0] {
            for start in [Start::FirstNode, Start::Uniform] {
                let shape = Shape::of(i, mib, start);
                let pinned = pinned_rate(c, shape);
                println!("{} {mib} MiB {start:?}", ["I", "II", "III", "IV"][i]);
                for column in Column::ALL {
                    // The ablations are told apart by a few seeds; the claim is made for all of them.
                    let count = if column == Column::Numart { seeds } else { seeds.min(3) };
                    let runs =
                        over(count, |s| seed0::run(seed0::build(Machine::eight_by_ten(c), c, shape, column, s), 240.0));
                    let steady: Vec<f64> = runs.iter().map(|r| sum(&r.steady) / pinned).collect();
                    let worst: Vec<f64> =
                        runs.iter().map(|r| min(&r.steady) / (pinned / shape.instances as f64)).collect();
                    let spread: Vec<f64> = runs.iter().map(|r| max(&r.steady) / min(&r.steady)).collect();
                    let whole: Vec<f64> = runs.iter().map(|r| sum(&r.whole) / pinned).collect();
                    let local: Vec<f64> = runs.iter().map(|r| r.local_at.unwrap_or(f64::INFINITY)).collect();
                    let allowed = 1.3 * shape.all_bytes() / 2e9 + 2.0;
                    println!(
                        "  {:<14} {:.4} / {:.4} / {:.4} / {:.4} / {:.1} ({allowed:.1})",
                        column.name(),
                        min(&steady),
                        min(&worst),
                        max(&spread),
                        min(&whole),
                        max(&local)
                    );
                }
            }
        }
    }
}

/// Share of touched bytes migrated when buffers change owners every half second, for I to IV.
pub fn churn_share(c: &Constants, index: usize, column: Column, seconds: f64) -> f64 {
    let shape = Shape::of(index, 25.0, Start::Uniform);
    let mut world = seed0::build(Machine::eight_by_ten(c), c, shape, column, 1);
    let first = noise::add_churn(&mut world, 48.0 * 1048576.0);
    noise::run_churning(&mut world, first, seconds, 0.5);
    world.migrated / world.touched
}

fn churn_table(c: &Constants) {
    println!("churn of 48 MiB per task, owners reshuffled every 0.5 s: % of touched bytes migrated, I to IV");
    for column in [Column::Numart, Column::NoPayback] {
        let shares = over(4, |i| 100.0 * churn_share(c, i as usize, column, 240.0));
        println!("  {:<14} {shares:.3?}", column.name());
    }
}

fn seed4_table(c: &Constants, seeds: u64) {
    println!(
        "seed 4, of pinned, steady (mail: autonuma 0.987 off 0.959 on, numacore 0.982, 0.997, balancenuma 0.777, 0.784, mainline 0.750, 0.730)"
    );
    for (huge, start) in
        [(false, Start::FirstNode), (false, Start::Uniform), (true, Start::FirstNode), (true, Start::Uniform)]
    {
        let pinned = sum(&seed0::run(seed4::build(c, huge, start, Column::Pinned, 1), 2.0).steady);
        println!("{} extents, {start:?}", if huge { "2 MiB" } else { "4 KiB" });
        for column in Column::ALL {
            let count = if column == Column::Numart { seeds.min(10) } else { 2 };
            let all = over(count, |s| sum(&seed0::run(seed4::build(c, huge, start, column, s), 60.0).steady) / pinned);
            println!("  {:<14} {:.4}", column.name(), min(&all));
        }
    }
}

fn seed3_table(c: &Constants, seeds: u64) {
    println!(
        "seed 3, 8 x 20 tasks on 4 x 20 CPUs: strong median / worst s, unconverged, relapsed, memory worst s, task balance, GB/s worst (mail: 10 to 20 s, spikes 30 to 40)"
    );
    for column in Column::ALL.into_iter().filter(|x| !x.system_places()) {
        let count = if column == Column::Numart { (seeds * 10).min(200) } else { 5 };
        let runs = over(count, |s| {
            let machine = Machine::direct("4x20", 4, 20, c);
            let mut world = seed3::build(machine, c, (8, 20, 1000.0, true), column, s);
            seed3::run(&mut world, 120.0)
        });
        let at: Vec<f64> = runs.iter().map(|r| r.strong_at.unwrap_or(f64::INFINITY)).collect();
        let memory: Vec<f64> = runs.iter().map(|r| r.memory_at.unwrap_or(f64::INFINITY)).collect();
        let speed: Vec<f64> = runs.iter().map(|r| r.bytes_per_s / 1e9).collect();
        let lost = runs.iter().filter(|r| r.strong_at.is_none()).count();
        let relapsed = runs.iter().filter(|r| r.relapsed).count();
        let balance = runs.iter().map(|r| r.balance).max().unwrap_or(0);
        println!(
            "  {:<14} {:.1} / {:.1}, {lost}, {relapsed}, {:.1}, {balance}, {:.1}",
            column.name(),
            median(&at),
            max(&at),
            max(&memory),
            min(&speed)
        );
    }
    for shape in seed3::SHAPES {
        let runs = over(5, |s| {
            let machine = Machine::direct("4x20", 4, 20, c);
            let mut world = seed3::build(machine, c, shape, Column::Numart, s);
            seed3::run(&mut world, 60.0)
        });
        let at: Vec<f64> = runs.iter().map(|r| r.strong_at.unwrap_or(f64::INFINITY)).collect();
        println!("  {} x {} @ {}: strong worst {:.1} s", shape.0, shape.1, shape.2, max(&at));
    }
}

fn seed1_table(c: &Constants) {
    println!(
        "seed 1, elapsed over hard binding: locality first / warmth first at 0, 0.3 and 1 ms (crossings), balancing's CPU %, none"
    );
    for test in seed1::TESTS {
        let hard = seed1::run(c, test, Column::Pinned, 0.0, false, 1).elapsed;
        print!("  {:<13} ", test.name);
        let mut cpu: f64 = 0.0;
        for warmth in [0.0, 0.0003, 0.001] {
            let here = seed1::run(c, test, Column::Numart, warmth, false, 1);
            let warm = seed1::run(c, test, Column::Numart, warmth, true, 1);
            cpu = cpu.max(here.balancing * 100.0);
            print!(
                "{:.4} / {:.4} ({} / {})  ",
                here.elapsed / hard,
                warm.elapsed / hard,
                here.crossings,
                warm.crossings
            );
        }
        println!("cpu {cpu:.3} %, none {:.2}", seed1::run(c, test, Column::None, 0.0, false, 1).elapsed / hard);
    }
}

/// Coefficient of variation the mail's tip shows: schbench for wake-ups, tbench for the rest; NPS1 is not given and taken
/// as NPS2.
pub fn tip_cov(per_socket: usize, work: Work) -> f64 {
    match (work, per_socket) {
        (Work::Wakeups(_), 4) => 2.73,
        (Work::Wakeups(_), _) => 5.09,
        (Work::Pairs(n), _) if n >= 64 => 3.26,
        _ => 2.41,
    }
}

/// The workloads of seed 2.
pub const WORKS: [Work; 10] = [
    Work::Pairs(8),
    Work::Pairs(16),
    Work::Pairs(32),
    Work::Pairs(64),
    Work::Pairs(128),
    Work::Wakeups(128),
    Work::Groups(16),
    Work::Together(8),
    Work::Stream(16),
    Work::Stream(32),
];

fn seed2_table(c: &Constants, seeds: u64) {
    println!(
        "seed 2: CoV % none / numart, numart's median and minimum over none's, median without allowed imbalance over none's"
    );
    for per_socket in [1, 2, 4] {
        for work in WORKS {
            let go = |column| over(seeds, |s| seed2::run(c, per_socket, work, column, s));
            let (none, ours, eager) = (go(Column::None), go(Column::Numart), go(Column::NoImbalance));
            let noise = RunNoise::making(cov_percent(&none), tip_cov(per_socket, work));
            let [none, ours, eager] = [none, ours, eager].map(|runs| noise.applied_to(&runs));
            println!(
                "  NPS{per_socket} {work:?}: {:.2} / {:.2}, {:.3}, {:.3}, {:.3}",
                cov_percent(&none),
                cov_percent(&ours),
                median(&ours) / median(&none),
                min(&ours) / min(&none),
                median(&eager) / median(&none)
            );
        }
    }
}
