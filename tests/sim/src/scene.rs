//! Small scenes for tests of single rules: constant rates, no model of speed. A scene gives the snapshot of each window
//! and applies plans; what the policy is told is exactly what is written down.

use crate::rng::Rng;
use numart_runtime::balance::policy::{
    Affinity, Extent, Kind, NO_AFFINITY, Node, NodeSet, Plan, Snapshot, Touch, WriteShare,
};

/// An affinity with constant rates.
#[derive(Clone, Debug)]
pub struct Actor {
    /// As in the snapshot; `cpu_ns` and `wait_ns` are filled in.
    pub affinity: Affinity,
    /// CPUs used.
    pub cpus: f64,
    /// Bytes per second to memory that cannot move, by node.
    pub fixed: Vec<(usize, f64)>,
    /// Part of its touches that it does away from home, and where.
    pub away: Option<(usize, f64)>,
}

impl Actor {
    /// Uses `cpus` CPUs at `home` and touches nothing.
    pub fn new(id: u64, home: usize, cpus: f64) -> Actor {
        Actor { affinity: Affinity::new(id, NodeSet::single(home)), cpus, fixed: Vec::new(), away: None }
    }

    /// Adds traffic to fixed memory, bytes per second.
    pub fn fixed(mut self, node: usize, rate: f64) -> Actor {
        self.fixed.push((node, rate));
        self
    }

    /// Joins a group.
    pub fn group(mut self, group: u64) -> Actor {
        self.affinity.group = Some(group);
        self
    }

    /// Pins it where it is.
    pub fn pinned(mut self) -> Actor {
        self.affinity.pinned = Some(self.affinity.home);
        self
    }
}

/// An extent with constant traffic.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Where it is.
    pub node: usize,
    /// Its size.
    pub bytes: u64,
    /// Actors that touch it and their bytes per second.
    pub users: Vec<(usize, f64)>,
    /// Whether it may move.
    pub movable: bool,
    /// Whether moves of it fail.
    pub stuck: bool,
    failed: bool,
}

impl Memory {
    /// 2 MiB on `node`, touched by `users`.
    pub fn new(node: usize, users: Vec<(usize, f64)>) -> Memory {
        Memory { node, bytes: 2 << 20, users, movable: true, stuck: false, failed: false }
    }
}

/// A scene.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// Time, ns.
    pub now_ns: u64,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Distances.
    pub distance: Vec<u16>,
    /// Affinities.
    pub actors: Vec<Actor>,
    /// Extents.
    pub memory: Vec<Memory>,
    /// Pairs that write-share, bytes per second.
    pub sharing: Vec<(u32, u32, f64)>,
}

impl Scene {
    /// `n` nodes of `cpus` CPUs and 64 GiB.
    pub fn new(n: usize, cpus: u32, distance: impl Fn(usize, usize) -> u16) -> Scene {
        Scene {
            now_ns: 1_000_000_000,
            nodes: vec![Node::new(cpus, 64 << 30); n],
            distance: (0..n * n).map(|i| distance(i / n, i % n)).collect(),
            ..Scene::default()
        }
    }

    /// Nodes at distance 21 from each other.
    pub fn direct(n: usize, cpus: u32) -> Scene {
        Scene::new(n, cpus, |i, j| if i == j { 10 } else { 21 })
    }

    /// Seed 1's pairs: 10/20/40.
    pub fn backplane(n: usize, cpus: u32) -> Scene {
        Scene::new(n, cpus, |i, j| {
            if i == j {
                10
            } else if i / 2 == j / 2 {
                20
            } else {
                40
            }
        })
    }

