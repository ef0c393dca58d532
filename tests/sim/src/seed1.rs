//! Seed 1: autonuma-benchmark on 4 x 24 CPUs, and locality against cache warmth.
//!
//! Every quarter of a second some running tasks lose their CPU for 4 ms to somebody else and are pushed to another node.
//! *Locality first* they go home when it is free again, and pay for cold caches twice; *warmth first* they stay where
//! their cache is warm now, until the system moves them back after a second on average, and pay once.

use crate::column::Column;
use crate::constants::Constants;
use crate::machine::Machine;
use crate::rng::Rng;
use crate::world::{Owner, Task, World};

/// Lines written per transaction: a KiB of `bzero`, no CPU work to speak of.
const LINES: f64 = 16.0;
const BUSY_US: f64 = 0.1;
const EXTENT: f64 = (2 << 20) as f64;
const MIB: f64 = 1048576.0;
/// Seconds between displacements, share of tasks displaced by one, and how long the other keeps the CPU.
const PERIOD: f64 = 0.25;
const SHARE: f64 = 0.02;
const SLICE: f64 = 0.004;

/// One test of the benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Its name.
    pub name: &'static str,
    /// Processes.
    pub processes: usize,
    /// Threads of each.
    pub threads: usize,
    /// MiB of each process.
    pub mib: f64,
    /// Whether every thread writes all of it.
    pub shared: bool,
    /// Bytes each thread writes in all.
    pub work: f64,
}

/// numa01, its THREAD_ALLOC variant, numa02, numa02 SMT, with the rounds of the benchmark.
pub const TESTS: [Test; 4] = [
    Test {
        name: "numa01",
        processes: 2,
        threads: 48,
        mib: 3072.0,
        shared: true,
        work: 50.0 * 3072.0 * MIB,
    },
    Test {
        name: "THREAD_ALLOC",
        processes: 2,
        threads: 48,
        mib: 3072.0,
        shared: false,
        work: 1000.0 * 64.0 * MIB,
    },
    Test {
        name: "numa02",
        processes: 1,
        threads: 96,
        mib: 1024.0,
        shared: false,
        work: 800.0 * 1024.0 / 96.0 * MIB,
    },
    Test {
        name: "numa02 SMT",
        processes: 1,
        threads: 48,
        mib: 1024.0,
        shared: false,
        work: 800.0 * 1024.0 / 48.0 * MIB,
    },
];

/// What one run took.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Seconds until the last thread was done; infinity if not within the limit.
    pub elapsed: f64,
    /// Times a task changed node: displacements, returns and new homes.
    pub crossings: usize,
    /// Share of the machine's CPU time that copying took, and passes at one millisecond each (ten times what one of
    /// this size was measured to take).
    pub balancing: f64,
}

/// Runs one test. `warmth` is the time to refill a cache; `warmth_first` keeps displaced tasks away.
pub fn run(
    c: &Constants,
    test: Test,
    column: Column,
    warmth: f64,
    warmth_first: bool,
    seed: u64,
) -> Outcome {
    let mut world = build(c, test, column, seed);
    let mut dice = Rng::new(seed ^ 0xD15_914CE);
    let n = world.machine.nodes();
    let (mut crossings, limit, mut last) = (0, 4000.0, 0.0f64);
    while world.tasks.iter().any(|t| !t.ended) && world.now < limit {
        let tasks = world.tasks.len();
        let mut pushed = Vec::new();
        for t in 0..tasks {
            let lucky = dice.unit();
            let other = dice.below(n);
            let task = &mut world.tasks[t];
            if task.ended || column == Column::Pinned {
                continue; // bound by hand, it waits for its CPU instead
            }
            if warmth_first && task.displaced.is_some() && lucky < PERIOD {
                task.displaced = None;
                task.cold_s += warmth;
                crossings += 1;
            } else if lucky > 1.0 - SHARE && other != task.home && task.displaced.is_none() {
                task.displaced = Some(other);
                task.cold_s += warmth;
                crossings += 1;
                pushed.push(t);
            }
        }
        world.disturbed();
        let at = world.now;
        world.run(at + SLICE);
        if !warmth_first {
            for t in pushed {
                world.tasks[t].displaced = None;
                world.tasks[t].cold_s += warmth;
                crossings += 1;
            }
            world.disturbed();
        }
        let before: Vec<f64> = world.tasks.iter().map(|t| t.done).collect();
        world.run(at + PERIOD);
        for t in 0..tasks {
            if !world.tasks[t].ended && world.tasks[t].done >= world.tasks[t].until {
                world.tasks[t].ended = true;
                world.disturbed();
                let rate = world.rates[t].max(1e-12) * 1e6;
                last = last.max(
                    at + SLICE + ((world.tasks[t].until - before[t]) / rate).min(PERIOD - SLICE),
                );
            }
        }
    }
    let elapsed = if world.now < limit {
        world.now
    } else {
        f64::INFINITY
    };
    let cpu = world.migrated / world.migration + world.passes as f64 * 1e-3;
    Outcome {
        elapsed,
        crossings: crossings + world.moves + world.swaps,
        balancing: cpu / (world.now * world.machine.total_cpus() as f64),
    }
}

/// Builds the world of one test.
pub fn build(c: &Constants, test: Test, column: Column, seed: u64) -> World {
    let machine = Machine::backplane_4x24(c);
    let n = machine.nodes();
    let mut world = World::new(machine, column, c.idle_loss, seed);
    let mut dice = Rng::new(seed ^ 0x5EED_0001);
    let count = test.processes * test.threads;
    let mut places: Vec<usize> = (0..count).map(|k| k * n / count).collect();
    dice.shuffle(&mut places);
    let first = dice.below(2);
    for p in 0..test.processes {
        let g = world.add_group();
        let half = n / test.processes;
        for i in 0..test.threads {
            let by_hand = p * half + i * half / test.threads;
            let home = if column == Column::Pinned {
                by_hand
            } else {
                places[p * test.threads + i]
            };
            let (private_lines, shared_lines) = if test.shared {
                (0.0, LINES)
            } else {
                (LINES, 0.0)
            };
            let t = world.add_task(Task {
                busy_us: BUSY_US,
                private_lines,
                shared_lines,
                sticky: 0.0,
                until: test.work / (LINES * 64.0),
                ..crate::seed0::warehouse(c, g, 1.0, home)
            });
            if !test.shared {
                let at = if column == Column::Pinned {
                    by_hand
                } else {
                    first
                };
                let bytes = test.mib * MIB / test.threads as f64;
                world.add_memory(Owner::Task(t), bytes, EXTENT.min(bytes), |_| at);
            }
        }
        if test.shared {
            let mut next = 0;
            world.add_memory(Owner::Group(g), test.mib * MIB, EXTENT, |_| {
                next += 1;
                if column == Column::Pinned {
                    p * half + next % half
                } else {
                    first
                }
            });
        }
    }
    world
}
