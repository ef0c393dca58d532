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
    let ids: Vec<NodeId> = tree
        .numbered(NODES, "node")
        .into_iter()
        .map(NodeId)
        .collect();
    draft.online = sysfs_cpu::online(tree, CPUS, &mut draft.warnings);
    if ids.is_empty() && draft.online.is_empty() {
        let path = tree.path("sys/devices/system");
        return Err(TopologyError::NoTree { path });
    }
    for &id in &ids {
        read_node(tree, id, &mut draft);
    }
    if draft.online.is_empty() {
        draft.warnings.push(format!(
            "/{CPUS} does not say which CPUs are online: taking those of the nodes"
        ));
        draft.online = draft
            .nodes
            .values()
            .fold(CpuSet::new(), |all, n| all.union(&n.cpus));
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
    let mut cpus = if draft.online.is_empty() {
        shown
    } else {
        shown.intersection(&draft.online)
    };
    for (other, node) in &draft.nodes {
        let twice = cpus.intersection(&node.cpus);
        if !twice.is_empty() {
            draft.warnings.push(format!(
                "CPUs {twice} are shown in node {other} and in node {id}: leaving them in node {other}"
            ));
            cpus = cpus.difference(&twice);
        }
    }
    let memory = tree
        .read(&format!("{folder}/meminfo"))
        .and_then(|text| mem_total(&text));
    if memory.is_none() {
        draft.warnings.push(format!(
            "the memory size of node {id} cannot be read (/{folder}/meminfo): taking it as 0"
        ));
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
        draft.warnings.push(format!(
            "no node shows a CPU: taking all CPUs as those of node {id}"
        ));
        return;
    }
    // A kernel built without NUMA, or a tree recorded without its nodes.
    let memory = tree.read("proc/meminfo").and_then(|text| mem_total(&text));
    let memory = memory.unwrap_or(0);
    draft.nodes.insert(NodeId(0), DraftNode { cpus, memory });
    draft.warnings.push(format!(
        "/{NODES} shows no nodes: taking the whole machine as node 0"
    ));
}

fn read_distances(tree: &Tree, ids: &[NodeId], draft: &mut Draft) {
    let online: Vec<NodeId> = tree
        .read(&format!("{NODES}/online"))
        .map(|text| numbers(&text))
        .unwrap_or_default();
    for &from in ids {
        let file = format!("{NODES}/node{from}/distance");
        let row = tree.read(&file).and_then(|text| row(&text));
        // The kernel prints one column for each node that is online.
        let columns = row.as_ref().and_then(|row| {
            [ids, &online]
                .into_iter()
                .find(|columns| columns.len() == row.len())
        });
        match (row, columns) {
            (Some(row), Some(columns)) => {
                let pairs = columns.iter().zip(row);
                draft
                    .distances
                    .extend(pairs.map(|(&to, distance)| ((from, to), distance)));
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

/// `None` unless every column is a distance that ACPI allows.
fn row(text: &str) -> Option<Vec<u32>> {
    text.split_ascii_whitespace()
        .map(|d| list::number(d).filter(|&d| d >= LOCAL_DISTANCE))
        .collect()
}
