//! Seed 1: autonuma-benchmark on 4 x 24 CPUs, and locality against cache warmth.
//!
//! Every quarter of a second some running tasks lose their CPU for 4 ms to somebody else. On a node with an idle CPU they take
//! that one; from a full node they are pushed to another, which now has one too many. When the intruder has gone, the CPU it
//! leaves pulls a task from there. *Locality first* it pulls the one that was pushed: cold caches twice, two crossings.
//! *Warmth first* it pulls the coldest, which is any but the one just pushed: now two tasks are off their homes, until the
//! system brings them back after a second on average, exchanging them since both nodes are full. That is the seed's point:
//! refusing to pull tasks away from their memory makes fewer migrations (107,380 to 47,532 per numa01 run there).

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
    Test { name: "numa01", processes: 2, threads: 48, mib: 3072.0, shared: true, work: 50.0 * 3072.0 * MIB },
    Test { name: "THREAD_ALLOC", processes: 2, threads: 48, mib: 3072.0, shared: false, work: 1000.0 * 64.0 * MIB },
    Test { name: "numa02", processes: 1, threads: 96, mib: 1024.0, shared: false, work: 800.0 * 1024.0 / 96.0 * MIB },
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
    /// Times a task changed node: displacements, pulls, returns and new homes.
    pub crossings: usize,
    /// Times a task was pushed off a full node.
    pub displaced: usize,
    /// Share of the machine's CPU time that copying took, and passes at one millisecond each (ten times what one of
    /// this size was measured to take).
    pub balancing: f64,
}

/// Runs one test. `warmth` is the time to refill a cache; `warmth_first` keeps displaced tasks away.
pub fn run(c: &Constants, test: Test, column: Column, warmth: f64, warmth_first: bool, seed: u64) -> Outcome {
    let mut world = build(c, test, column, seed);
    let mut dice = Rng::new(seed ^ 0xD15_914CE);
    let (mut crossings, mut displaced, limit, mut last) = (0, 0, 4000.0, 0.0f64);
    while world.tasks.iter().any(|t| !t.ended) && world.now < limit {
        let tasks = world.tasks.len();
        let at = world.now;
        if column != Column::Pinned {
            // Bound by hand a task waits for its CPU instead.
            if warmth_first {
                crossings += bring_back(&mut world, warmth, &mut dice);
            }
            let pushed = intrude(&mut world, warmth, &mut dice);
            crossings += pushed.len();
            displaced += pushed.len();
            world.disturbed();
            world.run(at + SLICE);
            for (t, from) in pushed {
                crossings += if warmth_first {
                    pull_coldest(&mut world, t, from, warmth, &mut dice)
                } else {
                    let home = world.tasks[t].home;
                    go(&mut world, t, home, warmth)
                };
            }
            world.disturbed();
        } else {
            world.run(at + SLICE);
        }
        let before: Vec<f64> = world.tasks.iter().map(|t| t.done).collect();
        world.run(at + PERIOD);
        for t in 0..tasks {
            if !world.tasks[t].ended && world.tasks[t].done >= world.tasks[t].until {
                world.tasks[t].ended = true;
                world.disturbed();
                let rate = world.rates[t].max(1e-12) * 1e6;
                last = last.max(at + SLICE + ((world.tasks[t].until - before[t]) / rate).min(PERIOD - SLICE));
            }
        }
    }
    let elapsed = if world.now < limit { world.now } else { f64::INFINITY };
    let cpu = world.migrated / world.migration + world.passes as f64 * 1e-3;
    Outcome {
        elapsed,
        crossings: crossings + world.moves + world.swaps,
        displaced,
        balancing: cpu / (world.now * world.machine.total_cpus() as f64),
    }
}

fn place(world: &World, t: usize) -> usize {
    world.tasks[t].displaced.unwrap_or(world.tasks[t].home)
}

/// Live tasks of a node, whoever's home it is.
fn crowd(world: &World, node: usize) -> Vec<usize> {
    (0..world.tasks.len()).filter(|&t| !world.tasks[t].ended && place(world, t) == node).collect()
}

/// Puts `t` on `node`, with cold caches; how many nodes were crossed (0 or 1).
fn go(world: &mut World, t: usize, node: usize, warmth: f64) -> usize {
    if world.tasks[t].ended || place(world, t) == node {
        return 0;
    }
    let task = &mut world.tasks[t];
    task.displaced = (task.home != node).then_some(node);
    task.cold_s += warmth;
    1
}

/// Somebody takes the CPUs of some tasks: who is on a full node is pushed to another. Returns who, and from where.
fn intrude(world: &mut World, warmth: f64, dice: &mut Rng) -> Vec<(usize, usize)> {
    let n = world.machine.nodes();
    let mut pushed = Vec::new();
    for t in 0..world.tasks.len() {
        let hit = dice.unit() < SHARE;
        let other = dice.below(n);
        let from = place(world, t);
        if hit && other != from && !world.tasks[t].ended && crowd(world, from).len() >= world.machine.cpus[from] {
            go(world, t, other, warmth);
            pushed.push((t, from));
        }
    }
    pushed
}

/// The CPU that `t` had on `from` is free again: if the node `t` is on has more tasks than CPUs, it pulls the one whose
/// caches are coldest, which is any but `t`. How many crossings.
fn pull_coldest(world: &mut World, t: usize, from: usize, warmth: f64, dice: &mut Rng) -> usize {
    let node = place(world, t);
    let mut others = crowd(world, node);
    if others.len() <= world.machine.cpus[node] || crowd(world, from).len() >= world.machine.cpus[from] {
        return 0;
    }
    others.retain(|&u| u != t);
    let coldest = others[dice.below(others.len())];
    go(world, coldest, from, warmth)
}

/// The system looks at each task off its home once a second on average, and takes it back: to a free CPU, or in exchange for
/// one that is off its own home there. How many crossings.
fn bring_back(world: &mut World, warmth: f64, dice: &mut Rng) -> usize {
    let mut crossings = 0;
    for t in 0..world.tasks.len() {
        let looked_at = dice.unit() < PERIOD;
        let (here, home) = (place(world, t), world.tasks[t].home);
        if !looked_at || here == home || world.tasks[t].ended {
            continue;
        }
        let there = crowd(world, home);
        if there.len() < world.machine.cpus[home] {
            crossings += go(world, t, home, warmth);
            continue;
        }
        let strangers = || there.iter().copied().filter(|&u| world.tasks[u].home != home);
        let partner = strangers().find(|&u| world.tasks[u].home == here).or_else(|| strangers().next());
        if let Some(u) = partner {
            crossings += go(world, t, home, warmth) + go(world, u, here, warmth);
        }
    }
    crossings
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
            let home = if column == Column::Pinned { by_hand } else { places[p * test.threads + i] };
            let (private_lines, shared_lines) = if test.shared { (0.0, LINES) } else { (LINES, 0.0) };
            let t = world.add_task(Task {
                busy_us: BUSY_US,
                private_lines,
                shared_lines,
                sticky: 0.0,
                until: test.work / (LINES * 64.0),
                ..crate::seed0::warehouse(c, g, 1.0, home)
            });
            if !test.shared {
                let at = if column == Column::Pinned { by_hand } else { first };
                let bytes = test.mib * MIB / test.threads as f64;
                world.add_memory(Owner::Task(t), bytes, EXTENT.min(bytes), |_| at);
            }
        }
        if test.shared {
            let mut next = 0;
            world.add_memory(Owner::Group(g), test.mib * MIB, EXTENT, |_| {
                next += 1;
                if column == Column::Pinned { p * half + next % half } else { first }
            });
        }
    }
    world
}
