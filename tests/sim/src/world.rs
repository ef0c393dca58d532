//! The simulated process: tasks, groups, extents, and the clock that jumps from event to event.

use crate::column::Column;
use crate::machine::{MIGRATION_BYTES_PER_S, Machine};
use crate::rates::{Class, Loads, solve};
use crate::record::{LocalShare, Record};
use crate::rng::Rng;
use numart_runtime::balance::policy::{Config, NodeSet, State, must_wake};
use std::collections::VecDeque;

/// Bytes of a line.
pub const LINE: f64 = 64.0;

/// One task with its affinity: it repeats transactions for ever.
#[derive(Clone, Debug)]
pub struct Task {
    /// Group (instance, process) it belongs to.
    pub group: usize,
    /// Microseconds of a transaction that are not memory time.
    pub busy_us: f64,
    /// Lines of a transaction to its own memory, and to its group's.
    pub private_lines: f64,
    /// See `private_lines`.
    pub shared_lines: f64,
    /// Share of the private lines that are always local.
    pub sticky: f64,
    /// CPUs it wants: 1 for one that never sleeps.
    pub demand: f64,
    /// A closure that never returns: it cannot be stolen or moved once it runs.
    pub endless: bool,
    /// The nodes the user fixed it to.
    pub pinned: Option<NodeSet>,
    /// Home node.
    pub home: usize,
    /// Node it runs on now.
    pub node: usize,
    /// Whether it has ended.
    pub ended: bool,
    /// Node it was pushed to for a moment, by someone who needed its CPU.
    pub displaced: Option<usize>,
    /// Seconds of CPU it will lose refilling caches.
    pub cold_s: f64,
    /// Transactions after which it ends.
    pub until: f64,
    /// Bytes of its own extents by node.
    pub bytes: Vec<f64>,
    /// Transactions done.
    pub done: f64,
    pub(crate) window: TaskWindow,
}

/// What a task did since the last snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskWindow {
    pub cpu_s: f64,
    pub wait_s: f64,
    /// Bytes by (using node, away) and memory node: own, then shared.
    pub uses: Vec<(usize, bool, Vec<f64>, Vec<f64>)>,
}

/// A group of tasks with its shared memory.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Its tasks.
    pub tasks: Vec<usize>,
    /// Bytes of its shared extents by node.
    pub bytes: Vec<f64>,
    /// Bytes touched in its shared memory since the last snapshot, by using node (home, away).
    pub(crate) window: Vec<(f64, f64)>,
}

/// Who touches an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// One task.
    Task(usize),
    /// All tasks of a group alike.
    Group(usize),
}

/// One extent.
#[derive(Clone, Copy, Debug)]
pub struct SimExtent {
    /// Who touches it.
    pub owner: Owner,
    /// Where it is.
    pub node: usize,
    /// Bytes.
    pub bytes: f64,
    /// Queued for migration.
    pub queued: bool,
    /// The next migration of it fails.
    pub stuck: bool,
    /// The last one did.
    pub failed: bool,
    /// What it saw of an owner that has left it within the window: bytes, and who.
    pub(crate) earlier: (f64, usize),
    /// The owner's counter when it became owner or at the last snapshot.
    pub(crate) mark: f64,
}

/// The whole simulation.
pub struct World {
    /// The machine.
    pub machine: Machine,
    /// Who decides.
    pub column: Column,
    /// Share of CPU time lost when the system places tasks.
    pub idle_loss: f64,
    /// Tasks.
    pub tasks: Vec<Task>,
    /// Groups.
    pub groups: Vec<Group>,
    /// Extents; the index is the slot.
    pub extents: Vec<SimExtent>,
    /// CPUs a neighbour eats, by node.
    pub neighbour: Vec<f64>,
    /// Virtual time, seconds.
    pub now: f64,
    /// The policy's memory, if the column has a policy.
    pub state: Option<State>,
    /// When the next pass is.
    pub next_pass: f64,
    /// Ordered migrations: extent and target.
    pub queue: VecDeque<(usize, usize)>,
    /// Bytes migrated so far, and bytes touched.
    pub migrated: f64,
    /// Bytes touched so far.
    pub touched: f64,
    /// Home changes so far: by move, by swap.
    pub moves: usize,
    /// See `moves`.
    pub swaps: usize,
    /// Passes so far.
    pub passes: usize,
    /// Migration bytes per second.
    pub migration: f64,
    /// Seconds between two reshufflings of tasks by the operating system.
    pub system_period: f64,
    /// Share of tasks a reshuffling moves. Seed 1's counters show 1 to 2 migrations per task and second (107,380 in
    /// 724 s at 82 busy CPUs), of which most cross nodes.
    pub system_share: f64,
    /// Relative standard deviation of what the policy is told of each count.
    pub count_noise: f64,
    /// Bytes a task reports per byte that misses the caches.
    pub declared_per_miss: f64,
    /// Tells the policy each node's bandwidth.
    pub tell_bandwidth: bool,
    /// Samples for pictures, if wanted.
    pub record: Option<Record>,
    /// Seconds of the window, and CPU seconds to be had in it by node.
    pub(crate) capacity_window: (f64, Vec<f64>),
    pub(crate) next_system: f64,
    pub(crate) counter: Vec<f64>,
    pub(crate) rng: Rng,
    pub(crate) loads: Loads,
    pub(crate) rates: Vec<f64>,
    pub(crate) shares: Vec<f64>,
    pub(crate) classes: Vec<Class>,
    pub(crate) stale: bool,
    pub(crate) progress: f64,
    pub(crate) local: LocalShare,
}

