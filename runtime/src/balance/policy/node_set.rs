//! A set of nodes, and the limit on how many nodes the policy knows.

/// Most nodes a snapshot may have: a set is one machine word. The largest tree in our collection has 64.
pub const MAX_NODES: usize = 64;

/// A set of nodes by index (0 to 63), one bit each.
///
/// ```
/// use numart_runtime::balance::policy::NodeSet;
/// let set = NodeSet::of(&[1, 4]);
/// assert!(set.contains(4) && !set.contains(0));
/// assert_eq!(set.iter().collect::<Vec<_>>(), [1, 4]);
/// assert_eq!(NodeSet::single(3).only(), Some(3));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeSet(u64);

impl NodeSet {
    /// No node.
    pub const EMPTY: NodeSet = NodeSet(0);

    /// One node. An index of [`MAX_NODES`] or more gives the empty set.
    pub fn single(node: usize) -> Self {
        NodeSet(if node < MAX_NODES { 1 << node } else { 0 })
    }

    /// The nodes of a slice; indices out of range are left out.
    pub fn of(nodes: &[usize]) -> Self {
        nodes.iter().fold(Self::EMPTY, |set, &n| set.union(Self::single(n)))
    }

    /// Nodes `0..count`.
    pub fn first(count: usize) -> Self {
        NodeSet(if count >= MAX_NODES { u64::MAX } else { (1 << count) - 1 })
    }

    /// Whether `node` is in the set.
    pub fn contains(self, node: usize) -> bool {
        node < MAX_NODES && self.0 >> node & 1 == 1
    }

    /// Nodes of either.
    pub fn union(self, other: Self) -> Self {
        NodeSet(self.0 | other.0)
    }

    /// Nodes of both.
    pub fn intersection(self, other: Self) -> Self {
        NodeSet(self.0 & other.0)
    }

    /// Nodes of `self` that are not in `other`.
    pub fn minus(self, other: Self) -> Self {
        NodeSet(self.0 & !other.0)
    }

    /// Whether every node of `self` is in `other`.
    pub fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// How many nodes.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The node, if there is exactly one.
    pub fn only(self) -> Option<usize> {
        (self.len() == 1).then(|| self.0.trailing_zeros() as usize)
    }

    /// The lowest node.
    pub fn lowest(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
    }

    /// The nodes, lowest first.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let node = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(node)
        })
    }
}
