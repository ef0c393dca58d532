//! Where tasks run: the operating system's wandering, and numart's stealing.

use crate::column::Column;
use crate::world::World;

impl World {
    /// The operating system moves some tasks to other CPUs, keeping the load even, blind to memory.
    pub(crate) fn system_reshuffle(&mut self) {
        let first = self.next_system == 0.0;
        let share = if first { 1.0 } else { self.system_share };
        let mut picked: Vec<usize> = (0..self.tasks.len()).filter(|&t| !self.tasks[t].ended).collect();
        picked.retain(|_| self.rng.unit() < share);
        if self.column == Column::NodeSet {
            for g in 0..self.groups.len() {
                let nodes = self.pinned_nodes(g);
                let members: Vec<usize> = picked.iter().copied().filter(|&t| self.tasks[t].group == g).collect();
                self.deal(&members, &nodes, first);
            }
        } else {
            let nodes: Vec<usize> = (0..self.machine.nodes()).filter(|&i| self.machine.cpus[i] > 0).collect();
            self.deal(&picked, &nodes, first);
        }
        self.stale = true;
    }

    /// Deals `picked` onto `nodes` at random: over the places they had, or, the first time, evenly by CPUs.
    fn deal(&mut self, picked: &[usize], nodes: &[usize], first: bool) {
        let mut places: Vec<usize> = if first {
            let cpus: Vec<usize> = nodes.iter().flat_map(|&i| vec![i; self.machine.cpus[i]]).collect();
            (0..picked.len()).map(|k| cpus[(k * cpus.len() / picked.len().max(1)) % cpus.len()]).collect()
        } else {
            picked.iter().map(|&t| self.tasks[t].node).collect()
        };
        self.rng.shuffle(&mut places);
        for (&t, place) in picked.iter().zip(places) {
            self.tasks[t].node = place;
            self.tasks[t].home = place;
        }
    }

    /// The nodes group `g` is pinned to: those its tasks were put on by the scenario.
    pub(crate) fn pinned_nodes(&self, g: usize) -> Vec<usize> {
        let n = self.machine.nodes();
        (0..n)
            .filter(|&i| {
                self.groups[g].bytes[i] > 0.0 || self.groups[g].tasks.iter().any(|&t| self.tasks[t].bytes[i] > 0.0)
            })
            .collect()
    }

    /// Everybody goes home; where a node has more runnable tasks than CPUs and others stand idle, the nearest idle CPU
    /// steals. Which of the surplus is stolen is chance, and chance again at the next event: a thief has no claim.
    pub(crate) fn steal(&mut self) {
        let n = self.machine.nodes();
        let mut room: Vec<f64> = (0..n).map(|i| (self.machine.cpus[i] as f64 - self.neighbour[i]).max(0.0)).collect();
        let mut at: Vec<Vec<usize>> = vec![Vec::new(); n];
        for (t, task) in self.tasks.iter_mut().enumerate() {
            task.node = task.displaced.unwrap_or(task.home);
            if !task.ended {
                at[task.node].push(t);
                room[task.node] -= task.demand;
            }
        }
        if self.column == Column::Pinned || room.iter().all(|&r| r > -1e-9) || !room.iter().any(|&r| r >= 0.5) {
            return;
        }
        for i in 0..n {
            if room[i] > -1e-9 {
                continue;
            }
            self.rng.shuffle(&mut at[i]);
            let mut thieves: Vec<usize> = (0..n).filter(|&j| j != i).collect();
            thieves.sort_by(|&x, &y| self.machine.latency[i * n + x].total_cmp(&self.machine.latency[i * n + y]));
            for &t in &at[i] {
                let task = &self.tasks[t];
                if room[i] > -task.demand * 0.5 {
                    break;
                }
                if task.endless || task.pinned.is_some() {
                    continue;
                }
                if let Some(&j) = thieves.iter().find(|&&j| room[j] >= task.demand * 0.5) {
                    room[j] -= task.demand;
                    room[i] += task.demand;
                    self.tasks[t].node = j;
                }
            }
        }
    }
}
