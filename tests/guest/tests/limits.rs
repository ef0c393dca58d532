//! What a process may use changes while it runs: cpusets shrink and grow, CPUs go and come back.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::kernel::{Machine, affinity_of, here, threads};
use common::{Group, in_child, is_child, need, note, until, watchdog};
use numart::{Affinity, NodeId, Runtime};

/// Keeps all nodes busy with strict and other tasks until dropped, and counts them.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    running: Arc<AtomicU64>,
    /// CPUs on which tasks have been seen, as bits.
    seen: Arc<AtomicU64>,
}

impl Load {
    fn on(runtime: &Runtime) -> Load {
        let load = Load { stop: Arc::default(), done: Arc::default(), running: Arc::default(), seen: Arc::default() };
        for node in runtime.nodes() {
            let affinity = runtime.affinity().on(node).unwrap();
            for affinity in [affinity.clone().strict(), affinity.clone(), affinity] {
                load.running.fetch_add(1, Ordering::SeqCst);
                load.again(affinity);
            }
        }
        load
    }

    fn again(&self, affinity: Affinity) {
        let next = Load {
            stop: self.stop.clone(),
            done: self.done.clone(),
            running: self.running.clone(),
            seen: self.seen.clone(),
        };
        let home = affinity.clone();
        drop(affinity.spawn(move || {
            (0..20_000).for_each(|i| _ = std::hint::black_box(i));
            next.seen.fetch_or(1 << here().0, Ordering::Relaxed);
            next.done.fetch_add(1, Ordering::Relaxed);
            if next.stop.load(Ordering::Relaxed) {
                next.running.fetch_sub(1, Ordering::SeqCst);
            } else {
                next.again(home);
            }
        }));
    }

    fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// The CPUs on which the next `tasks` tasks, and some more, run.
    fn cpus_of_next(&self, tasks: u64) -> BTreeSet<u32> {
        // Twice: what began before is done, then forgotten.
        for _ in 0..2 {
            self.seen.store(0, Ordering::Relaxed);
            let before = self.done();
            until(|| self.done() > before + tasks);
        }
        let seen = self.seen.load(Ordering::Relaxed);
        (0..64).filter(|cpu| seen >> cpu & 1 == 1).collect()
    }

    /// Ends it: every task that was queued must come to its end.
    fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        until(|| self.running.load(Ordering::SeqCst) == 0);
        self.done()
    }
}

/// Lets the tasks end when a test fails too: the runtime's drop waits for them.
struct StopAtEnd(Arc<AtomicBool>);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn list(cpus: &BTreeSet<u32>) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// CPUs of these nodes that we may use.
fn cpus_of(machine: &Machine, nodes: &[u32]) -> BTreeSet<u32> {
    nodes.iter().flat_map(|id| machine.compute_nodes()[id].clone()).collect()
}

/// The longest time until `condition` held, and the claim that it did within five seconds.
fn within_five_seconds(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    until(|| condition() || begin.elapsed() > Duration::from_secs(30));
    let took = begin.elapsed();
    note(&format!("{what} after {:.1} s", took.as_secs_f64()));
    assert!(took < Duration::from_secs(5), "{what}");
}

fn worker_masks() -> Vec<(String, BTreeSet<u32>)> {
    let prefix = "numart-n";
    let workers = threads(prefix).into_iter().filter(|(_, name, _)| name[prefix.len()..].contains('-'));
    workers.map(|(thread, name, _)| (name, affinity_of(thread))).collect()
}

/// Four nodes, and leave to make control groups.
fn need_four_and_groups() -> Option<Machine> {
    need("fewer than four nodes to use, or no control groups", |machine| {
        machine.compute_nodes().len() >= 4 && Group::possible()
    })
}

#[test]
fn a_cpuset_of_two_nodes_is_where_the_workers_are() {
    let test = "a_cpuset_of_two_nodes_is_where_the_workers_are";
    let Some(machine) = need_four_and_groups() else { return };
    if !is_child(test) {
        return in_child(test);
    }
    let _dog = watchdog(120);
    let ids: Vec<u32> = machine.compute_nodes().into_keys().collect();
    let two = [ids[1], ids[2]];
    let group = Group::new("numart-two");
    group.write("cpuset.cpus", &list(&cpus_of(&machine, &two)));
    group.write("cpuset.mems", &list(&BTreeSet::from(two)));
    group.enter();
    let runtime = Runtime::new().unwrap();
    let nodes: Vec<u32> = runtime.nodes().iter().map(|node| node.0).collect();
    assert_eq!(nodes, two);
    let seen = runtime.broadcast(|_| here());
    assert_eq!(seen.len(), cpus_of(&machine, &two).len());
    assert!(seen.iter().all(|(cpu, node)| two.contains(node) && cpus_of(&machine, &two).contains(cpu)), "{seen:?}");
    let warnings = runtime.stats().warnings;
    for id in ids.iter().filter(|id| !two.contains(id)) {
        assert!(warnings.iter().any(|text| text.contains(&format!("node {id} "))), "{id}: {warnings:?}");
    }
}

