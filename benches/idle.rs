//! What a pool costs that has nothing, or next to nothing, to do.
//!
//! `cargo bench --bench idle`. The bounds: idle under 0.5 % of one CPU, one empty spawn each millisecond under 5 %.

use std::time::{Duration, Instant};

use numart::Runtime;

/// User and system time of this process so far.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours to write.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0, "the process's CPU clock can be read");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Share of one CPU, in percent, that the process uses while `body` runs.
fn share(body: impl FnOnce()) -> f64 {
    let (cpu, wall) = (cpu_time(), Instant::now());
    body();
    (cpu_time() - cpu).as_secs_f64() / wall.elapsed().as_secs_f64() * 100.0
}

/// Empty spawns, one per millisecond: by the clock, so that a late one does not make the next late too.
fn drip(runtime: &Runtime, length: Duration) -> u64 {
    let begin = Instant::now();
    let mut spawned = 0;
    while begin.elapsed() < length {
        drop(runtime.spawn(|| ()));
        spawned += 1;
        let next = Duration::from_millis(spawned);
        std::thread::sleep(next.saturating_sub(begin.elapsed()));
    }
    spawned
}

fn main() {
    // `cargo test --benches` only wants to know that it runs.
    let quick = std::env::args().any(|argument| argument == "--test");
    let (idle, busy) = if quick { (50, 50) } else { (10_000, 5_000) };
    let (idle, busy) = (Duration::from_millis(idle), Duration::from_millis(busy));
    println!(
        "| nodes | idle for {idle:?}, % of a CPU | parks | one empty spawn per ms for {busy:?}, % | spawner alone, % |"
    );
    println!("|---|---|---|---|---|");
    // What the sleeping spawner costs without a runtime.
    let alone = share(|| {
        let begin = Instant::now();
        let mut turns = 0;
        while begin.elapsed() < busy {
            turns += 1;
            std::thread::sleep(Duration::from_millis(turns).saturating_sub(begin.elapsed()));
        }
    });
    for shape in [None, Some("1x2"), Some("4x2"), Some("8x8")] {
        let builder = Runtime::builder();
        let builder = match shape {
            Some(text) => builder.topology_text(text),
            None => builder,
        };
        let runtime = builder.build().expect("a runtime");
        runtime.install(|| numart::par_for(0..10_000, |i| _ = std::hint::black_box(i)));
        // The workers fall asleep.
        std::thread::sleep(Duration::from_millis(if quick { 1 } else { 200 }));
        let before = runtime.stats().totals().parks;
        let nothing = share(|| std::thread::sleep(idle));
        let parks = runtime.stats().totals().parks - before;
        let mut spawned = 0;
        let dripping = share(|| spawned = drip(&runtime, busy));
        println!(
            "| {} | {nothing:.3} | {parks} | {dripping:.2} ({spawned} spawns) | {alone:.2} |",
            shape.unwrap_or("this machine")
        );
    }
}
