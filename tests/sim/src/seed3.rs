//! Seed 3: `perf bench numa mem -m -0`: processes of threads that walk their process's memory, all of it on node 0.
//!
//! *Strong*: every process occupies exactly one node (by the homes of its tasks). Unlike perf bench this also asks for
//! the balance of tasks, for where the memory is and for what it brings, and says so when it does not converge.

use crate::column::Column;
use crate::constants::Constants;
use crate::machine::Machine;
use crate::rng::Rng;
use crate::world::{Owner, Task, World};

/// Lines of one transaction: a burst of 8 KiB at a random position.
const BURST_LINES: f64 = 128.0;
/// CPU time of one: the value chain over 1,024 words, about a nanosecond each.
const BURST_US: f64 = 1.0;
const EXTENT: f64 = (2 << 20) as f64;

/// The sixteen convergence shapes of perf bench: processes, threads of each, MiB of each (two of them differ only in
/// page size, which the model does not see: they run with 4 KiB extents scaled to 256 KiB, to stay countable).
pub const SHAPES: [(usize, usize, f64, bool); 16] = [
    (1, 3, 512.0, true),
    (1, 4, 512.0, true),
    (1, 6, 1020.0, true),
    (2, 3, 1020.0, true),
    (3, 3, 1020.0, true),
    (4, 4, 512.0, true),
    (4, 4, 512.0, false),
    (4, 6, 1020.0, true),
    (4, 8, 512.0, true),
    (8, 4, 512.0, true),
    (8, 4, 512.0, false),
    (3, 1, 512.0, true),
    (4, 1, 512.0, true),
    (8, 1, 512.0, true),
    (16, 1, 256.0, true),
    (32, 1, 128.0, true),
];

/// A run's five numbers and what else is asked of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Seconds until strongly converged for good; none if not by the end.
    pub strong_at: Option<f64>,
    /// Whether it was strong once and then lost it.
    pub relapsed: bool,
    /// Most tasks of a node less fewest, at the end.
    pub balance: usize,
    /// Seconds until 95 % of the memory was on its tasks' nodes.
    pub memory_at: Option<f64>,
    /// Share of the memory on its tasks' nodes at the end.
    pub memory_share: f64,
    /// Bytes walked per second in the last quarter.
    pub bytes_per_s: f64,
    /// Bytes migrated.
    pub migrated: f64,
}

/// Builds `processes` x `threads` with `mib` MiB each. Threads start anywhere, evenly; pinned: whole processes dealt
/// over the nodes, their memory with them.
pub fn build(
    machine: Machine,
    c: &Constants,
    (processes, threads, mib, huge): (usize, usize, f64, bool),
    column: Column,
    seed: u64,
) -> World {
    let n = machine.nodes();
    let count = processes * threads;
    let cpus: Vec<usize> = (0..n).flat_map(|i| vec![i; machine.cpus[i]]).collect();
    let mut world = World::new(machine, column, c.idle_loss, seed);
    let mut dice = Rng::new(seed ^ 0x5EED_0003);
    let mut places: Vec<usize> = (0..count).map(|k| cpus[k * cpus.len() / count.max(1) % cpus.len()]).collect();
    dice.shuffle(&mut places);
    for p in 0..processes {
        let g = world.add_group();
        for t in 0..threads {
            let home = if column.starts_pinned() { p % n } else { places[p * threads + t] };
            world.add_task(Task {
                busy_us: BURST_US,
                private_lines: 0.0,
                shared_lines: BURST_LINES,
                sticky: 0.0,
                ..crate::seed0::warehouse(c, g, 1.0, home)
            });
        }
        let size = if huge { EXTENT } else { EXTENT / 8.0 };
        let at = if column.starts_pinned() { p % n } else { 0 };
        world.add_memory(Owner::Group(g), mib * 1048576.0, size, |_| at);
    }
    world
}

/// Whether every process is on one node.
pub fn strong(world: &World) -> bool {
    (0..world.groups.len()).all(|g| world.nodes_of_group(g).len() == 1)
}

/// Share of all groups' memory that is on nodes their tasks have homes on.
pub fn memory_share(world: &World) -> f64 {
    let (mut there, mut all) = (0.0, 0.0);
    for (g, group) in world.groups.iter().enumerate() {
        let nodes = world.nodes_of_group(g);
        all += group.bytes.iter().sum::<f64>();
        there += nodes.iter().map(|i| group.bytes[i]).sum::<f64>();
    }
    if all > 0.0 { there / all } else { 1.0 }
}

/// Most tasks on a node less fewest, over nodes with CPUs.
pub fn balance(world: &World) -> usize {
    let mut count = vec![0usize; world.machine.nodes()];
    world.tasks.iter().filter(|t| !t.ended).for_each(|t| count[t.home] += 1);
    let counts: Vec<usize> = count.iter().zip(&world.machine.cpus).filter(|(_, c)| **c > 0).map(|(c, _)| *c).collect();
    counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0)
}

/// Runs for `seconds`, looking every tenth of a second until converged and every second after.
pub fn run(world: &mut World, seconds: f64) -> Outcome {
    let start = world.now;
    let mut outcome = Outcome {
        strong_at: None,
        relapsed: false,
        balance: 0,
        memory_at: None,
        memory_share: 0.0,
        bytes_per_s: 0.0,
        migrated: 0.0,
    };
    let mut quarter = None;
    let mut at = 0.0;
    while at < seconds - 1e-9 {
        at = (at + if outcome.strong_at.is_some() && outcome.memory_at.is_some() { 1.0 } else { 0.1_f64 }).min(seconds);
        world.run(start + at);
        match (strong(world), outcome.strong_at) {
            (true, None) => outcome.strong_at = Some(at),
            (false, Some(_)) => {
                outcome.relapsed = true;
                outcome.strong_at = None;
            }
            _ => {}
        }
        // Before that a process is everywhere, and its memory with it.
        if outcome.memory_at.is_none() && outcome.strong_at.is_some() && memory_share(world) >= 0.95 {
            outcome.memory_at = Some(at);
        }
        if quarter.is_none() && at >= seconds * 0.75 {
            quarter = Some((at, world.done_by_group().iter().sum::<f64>()));
        }
    }
    let done: f64 = world.done_by_group().iter().sum();
    let (then, before) = quarter.unwrap_or((0.0, 0.0));
    outcome.bytes_per_s = (done - before) * BURST_LINES * 64.0 / (seconds - then).max(1e-9);
    outcome.balance = balance(world);
    outcome.memory_share = memory_share(world);
    outcome.migrated = world.migrated;
    outcome
}

/// perf bench's `-x`: one task jumps to another node.
pub fn kick(world: &mut World) {
    let n = world.machine.nodes();
    if let Some(task) = world.tasks.first_mut() {
        task.home = (task.home + n - 1) % n;
        task.node = task.home;
    }
    world.wake();
    world.run(world.now + 1e-6);
}
