//! Names for nodes and CPUs, as the kernel gives them.

use std::fmt;

/// The number of a node, as the kernel shows it (`/sys/devices/system/node`).
///
/// Numbers may have gaps (0, 1, 2, 33): never use one as an index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

/// The number of a logical CPU, as the kernel shows it
/// (`/sys/devices/system/cpu`). Numbers may have gaps: never use one as an
/// index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CpuId(pub u32);

// Delegating keeps widths and fills, which tables use.
impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
