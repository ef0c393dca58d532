//! From what a source read to a [`Topology`] whose invariants hold.

use super::limits::Limits;
use super::machine::Parts;
use super::{Cpu, CpuId, CpuSet, Node, NodeId, Source, Topology, TopologyError};
use super::{LOCAL_DISTANCE, REMOTE_DISTANCE};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a source found. Sources keep each CPU in at most one node.
pub(super) struct Draft {
    pub(super) source: Source,
    pub(super) mock: bool,
    pub(super) nodes: BTreeMap<NodeId, DraftNode>,
    /// Every online CPU, those in no node included.
    pub(super) online: CpuSet,
    /// CPUs that share a core, or an L3 cache. A CPU in none of them is a group
    /// of its own (cores), or grouped with its node (L3).
    pub(super) cores: Vec<CpuSet>,
    pub(super) l3s: Vec<CpuSet>,
    /// Missing pairs get the default.
    pub(super) distances: BTreeMap<(NodeId, NodeId), u32>,
    pub(super) warnings: Vec<String>,
}

#[derive(Default)]
pub(super) struct DraftNode {
    pub(super) cpus: CpuSet,
    pub(super) memory: u64,
}

impl Draft {
    pub(super) fn new(source: Source, mock: bool) -> Self {
        Self {
            source,
            mock,
            nodes: BTreeMap::new(),
            online: CpuSet::new(),
            cores: Vec::new(),
            l3s: Vec::new(),
            distances: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    /// Applies what the process may use and builds the topology.
    pub(super) fn finish(mut self, limits: Limits) -> Result<Topology, TopologyError> {
        if self.nodes.is_empty() {
            return Err(TopologyError::NoNodes);
        }
        let on_nodes = self.nodes.values().fold(CpuSet::new(), |all, n| all.union(&n.cpus));
        if on_nodes.is_empty() {
            return Err(TopologyError::NoCpus);
        }
        if let Some(allowed) = &limits.cpus
            && allowed.intersection(&on_nodes).is_empty()
        {
            return Err(TopologyError::NothingAllowed { allowed: allowed.clone(), cpus: on_nodes });
        }
        self.warn_of_cpus_without_node(&on_nodes);
        let nodes = self.nodes(&limits);
        let cpus = self.cpus(&nodes, &limits);
        let distances = self.matrix();
        warn_of_excluded_nodes(&nodes, &mut self.warnings);
        self.warnings.extend(limits.warnings);
        Ok(Topology {
            parts: Arc::new(Parts {
                nodes,
                cpus,
                distances,
                source: self.source,
                mock: self.mock,
                quota: limits.quota,
                warnings: self.warnings,
            }),
        })
    }

    fn warn_of_cpus_without_node(&mut self, on_nodes: &CpuSet) {
        let rest = self.online.difference(on_nodes);
        if !rest.is_empty() {
            self.warnings.push(format!(
                "CPUs {rest} are online but in no node: no worker runs there; \
                 check that their node is online (/sys/devices/system/node)"
            ));
        }
        self.online = self.online.union(on_nodes);
    }

    fn nodes(&self, limits: &Limits) -> Vec<Node> {
        let node = |(&id, n): (&NodeId, &DraftNode)| Node {
            id,
            cpus: n.cpus.clone(),
            allowed: match &limits.cpus {
                Some(allowed) => n.cpus.intersection(allowed),
                None => n.cpus.clone(),
            },
            memory: n.memory,
            memory_allowed: limits.mems.as_ref().is_none_or(|m| m.contains(&id)),
        };
        self.nodes.iter().map(node).collect()
    }

    fn cpus(&self, nodes: &[Node], limits: &Limits) -> Vec<Cpu> {
        let home: BTreeMap<CpuId, NodeId> = nodes.iter().flat_map(|n| n.cpus.iter().map(|c| (c, n.id))).collect();
        let cores = Groups::new(&self.online, &self.cores, |cpu| [cpu].into_iter().collect());
        let l3s = Groups::new(&self.online, &self.l3s, |cpu| match home.get(&cpu) {
            Some(id) => self.nodes[id].cpus.clone(),
            None => [cpu].into_iter().collect(),
        });
        let cpu = |id: CpuId| Cpu {
            id,
            node: home.get(&id).copied(),
            core: cores.index[&id],
            l3: l3s.index[&id],
            allowed: limits.cpus.as_ref().is_none_or(|a| a.contains(id)),
            core_cpus: Arc::clone(&cores.sets[cores.index[&id] as usize]),
            l3_cpus: Arc::clone(&l3s.sets[l3s.index[&id] as usize]),
        };
        self.online.iter().map(cpu).collect()
    }

    fn matrix(&self) -> Vec<u32> {
        let ids = || self.nodes.keys().copied();
        let default = |a, b| {
            if a == b { LOCAL_DISTANCE } else { REMOTE_DISTANCE }
        };
        let pairs = ids().flat_map(|a| ids().map(move |b| (a, b)));
        pairs.map(|(a, b)| *self.distances.get(&(a, b)).unwrap_or(&default(a, b))).collect()
    }
}

fn warn_of_excluded_nodes(nodes: &[Node], warnings: &mut Vec<String>) {
    for node in nodes {
        if !node.cpus.is_empty() && node.allowed.is_empty() {
            warnings.push(format!(
                "node {} (CPUs {}) is excluded by the affinity mask or the cpuset of this process: \
                 no worker runs there; widen the mask (taskset) or the cpuset to use it",
                node.id, node.cpus
            ));
        }
        if node.memory > 0 && !node.memory_allowed {
            warnings.push(format!(
                "the memory of node {} is excluded by the cpuset of this process: nothing is \
                 allocated there; add the node to cpuset.mems to use it",
                node.id
            ));
        }
    }
}

/// A partition of the online CPUs, numbered by the lowest CPU of each part.
struct Groups {
    sets: Vec<Arc<CpuSet>>,
    index: BTreeMap<CpuId, u32>,
}

impl Groups {
    /// `stated` may overlap (recorded or broken trees): the first set that
    /// names a CPU wins. `rest` gives the set of a CPU that none names.
    fn new(online: &CpuSet, stated: &[CpuSet], rest: impl Fn(CpuId) -> CpuSet) -> Self {
        let mut first: BTreeMap<CpuId, usize> = BTreeMap::new();
        for (i, set) in stated.iter().enumerate() {
            for cpu in set.iter() {
                first.entry(cpu).or_insert(i);
            }
        }
        let mut groups = Groups { sets: Vec::new(), index: BTreeMap::new() };
        for cpu in online.iter() {
            if groups.index.contains_key(&cpu) {
                continue;
            }
            let stated_by = first.get(&cpu).copied();
            let wanted = stated_by.map_or_else(|| rest(cpu), |i| stated[i].clone());
            let together: CpuSet = wanted
                .intersection(online)
                .iter()
                .filter(|c| first.get(c).copied() == stated_by && !groups.index.contains_key(c))
                .collect();
            let number = groups.sets.len() as u32;
            groups.index.extend(together.iter().map(|member| (member, number)));
            groups.sets.push(Arc::new(together));
        }
        groups
    }
}
