//! How long a hidden job stays hidden, and what a membarrier costs.
//!
//! `cargo bench --bench forced_split`. Figures and what follows from them: `docs/decisions/1-split-deque.md`.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use numart::{Runtime, join};
use numart_alloc::sys::membarrier;

fn median(mut samples: Vec<u64>) -> (u64, u64, u64) {
    samples.sort_unstable();
    let at = |share: usize| samples[(samples.len() - 1) * share / 100];
    (at(50), at(90), at(99))
}

/// One membarrier while `others` threads spin.
fn membarrier_cost(others: usize) {
    if let Err(error) = membarrier::register() {
        println!("membarrier: {error}");
        return;
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        for _ in 0..others {
            s.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
        }
        let samples = (0..2000)
            .map(|_| {
                let begin = Instant::now();
                membarrier::barrier().expect("registered");
                begin.elapsed().as_nanos() as u64
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        let (p50, p90, p99) = median(samples);
        println!("| {others} spinning | {p50} | {p90} | {p99} |");
    });
}

/// The owner publishes its first half and hides the second: it spins in a leaf, without a look at its flags, until both
/// ran elsewhere. The time from one to the other is what a thief needs to find out, force the split and steal.
fn hidden_half(workers: usize, forced: bool) {
    let runtime = Runtime::builder().workers(workers).forced_splits(forced).build().expect("a runtime");
    let samples = runtime.install(|| {
        let mut samples = Vec::new();
        for _ in 0..300 {
            let start = Instant::now();
            let (first, second) = (AtomicU64::new(0), AtomicU64::new(0));
            let now = || start.elapsed().as_nanos().max(1) as u64;
            let give_up = Duration::from_millis(200);
            join(
                || {
                    join(
                        || {
                            while (first.load(Ordering::Acquire) == 0 || second.load(Ordering::Acquire) == 0)
                                && start.elapsed() < give_up
                            {
                                spin_loop();
                            }
                        },
                        || second.store(now(), Ordering::Release),
                    )
                },
                || first.store(now(), Ordering::Release),
            );
            samples.push(second.into_inner().saturating_sub(first.into_inner()));
        }
        samples
    });
    let (p50, p90, p99) = median(samples);
    let forced_splits = runtime.stats().totals().forced_splits;
    println!("| {workers} | {forced} | {p50} | {p90} | {p99} | {forced_splits} |");
}

fn main() {
    println!("membarrier, ns\n\n| other threads | median | 90 % | 99 % |\n|---|---|---|---|");
    [0, 1, 15].into_iter().for_each(membarrier_cost);
    println!("\nfrom a thief's first job to the hidden second one, ns (300 rounds)\n");
    println!("| workers | forced splits allowed | median | 90 % | 99 % | forced |\n|---|---|---|---|---|---|");
    for workers in [2, 16] {
        for forced in [true, false] {
            hidden_half(workers, forced);
        }
    }
}
