//! scratch
use numart_sim::column::Column;
use numart_sim::constants::*;
use numart_sim::machine::Machine;
use numart_sim::seed0::Start;
use numart_sim::stats::*;
use numart_sim::*;
fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    for c in MODELS {
        println!("== {}", c.name);
        if what.contains('3') {
            for col in [
                Column::Numart,
                Column::SwapsOnly,
                Column::MovesOnly,
                Column::NoGroupStep,
            ] {
                let seeds = if col == Column::Numart { 40 } else { 5 };
                let t = std::time::Instant::now();
                let o: Vec<_> = (0..seeds)
                    .map(|s| {
                        seed3::run(
                            &mut seed3::build(
                                Machine::direct("4x20", 4, 20, &c),
                                &c,
                                (8, 20, 1000.0, true),
                                col,
                                s,
                            ),
                            120.0,
                        )
                    })
                    .collect();
                let st: Vec<f64> = o.iter().map(|o| o.strong_at.unwrap_or(999.0)).collect();
                let me: Vec<f64> = o.iter().map(|o| o.memory_at.unwrap_or(999.0)).collect();
                println!(
                    "{}: strong med {:.1} max {:.1} relapsed {} mem med {:.1} max {:.1} bal {} share {:.3} GB/s {:.1} migrated {:.1} [{:.2}s each]",
                    col.name(),
                    median(&st),
                    max(&st),
                    o.iter().filter(|o| o.relapsed).count(),
                    median(&me),
                    max(&me),
                    o.iter().map(|o| o.balance).max().unwrap(),
                    min(&o.iter().map(|o| o.memory_share).collect::<Vec<_>>()),
                    o[0].bytes_per_s / 1e9,
                    o[0].migrated / 1e9,
                    t.elapsed().as_secs_f64() / seeds as f64
                );
            }
            for sh in seed3::SHAPES {
                let o: Vec<_> = (0..5)
                    .map(|s| {
                        seed3::run(
                            &mut seed3::build(
                                Machine::direct("4x20", 4, 20, &c),
                                &c,
                                sh,
                                Column::Numart,
                                s,
                            ),
                            60.0,
                        )
                    })
                    .collect();
                let st: Vec<f64> = o.iter().map(|o| o.strong_at.unwrap_or(999.0)).collect();
                let me: Vec<f64> = o.iter().map(|o| o.memory_at.unwrap_or(999.0)).collect();
                println!(
                    "  {sh:?} strong max {:.1} relapsed {} mem max {:.1} bal {}",
                    max(&st),
                    o.iter().filter(|o| o.relapsed).count(),
                    max(&me),
                    o.iter().map(|o| o.balance).max().unwrap()
                );
            }
            let mut w = seed3::build(
                Machine::direct("4x20", 4, 20, &c),
                &c,
                (8, 20, 1000.0, true),
                Column::Numart,
                1,
            );
            seed3::run(&mut w, 60.0);
            seed3::kick(&mut w);
            println!("after kick {:?}", seed3::run(&mut w, 60.0));
        }
        if what.contains('4') {
            for huge in [true, false] {
                for start in [Start::FirstNode, Start::Uniform] {
                    let p: f64 = seed0::run(seed4::build(&c, huge, start, Column::Pinned, 1), 2.0)
                        .steady
                        .iter()
                        .sum();
                    for col in Column::ALL {
                        let t = std::time::Instant::now();
                        let o: Vec<f64> = (0..2)
                            .map(|s| {
                                seed0::run(seed4::build(&c, huge, start, col, s), 60.0)
                                    .steady
                                    .iter()
                                    .sum::<f64>()
                                    / p
                            })
                            .collect();
                        print!(
                            "{} {:.4} ({:.1}s) ",
                            col.name(),
                            min(&o),
                            t.elapsed().as_secs_f64()
                        );
                    }
                    println!("huge {huge} {start:?}");
                }
            }
        }
        if what.contains('c') {
            for i in 0..4 {
                let mut w = seed0::build(
                    Machine::eight_by_ten(&c),
                    &c,
                    seed0::Shape::of(i, 25.0, Start::Uniform),
                    Column::Numart,
                    1,
                );
                let first = noise::add_churn(&mut w, 48.0 * 1048576.0);
                noise::run_churning(&mut w, first, 240.0, 0.5);
                println!(
                    "churn {i}: migrated {:.2} GB of {:.0} = {:.3}%",
                    w.migrated / 1e9,
                    w.touched / 1e9,
                    100.0 * w.migrated / w.touched
                );
            }
        }
        if what.contains('n') {
            for i in 0..4 {
                let mut w = seed0::build(
                    Machine::eight_by_ten(&c),
                    &c,
                    seed0::Shape::of(i, 25.0, Start::Uniform),
                    Column::Numart,
                    1,
                );
                w.run(60.0);
                let (m, mv) = (w.migrated, w.moves + w.swaps);
                let mut d = rng::Rng::new(1);
                noise::run_preempted(&mut w, 300.0, 1.0, 2.0, &mut d);
                let all: f64 = w.extents.iter().map(|e| e.bytes).sum();
                println!(
                    "noise {i}: {:.4}% per minute, moves {}, passes {}",
                    100.0 * (w.migrated - m) / all / 5.0,
                    w.moves + w.swaps - mv,
                    w.passes
                );
            }
        }
    }
}
