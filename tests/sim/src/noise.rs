//! Disturbances: neighbours, churn, tasks that come and go, phases. Each is applied between two stretches of time.

use crate::rng::Rng;
use crate::world::{Owner, World};

/// Adds `bytes` of churning memory to every task (allocation buffers), in extents of 2 MiB, and returns the first of
/// the new extents. The private lines then go to old and churning memory alike, by bytes.
pub fn add_churn(world: &mut World, bytes: f64) -> usize {
    let first = world.extents.len();
    for t in 0..world.tasks.len() {
        let at = world.tasks[t].home;
        world.add_memory(Owner::Task(t), bytes, (2 << 20) as f64, |_| at);
    }
    first
}

/// Runs `seconds` with the owners of extents from `first` on reshuffled within each group every `period`.
pub fn run_churning(world: &mut World, first: usize, seconds: f64, period: f64) {
    let steps = (seconds / period).round() as usize;
    let start = world.now;
    let group_of: Vec<Option<usize>> = world
        .extents
        .iter()
        .map(|e| match e.owner {
            Owner::Task(t) => Some(world.tasks[t].group),
            Owner::Group(_) => None,
        })
        .collect();
    for k in 1..=steps {
        for g in 0..world.groups.len() {
            let tasks = world.groups[g].tasks.clone();
            world.reshuffle_owners(|e| e >= first && group_of[e] == Some(g), &tasks);
        }
        world.run(start + k as f64 * period);
    }
}

/// The operating system and others take CPUs now here, now there: for `seconds`, every `period` each node loses up to
/// `most` CPUs. Load and memory of the process itself do not change.
pub fn run_preempted(world: &mut World, seconds: f64, period: f64, most: f64, dice: &mut Rng) {
    let start = world.now;
    for k in 1..=(seconds / period).round() as usize {
        for node in 0..world.machine.nodes() {
            world.neighbour[node] = if world.machine.cpus[node] > 0 { most * dice.unit() } else { 0.0 };
        }
        world.disturbed();
        world.run(start + k as f64 * period);
    }
    world.neighbour.fill(0.0);
    world.disturbed();
}

/// Ends a task; its memory is freed.
pub fn end_task(world: &mut World, t: usize) {
    world.end_task(t);
}
