//! What numart says of the machine is what the kernel and numactl say.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::kernel::{Machine, list};
use common::{Group, in_child, is_child, need, need_nodes};
use numart::Runtime;
use numart::topology::Topology;

fn same_as_kernel(machine: &Machine, topology: &Topology) {
    let ids: Vec<u32> = topology.nodes().iter().map(|node| node.id().0).collect();
    assert_eq!(ids, machine.nodes.keys().copied().collect::<Vec<_>>());
    for node in topology.nodes() {
        let id = node.id().0;
        let theirs = &machine.nodes[&id];
        let cpus: BTreeSet<u32> = node.cpus().iter().map(|cpu| cpu.0).collect();
        assert_eq!(cpus, theirs.cpus, "CPUs of node {id}");
        let allowed: BTreeSet<u32> = node.allowed_cpus().iter().map(|cpu| cpu.0).collect();
        assert_eq!(allowed, theirs.cpus.intersection(&machine.allowed).copied().collect(), "allowed of node {id}");
        assert_eq!(node.memory(), theirs.bytes, "memory of node {id}");
        assert_eq!(node.memory_allowed(), machine.allowed_memory.contains(&id), "memory of node {id} allowed");
        assert_eq!(node.is_memory_only(), theirs.cpus.is_empty());
        for to in topology.nodes() {
            let theirs = machine.distance(id, to.id().0);
            assert_eq!(topology.distance(node.id(), to.id()), Some(theirs), "from {id} to {}", to.id());
        }
    }
}

#[test]
fn sysfs_is_read_as_the_kernel_writes_it() {
    let Some(machine) = need_nodes(2) else { return };
    same_as_kernel(&machine, &Topology::this_machine().unwrap());
}

/// `numactl -H`: a program that others trust.
#[test]
fn numactl_says_the_same() {
    let Some(machine) = need_nodes(2) else { return };
    let out = std::process::Command::new("numactl").arg("-H").output().expect("numactl is in the guest");
    let text = String::from_utf8(out.stdout).unwrap();
    let topology = Topology::this_machine().unwrap();
    let mut cpus: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let mut distances: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words[..] {
            // "node 0 cpus: 0 1"
            ["node", id, "cpus:", ref rest @ ..] => {
                cpus.insert(id.parse().unwrap(), rest.iter().map(|cpu| cpu.parse().unwrap()).collect());
            }
            // "  0:  10  20"
            [id, ref rest @ ..] if id.ends_with(':') && id[..id.len() - 1].parse::<u32>().is_ok() => {
                let row = rest.iter().map(|word| word.parse().unwrap()).collect();
                distances.insert(id[..id.len() - 1].parse().unwrap(), row);
            }
            _ => {}
        }
    }
    assert_eq!(cpus.len(), machine.nodes.len(), "{text}");
    for node in topology.nodes() {
        let ours: BTreeSet<u32> = node.cpus().iter().map(|cpu| cpu.0).collect();
        assert_eq!(ours, cpus[&node.id().0], "{text}");
        let row: Vec<u32> = topology.nodes().iter().map(|to| topology.distance(node.id(), to.id()).unwrap()).collect();
        assert_eq!(row, distances[&node.id().0], "{text}");
    }
}

#[cfg(feature = "hwloc")]
#[test]
fn hwloc_says_the_same() {
    let Some(machine) = need_nodes(2) else { return };
    let hwloc = Topology::from_hwloc().unwrap();
    assert_eq!(hwloc.source(), numart_alloc::topology::Source::Hwloc);
    same_as_kernel(&machine, &hwloc);
    assert_eq!(hwloc.default_workers(), Topology::this_machine().unwrap().default_workers());
}

/// Workers per node, as the runtime sees them.
fn workers(runtime: &Runtime) -> BTreeMap<u32, usize> {
    runtime.stats().nodes.iter().map(|node| (node.node, node.workers)).collect()
}

#[test]
fn there_is_a_worker_for_every_cpu_we_may_use_and_nowhere_else() {
    let Some(machine) = need("a CPU quota, or one node", |machine| {
        machine.compute_nodes().len() >= 2 && Topology::this_machine().unwrap().cpu_quota().is_none()
    }) else {
        return;
    };
    let runtime = Runtime::new().unwrap();
    let expected: BTreeMap<u32, usize> = machine.compute_nodes().iter().map(|(&id, cpus)| (id, cpus.len())).collect();
    assert_eq!(workers(&runtime), expected);
    // One warning for each node whose CPUs the cpuset takes away, and one for each whose memory.
    let cpus = machine.nodes.values().filter(|node| !node.cpus.is_empty() && node.cpus.is_disjoint(&machine.allowed));
    let memory = machine.nodes.iter().filter(|(id, node)| node.bytes > 0 && !machine.allowed_memory.contains(id));
    assert_eq!(runtime.stats().warnings.len(), cpus.count() + memory.count(), "{:?}", runtime.stats().warnings);
}

#[test]
fn a_memory_only_node_gets_no_worker() {
    let Some(machine) = need("no memory-only node", |machine| !machine.memory_only().is_empty()) else { return };
    let runtime = Runtime::new().unwrap();
    for id in machine.memory_only() {
        assert!(!workers(&runtime).contains_key(&id));
        let node = numart::NodeId(id);
        assert!(runtime.affinity().on(node).is_err(), "no home there");
        assert!(runtime.topology().node(node).unwrap().is_memory_only());
    }
}

#[test]
fn a_quota_limits_the_workers() {
    let test = "a_quota_limits_the_workers";
    if need("one node, or no control groups", |machine| machine.compute_nodes().len() > 1 && Group::possible())
        .is_none()
    {
        return;
    }
    if !is_child(test) {
        return in_child(test);
    }
    let group = Group::new("numart-quota");
    group.enter();
    // Only now: the group we came from may have allowed less.
    let machine = Machine::read();
    let largest = machine.compute_nodes().values().map(BTreeSet::len).max().unwrap();
    for (max, cpus) in [("150000 100000", 1.5), ("50000 200000", 0.25), ("900000 100000", 9.0)] {
        group.write("cpu.max", max);
        let topology = Topology::this_machine().unwrap();
        assert_eq!(topology.cpu_quota(), Some(cpus));
        let runtime = Runtime::new().unwrap();
        assert_eq!(runtime.num_workers(), (cpus.ceil() as usize).min(machine.allowed.len()));
        // On the fewest nodes that hold them.
        assert_eq!(workers(&runtime).len(), runtime.num_workers().div_ceil(largest));
        assert_eq!(runtime.broadcast(|_| ()).len(), runtime.num_workers());
    }
}

#[test]
fn numbers_of_nodes_may_have_gaps() {
    let Some(machine) =
        need("nodes without gaps", |machine| machine.nodes.keys().zip(0..).any(|(&id, place)| id != place))
    else {
        return;
    };
    let runtime = Runtime::new().unwrap();
    for &id in machine.compute_nodes().keys() {
        let task = runtime.affinity().on(numart::NodeId(id)).unwrap().strict().spawn(common::kernel::here);
        assert_eq!(task.join().unwrap().1, id);
    }
}

#[test]
fn lists_are_read() {
    assert_eq!(list("0-2,7"), BTreeSet::from([0, 1, 2, 7]));
    assert_eq!(list(""), BTreeSet::new());
}
