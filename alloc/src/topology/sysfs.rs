//! Nodes and distances from `/sys/devices/system`, of this machine or recorded.
//!
//! Nothing here trusts a file: one that is missing or malformed costs a warning
//! and a default, never the whole topology. See the kernel's
//! `Documentation/ABI/stable/sysfs-devices-node` for the format.

use super::assemble::{Draft, DraftNode};
use super::tree::Tree;
use super::{CpuId, CpuSet, LOCAL_DISTANCE, NodeId, Source, TopologyError};
use super::{list, sysfs_cpu};

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";

/// Reads a tree. Cost: some ten small files for each node, core and cache.
pub(super) fn read(tree: &Tree, mock: bool) -> Result<Draft, TopologyError> {
    let mut draft = Draft::new(Source::Sysfs, mock);
    let ids: Vec<NodeId> = tree.numbered(NODES, "node").into_iter().map(NodeId).collect();
    draft.online = sysfs_cpu::online(tree, CPUS, &mut draft.warnings);
    if ids.is_empty() && draft.online.is_empty() {
        let path = tree.path("sys/devices/system");
        return Err(TopologyError::NoTree { path });
    }
    for &id in &ids {
        read_node(tree, id, &mut draft);
    }
    if draft.online.is_empty() {
        draft.warnings.push(format!("/{CPUS} does not say which CPUs are online: taking those of the nodes"));
        draft.online = draft.nodes.values().fold(CpuSet::new(), |all, n| all.union(&n.cpus));
    }
    place_cpus(tree, &mut draft);
    read_distances(tree, &ids, &mut draft);
    sysfs_cpu::groups(tree, CPUS, &mut draft);
    Ok(draft)
}

fn read_node(tree: &Tree, id: NodeId, draft: &mut Draft) {
    let folder = format!("{NODES}/node{id}");
    let shown = node_cpus(tree, &folder, draft, id);
    // The kernel shows online CPUs only; recorded trees may show others.
    let mut cpus = if draft.online.is_empty() { shown } else { shown.intersection(&draft.online) };
    for (other, node) in &draft.nodes {
        let twice = cpus.intersection(&node.cpus);
        if !twice.is_empty() {
            draft
                .warnings
                .push(format!("CPUs {twice} are shown in node {other} and in node {id}: leaving them in node {other}"));
            cpus = cpus.difference(&twice);
        }
    }
    let memory = tree.read(&format!("{folder}/meminfo")).and_then(|text| mem_total(&text));
    if memory.is_none() {
        draft.warnings.push(format!("the memory size of node {id} cannot be read (/{folder}/meminfo): taking it as 0"));
    }
    let memory = memory.unwrap_or(0);
    draft.nodes.insert(id, DraftNode { cpus, memory });
}

/// `cpulist`, else `cpumap`, else the links `cpuN` in the node's folder.
fn node_cpus(tree: &Tree, folder: &str, draft: &mut Draft, id: NodeId) -> CpuSet {
    // Empty is a valid list here: a memory-only node.
    let shown = tree
        .read(&format!("{folder}/cpulist"))
        .and_then(|text| CpuSet::parse_list(&text).ok())
        .or_else(|| CpuSet::parse_mask(&tree.read(&format!("{folder}/cpumap"))?).ok());
    shown.unwrap_or_else(|| {
        draft.warnings.push(format!(
            "the CPUs of node {id} cannot be read (/{folder}/cpulist): taking those linked in its folder"
        ));
        let links = tree.numbered(folder, "cpu");
        links.into_iter().map(CpuId).collect()
    })
}