#[test]
fn a_cpuset_that_shrinks_while_they_run_is_followed() {
    let test = "a_cpuset_that_shrinks_while_they_run_is_followed";
    let Some(machine) = need_four_and_groups() else { return };
    if !is_child(test) {
        return in_child(test);
    }
    let _dog = watchdog(240);
    let ids: Vec<u32> = machine.compute_nodes().into_keys().collect();
    let group = Group::new("numart-shrinks");
    let all = cpus_of(&machine, &ids);
    group.write("cpuset.cpus", &list(&all));
    group.write("cpuset.mems", &list(&machine.allowed_memory));
    group.enter();
    let runtime = Runtime::new().unwrap();
    assert_eq!(runtime.stats().warnings, Vec::<String>::new());
    let load = Load::on(&runtime);
    let _stop = StopAtEnd(load.stop.clone());

    // Two whole nodes go, and one CPU of a third.
    let mut left = cpus_of(&machine, &ids[..2]);
    let one = *left.last().unwrap();
    left.remove(&one);
    group.write("cpuset.cpus", &list(&left));
    let own = |name: &str| {
        let node: u32 = name["numart-n".len()..].split('-').next().unwrap().parse().unwrap();
        let own: BTreeSet<u32> = machine.compute_nodes()[&node].intersection(&left).copied().collect();
        if own.is_empty() { left.clone() } else { own }
    };
    within_five_seconds("every worker is on its own node's remaining CPUs, or on those left", || {
        worker_masks().iter().all(|(name, mask)| mask.is_subset(&own(name)))
    });
    within_five_seconds("the warnings name each node that lost CPUs", || {
        let warnings = runtime.stats().warnings;
        let named = |id: &u32| warnings.iter().any(|text| text.starts_with(&format!("node {id} has lost")));
        ids[1..].iter().all(named) && !named(&ids[0]) && warnings.len() == ids.len() - 1
    });
    let seen = load.cpus_of_next(1_000);
    assert!(seen.is_subset(&left), "tasks ran on CPUs {seen:?}, {left:?} are left");
    // Strict tasks of a node that is gone have nobody but its workers.
    let orphan = runtime.affinity().on(NodeId(ids[3])).unwrap().strict();
    assert!(left.contains(&orphan.spawn(here).join().unwrap().0));

    group.write("cpuset.cpus", &list(&all));
    within_five_seconds("everybody is back, and so are the warnings", || {
        let home = |name: &str| name["numart-n".len()..].split('-').next().unwrap().parse::<u32>().unwrap();
        worker_masks().iter().all(|(name, mask)| mask.is_subset(&machine.compute_nodes()[&home(name)]))
            && runtime.stats().warnings.is_empty()
    });
    let tasks = load.finish();
    note(&format!("{tasks} tasks came to their end meanwhile"));
}

/// Takes a CPU away while it exists; gives it back when dropped.
struct Offline(u32);

impl Offline {
    fn new(cpu: u32) -> Offline {
        Offline::write(cpu, "0").unwrap_or_else(|error| panic!("CPU {cpu}: {error}"));
        Offline(cpu)
    }

    fn write(cpu: u32, value: &str) -> std::io::Result<()> {
        std::fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), value)
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        let _ = Offline::write(self.0, "1");
    }
}

/// Nodes with two CPUs or more, none of which is the one that cannot go.
fn need_cpus_that_go() -> Option<(Machine, Vec<u32>)> {
    let machine = need("one node, no CPU that can go offline, or not in a guest", |machine| {
        // On a machine that is not ours no CPU is taken away.
        std::env::var_os("NUMART_GUEST").is_some()
            && machine.compute_nodes().len() >= 2
            && machine.compute_nodes().values().next_back().is_some_and(|cpus| cpus.len() >= 2)
    })?;
    let cpus = machine.compute_nodes().values().next_back().unwrap().iter().copied().collect();
    Some((machine, cpus))
}

#[test]
fn a_cpu_that_goes_offline_takes_no_task_with_it() {
    let Some((machine, cpus)) = need_cpus_that_go() else { return };
    let _dog = watchdog(300);
    let node = machine.node_of(cpus[0]).unwrap();
    let runtime = Runtime::builder().workers_per_node(2).build().unwrap();
    let load = Load::on(&runtime);
    let _stop = StopAtEnd(load.stop.clone());
    let strict = runtime.affinity().on(NodeId(node)).unwrap().strict();
    let named = |runtime: &Runtime, what: &str| {
        let text = format!("node {node} has lost {what}");
        runtime.stats().warnings.iter().any(|warning| warning.starts_with(&text))
    };
    let home: BTreeSet<u32> = cpus.iter().copied().collect();
    let mut gone = Vec::new();
    for &cpu in &cpus[1..] {
        gone.push(Offline::new(cpu));
        let before = load.done();
        until(|| load.done() > before + 500);
    }
    within_five_seconds("the warnings name the node", || named(&runtime, "CPUs"));
    assert_eq!(strict.spawn(here).join().unwrap(), (cpus[0], node), "one CPU is left");
    // And the last one: the node has none.
    gone.push(Offline::new(cpus[0]));
    within_five_seconds("the warnings say that all are gone", || named(&runtime, "all its CPUs"));
    let seen = load.cpus_of_next(500);
    assert!(seen.is_disjoint(&home), "tasks ran on CPUs {seen:?}, {home:?} are offline");
    let (at, _) = strict.spawn(here).join().unwrap();
    assert!(!home.contains(&at), "CPU {at} is offline");
    drop(gone);
    within_five_seconds("its workers are back on it, and the warning is gone", || {
        strict.spawn(here).join().unwrap().1 == node && runtime.stats().warnings.iter().all(|w| !w.contains("has lost"))
    });
    let tasks = load.finish();
    note(&format!("{tasks} tasks came to their end meanwhile"));
}