    /// The window of the next `seconds`.
    pub fn window(&mut self, seconds: f64) -> Snapshot {
        self.now_ns += (seconds * 1e9) as u64;
        let mut snapshot = Snapshot {
            now_ns: self.now_ns,
            nodes: self.nodes.clone(),
            distance: self.distance.clone(),
            ..Snapshot::default()
        };
        for (i, actor) in self.actors.iter().enumerate() {
            let mut affinity = actor.affinity.clone();
            affinity.cpu_ns = (actor.cpus * seconds * 1e9) as u64;
            for &(node, rate) in &actor.fixed {
                actor.touch(i, node, Kind::Fixed, rate * seconds, &mut snapshot.touches);
            }
            snapshot.affinities.push(affinity);
        }
        for (slot, memory) in self.memory.iter_mut().enumerate() {
            let view = memory.view(slot, &self.actors, seconds, &mut snapshot.touches);
            snapshot.extents.push(view);
        }
        // The runtime counts per affinity, not per extent.
        let key = |t: &Touch| (t.affinity, t.memory, t.using, t.away, t.kind as u8);
        snapshot.touches.sort_by_key(key);
        snapshot.touches.dedup_by(|later, first| {
            let same = key(later) == key(first);
            if same {
                first.bytes = first.bytes.saturating_add(later.bytes);
            }
            same
        });
        for &(a, b, rate) in &self.sharing {
            snapshot.sharing.push(WriteShare { a, b, bytes: (rate * seconds) as u64 });
        }
        snapshot
    }

    /// Does what a plan says, at once.
    pub fn apply(&mut self, plan: &Plan) {
        let mut homes: Vec<NodeSet> = self.actors.iter().map(|a| a.affinity.home).collect();
        plan.apply_homes(&mut homes);
        for (actor, home) in self.actors.iter_mut().zip(homes) {
            actor.affinity.home = home;
        }
        for m in &plan.extents {
            let memory = &mut self.memory[m.slot as usize];
            memory.failed = memory.stuck;
            if !memory.stuck {
                memory.node = usize::from(m.to);
            }
        }
    }

    /// A random machine with a random load: everything the snapshot type can say, within limits.
    pub fn random(nodes: usize, actors: usize, extents: usize, seed: u64) -> Scene {
        let mut dice = Rng::new(seed);
        let cpus = [1, 2, 4, 10, 24, 64][dice.below(6)];
        let kind = dice.below(4);
        let far = nodes.max(2);
        let jitter: Vec<u16> = (0..nodes * nodes).map(|_| dice.below(5) as u16).collect();
        let mut scene = Scene::new(nodes, cpus, |i, j| match kind {
            _ if i == j => 10,
            0 => 21,
            1 => {
                if i / 2 == j / 2 {
                    20
                } else {
                    40
                }
            }
            2 => 10 + 10 * ((i + far - j) % far).min((j + far - i) % far) as u16,
            _ => 20 + jitter[i.min(j) * nodes + i.max(j)],
        });
        for node in &mut scene.nodes {
            match dice.below(10) {
                0 => node.cpus = 0,
                1 => node.allowed = false,
                2 => (node.memory_total, node.memory_free) = (0, 0),
                3 => node.memory_free = dice.below(1 << 24) as u64,
                4 => node.bandwidth = Some(1e9 + 1e10 * dice.unit()),
                5 => node.l3_groups = 1 + dice.below(8) as u32,
                _ => {}
            }
            node.capacity = f64::from(node.cpus) * if dice.below(5) == 0 { dice.unit() } else { 1.0 };
            node.named = dice.below(4) == 0;
        }
        let fill = [0.3, 1.0, 2.0][dice.below(3)];
        let each = fill * nodes as f64 * f64::from(cpus) / actors.max(1) as f64;
        for id in 0..actors {
            let home = dice.below(nodes);
            let demand = match dice.below(4) {
                0 => 0.0,
                1 => each * dice.unit() * 2.0,
                _ => each.min(1.0),
            };
            let mut actor = Actor::new(id as u64 * 7 + 3, home, demand);
            if dice.below(3) > 0 {
                actor.affinity.group = Some(dice.below(1 + actors / 4) as u64);
            }
            if dice.below(12) == 0 {
                actor = actor.pinned();
            }
            actor.affinity.running_long = dice.below(12) == 0;
            if dice.below(4) == 0 {
                actor = actor.fixed(dice.below(nodes), 1e9 * dice.unit());
            }
            scene.actors.push(actor);
        }
        for _ in 0..extents {
            let users = match (actors, dice.below(3)) {
                (0, _) => Vec::new(),
                (_, 0) => (0..1 + dice.below(4)).map(|_| (dice.below(actors), 1e8 * dice.unit())).collect(),
                _ => vec![(dice.below(actors), 1e8 * dice.unit())],
            };
            let mut memory = Memory::new(dice.below(nodes), users);
            memory.movable = dice.below(10) > 0;
            memory.stuck = dice.below(20) == 0;
            memory.bytes = [4096, 1 << 16, 2 << 20, 1 << 30][dice.below(4)];
            scene.memory.push(memory);
        }
        scene
    }
}

