//! The topology as the C library hwloc sees it.

use super::assemble::{Draft, DraftNode};
use super::detect::process_limits;
use super::limits::Limits;
use super::list::MAX_NUMBER;
use super::tree::Tree;
use super::{CpuId, CpuSet, NodeId, Source, Topology, TopologyError};
use hwlocality::Topology as Hwloc;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::types::ObjectType;
use hwlocality::topology::builder::BuildFlags;
use std::path::Path;

impl Topology {
    /// This machine as hwloc sees it, and what this process may use of it.
    ///
    /// hwloc obeys its own variables: with `HWLOC_XMLFILE`, `HWLOC_SYNTHETIC` or
    /// `HWLOC_FSROOT` it describes another machine, and the nodes are mock
    /// nodes. It hides the memory of NVIDIA GPUs, which sysfs shows as
    /// memory-only nodes, unless `HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES=1` is set.
    ///
    /// hwloc gives a memory-only node the CPUs that are near it. Here a CPU
    /// belongs to one node: the one with the fewest CPUs around it, and of
    /// several the one with the lowest number.
    ///
    /// # Errors
    ///
    /// [`TopologyError::Hwloc`] if hwloc cannot load the machine,
    /// [`TopologyError::NothingAllowed`] if the affinity mask leaves no CPU.
    ///
    /// ```
    /// use numart_alloc::topology::{Source, Topology};
    ///
    /// let machine = Topology::from_hwloc()?;
    /// assert_eq!(machine.source(), Source::Hwloc);
    /// # Ok::<(), numart_alloc::topology::TopologyError>(())
    /// ```
    pub fn from_hwloc() -> Result<Topology, TopologyError> {
        let hwloc = load().map_err(|why| TopologyError::Hwloc { why })?;
        let mock = !hwloc.is_this_system();
        let mut draft = Draft::new(Source::Hwloc, mock);
        let pus = hwloc.objects_with_type(ObjectType::PU);
        draft.online = pus.clone().filter_map(cpu_id).collect();
        read_nodes(&hwloc, &mut draft);
        if draft.nodes.is_empty() {
            return Err(TopologyError::NoNodes);
        }
        draft.cores = groups(&hwloc, &[ObjectType::Core]);
        draft.l3s = groups(
            &hwloc,
            // The same rule as for sysfs: level 3, or the next lower.
            &[ObjectType::L3Cache, ObjectType::L2Cache, ObjectType::L1Cache],
        );
        read_distances(&hwloc, &mut draft);
        let limits = limits(&hwloc, &draft);
        draft.finish(limits)
    }
}

/// Loads with everything the process may not use included, because excluded
/// nodes stay listed.
fn load() -> Result<Hwloc, String> {
    Hwloc::builder()
        .with_flags(BuildFlags::INCLUDE_DISALLOWED)
        .map_err(|e| e.to_string())?
        .build()
        .map_err(|e| e.to_string())
}

fn limits(hwloc: &Hwloc, draft: &Draft) -> Limits {
    if draft.mock {
        return Limits::default();
    }
    if cfg!(any(target_os = "linux", target_os = "android")) {
        return process_limits(&Tree::new(Path::new("/")), &draft.online);
    }
    Limits {
        cpus: Some(numbers(hwloc.allowed_cpuset().iter_set()).map(CpuId).collect()),
        mems: Some(numbers(hwloc.allowed_nodeset().iter_set()).map(NodeId).collect()),
        ..Limits::default()
    }
}

/// The operating system's numbers; hwloc's sets may be infinite.
fn numbers(indices: impl Iterator<Item: Into<usize>>) -> impl Iterator<Item = u32> {
    indices.map_while(|i| u32::try_from(i.into()).ok()).take_while(|&n| n < MAX_NUMBER)
}

fn os_number(object: &TopologyObject) -> Option<u32> {
    u32::try_from(object.os_index()?).ok()
}

fn cpu_id(pu: &TopologyObject) -> Option<CpuId> {
    os_number(pu).map(CpuId)
}

fn cpus_of(object: &TopologyObject) -> CpuSet {
    let set = object.cpuset();
    set.into_iter().flat_map(|set| numbers(set.iter_set()).collect::<Vec<_>>()).map(CpuId).collect()
}

fn read_nodes(hwloc: &Hwloc, draft: &mut Draft) {
    let mut near = Vec::new();
    for object in hwloc.objects_with_type(ObjectType::NUMANode) {
        let Some(id) = os_number(object).map(NodeId) else {
            continue;
        };
        let memory = match object.attributes() {
            Some(ObjectAttributes::NUMANode(node)) => node.local_memory().map_or(0, u64::from),
            _ => 0,
        };
        let cpus = cpus_of(object).intersection(&draft.online);
        near.push((cpus.len(), id, cpus));
        let cpus = CpuSet::new();
        draft.nodes.insert(id, DraftNode { cpus, memory });
    }
    near.sort_by_key(|&(count, id, _)| (count, id));
    let mut taken = CpuSet::new();
    for (_, id, cpus) in near {
        if let Some(node) = draft.nodes.get_mut(&id) {
            node.cpus = cpus.difference(&taken);
            taken = taken.union(&cpus);
        }
    }
}

/// For each PU the CPUs of its nearest ancestor of the first type that it has.
fn groups(hwloc: &Hwloc, types: &[ObjectType]) -> Vec<CpuSet> {
    let mut seen = CpuSet::new();
    let mut groups = Vec::new();
    for pu in hwloc.objects_with_type(ObjectType::PU) {
        if cpu_id(pu).is_none_or(|cpu| seen.contains(cpu)) {
            continue;
        }
        let ancestor = types.iter().find_map(|&t| pu.first_ancestor_with_type(t));
        if let Some(ancestor) = ancestor {
            let cpus = cpus_of(ancestor);
            seen.extend(cpus.iter());
            groups.push(cpus);
        }
    }
    groups
}

/// hwloc has no matrix if there is one node only, or if the machine shows none.
fn read_distances(hwloc: &Hwloc, draft: &mut Draft) {
    let matrices = hwloc.distances_with_name("NUMALatency").unwrap_or_default();
    let Some(matrix) = matrices.first() else {
        if draft.nodes.len() > 1 {
            draft
                .warnings
                .push("hwloc knows no distances between the nodes: taking 10 to itself and 20 to others".to_owned());
        }
        return;
    };
    let ids: Vec<Option<NodeId>> = matrix.objects().map(|object| os_number(object?).map(NodeId)).collect();
    for ((from, to), distance) in matrix.enumerate_distances() {
        if let (Some(from), Some(to), Ok(distance)) = (ids[from], ids[to], distance.try_into()) {
            draft.distances.insert((from, to), distance);
        }
    }
}