impl World {
    /// An empty world; `seed` decides all chance in it and the policy's ties.
    pub fn new(machine: Machine, column: Column, idle_loss: f64, seed: u64) -> World {
        let n = machine.nodes();
        let config = Config { seed, ..Config::default() };
        let limited = column == Column::RateLimited;
        World {
            state: column.rules().map(|rules| State::new(Config { rules, ..config })),
            column,
            idle_loss,
            tasks: Vec::new(),
            groups: Vec::new(),
            extents: Vec::new(),
            neighbour: vec![0.0; n],
            now: 0.0,
            next_pass: 0.0,
            queue: VecDeque::new(),
            migrated: 0.0,
            touched: 0.0,
            moves: 0,
            swaps: 0,
            passes: 0,
            migration: if limited { 1.28e9 } else { MIGRATION_BYTES_PER_S },
            system_period: 0.5,
            system_share: 0.5,
            count_noise: 0.01,
            declared_per_miss: 1.0,
            tell_bandwidth: false,
            record: None,
            capacity_window: (0.0, vec![0.0; n]),
            next_system: 0.0,
            counter: Vec::new(),
            rng: Rng::new(seed),
            loads: Loads::default(),
            rates: Vec::new(),
            shares: Vec::new(),
            classes: Vec::new(),
            stale: true,
            progress: 0.0,
            local: LocalShare::default(),
            machine,
        }
    }

    /// The world's own dice.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Adds a group without memory and returns its index.
    pub fn add_group(&mut self) -> usize {
        let n = self.machine.nodes();
        self.groups.push(Group { tasks: Vec::new(), bytes: vec![0.0; n], window: vec![(0.0, 0.0); n] });
        self.groups.len() - 1
    }

    /// Adds a task to `task.group` and returns its index.
    pub fn add_task(&mut self, mut task: Task) -> usize {
        task.bytes = vec![0.0; self.machine.nodes()];
        task.node = task.home;
        let index = self.tasks.len();
        self.groups[task.group].tasks.push(index);
        self.tasks.push(task);
        self.counter.push(0.0);
        self.stale = true;
        // The driver knows of new affinities and does not wait for the next pass that was planned.
        self.wake();
        index
    }

    /// Adds `bytes` of memory in extents of `size`, each placed by `place`.
    pub fn add_memory(&mut self, owner: Owner, bytes: f64, size: f64, mut place: impl FnMut(&mut Rng) -> usize) {
        let count = (bytes / size).round().max(1.0) as usize;
        for _ in 0..count {
            let node = place(&mut self.rng);
            let mark = match owner {
                Owner::Task(t) => self.counter[t],
                Owner::Group(_) => 0.0,
            };
            self.extents.push(SimExtent {
                owner,
                node,
                bytes: size,
                queued: false,
                stuck: false,
                failed: false,
                earlier: (0.0, 0),
                mark,
            });
            self.bytes_of(owner)[node] += size;
        }
        self.stale = true;
    }

    pub(crate) fn bytes_of(&mut self, owner: Owner) -> &mut Vec<f64> {
        match owner {
            Owner::Task(t) => &mut self.tasks[t].bytes,
            Owner::Group(g) => &mut self.groups[g].bytes,
        }
    }