impl Actor {
    fn touch(&self, index: usize, memory: usize, kind: Kind, bytes: f64, out: &mut Vec<Touch>) {
        let home = self.affinity.home.lowest().unwrap_or(0);
        let mut one = |using: usize, away: bool, bytes: f64| {
            if bytes >= 1.0 {
                out.push(Touch {
                    affinity: index as u32,
                    memory: memory as u8,
                    using: using as u8,
                    away,
                    kind,
                    bytes: bytes as u64,
                });
            }
        };
        match self.away {
            Some((node, part)) => {
                one(node, true, bytes * part);
                one(home, false, bytes * (1.0 - part));
            }
            None => one(home, false, bytes),
        }
    }
}

impl Memory {
    fn view(&mut self, slot: usize, actors: &[Actor], seconds: f64, touches: &mut Vec<Touch>) -> Extent {
        let total: f64 = self.users.iter().map(|u| u.1).sum::<f64>() * seconds;
        let mut by_user: Vec<(usize, f64)> = Vec::new();
        for &(user, rate) in &self.users {
            match by_user.iter_mut().find(|u| u.0 == user) {
                Some(found) => found.1 += rate * seconds,
                None => by_user.push((user, rate * seconds)),
            }
        }
        let owner = by_user.iter().copied().max_by(|x, y| x.1.total_cmp(&y.1));
        let private = owner.is_some_and(|(_, bytes)| bytes >= 0.9 * total);
        let mut home = [0.0; 64];
        let mut away = [0.0; 64];
        for &(user, bytes) in &by_user {
            let actor = &actors[user];
            let kind = match (self.movable, private) {
                (false, _) => Kind::Fixed,
                (_, true) => Kind::Private,
                _ => Kind::Shared,
            };
            actor.touch(user, self.node, kind, bytes, touches);
            let part = actor.away.map_or(0.0, |a| a.1);
            home[actor.affinity.home.lowest().unwrap_or(0)] += bytes * (1.0 - part);
            if let Some((node, part)) = actor.away {
                away[node] += bytes * part;
            }
        }
        let top = |by_node: &[f64]| {
            by_node.iter().copied().enumerate().max_by(|x, y| x.1.total_cmp(&y.1)).unwrap_or((0, 0.0))
        };
        let (top, away) = (top(&home), top(&away));
        Extent {
            slot: slot as u32,
            generation: 1,
            node: self.node as u8,
            movable: self.movable,
            sampled: false,
            failed: std::mem::take(&mut self.failed),
            bytes: self.bytes,
            touched: total as u64,
            owner: owner.map_or(NO_AFFINITY, |o| o.0 as u32),
            owner_bytes: owner.map_or(0, |o| o.1 as u64),
            top_node: top.0 as u8,
            top_bytes: top.1 as u64,
            away_node: away.0 as u8,
            away_bytes: away.1 as u64,
        }
    }
}
