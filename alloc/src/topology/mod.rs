//! Nodes, CPUs, caches, distances, and what this process may use of them.
//!
//! A [`Topology`] comes from one of three sources, with one result type:
//!
//! | source | call | nodes |
//! |---|---|---|
//! | sysfs | [`Topology::this_machine`] on Linux | real |
//! | sysfs, recorded | [`Topology::from_sysfs`] | mock |
//! | hwloc | `Topology::from_hwloc` with the feature `hwloc` | real |
//! | a text | [`Topology::parse`] | mock |
//!
//! [`Topology::detect`] chooses as `NUMART_TOPOLOGY` says, and this machine
//! without it. Where a machine cannot be asked (other systems, no sysfs), there
//! is one node with the right CPU count, and [`Topology::warnings`] says so.
//!
//! A node is a *compute node* if it has CPUs, else a *memory-only node* (GPU
//! memory, CXL). A *mock node* is only written down: everything works on it,
//! but nothing can be bound to it.

mod assemble;
mod cgroup;
mod cpuset;
mod detect;
mod error;
#[cfg(test)]
mod fake;
#[cfg(feature = "hwloc")]
mod hwloc;
mod ids;
mod limits;
mod list;
mod machine;
mod show;
mod sysfs;
mod sysfs_cpu;
mod text;
mod tree;

pub use cpuset::CpuSet;
pub use error::TopologyError;
pub use ids::{CpuId, NodeId};
pub use machine::{Cpu, Node, Source, Topology};

/// The distance of a node to itself, and that to another node where nothing
/// better is known. `LOCAL_DISTANCE` and `REMOTE_DISTANCE` of the kernel's
/// `include/linux/topology.h`, which are those of the ACPI SLIT.
const LOCAL_DISTANCE: u32 = 10;
const REMOTE_DISTANCE: u32 = 20;