    /// Runs until `end` seconds.
    pub fn run(&mut self, end: f64) {
        while self.now < end - 1e-9 {
            if self.column.system_places() && self.now >= self.next_system {
                self.system_reshuffle();
                self.next_system = self.now + self.system_period;
            }
            if self.state.is_some() && self.now >= self.next_pass {
                self.pass();
                let (sum, seconds) = std::mem::take(&mut self.local.window);
                self.local.at_pass = if seconds > 0.0 { sum / seconds } else { 0.0 };
            }
            if self.stale {
                self.settle_rates();
                self.local.now = self.local_share();
            }
            // What the driver does all the time: see whether the policy would want to know.
            if must_wake(self.local.at_pass, self.local.now) {
                self.wake();
            }
            let mut next = end;
            if self.column.system_places() {
                next = next.min(self.next_system);
            }
            if self.state.is_some() {
                next = next.min(self.next_pass);
            }
            if !self.queue.is_empty() {
                next = next.min(self.now + 0.1);
            }
            let step = (next - self.now).max(1e-6);
            self.advance(step);
        }
    }

    /// Something changed that rates depend on and the driver does not hear of.
    pub fn disturbed(&mut self) {
        self.stale = true;
    }

    /// Ends a task; its memory is freed, and the driver hears of it.
    pub fn end_task(&mut self, t: usize) {
        self.tasks[t].ended = true;
        self.tasks[t].bytes.fill(0.0);
        let gone = |e: &SimExtent| e.owner == Owner::Task(t);
        // Slots keep their numbers: a freed extent becomes empty.
        for extent in self.extents.iter_mut().filter(|e| gone(e)) {
            extent.bytes = 0.0;
        }
        self.stale = true;
        self.wake();
    }

    /// The driver runs a pass at once instead of waiting: something changed that it knows of.
    pub fn wake(&mut self) {
        self.next_pass = self.next_pass.min(self.now + 0.1);
    }

    /// Where tasks run and how fast they go, under the present homes and memory.
    pub(crate) fn settle_rates(&mut self) {
        if !self.column.system_places() {
            self.steal();
        }
        let n = self.machine.nodes();
        let mut demand = vec![0.0; n];
        for task in self.tasks.iter().filter(|t| !t.ended) {
            demand[task.node] += task.demand;
        }
        let loss = if self.column.system_places() && self.column != Column::NodeSet { self.idle_loss } else { 0.0 };
        self.classes.clear();
        self.shares.clear();
        for task in &self.tasks {
            let capacity = (self.machine.cpus[task.node] as f64 - self.neighbour[task.node]).max(0.01);
            let share = if task.ended { 0.0 } else { task.demand * (capacity / demand[task.node].max(1e-9)).min(1.0) };
            self.shares.push(share);
            let group = &self.groups[task.group];
            let (own, shared) = (task.bytes.iter().sum::<f64>(), group.bytes.iter().sum::<f64>());
            let mut lines = vec![0.0; n];
            lines[task.node] += task.private_lines * task.sticky;
            let loose = task.private_lines * (1.0 - task.sticky);
            for m in 0..n {
                // A task without extents of its own has its private lines where it runs.
                lines[m] += if own > 0.0 {
                    loose * task.bytes[m] / own
                } else if m == task.node {
                    loose
                } else {
                    0.0
                };
                lines[m] += if shared > 0.0 {
                    task.shared_lines * group.bytes[m] / shared
                } else if m == task.node {
                    task.shared_lines
                } else {
                    0.0
                };
            }
            self.classes.push(Class {
                node: task.node,
                count: 1.0,
                share: share * (1.0 - loss),
                busy_us: task.busy_us,
                lines,
            });
        }
        let mut copy = vec![0.0; n];
        if let Some(&(e, to)) = self.queue.front() {
            // Read on one side, written on the other, at the copier's pace.
            let lines = self.migration / LINE / 1e6;
            copy[self.extents[e].node] += lines;
            copy[to] += lines;
        }
        self.rates = solve(&self.machine, &self.classes, &copy, &mut self.loads);
        self.stale = false;
    }

    fn advance(&mut self, dt: f64) {
        if let Some(record) = &mut self.record {
            record.sample(
                self.now,
                &self.tasks,
                &self.groups,
                (self.moves, self.swaps, self.migrated),
                self.queue.len(),
            );
        }
        for t in 0..self.tasks.len() {
            if !self.tasks[t].ended {
                self.advance_task(t, dt);
            }
        }
        self.capacity_window.0 += dt;
        for i in 0..self.machine.nodes() {
            self.capacity_window.1[i] += (self.machine.cpus[i] as f64 - self.neighbour[i]).max(0.0) * dt;
        }
        self.local.window.0 += self.local.now * dt;
        self.local.window.1 += dt;
        self.now += dt;
        self.migrate(dt);
    }

