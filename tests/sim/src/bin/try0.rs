use numart_sim::column::Column;
use numart_sim::constants::MODELS;
use numart_sim::machine::Machine;
use numart_sim::seed0::*;
use numart_sim::stats::*;
fn main() {
    if std::env::args().nth(2).is_some() {
        return quick();
    }
    let seeds: u64 = std::env::args()
        .nth(1)
        .and_then(|a| a.parse().ok())
        .unwrap_or(2);
    for c in MODELS {
        println!("{}", c.line());
        for i in 0..4 {
            for mib in [25.0, 400.0] {
                for start in [Start::FirstNode, Start::Uniform] {
                    let shape = Shape::of(i, mib, start);
                    let m = Machine::eight_by_ten(&c);
                    let pinned = run(build(m.clone(), &c, shape, Column::Pinned, 1), 2.0);
                    let p: f64 = pinned.steady.iter().sum();
                    print!("{} {mib} {start:?}: ", ["I", "II", "III", "IV"][i]);
                    for col in [Column::Numart, Column::None, Column::NoGroupStep] {
                        let t = std::time::Instant::now();
                        let o: Vec<Outcome> = (0..seeds)
                            .map(|s| run(build(m.clone(), &c, shape, col, s), 240.0))
                            .collect();
                        let st: Vec<f64> =
                            o.iter().map(|o| o.steady.iter().sum::<f64>() / p).collect();
                        let wi: Vec<f64> = o
                            .iter()
                            .map(|o| min(&o.steady) / (p / shape.instances as f64))
                            .collect();
                        let wh: Vec<f64> =
                            o.iter().map(|o| o.whole.iter().sum::<f64>() / p).collect();
                        let la: Vec<f64> = o.iter().map(|o| o.local_at.unwrap_or(999.0)).collect();
                        print!(
                            " | {} steady {:.4} inst {:.4} whole {:.4} local {:.1} (allowed {:.1}) moves {:?} late {:.0}MB passes {} {:.0} sim s/s",
                            col.name(),
                            min(&st),
                            min(&wi),
                            min(&wh),
                            max(&la),
                            1.3 * shape.all_bytes() / 2e9 + 2.0,
                            o[0].moves,
                            o[0].late_bytes / 1e6,
                            o[0].passes,
                            240.0 * seeds as f64 / t.elapsed().as_secs_f64()
                        );
                    }
                    println!();
                }
            }
        }
    }
}
fn quick() {
    for c in MODELS {
        for i in 0..4 {
            for mib in [25.0, 400.0] {
                for start in [Start::FirstNode, Start::Uniform] {
                    let shape = Shape::of(i, mib, start);
                    let m = Machine::eight_by_ten(&c);
                    let p: f64 = run(build(m.clone(), &c, shape, Column::Pinned, 1), 2.0)
                        .steady
                        .iter()
                        .sum();
                    let t = std::time::Instant::now();
                    let o = run(build(m.clone(), &c, shape, Column::Numart, 3), 240.0);
                    println!(
                        "{} {i} {mib} {start:?} {:.4} whole {:.4} local {:?} passes {} moves {:?} {:.0} sim s/s",
                        c.name,
                        o.steady.iter().sum::<f64>() / p,
                        o.whole.iter().sum::<f64>() / p,
                        o.local_at,
                        o.passes,
                        o.moves,
                        240.0 / t.elapsed().as_secs_f64()
                    );
                }
            }
        }
    }
}
