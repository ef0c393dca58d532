//! A worker's own memory lies on its node: its stack, and the slot that others see of it.
//!
//! A thread that runs on its node touches memory there anyway. What must be asked for is what others touched first: the
//! slots, made by the thread that builds the runtime, and the top of a stack, written by the thread that starts it and by
//! the worker before it is bound.

use numart_alloc::sys::{self, SysError};
use numart_alloc::topology::NodeId;

use super::config::Config;
use super::registry::Registry;

/// The node to ask for; `None` where there is nothing to choose: mock nodes, one node, or no memory of ours there.
pub(super) fn node_for(config: &Config, node: NodeId) -> Option<NodeId> {
    let topology = &config.topology;
    if topology.is_mock() || topology.nodes().len() < 2 {
        return None;
    }
    topology.node(node).filter(|node| node.memory() > 0 && node.memory_allowed()).map(|node| node.id())
}

/// The warning.
pub(super) fn denied(error: &SysError) -> String {
    format!(
        "workers' stacks and queues could not be put on their nodes ({error}): they lie where they were first touched, most \
         of them on the right node; allow mbind(2) in the seccomp profile"
    )
}

/// Moves this thread's stack, as far as there is any, to its worker's node, and what of it comes later too. By the
/// thread itself, bound by now.
pub(super) fn own_stack(registry: &Registry, index: usize) {
    let node = registry.info(index).node;
    let (Some(node), Some(stack)) = (node_for(&registry.config, node), sys::current_stack()) else { return };
    if let Err(error) = sys::prefer_node(stack, node) {
        registry.warn_once(denied(&error));
    }
}
