//! Direct, mesh or backplane: how the nodes of a machine are connected, told from the distances alone.

use super::node_set::NodeSet;
use super::snapshot::Snapshot;

/// How nodes reach each other (reference 2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyClass {
    /// Every node reaches every other equally: any set of nodes is as close as any other.
    Direct,
    /// Some nodes are reached through others: some third node is closer than the farthest distance to both ends.
    Mesh,
    /// Clusters of close nodes behind a common connection: 10/20/40 in pairs, sub-NUMA clusters of two sockets.
    Backplane,
}

/// Tells the class of the nodes in `nodes`. One or two distances mean [`TopologyClass::Direct`].
pub fn topology_class(snapshot: &Snapshot, nodes: NodeSet) -> TopologyClass {
    let levels = levels(snapshot, nodes);
    let Some(&far) = levels.last() else {
        return TopologyClass::Direct;
    };
    if levels.len() <= 2 {
        return TopologyClass::Direct;
    }
    for a in nodes.iter() {
        for b in nodes.iter() {
            if a == b || snapshot.distance(a, b) < far {
                continue;
            }
            let between =
                |c: &usize| *c != a && *c != b && snapshot.distance(a, *c) < far && snapshot.distance(*c, b) < far;
            // One farthest pair decides, as in the kernel: the classes do not mix on real machines.
            return if nodes.iter().any(|c| between(&c)) { TopologyClass::Mesh } else { TopologyClass::Backplane };
        }
    }
    TopologyClass::Direct
}

/// The different distances between the nodes, ascending, local first.
pub(crate) fn levels(snapshot: &Snapshot, nodes: NodeSet) -> Vec<u16> {
    let mut levels: Vec<u16> =
        nodes.iter().flat_map(|a| nodes.iter().map(move |b| (a, b))).map(|(a, b)| snapshot.distance(a, b)).collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

/// Clusters around each of the first `n` nodes, smallest first: the nodes within each distance of it. On a backplane these are
/// the pair, the quad and so on, which a group should fill before it crosses the connection.
pub(crate) fn all_clusters(snapshot: &Snapshot, nodes: NodeSet, n: usize) -> Vec<Vec<NodeSet>> {
    let levels = levels(snapshot, nodes);
    let within = |seed: usize, level: u16| {
        let near = nodes.iter().filter(|&m| snapshot.distance(seed, m) <= level);
        near.fold(NodeSet::EMPTY, |set, m| set.union(NodeSet::single(m)))
    };
    (0..n).map(|seed| levels.iter().map(|&level| within(seed, level)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::policy::Node;

    fn machine(n: usize, distance: impl Fn(usize, usize) -> u16) -> Snapshot {
        Snapshot {
            nodes: vec![Node::new(4, 1 << 30); n],
            distance: (0..n * n).map(|i| distance(i / n, i % n)).collect(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn classes_of_known_machines() {
        let all = NodeSet::first(4);
        let direct = machine(4, |i, j| if i == j { 10 } else { 21 });
        assert_eq!(topology_class(&direct, all), TopologyClass::Direct);
        // Seed 1's machine.
        let pairs = machine(4, |i, j| match () {
            () if i == j => 10,
            () if i / 2 == j / 2 => 20,
            () => 40,
        });
        assert_eq!(topology_class(&pairs, all), TopologyClass::Backplane);
        // A ring: opposite nodes are two hops apart, through either neighbour.
        let ring = machine(4, |i, j| [10, 20, 30, 20][(4 + j - i) % 4]);
        assert_eq!(topology_class(&ring, all), TopologyClass::Mesh);
        assert_eq!(all_clusters(&pairs, all, 4)[2], [NodeSet::of(&[2]), NodeSet::of(&[2, 3]), all]);
    }
}
