//! Seed 0: warehouses in one to eight instances on 8 x 10 CPUs.

use crate::column::Column;
use crate::constants::Constants;
use crate::fit::busy_us;
use crate::machine::Machine;
use crate::rng::Rng;
use crate::world::{Owner, Task, World};
use numart_runtime::balance::policy::NodeSet;

/// Size of an extent.
pub const EXTENT: f64 = (2 << 20) as f64;
/// Shared memory of an instance: the item table and counters (reference 6: 20 to 64 MiB).
pub const SHARED_BYTES: f64 = 64.0 * 1024.0 * 1024.0;

/// Where memory is at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// All of an instance on its first node: its main thread touched it first.
    FirstNode,
    /// Anywhere.
    Uniform,
}

/// One configuration.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Instances.
    pub instances: usize,
    /// Warehouses (tasks) of each.
    pub warehouses: usize,
    /// Private bytes of a warehouse.
    pub bytes: f64,
    /// Start.
    pub start: Start,
    /// Extent size.
    pub extent: f64,
}

impl Shape {
    /// I to IV of the mail (`index` 0 to 3) with `mib` MiB per warehouse.
    pub fn of(index: usize, mib: f64, start: Start) -> Shape {
        let (instances, warehouses) = [(8, 10), (4, 20), (2, 40), (1, 80)][index];
        Shape { instances, warehouses, bytes: mib * 1024.0 * 1024.0, start, extent: EXTENT }
    }

    /// Bytes that are somewhere else at the start than a pinned run would have them, at most.
    pub fn all_bytes(&self) -> f64 {
        self.instances as f64 * (self.warehouses as f64 * self.bytes + SHARED_BYTES)
    }
}

/// A jbb-like task of an instance that is `width` nodes wide.
pub fn warehouse(c: &Constants, group: usize, width: f64, home: usize) -> Task {
    Task {
        group,
        busy_us: busy_us(c, width),
        private_lines: c.private_lines,
        shared_lines: c.shared_lines,
        sticky: c.sticky,
        demand: 1.0,
        endless: false,
        pinned: None,
        home,
        node: home,
        ended: false,
        displaced: None,
        cold_s: 0.0,
        until: f64::INFINITY,
        bytes: Vec::new(),
        done: 0.0,
        window: Default::default(),
    }
}

/// Builds the world of `shape` on `machine` under `column`.
pub fn build(machine: Machine, c: &Constants, shape: Shape, column: Column, seed: u64) -> World {
    let n = machine.nodes();
    let cpus = machine.cpus[0];
    let width = (shape.warehouses as f64 / cpus as f64).max(1.0);
    let wide = width.ceil() as usize;
    let mut world = World::new(machine, column, c.idle_loss, seed);
    let mut dice = Rng::new(seed ^ 0x5EED);
    // The operating system starts instances and tasks anywhere.
    let mut places: Vec<usize> = (0..n).flat_map(|i| vec![i; cpus]).collect();
    dice.shuffle(&mut places);
    for instance in 0..shape.instances {
        let g = world.add_group();
        let first = instance * wide % n;
        let main = dice.below(n);
        let nodes = wide.min(n);
        for w in 0..shape.warehouses {
            let by_hand = (first + w * nodes / shape.warehouses) % n;
            let anywhere = places[(instance * shape.warehouses + w) % places.len()];
            let home = if column.starts_pinned() { by_hand } else { anywhere };
            let mut task = warehouse(c, g, width, home);
            task.pinned = (column == Column::Pinned).then_some(NodeSet::single(by_hand));
            let t = world.add_task(task);
            world.add_memory(Owner::Task(t), shape.bytes, shape.extent, |rng| match (column, shape.start) {
                (Column::Pinned, _) => by_hand,
                (Column::NodeSet, _) => (first + rng.below(nodes)) % n,
                (_, Start::FirstNode) => main,
                (_, Start::Uniform) => rng.below(n),
            });
        }
        let mut next = 0;
        world.add_memory(Owner::Group(g), SHARED_BYTES, shape.extent.max(EXTENT), |rng| {
            next += 1;
            match (column.starts_pinned(), shape.start) {
                (true, _) => (first + next % nodes) % n,
                (_, Start::FirstNode) => main,
                (_, Start::Uniform) => rng.below(n),
            }
        });
    }
    world
}

/// Figures of one run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Transactions per second by instance, last half.
    pub steady: Vec<f64>,
    /// By instance, all of it.
    pub whole: Vec<f64>,
    /// When 95 % of the private touches were local for the first time, seconds.
    pub local_at: Option<f64>,
    /// Bytes migrated in the last half.
    pub late_bytes: f64,
    /// Home changes, and those in the last half.
    pub moves: (usize, usize),
    /// Passes.
    pub passes: usize,
}

/// Runs a world for `seconds` and reads the figures.
pub fn run(mut world: World, seconds: f64) -> Outcome {
    let mut local_at = None;
    let mut half = (Vec::new(), 0.0, 0);
    // In steps, to see when things happen; the steps are no events of the model.
    let steps = (seconds * if seconds > 20.0 { 2.0 } else { 10.0 }) as usize;
    let mut k = 0;
    while k < steps {
        k += 1;
        let at = seconds * k as f64 / steps as f64;
        world.run(at);
        if local_at.is_none() && world.local_share() >= 0.95 {
            local_at = Some(at);
        }
        if half.0.is_empty() && 2 * k >= steps {
            half = (world.done_by_group(), world.migrated, world.moves + world.swaps);
        }
        if local_at.is_some() && !half.0.is_empty() {
            k = steps;
            world.run(seconds);
        }
    }
    let done = world.done_by_group();
    let steady = done.iter().zip(&half.0).map(|(d, h)| (d - h) / (seconds / 2.0)).collect();
    let total = world.moves + world.swaps;
    Outcome {
        steady,
        whole: done.iter().map(|d| d / seconds).collect(),
        local_at,
        late_bytes: world.migrated - half.1,
        moves: (total, total - half.2),
        passes: world.passes,
    }
}