    fn advance_task(&mut self, t: usize, dt: f64) {
        let task = &mut self.tasks[t];
        let cold = task.cold_s.min(dt);
        task.cold_s -= cold;
        let done = (self.rates[t] * 1e6 * (dt - cold)).min(task.until - task.done);
        task.done += done;
        task.window.cpu_s += self.shares[t] * dt;
        task.window.wait_s += (task.demand - self.shares[t]).max(0.0) * dt;
        let n = self.machine.nodes();
        let away = !self.column.system_places() && task.node != task.home;
        let index = task.window.uses.iter().position(|u| u.0 == task.node && u.1 == away).unwrap_or_else(|| {
            task.window.uses.push((task.node, away, vec![0.0; n], vec![0.0; n]));
            task.window.uses.len() - 1
        });
        let bytes_per_line = LINE * self.declared_per_miss;
        let (own, group) = (task.bytes.iter().sum::<f64>(), &mut self.groups[task.group]);
        let shared = group.bytes.iter().sum::<f64>();
        let loose = done * task.private_lines * (1.0 - task.sticky) * bytes_per_line;
        let common = done * task.shared_lines * bytes_per_line;
        let used = &mut task.window.uses[index];
        for m in 0..n {
            if own > 0.0 {
                used.2[m] += loose * task.bytes[m] / own;
            }
            if shared > 0.0 {
                used.3[m] += common * group.bytes[m] / shared;
            }
        }
        if own > 0.0 {
            self.counter[t] += loose / own;
        }
        if shared > 0.0 {
            let window = &mut group.window[task.node];
            *(if away { &mut window.1 } else { &mut window.0 }) += common;
        }
        self.touched += done * (task.private_lines + task.shared_lines) * bytes_per_line;
    }

    /// Share of the touched bytes that are local now; a group's shared memory counts as local anywhere.
    pub fn local_share(&self) -> f64 {
        let (mut local, mut total) = (0.0, 0.0);
        for task in self.tasks.iter().filter(|t| !t.ended) {
            let bytes: f64 = task.bytes.iter().sum();
            if bytes > 0.0 {
                local += task.bytes[task.node] / bytes * task.private_lines;
                total += task.private_lines;
            }
        }
        if total > 0.0 { local / total } else { 1.0 }
    }

    /// Transactions done by each group.
    pub fn done_by_group(&self) -> Vec<f64> {
        self.groups.iter().map(|g| g.tasks.iter().map(|&t| self.tasks[t].done).sum()).collect()
    }

    /// Nodes each group has running tasks on, by home.
    pub fn nodes_of_group(&self, g: usize) -> NodeSet {
        self.groups[g]
            .tasks
            .iter()
            .filter(|&&t| !self.tasks[t].ended)
            .fold(NodeSet::EMPTY, |set, &t| set.union(NodeSet::single(self.tasks[t].home)))
    }

    /// Gives every `Owner::Task` extent that `which` picks a random owner among `tasks`: reuse by a collector.
    pub fn reshuffle_owners(&mut self, which: impl Fn(usize) -> bool, tasks: &[usize]) {
        for e in 0..self.extents.len() {
            let (Owner::Task(old), true) = (self.extents[e].owner, which(e)) else {
                continue;
            };
            let new = tasks[self.rng.below(tasks.len())];
            if new != old {
                self.give(e, old, new);
            }
        }
        self.stale = true;
    }

    /// Extent `e` of task `old` is used by `new` from now on.
    pub(crate) fn give(&mut self, e: usize, old: usize, new: usize) {
        let extent = &mut self.extents[e];
        let seen = (self.counter[old] - extent.mark) * extent.bytes;
        // The window's most frequent user is who it is told of.
        if seen > extent.earlier.0 {
            extent.earlier = (seen, old);
        }
        (extent.owner, extent.mark) = (Owner::Task(new), self.counter[new]);
        let (node, bytes) = (extent.node, extent.bytes);
        self.tasks[old].bytes[node] -= bytes;
        self.tasks[new].bytes[node] += bytes;
        self.stale = true;
    }
}
