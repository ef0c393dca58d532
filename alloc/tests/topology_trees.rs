//! The recorded trees of real machines, against the nodes, CPUs, memory and
//! distances that hwloc's authors expect of them.

mod expected;
mod recorded;

use expected::Expected;
use numart_alloc::topology::{NodeId, Topology};
use recorded::{TREES, unpack};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Every tree, read once: unpacking is most of the time.
static READ: LazyLock<BTreeMap<&str, Topology>> = LazyLock::new(|| {
    let read = |tree| {
        let (_folder, root) = unpack(tree);
        (tree, Topology::from_sysfs(&root).unwrap())
    };
    TREES.into_iter().map(read).collect()
});

/// One thing in which the reader and `expected.json` differ.
#[derive(Debug, PartialEq)]
enum Difference {
    /// Listed by us only.
    Unexpected(u32),
    /// Listed by them only.
    Missing(u32),
    Cpus(u32),
    Memory(u32),
    Distance(u32, u32),
}
use Difference::*;

/// Every difference there is, and why we keep it.
fn explained(tree: &str) -> Vec<Difference> {
    match tree {
        // hwloc hides the memory of NVIDIA GPUs, so that programs do not use it
        // unawares. The kernel shows it as nodes, and numart lists what the
        // kernel shows: as memory-only nodes they get nothing unless named.
        "nvidiagpunumanodes" => (250..=255).map(Unexpected).collect(),
        // These nodes have no CPU. hwloc gives each the CPUs that are near it
        // (and so the same CPU to several nodes); for numart a CPU belongs to
        // the node that the kernel puts it in.
        "fakeheteromemtiers" => [4, 6, 8, 9].map(Cpus).into(),
        _ => Vec::new(),
    }
}

fn differences(topology: &Topology, expected: &Expected) -> Vec<Difference> {
    let mut found = Vec::new();
    for node in topology.nodes() {
        let id = node.id().0;
        let Some(theirs) = expected.nodes.iter().find(|n| n.id == id) else {
            found.push(Unexpected(id));
            continue;
        };
        let cpus: Vec<u32> = node.cpus().iter().map(|c| c.0).collect();
        if cpus != theirs.cpus {
            found.push(Cpus(id));
        }
        if node.memory() != theirs.mem_kb * 1024 {
            found.push(Memory(id));
        }
    }
    let ours = |id| topology.node(NodeId(id)).is_some();
    let missing = expected.nodes.iter().filter(|n| !ours(n.id));
    found.extend(missing.map(|n| Missing(n.id)));
    for (from, row) in expected.ids.iter().zip(&expected.matrix) {
        for (to, distance) in expected.ids.iter().zip(row) {
            if topology.distance(NodeId(*from), NodeId(*to)) != Some(*distance) {
                found.push(Distance(*from, *to));
            }
        }
    }
    found
}

#[test]
fn every_tree_is_as_expected_or_the_difference_is_explained() {
    let expected = expected::read();
    assert_eq!(expected.keys().collect::<Vec<_>>(), TREES.iter().collect::<Vec<_>>());
    for tree in TREES {
        let topology = &READ[tree];
        let found = differences(topology, &expected[tree]);
        assert_eq!(found, explained(tree), "{tree}\n{topology}");
        assert!(topology.is_mock());
        assert_eq!(topology.cpu_quota(), None);
    }
}

#[test]
fn only_incomplete_trees_warn() {
    for tree in TREES {
        let expected: &[&str] = match tree {
            // The files cpuN/online were recorded empty.
            "128ia64-17n4s2c" => &["whether CPUs 0-127 are online"],
            // Node 0 and its CPUs are offline, but the CPUs' own files were
            // recorded as if they were not, and the row still has a column for
            // node 0.
            "offline-cpu0-node0" => {
                &["the distances of node 1", "CPUs 4,6,8,10,12,14,16,18,20 are online but in no node"]
            }
            _ => &[],
        };
        let found = READ[tree].warnings();
        assert_eq!(found.len(), expected.len(), "{tree}: {found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{tree}: {found}");
        }
    }
}

#[test]
fn cores_and_caches_are_those_of_the_machines() {
    // (tree, CPUs for each core, CPUs for each L3 group), from the data sheets
    // the trees are named after; two have no L3 and share their L2.
    let machines = [
        ("16amd64-8n2c", 1, 1),
        ("48amd64-4pa2n6c-sparse", 1, 6),
        ("64amd64-4s2n4ca2co", 2, 8),
        ("8em64t-2s2ca2c", 1, 2),
        ("96em64t-4no4pa3ca2co", 1, 6),
        ("nvidiagpunumanodes", 4, 8),
    ];
    for (tree, core, l3) in machines {
        let topology = &READ[tree];
        for cpu in topology.cpus() {
            assert_eq!(cpu.smt_siblings().len(), core, "{tree} {cpu:?}");
            assert_eq!(cpu.l3_siblings().len(), l3, "{tree} {cpu:?}");
            for sibling in cpu.smt_siblings().iter() {
                assert_eq!(topology.cpu(sibling).unwrap().core, cpu.core);
            }
            for sibling in cpu.l3_siblings().iter() {
                assert_eq!(topology.cpu(sibling).unwrap().l3, cpu.l3);
            }
        }
    }
}

#[test]
fn a_recorded_machine_survives_as_text() {
    for tree in TREES {
        let text = READ[tree].to_text();
        let again = Topology::parse(&text).unwrap();
        assert_eq!(again.to_text(), text, "{tree}");
    }
}

#[test]
fn memory_only_nodes_are_no_compute_nodes() {
    let topology = &READ["nvidiagpunumanodes"];
    let compute: Vec<u32> = topology.compute_nodes().map(|n| n.id().0).collect();
    assert_eq!(compute, [0, 8]);
    let gpu = topology.node(NodeId(250)).unwrap();
    assert!(gpu.is_memory_only());
    assert_eq!(topology.distance(NodeId(0), NodeId(250)), Some(80));
}
