//! The small imbalance that is allowed: pairs that talk to each other should not be torn apart to even out a load
//! that makes nobody wait.

use super::snapshot::Node;

/// CPUs by which a node may be busier than another before load alone is a reason to move (kernel since 6.0: an eighth
/// of the node, at least 1; with several L3 groups no more than their number, since beyond one task per L3 group
/// tasks share caches and channels while others stand idle; reference 2.5, 3).
///
/// ```
/// use numart_runtime::balance::policy::{Node, allowed_imbalance};
/// let mut node = Node::new(64, 1 << 30);
/// assert_eq!(allowed_imbalance(&node), 8.0);
/// node.l3_groups = 2;
/// assert_eq!(allowed_imbalance(&node), 2.0);
/// ```
pub fn allowed_imbalance(node: &Node) -> f64 {
    let eighth = (f64::from(node.cpus) / 8.0).floor().max(1.0);
    if node.l3_groups > 1 { eighth.min(f64::from(node.l3_groups)) } else { eighth }
}
