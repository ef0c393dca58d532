//! Searches model constants that give seed 0's eight figures: `cargo run --release -p numart-sim --bin fit -- [starts] [seed]`.
//!
//! Random starts, then coordinate steps that shrink. It was run once; `constants.rs` holds what it found.

use numart_sim::constants::Constants;
use numart_sim::fit::{TARGETS, figures, pinned_controller_load, worst_error};
use numart_sim::rng::Rng;

/// Bounds of the search, in the order of [`make`]: what a 2010 eight-socket machine can plausibly have.
const BOUNDS: [(f64, f64); 12] = [
    (1.0, 20.0),    // cpu us
    (40.0, 300.0),  // private lines
    (5.0, 80.0),    // shared lines
    (0.09, 0.12),   // local
    (1.05, 2.5),    // pair / local
    (1.0, 1.5),     // quad / pair
    (1.0, 2.5),     // cross / quad
    (60.0, 250.0),  // controller
    (60.0, 250.0),  // port
    (100.0, 500.0), // quad connection
    (0.3, 10.0),    // width us
    (0.0, 0.10),    // idle loss
];

fn make(name: &'static str, v: &[f64; 12], sticky: f64) -> Constants {
    let pair = v[3] * v[4];
    let quad = pair * v[5];
    Constants {
        name,
        cpu_us: v[0],
        private_lines: v[1],
        shared_lines: v[2],
        latency_us: [v[3], pair, quad, quad * v[6]],
        controller: v[7],
        port: v[8],
        quad: v[9],
        width_us: v[10],
        idle_loss: v[11],
        sticky,
    }
}

/// The worst error, plus a little of the squares so that the search sees a slope where the maximum is flat.
fn error(c: &Constants) -> f64 {
    let f = figures(c);
    let squares: f64 = f.iter().zip(TARGETS).map(|(a, b)| (a - b) * (a - b)).sum();
    worst_error(c) + 0.5 * squares.sqrt()
}

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|a| a.parse::<u64>().ok());
    let (starts, seed) = (args.next().unwrap_or(60), args.next().unwrap_or(1));
    let mut rng = Rng::new(seed);
    let mut found: Vec<(f64, Constants)> = Vec::new();
    for _ in 0..starts {
        let sticky = rng.unit() * 0.25;
        let mut v = BOUNDS.map(|(lo, hi)| lo * (hi / lo.max(1e-3)).powf(rng.unit()).max(1e-9));
        for (x, (lo, hi)) in v.iter_mut().zip(BOUNDS) {
            *x = x.clamp(lo, hi);
        }
        let mut best = error(&make("", &v, sticky));
        let mut step = 0.3;
        while step > 0.003 {
            let mut better = false;
            for k in 0..v.len() {
                for sign in [1.0, -1.0] {
                    let mut w = v;
                    w[k] = (w[k] * (1.0 + sign * step) + 1e-3 * sign).clamp(BOUNDS[k].0, BOUNDS[k].1);
                    let e = error(&make("", &w, sticky));
                    if e < best {
                        best = e;
                        v = w;
                        better = true;
                    }
                }
            }
            if !better {
                step *= 0.5;
            }
        }
        found.push((best, make("", &v, sticky)));
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Best of each class of controller load: seed 0 does not identify that figure, so we want sets far apart in it.
    for (lo, hi) in [(0.0, 0.4), (0.4, 0.55), (0.55, 0.7), (0.7, 1.0)] {
        println!("controller load of pinned I from {lo} to {hi}:");
        let class = found.iter().filter(|(_, c)| (lo..hi).contains(&pinned_controller_load(c)));
        for (_, c) in class.take(2) {
            println!(
                "  worst {:.4} figures {:.3?}, controller load {:.3}\n    {}",
                worst_error(c),
                figures(c),
                pinned_controller_load(c),
                c.line()
            );
        }
    }
}
