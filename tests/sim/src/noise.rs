//! Disturbances: neighbours, churn, tasks that come and go, phases. Each is applied between two stretches of time.

use crate::rng::Rng;
use crate::world::{Owner, Task, World};

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

/// A phase ends: within each group every task goes on with the memory of another, so that a good placement of a moment ago
/// is a bad one now.
pub fn change_phase(world: &mut World) {
    let mut heir: Vec<usize> = (0..world.tasks.len()).collect();
    for group in &world.groups {
        let live: Vec<usize> = group.tasks.iter().copied().filter(|&t| !world.tasks[t].ended).collect();
        // Half the group further on: on another node if the group has several.
        for (k, &t) in live.iter().enumerate() {
            heir[t] = live[(k + live.len() / 2) % live.len()];
        }
    }
    for e in 0..world.extents.len() {
        if let Owner::Task(old) = world.extents[e].owner
            && heir[old] != old
        {
            world.give(e, old, heir[old]);
        }
    }
}

/// For `seconds`, every `period` a task chosen by lot ends, its memory is freed, and another of its group begins at the home of
/// a third, where it allocates as much.
pub fn run_coming_and_going(world: &mut World, seconds: f64, period: f64, dice: &mut Rng) {
    let start = world.now;
    for k in 1..=(seconds / period).round() as usize {
        let live: Vec<usize> = (0..world.tasks.len()).filter(|&t| !world.tasks[t].ended).collect();
        let old = live[dice.below(live.len())];
        let parent = live[dice.below(live.len())];
        let (bytes, home) = (world.tasks[old].bytes.iter().sum::<f64>(), world.tasks[parent].home);
        let new = Task { home, done: 0.0, displaced: None, cold_s: 0.0, ..world.tasks[old].clone() };
        world.end_task(old);
        let t = world.add_task(new);
        if bytes > 0.0 {
            world.add_memory(Owner::Task(t), bytes, (2 << 20) as f64, |_| home);
        }
        world.run(start + k as f64 * period);
    }
}
