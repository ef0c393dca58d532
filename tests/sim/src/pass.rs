//! One pass: the window becomes a snapshot, the policy answers, its plan is applied; and the migrations go on.

use crate::column::Column;
use crate::world::{LINE, Owner, World};
use numart_runtime::balance::policy::{
    Affinity, Extent, Kind, NO_AFFINITY, Node, NodeSet, Plan, Snapshot, Touch, plan,
};

impl World {
    /// Runs the policy once.
    pub(crate) fn pass(&mut self) {
        let Some(mut state) = self.state.take() else {
            return;
        };
        let snapshot = self.snapshot();
        let plan = plan(&mut state, &snapshot);
        self.state = Some(state);
        self.passes += 1;
        self.apply(&plan, &snapshot);
        // The driver follows the plan's advice.
        self.next_pass = self.now + plan.next_pass.as_secs_f64();
    }

    /// The window since the last call, as the runtime would tell it, with noise in the counts.
    pub fn snapshot(&mut self) -> Snapshot {
        let n = self.machine.nodes();
        let live: Vec<usize> = (0..self.tasks.len()).filter(|&t| !self.tasks[t].ended).collect();
        let mut index = vec![NO_AFFINITY; self.tasks.len()];
        let mut snapshot = Snapshot {
            now_ns: (self.now * 1e9) as u64,
            nodes: self.node_views(),
            distance: self.machine.distance.clone(),
            ..Snapshot::default()
        };
        for (i, &t) in live.iter().enumerate() {
            index[t] = i as u32;
            let window = std::mem::take(&mut self.tasks[t].window);
            let task = &self.tasks[t];
            snapshot.affinities.push(Affinity {
                group: Some(task.group as u64),
                pinned: task.pinned,
                running_long: task.endless,
                cpu_ns: (window.cpu_s * 1e9) as u64,
                wait_ns: (window.wait_s * 1e9) as u64,
                ..Affinity::new(t as u64, NodeSet::single(task.home))
            });
            for (using, away, own, shared) in window.uses {
                for m in 0..n {
                    for (kind, bytes) in [(Kind::Private, own[m]), (Kind::Shared, shared[m])] {
                        if bytes > 0.0 {
                            let noise = self.rng.normal(1.0, self.count_noise).max(0.0);
                            let bytes = (bytes * noise) as u64;
                            snapshot.touches.push(Touch {
                                affinity: i as u32,
                                memory: m as u8,
                                using: using as u8,
                                away,
                                kind,
                                bytes,
                            });
                        }
                    }
                }
            }
        }
        self.extent_views(&index, &snapshot.touches, &mut snapshot.extents);
        for group in &mut self.groups {
            group.window.fill((0.0, 0.0));
        }
        self.capacity_window.0 = 0.0;
        self.capacity_window.1.fill(0.0);
        snapshot.backlog_bytes = self.queue.iter().map(|&(e, _)| self.extents[e].bytes as u64).sum();
        snapshot
    }

    fn node_views(&self) -> Vec<Node> {
        let mut used = vec![0.0; self.machine.nodes()];
        for extent in &self.extents {
            used[extent.node] += extent.bytes;
        }
        (0..self.machine.nodes())
            .map(|i| {
                let total = self.machine.memory[i];
                let bandwidth = self.tell_bandwidth.then_some(self.machine.controller[i] * LINE * 1e6);
                Node {
                    capacity: if self.capacity_window.0 > 0.0 {
                        self.capacity_window.1[i] / self.capacity_window.0
                    } else {
                        self.machine.cpus[i] as f64
                    },
                    l3_groups: self.machine.l3[i] as u32,
                    memory_free: total.saturating_sub(used[i] as u64),
                    bandwidth,
                    ..Node::new(self.machine.cpus[i] as u32, total)
                }
            })
            .collect()
    }

    /// Each extent's share of what its owner touched.
    fn extent_views(&mut self, index: &[u32], touches: &[Touch], out: &mut Vec<Extent>) {
        // By affinity: the most frequent using node at home, and away, and their shares of its touches.
        let count = index.iter().filter(|&&i| i != NO_AFFINITY).count();
        let n = self.machine.nodes();
        let mut by_node = vec![(0.0, 0.0); count * n];
        for touch in touches.iter().filter(|t| t.kind == Kind::Private) {
            let sum = &mut by_node[touch.affinity as usize * n + usize::from(touch.using)];
            *(if touch.away { &mut sum.1 } else { &mut sum.0 }) += touch.bytes as f64;
        }
        let tops: Vec<Top> = (0..count).map(|i| Top::of(&by_node[i * n..(i + 1) * n])).collect();
        let groups: Vec<(Top, f64, u32)> = self
            .groups
            .iter()
            .map(|g| {
                let bytes = g.bytes.iter().sum::<f64>().max(1.0);
                let touched: f64 = g.window.iter().map(|w| w.0 + w.1).sum();
                let owner = g.tasks.iter().map(|&t| index[t]).find(|&i| i != NO_AFFINITY).unwrap_or(NO_AFFINITY);
                (Top::of(&g.window), touched / bytes, owner)
            })
            .collect();
        let members: Vec<f64> = self
            .groups
            .iter()
            .map(|g| g.tasks.iter().filter(|&&t| index[t] != NO_AFFINITY).count().max(1) as f64)
            .collect();
        for (slot, extent) in self.extents.iter_mut().enumerate() {
            if extent.bytes <= 0.0 {
                continue; // freed
            }
            let mut view = Extent {
                slot: slot as u32,
                generation: 0,
                node: extent.node as u8,
                movable: !extent.queued,
                sampled: false,
                failed: extent.failed,
                bytes: extent.bytes as u64,
                touched: 0,
                owner: NO_AFFINITY,
                owner_bytes: 0,
                top_node: 0,
                top_bytes: 0,
                away_node: 0,
                away_bytes: 0,
            };
            extent.failed = false;
            match extent.owner {
                Owner::Task(t) => {
                    let now = (self.counter[t] - extent.mark) * extent.bytes;
                    let (earlier, who) = extent.earlier;
                    let (owner, most) = if earlier > now { (who, earlier) } else { (t, now) };
                    extent.mark = self.counter[t];
                    extent.earlier = (0.0, 0);
                    if index[owner] != NO_AFFINITY {
                        view.touched = (now + earlier) as u64;
                        view.owner = index[owner];
                        view.owner_bytes = most as u64;
                        tops[index[owner] as usize].tell(most, &mut view);
                    }
                }
                Owner::Group(g) => {
                    let (top, per_byte, owner) = &groups[g];
                    let touched = per_byte * extent.bytes;
                    view.touched = touched as u64;
                    view.owner = *owner;
                    // All tasks of a group touch its shared memory alike.
                    view.owner_bytes = (touched / members[g]) as u64;
                    top.tell(touched, &mut view);
                }
            }
            out.push(view);
        }
    }

