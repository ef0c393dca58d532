//! Workers are where they should be, and so is every task, by the kernel's word.

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::kernel::{Machine, affinity_of, here, threads};
use common::{need, need_nodes, note, watchdog};
use numart::{NodeId, Pinning, Runtime, current_node, par_for};

#[test]
fn every_worker_may_run_on_its_nodes_cpus_and_no_others() {
    let Some(machine) = need_nodes(2) else { return };
    let _dog = watchdog(60);
    let runtime = Runtime::new().unwrap();
    let nodes = machine.compute_nodes();
    // Each asks for itself: a sleeper's mask may lack its waker's CPU until it runs.
    let masks = runtime.broadcast(|_| (current_node().unwrap().0, affinity_of(0)));
    assert_eq!(masks.len(), runtime.num_workers());
    for (node, mask) in masks {
        assert_eq!(mask, nodes[&node], "a worker of node {node}");
    }
    // And by the names of the threads, as `top` shows them.
    for (thread, name, _) in threads("numart-n") {
        let node: u32 = name["numart-n".len()..].split('-').next().unwrap().parse().unwrap();
        assert!(affinity_of(thread).is_subset(&nodes[&node]), "{name}");
    }
}

#[test]
fn pinned_to_a_core_means_one_cpu_each() {
    let Some(machine) = need("one node, or a quota", |machine| {
        machine.compute_nodes().len() >= 2 && numart::topology::Topology::this_machine().unwrap().cpu_quota().is_none()
    }) else {
        return;
    };
    let _dog = watchdog(60);
    let runtime = Runtime::builder().pinning(Pinning::Core).build().unwrap();
    let masks = runtime.broadcast(|_| affinity_of(0));
    assert!(masks.iter().all(|mask| mask.len() == 1), "{masks:?}");
    let all: BTreeSet<u32> = masks.into_iter().flatten().collect();
    assert_eq!(all, machine.compute_nodes().into_values().flatten().collect());
}

/// What tasks saw.
#[derive(Default)]
struct Seen {
    tasks: AtomicUsize,
    astray: Mutex<Vec<String>>,
}

impl Seen {
    /// Notes whether the kernel agrees with the runtime about where this task runs.
    fn look(&self, home: Option<NodeId>) {
        let (cpu, node) = here();
        let ours = current_node();
        if ours != Some(NodeId(node)) || home.is_some_and(|home| home.0 != node) {
            self.astray.lock().unwrap().push(format!("on CPU {cpu} of node {node}: {ours:?}, home {home:?}"));
        }
        self.tasks.fetch_add(1, Ordering::Relaxed);
    }

    fn check(&self, tasks: usize) {
        let astray = self.astray.lock().unwrap();
        assert!(astray.is_empty(), "{} of {tasks} tasks astray: {:?}", astray.len(), &astray[..astray.len().min(5)]);
        assert_eq!(self.tasks.load(Ordering::Relaxed), tasks);
    }
}

#[test]
fn ten_thousand_closures_run_where_the_runtime_says() {
    let Some(_) = need_nodes(2) else { return };
    let _dog = watchdog(300);
    let runtime = Runtime::new().unwrap();
    let seen = Arc::new(Seen::default());
    let handles: Vec<_> = (0..5_000)
        .map(|_| {
            let seen = seen.clone();
            runtime.spawn(move || {
                // Long enough for all workers to have some.
                (0..200).for_each(|i| _ = std::hint::black_box(i));
                seen.look(None);
            })
        })
        .collect();
    runtime.install(|| par_for(0..5_000, |_| seen.look(None)));
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    seen.check(10_000);
    let busy = runtime.stats().nodes.iter().filter(|node| node.counts.jobs > 0).count();
    note(&format!("10,000 closures, 0 astray, on {busy} nodes"));
}

#[test]
fn ten_thousand_strict_closures_run_at_home() {
    let Some(machine) = need_nodes(2) else { return };
    let _dog = watchdog(300);
    let runtime = Runtime::new().unwrap();
    let nodes = homes(&runtime, &machine);
    let seen = Arc::new(Seen::default());
    let handles: Vec<_> = (0..10_000)
        .map(|i| {
            let home = nodes[i % nodes.len()];
            let seen = seen.clone();
            runtime.affinity().on(home).unwrap().strict().spawn(move || seen.look(Some(home)))
        })
        .collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    seen.check(10_000);
}

/// The runtime's nodes: all compute nodes, unless a quota allows fewer workers.
fn homes(runtime: &Runtime, machine: &Machine) -> Vec<NodeId> {
    let nodes = runtime.nodes();
    assert!(nodes.iter().all(|node| machine.compute_nodes().contains_key(&node.0)));
    nodes
}