/// Bytes in a line `MemTotal:  1234 kB`, which node files start with `Node 0`.
fn mem_total(meminfo: &str) -> Option<u64> {
    let (_, rest) = meminfo.split_once("MemTotal:")?;
    let kib: u64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Sees to it that the online CPUs are in some node.
fn place_cpus(tree: &Tree, draft: &mut Draft) {
    if draft.nodes.values().any(|n| !n.cpus.is_empty()) {
        return;
    }
    let cpus = draft.online.clone();
    if let Some((id, node)) = draft.nodes.iter_mut().next() {
        node.cpus = cpus;
        draft.warnings.push(format!("no node shows a CPU: taking all CPUs as those of node {id}"));
        return;
    }
    // A kernel built without NUMA, or a tree recorded without its nodes.
    let memory = tree.read("proc/meminfo").and_then(|text| mem_total(&text));
    let memory = memory.unwrap_or(0);
    draft.nodes.insert(NodeId(0), DraftNode { cpus, memory });
    draft.warnings.push(format!("/{NODES} shows no nodes: taking the whole machine as node 0"));
}

fn read_distances(tree: &Tree, ids: &[NodeId], draft: &mut Draft) {
    let online: Vec<NodeId> = tree.read(&format!("{NODES}/online")).map(|text| numbers(&text)).unwrap_or_default();
    for &from in ids {
        let file = format!("{NODES}/node{from}/distance");
        let row = tree.read(&file).and_then(|text| row(&text));
        // The kernel prints one column for each node that is online.
        let columns =
            row.as_ref().and_then(|row| [ids, &online].into_iter().find(|columns| columns.len() == row.len()));
        match (row, columns) {
            (Some(row), Some(columns)) => {
                let pairs = columns.iter().zip(row);
                draft.distances.extend(pairs.map(|(&to, distance)| ((from, to), distance)));
            }
            _ => draft.warnings.push(format!(
                "the distances of node {from} cannot be read (/{file}): taking 10 to itself and 20 to others"
            )),
        }
    }
}

fn numbers(text: &str) -> Vec<NodeId> {
    let mut ids = Vec::new();
    // A malformed list leaves the nodes of the folder as the only columns.
    let _ = list::ranges(text, |from, to| ids.extend((from..=to).map(NodeId)));
    ids
}

/// `None` unless there are columns and each is a distance that ACPI allows.
fn row(text: &str) -> Option<Vec<u32>> {
    let columns: Option<Vec<u32>> =
        text.split_ascii_whitespace().map(|d| list::number(d).filter(|&d| d >= LOCAL_DISTANCE)).collect();
    columns.filter(|row| !row.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeTree;
    use super::*;
    use crate::topology::Topology;

    fn read(tree: &FakeTree) -> Topology {
        Topology::from_sysfs(tree.root()).unwrap()
    }

    fn cpus(topology: &Topology, node: u32) -> String {
        topology.node(NodeId(node)).unwrap().cpus().to_string()
    }

    #[test]
    fn the_largest_machines_fit() {
        let lists: Vec<String> = (0..64).map(|n| format!("{}-{}", n * 16, n * 16 + 15)).collect();
        // Numbers with gaps, too.
        let nodes: Vec<(u32, &str)> = (0..64).map(|n| (n * 3, lists[n as usize].as_str())).collect();
        let tree = FakeTree::machine(&nodes);
        for cpu in (0..1024).step_by(2) {
            let pair = format!("{cpu},{}", cpu + 1);
            tree.cpu(cpu, "topology/thread_siblings_list", &pair);
            tree.cpu(cpu + 1, "topology/thread_siblings_list", &pair);
        }
        let topology = read(&tree);
        assert_eq!(topology.nodes().len(), 64);
        assert_eq!(topology.cpus().len(), 1024);
        assert_eq!(topology.node_of_cpu(CpuId(1023)), Some(NodeId(189)));
        assert_eq!(topology.distance(NodeId(0), NodeId(189)), Some(30));
        assert_eq!(topology.distance(NodeId(0), NodeId(1)), None);
        assert_eq!(topology.cpu(CpuId(1023)).unwrap().core, 511);
        assert_eq!(topology.cpu(CpuId(1023)).unwrap().l3, 63);
        assert_eq!(topology.default_workers(), 1024);
        assert_eq!(topology.warnings(), [""; 0]);
    }

    #[test]
    fn offline_cpus_are_left_out() {
        let tree = FakeTree::machine(&[(0, "0-3"), (1, "4-7")]);
        tree.file("sys/devices/system/cpu/online", "0-1,4-6");
        tree.cpu(0, "topology/core_cpus_list", "0,2");
        tree.cpu(1, "topology/core_cpus_list", "1,3");
        let topology = read(&tree);
        assert_eq!((cpus(&topology, 0), cpus(&topology, 1)), ("0-1".into(), "4-6".into()));
        assert!(topology.cpu(CpuId(2)).is_none());
        assert_eq!(topology.cpu(CpuId(0)).unwrap().smt_siblings().to_string(), "0");

        // The same without the list: each CPU's own file decides.
        tree.remove("sys/devices/system/cpu/online");
        for (cpu, state) in [(0, ""), (1, "1"), (2, "0\n"), (3, "0"), (4, "1"), (5, "1"), (6, "1"), (7, "0")] {
            tree.cpu(cpu, "online", state);
        }
        let topology = read(&tree);
        assert_eq!((cpus(&topology, 0), cpus(&topology, 1)), ("0-1".into(), "4-6".into()));
        assert!(topology.warnings()[0].starts_with("whether CPUs 0 are online"));
    }

    #[test]
    fn a_node_whose_cpus_are_offline_is_memory_only() {
        let tree = FakeTree::machine(&[(0, "0-3"), (1, "4-7")]);
        tree.file("sys/devices/system/cpu/online", "0-3");
        let topology = read(&tree);
        assert!(topology.node(NodeId(1)).unwrap().is_memory_only());
        assert_eq!(topology.compute_nodes().count(), 1);
    }

    #[test]
    fn bad_distances_get_the_default_and_a_warning() {
        for bad in ["", "10", "10 20 30", "10 banana", "10 -20", "0 20", "10 99999999999"] {
            let tree = FakeTree::machine(&[(0, "0"), (5, "1")]);
            tree.node(5, "distance", bad);
            let topology = read(&tree);
            let distance = |a, b| topology.distance(NodeId(a), NodeId(b)).unwrap();
            assert_eq!((distance(5, 0), distance(5, 5)), (20, 10), "{bad}");
            assert_eq!(distance(0, 5), 30, "the other row stays");
            assert_eq!(topology.warnings().len(), 1, "{bad}");
            assert!(topology.warnings()[0].contains("node 5"));
        }
    }

    #[test]
    fn columns_follow_the_nodes_that_the_kernel_calls_online() {
        // Node 3 was online when the rows were printed, its folder is gone.
        let tree = FakeTree::machine(&[(0, "0"), (5, "1")]);
        tree.file("sys/devices/system/node/online", "0,3,5");
        tree.node(0, "distance", "10 33 55");
        let topology = read(&tree);
        assert_eq!(topology.distance(NodeId(0), NodeId(5)), Some(55));
    }

    #[test]
    fn unreadable_cpu_lists_fall_back_step_by_step() {
        let tree = FakeTree::machine(&[(0, "0-1"), (1, "2-3")]);
        tree.node(1, "cpulist", "2-banana");
        tree.node(1, "cpumap", "0000000c\n");
        assert_eq!(cpus(&read(&tree), 1), "2-3");
        tree.node(1, "cpumap", "what?");
        tree.node(1, "cpu3/x", "");
        let topology = read(&tree);
        assert_eq!(cpus(&topology, 1), "3");
        // CPU 2 is online and now in no node.
        let warnings = topology.warnings();
        assert!(warnings[0].contains("the CPUs of node 1 cannot be read"), "{warnings:?}");
        assert!(warnings[1].contains("CPUs 2 are online but in no node"), "{warnings:?}");
        assert_eq!(topology.node_of_cpu(CpuId(2)), None);
        assert_eq!(topology.default_workers(), 3);
    }

    #[test]
    fn nodes_that_all_hide_their_cpus_share_none_of_them() {
        let tree = FakeTree::machine(&[(2, "0-1"), (3, "")]);
        tree.node(2, "cpulist", "x");
        let topology = read(&tree);
        assert_eq!(cpus(&topology, 2), "0-1");
        assert!(topology.warnings().iter().any(|w| w.contains("taking all CPUs as those of node 2")));
    }

    #[test]
    fn a_cpu_in_two_nodes_stays_in_the_first() {
        let tree = FakeTree::machine(&[(0, "0-2"), (1, "2-3")]);
        let topology = read(&tree);
        assert_eq!((cpus(&topology, 0), cpus(&topology, 1)), ("0-2".into(), "3".into()));
        assert!(topology.warnings()[0].starts_with("CPUs 2 are shown in node 0 and in node 1"));
    }

    #[test]
    fn a_machine_without_nodes_is_one_node() {
        let tree = FakeTree::new();
        tree.file("sys/devices/system/cpu/online", "0-3");
        tree.file("proc/meminfo", "MemTotal:  2048 kB\nMemFree: 1 kB\n");
        let topology = read(&tree);
        assert_eq!(cpus(&topology, 0), "0-3");
        assert_eq!(topology.node(NodeId(0)).unwrap().memory(), 2 << 20);
        assert_eq!(topology.warnings().len(), 1);
    }

    #[test]
    fn a_folder_without_a_machine_is_an_error() {
        let tree = FakeTree::new();
        let error = Topology::from_sysfs(tree.root()).unwrap_err();
        assert!(matches!(error, TopologyError::NoTree { .. }), "{error}");
        let tree = FakeTree::machine(&[(0, "")]);
        assert_eq!(Topology::from_sysfs(tree.root()).unwrap_err(), TopologyError::NoCpus);
    }

    #[test]
    fn missing_memory_sizes_are_zero_and_named() {
        let tree = FakeTree::machine(&[(0, "0")]);
        for bad in ["", "MemTotal:", "MemTotal: x kB", "MemTotal: 99999999999999999999 kB"] {
            tree.node(0, "meminfo", bad);
            let topology = read(&tree);
            assert_eq!(topology.node(NodeId(0)).unwrap().memory(), 0);
            assert!(topology.warnings()[0].starts_with("the memory size of node 0"));
        }
    }

    #[test]
    fn caches_below_the_third_level_stand_in_for_it() {
        let tree = FakeTree::machine(&[(0, "0-3")]);
        for cpu in 0..4 {
            let pair = if cpu < 2 { "0-1" } else { "2-3" };
            tree.cpu(cpu, "cache/index0/level", "1");
            tree.cpu(cpu, "cache/index0/shared_cpu_list", &cpu.to_string());
            tree.cpu(cpu, "cache/index2/level", "2");
            tree.cpu(cpu, "cache/index2/shared_cpu_list", pair);
            // A cache of the whole machine does not hide them.
            tree.cpu(cpu, "cache/index4/level", "4");
            tree.cpu(cpu, "cache/index4/shared_cpu_list", "0-3");
        }
        let topology = read(&tree);
        let l3s: Vec<u32> = topology.cpus().iter().map(|c| c.l3).collect();
        assert_eq!(l3s, [0, 0, 1, 1]);
    }

    #[test]
    fn contradictory_siblings_still_make_a_partition() {
        let tree = FakeTree::machine(&[(0, "0-3")]);
        tree.cpu(0, "topology/thread_siblings_list", "0,1");
        // Names neither itself nor anything sensible: ignored.
        tree.cpu(2, "topology/thread_siblings_list", "0");
        tree.cpu(3, "topology/thread_siblings_list", "0-3");
        let topology = read(&tree);
        let cores: Vec<u32> = topology.cpus().iter().map(|c| c.core).collect();
        assert_eq!(cores, [0, 0, 1, 1]);
    }

    use proptest::prelude::*;

    /// Texts that such a file may hold by accident.
    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            "[0-9]{1,2}(-[0-9]{1,2})?(,[0-9]{1,2})?",
            "[0-9]{1,3}( [0-9]{1,3}){0,4}",
            "[0-9a-f]{1,8}(,[0-9a-f]{8})?",
            "(Node 0 )?MemTotal: *[0-9]{1,21} kB",
            "\\PC{0,12}",
            Just(String::new()),
        ]
    }

    fn file() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("sys/devices/system/cpu/online".to_owned()),
            Just("sys/devices/system/node/online".to_owned()),
            "sys/devices/system/node/node[0-3]/(cpulist|cpumap|distance|meminfo|cpu[0-9]/x)",
            "sys/devices/system/cpu/cpu[0-9]/(online|topology/(core_cpus|thread_siblings)(_list)?)",
            "sys/devices/system/cpu/cpu[0-9]/cache/index[0-3]/(level|type|shared_cpu_(list|map))",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn no_tree_panics(files in prop::collection::vec((file(), text()), 0..40)) {
            let tree = FakeTree::new();
            for (file, text) in files {
                tree.file(&file, &text);
            }
            // Either it is an error, or all that is promised holds.
            let Ok(topology) = Topology::from_sysfs(tree.root()) else {
                return Ok(());
            };
            prop_assert!(topology.default_workers() >= 1);
            for cpu in topology.cpus() {
                prop_assert!(cpu.smt_siblings().contains(cpu.id));
                prop_assert!(cpu.l3_siblings().contains(cpu.id));
                let home = topology.nodes().iter().find(|n| n.cpus().contains(cpu.id));
                prop_assert_eq!(home.map(|n| n.id()), cpu.node);
            }
            let text = topology.to_text();
            prop_assert_eq!(Topology::parse(&text).unwrap().to_text(), text);
        }
    }
}
