//! scratch
use numart_sim::column::Column;
use numart_sim::constants::*;
use numart_sim::stats::*;
use numart_sim::*;
fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    for c in MODELS {
        println!("== {}", c.name);
        if what.contains('1') {
            for t in seed1::TESTS {
                let hard = seed1::run(&c, t, Column::Pinned, 0.0, false, 1);
                print!("{} hard {:.1}s ", t.name, hard.elapsed);
                for w in [0.0, 0.0003, 0.001] {
                    let l = seed1::run(&c, t, Column::Numart, w, false, 1);
                    let m = seed1::run(&c, t, Column::Numart, w, true, 1);
                    print!(
                        "| w {w} loc {:.4} warm {:.4} crossings {} {} cpu {:.3}% ",
                        l.elapsed / hard.elapsed,
                        m.elapsed / hard.elapsed,
                        l.crossings,
                        m.crossings,
                        l.balancing * 100.0
                    );
                }
                let no = seed1::run(&c, t, Column::None, 0.0, false, 1);
                println!("none {:.3}", no.elapsed / hard.elapsed);
            }
        }
        if what.contains('2') {
            use seed2::*;
            for nps in [1, 2, 4] {
                for w in [
                    Work::Pairs(8),
                    Work::Pairs(32),
                    Work::Pairs(64),
                    Work::Pairs(128),
                    Work::Wakeups(128),
                    Work::Groups(16),
                    Work::Stream(16),
                ] {
                    let t = std::time::Instant::now();
                    let go = |col| {
                        (0..10)
                            .map(|s| run(&c, nps, w, col, RunNoise(0.0), s))
                            .collect::<Vec<f64>>()
                    };
                    let (none, ours, noimb) = (
                        go(Column::None),
                        go(Column::Numart),
                        go(Column::NoImbalance),
                    );
                    println!(
                        "NPS{nps} {w:?} none cov {:.2} ours cov {:.2} median {:.3} min {:.3} | noimb median {:.3} ({:.1}s)",
                        cov_percent(&none),
                        cov_percent(&ours),
                        median(&ours) / median(&none),
                        min(&ours) / min(&none),
                        median(&noimb) / median(&none),
                        t.elapsed().as_secs_f64()
                    );
                }
            }
        }
    }
}