    fn apply(&mut self, plan: &Plan, snapshot: &Snapshot) {
        let mut homes: Vec<NodeSet> = snapshot.affinities.iter().map(|a| a.home).collect();
        plan.apply_homes(&mut homes);
        for (affinity, home) in snapshot.affinities.iter().zip(homes) {
            if home != affinity.home
                && let Some(node) = home.lowest()
            {
                // A task that would use several nodes is several tasks here: each has one home.
                self.tasks[affinity.id as usize].home = node;
                self.stale = true;
            }
        }
        self.moves += plan.moves.len();
        self.swaps += plan.swaps.iter().map(|s| s.a.len() + s.b.len()).sum::<usize>();
        for m in &plan.extents {
            let extent = &mut self.extents[m.slot as usize];
            if !extent.queued {
                extent.queued = true;
                self.queue.push_back((m.slot as usize, usize::from(m.to)));
            }
        }
        if self.column == Column::RateLimited {
            self.ping_pong();
        }
        self.stale |= !plan.extents.is_empty();
    }

    /// Before 2014: a shared page goes to whoever touched it last, ahead of the private ones in the limited queue.
    fn ping_pong(&mut self) {
        let shared: Vec<(usize, usize)> = self
            .extents
            .iter()
            .enumerate()
            .filter_map(|(e, x)| match x.owner {
                Owner::Group(g) if !x.queued && self.groups[g].tasks.len() > 1 => Some((e, g)),
                _ => None,
            })
            .collect();
        for (e, g) in shared {
            let tasks = &self.groups[g].tasks;
            let to = self.tasks[tasks[self.rng.below(tasks.len())]].node;
            if to != self.extents[e].node {
                self.extents[e].queued = true;
                self.queue.push_front((e, to));
            }
        }
        // The pages go on being touched: the next pass comes soon whatever the plan said.
        self.next_pass = self.next_pass.min(self.now + 1.0);
    }

    /// The copier works for `dt` seconds.
    pub(crate) fn migrate(&mut self, dt: f64) {
        if self.queue.is_empty() {
            self.progress = 0.0;
            return;
        }
        self.progress += self.migration * dt;
        while let Some(&(e, to)) = self.queue.front() {
            let bytes = self.extents[e].bytes;
            if self.progress < bytes {
                break;
            }
            self.progress -= bytes;
            self.queue.pop_front();
            self.extents[e].queued = false;
            if std::mem::take(&mut self.extents[e].stuck) {
                self.extents[e].failed = true;
                continue;
            }
            let (owner, from) = (self.extents[e].owner, self.extents[e].node);
            self.extents[e].node = to;
            self.migrated += bytes;
            let by_node = self.bytes_of(owner);
            by_node[from] = (by_node[from] - bytes).max(0.0);
            by_node[to] += bytes;
        }
        self.stale = true;
    }
}

/// The most frequent using node, at home and away, as shares of all touches.
struct Top {
    home: (usize, f64),
    away: (usize, f64),
}

impl Top {
    fn of(by_node: &[(f64, f64)]) -> Top {
        let total: f64 = by_node.iter().map(|w| w.0 + w.1).sum::<f64>().max(1e-9);
        let most = |f: &dyn Fn(&(f64, f64)) -> f64| {
            let top = by_node.iter().map(f).enumerate().max_by(|x, y| x.1.total_cmp(&y.1));
            top.map_or((0, 0.0), |(i, bytes)| (i, bytes / total))
        };
        Top { home: most(&|w| w.0), away: most(&|w| w.1) }
    }

    fn tell(&self, touched: f64, view: &mut Extent) {
        view.top_node = self.home.0 as u8;
        view.top_bytes = (self.home.1 * touched) as u64;
        view.away_node = self.away.0 as u8;
        view.away_bytes = (self.away.1 * touched) as u64;
    }
}
