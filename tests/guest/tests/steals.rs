//! Who takes work from whom: near nodes first, and hardly anybody from another node while all have work.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::kernel::here;
use common::{Event, need, need_nodes, note, until, watchdog};
use numart::stats::Stats;
use numart::{Affinity, Clock, HomeDelay, Runtime, scope};

/// Jobs taken by `row`'s workers from others of `column`'s, both as places in `Stats::nodes`.
fn cross(stats: &Stats) -> u64 {
    let count = stats.nodes.len();
    let pairs = (0..count).flat_map(|i| (0..count).map(move |j| (i, j)));
    pairs.filter(|(i, j)| i != j).map(|(i, j)| stats.steals[i][j]).sum()
}

/// One node has just as many jobs as it and its nearest neighbours have workers, all of which block: who took them?
#[test]
fn a_flooded_node_is_helped_by_its_near_nodes_first() {
    let Some(machine) = need("fewer than two distances", |machine| {
        let nodes = machine.compute_nodes();
        let from = |id: u32| nodes.keys().filter(move |&&to| to != id).map(move |&to| machine.distance(id, to));
        nodes.keys().all(|&id| from(id).min() < from(id).max()) && nodes.len() >= 3
    }) else {
        return;
    };
    let _dog = watchdog(600);
    let runtime = Runtime::builder().workers_per_node(2).home_delay(HomeDelay::Never).build().unwrap();
    let nodes = runtime.nodes();
    let (mut near, mut far) = (0u64, 0u64);
    const ROUNDS: usize = 20;
    for round in 0..ROUNDS {
        let home = nodes[round % nodes.len()];
        let distance = |to: u32| machine.distance(home.0, to);
        let nearest = nodes.iter().filter(|&&to| to != home).map(|to| distance(to.0)).min().unwrap();
        let close: Vec<u32> = nodes.iter().map(|to| to.0).filter(|&to| distance(to) <= nearest).collect();
        let places = Arc::new(Mutex::new(Vec::new()));
        let go_on = Event::new();
        let jobs = close.len() * 2;
        let flood = runtime.affinity().on(home).unwrap().spawn({
            let (places, go_on) = (places.clone(), go_on.clone());
            move || {
                scope(|s| {
                    for _ in 0..jobs {
                        s.spawn(|_| {
                            places.lock().unwrap().push(here().1);
                            go_on.wait();
                        });
                    }
                });
            }
        });
        until(|| places.lock().unwrap().len() == jobs);
        for &place in places.lock().unwrap().iter().filter(|&&place| place != home.0) {
            if close.contains(&place) { near += 1 } else { far += 1 }
        }
        go_on.set();
        flood.join().unwrap();
    }
    let stats = runtime.stats();
    note(&format!("{near} jobs went to the nearest nodes, {far} to farther ones; the matrix has {}", cross(&stats)));
    // Counted by the kernel's word and by the runtime's own: nobody else stole anything.
    assert_eq!(cross(&stats), near + far, "{stats}");
    let mut by_distance = std::collections::BTreeMap::<u32, u64>::new();
    for (i, row) in stats.steals.iter().enumerate() {
        for (j, steals) in row.iter().enumerate().filter(|&(j, _)| j != i) {
            *by_distance.entry(machine.distance(nodes[i].0, nodes[j].0)).or_default() += steals;
        }
    }
    let nearest = *by_distance.values().next().unwrap();
    assert_eq!(nearest, near, "{stats}");
    assert!(near >= 9 * far, "{near} near, {far} far\n{stats}");
}

/// A tree of `join`s: what steals are made of.
fn tree(depth: u32, leaves: &AtomicU64) {
    if depth == 0 {
        (0..400).for_each(|i| _ = std::hint::black_box(i));
        leaves.fetch_add(1, Ordering::Relaxed);
        return;
    }
    numart::join(|| tree(depth - 1, leaves), || tree(depth - 1, leaves));
}

/// A node's work that never ends until it is told to: each piece queues the next at home.
#[derive(Clone)]
struct Tenant {
    affinity: Affinity,
    leaves: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    running: Arc<AtomicU64>,
}

impl Tenant {
    fn piece(self) {
        scope(|s| (0..4).for_each(|_| s.spawn(|_| tree(5, &self.leaves))));
        if self.stop.load(Ordering::Relaxed) {
            self.running.fetch_sub(1, Ordering::SeqCst);
        } else {
            let affinity = self.affinity.clone();
            drop(affinity.spawn(move || self.piece()));
        }
    }
}

#[test]
fn nodes_that_are_all_busy_leave_each_other_alone() {
    let Some(_) = need_nodes(2) else { return };
    let _dog = watchdog(600);
    let (clock, _hand) = Clock::manual();
    let runtime = Runtime::builder().workers_per_node(2).clock(clock).build().unwrap();
    let (leaves, stop, running) =
        (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
    for node in runtime.nodes() {
        let affinity = runtime.affinity().on(node).unwrap();
        // Six for two workers: some always wait in the queue of the home.
        for _ in 0..6 {
            running.fetch_add(1, Ordering::SeqCst);
            let (affinity, leaves, stop, running) = (affinity.clone(), leaves.clone(), stop.clone(), running.clone());
            let tenant = Tenant { affinity, leaves, stop, running };
            drop(tenant.affinity.clone().spawn(move || tenant.piece()));
        }
    }
    let begin = Instant::now();
    let stolen = |stats: &Stats| {
        let totals = stats.totals();
        totals.stolen_same_node + totals.stolen_other_nodes
    };
    // Ten seconds, and as many steals as the claim is about; the watchdog bounds it.
    until(|| begin.elapsed() >= Duration::from_secs(10) && stolen(&runtime.stats()) >= 10_000);
    let stats = runtime.stats();
    stop.store(true, Ordering::Relaxed);
    until(|| running.load(Ordering::SeqCst) == 0);
    let (jobs, steals, cross) = (stats.totals().jobs, stolen(&stats), cross(&stats));
    note(&format!(
        "{:.0} s, {} leaves, {jobs} jobs, {steals} steals, {cross} of them from other nodes: {:.3} % of jobs, {:.2} % of steals",
        begin.elapsed().as_secs_f64(),
        leaves.load(Ordering::Relaxed),
        cross as f64 * 100.0 / jobs as f64,
        cross as f64 * 100.0 / steals as f64,
    ));
    assert!(cross * 1000 <= jobs, "{cross} of {jobs} jobs\n{stats}");
    assert!(cross * 50 <= steals, "{cross} of {steals} steals\n{stats}");
}
