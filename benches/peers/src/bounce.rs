//! How far apart two CPUs are right now.
//!
//! The virtual CPUs of a rented machine are put on hyperthreads of one core, or on two cores far apart, by turns and without
//! a trace inside the guest. A cache line that two pinned threads hand to and fro shows it: the round trip takes several
//! times longer when they are far apart. Two samples may only be compared if they were taken at the same distance.

use crate::cpu;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

/// Round trips of one batch. A batch is short, so that most of them are not interrupted.
const BATCH: u32 = 250;
/// Batches of one measurement. The fastest one counts: an interruption only ever makes a batch slower.
const BATCHES: u32 = 8;

/// The one line that is handed to and fro, alone in its pair of cache lines.
#[repr(align(128))]
struct Line(AtomicU32);

/// Two threads, each bound to a CPU of its own, that sleep until they are asked to measure.
pub struct Bouncer {
    start: [Sender<()>; 2],
    result: Receiver<f64>,
    cpus: [usize; 2],
}

impl Bouncer {
    /// Starts the two threads on the first two CPUs this process may use, or returns `None` if there are no two.
    pub fn new() -> Option<Bouncer> {
        let cpus: [usize; 2] = cpu::allowed().get(..2)?.try_into().ok()?;
        let line = Arc::new(Line(AtomicU32::new(0)));
        let (send_result, result) = channel();
        let start = [0, 1].map(|side| {
            let (start, started) = channel();
            let (line, result, cpu) = (line.clone(), send_result.clone(), cpus[side]);
            std::thread::spawn(move || serve(side as u32, cpu, &line, &started, &result));
            start
        });
        Some(Bouncer { start, result, cpus })
    }

    /// The two CPUs.
    pub fn cpus(&self) -> [usize; 2] {
        self.cpus
    }

    /// Nanoseconds of one round trip, now.
    pub fn measure(&self) -> f64 {
        for side in &self.start {
            side.send(()).expect("the bouncing threads live as long as this");
        }
        self.result.recv().expect("the bouncing threads live as long as this")
    }
}

fn serve(side: u32, cpu: usize, line: &Line, started: &Receiver<()>, result: &Sender<f64>) {
    if !cpu::pin_to(cpu) {
        eprintln!("warning: could not bind a thread to CPU {cpu}: near and far cannot be told apart");
    }
    while started.recv().is_ok() {
        let best = (0..BATCHES).map(|_| batch(side, &line.0)).fold(f64::INFINITY, f64::min);
        if side == 0 && result.send(best).is_err() {
            return;
        }
    }
}

/// Both sides run this: side 0 makes the value odd, side 1 makes it even again.
fn batch(side: u32, line: &AtomicU32) -> f64 {
    let first = line.load(Ordering::Relaxed) & !1;
    if side == 0 {
        // The first round trip waits until the other thread is awake and is not timed.
        round_trip(line, first);
        let begin = Instant::now();
        for trip in 1..=BATCH {
            round_trip(line, first.wrapping_add(2 * trip));
        }
        return begin.elapsed().as_nanos() as f64 / f64::from(BATCH);
    }
    for trip in 0..=BATCH {
        let odd = first.wrapping_add(2 * trip + 1);
        wait_for(line, odd);
        line.store(odd.wrapping_add(1), Ordering::Release);
    }
    0.0
}

fn round_trip(line: &AtomicU32, even: u32) {
    line.store(even.wrapping_add(1), Ordering::Release);
    wait_for(line, even.wrapping_add(2));
}

/// Spins without a pause instruction, which alone would take as long as the trip of a near line.
fn wait_for(line: &AtomicU32, value: u32) {
    while line.load(Ordering::Acquire) != value {}
}
