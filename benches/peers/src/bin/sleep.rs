//! Waking and falling asleep against rayon: drips, bursts and saturation at 2, 16 and 64 workers.
//!
//! "CPU" is the whole process's CPU time per round: what searching and sleeping burn.

use std::hint::black_box;
use std::time::{Duration, Instant};

fn spin(us: u64) {
    let end = Instant::now() + Duration::from_micros(us);
    while Instant::now() < end {
        black_box(0);
    }
}

/// CPU time of all threads of this process.
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

enum Pool {
    Rayon(rayon::ThreadPool),
    Numart(numart::Runtime),
}

impl Pool {
    fn name(&self) -> &'static str {
        match self {
            Pool::Rayon(_) => "rayon",
            Pool::Numart(_) => "numart",
        }
    }

    fn nothing(&self) {
        match self {
            Pool::Rayon(pool) => pool.install(|| ()),
            Pool::Numart(pool) => pool.install(|| ()),
        }
    }

    fn scope(&self, jobs: usize, us: u64) {
        match self {
            Pool::Rayon(pool) => {
                pool.install(|| rayon::scope(|s| (0..jobs).for_each(|_| s.spawn(move |_| spin(us)))));
            }
            Pool::Numart(pool) => {
                pool.install(|| numart::scope(|s| (0..jobs).for_each(|_| s.spawn(move |_| spin(us)))));
            }
        }
    }

    fn tree(&self, depth: u32, us: u64) {
        fn on_rayon(depth: u32, us: u64) {
            if depth == 0 {
                return spin(us);
            }
            rayon::join(|| on_rayon(depth - 1, us), || on_rayon(depth - 1, us));
        }
        fn on_numart(depth: u32, us: u64) {
            if depth == 0 {
                return spin(us);
            }
            numart::join(|| on_numart(depth - 1, us), || on_numart(depth - 1, us));
        }
        match self {
            Pool::Rayon(pool) => pool.install(|| on_rayon(depth, us)),
            Pool::Numart(pool) => pool.install(|| on_numart(depth, us)),
        }
    }
}

/// Median and 90 % of the time, and the CPU time per round, in us.
fn measure(rounds: usize, pause: Duration, work: impl Fn()) -> (f64, f64, f64) {
    let mut times = Vec::with_capacity(rounds);
    let before = cpu();
    for _ in 0..rounds {
        let begin = Instant::now();
        work();
        times.push(begin.elapsed().as_secs_f64() * 1e6);
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
    let cpu = (cpu() - before).as_secs_f64() * 1e6 / rounds as f64;
    times.sort_by(f64::total_cmp);
    (times[rounds / 2], times[rounds * 9 / 10], cpu)
}

fn main() {
    let pause = Duration::from_millis(1);
    println!("us: median (90 %), CPU per round\n");
    println!("| workers | pool | empty install, 1 ms | scope 64 x 5 us, 1 ms | tree 64 x 5 us, 1 ms | 20,000 x 5 us |");
    println!("|---|---|---|---|---|---|");
    for workers in [2, 16, 64] {
        let rayon = rayon::ThreadPoolBuilder::new().num_threads(workers).build().expect("a pool");
        let numart = numart::Runtime::builder().workers(workers).build().expect("a runtime");
        for pool in [Pool::Rayon(rayon), Pool::Numart(numart)] {
            let cells = [
                measure(500, pause, || pool.nothing()),
                measure(500, pause, || pool.scope(64, 5)),
                measure(500, pause, || pool.tree(6, 5)),
                measure(15, Duration::ZERO, || pool.scope(20_000, 5)),
            ];
            let cells: Vec<_> =
                cells.iter().map(|(median, late, cpu)| format!("{median:.0} ({late:.0}), {cpu:.0}")).collect();
            println!("| {workers} | {} | {} |", pool.name(), cells.join(" | "));
        }
    }
}
