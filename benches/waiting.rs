//! What the waiting rule costs: "related only" against "anything" on irregular nested loops, interleaved in one run.
//!
//! `cargo bench --bench waiting`. Figures and what follows from them: `docs/decisions/2-waiting.md`.

use std::hint::black_box;
use std::time::Instant;

use numart::{Runtime, Waiting};

/// Some work, in units of roughly 10 ns.
fn spin(units: u64) {
    let mut x = units | 1;
    for _ in 0..units * 8 {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    black_box(x);
}

/// Outer iterations of very different size, each with an inner loop of uneven bodies, two deep.
fn irregular(outer: usize) {
    numart::par_for(0..outer, |i| {
        let inner = if i % 17 == 0 { 600 } else { 10 + i % 7 };
        numart::par_for(0..inner, |j| {
            let size = if (i * 31 + j * 7) % 97 == 0 { 400 } else { 5 };
            spin(size);
            if j % 64 == 0 {
                numart::par_for(0..8, |k| spin(20 + k as u64 * 10));
            }
        });
    });
}

/// Quicksort-like: joins of uneven halves.
fn lopsided(n: u64) {
    if n < 64 {
        return spin(n);
    }
    numart::join(|| lopsided(n / 5), || lopsided(n - n / 5 - 8));
}

/// Scopes within scopes, with bodies that wait.
fn scopes(depth: u32) {
    numart::scope(|s| {
        for i in 0..4 {
            s.spawn(move |_| {
                spin(50 << (i % 3));
                if depth > 0 {
                    scopes(depth - 1);
                }
            });
        }
    });
}

fn main() {
    let workers: Vec<usize> = vec![2, 4];
    println!("| program | workers | related, ms | anything, ms | ratio of medians | spare threads |");
    println!("|---|---|---|---|---|---|");
    for workers in workers {
        let build = |waiting| Runtime::builder().workers(workers).waiting(waiting).build().expect("a runtime");
        let runtimes = [build(Waiting::Related), build(Waiting::Any)];
        let programs: [(&str, fn()); 3] = [
            ("irregular nested par_for", || irregular(3000)),
            ("lopsided join", || lopsided(3_000_000)),
            ("nested scopes", || scopes(6)),
        ];
        for (name, program) in programs {
            let mut times = [Vec::new(), Vec::new()];
            for round in 0..25 {
                for turn in 0..2 {
                    let which = (round + turn) % 2;
                    let begin = Instant::now();
                    runtimes[which].install(program);
                    times[which].push(begin.elapsed().as_secs_f64() * 1e3);
                }
            }
            let median = |times: &mut Vec<f64>| {
                times.sort_by(f64::total_cmp);
                times[times.len() / 2]
            };
            let [related, any] = [median(&mut times[0]), median(&mut times[1])];
            let spares: usize = runtimes[0].stats().nodes.iter().map(|node| node.spare_threads).sum();
            println!("| {name} | {workers} | {related:.2} | {any:.2} | {:.3} | {spares} |", related / any);
        }
    }
}
