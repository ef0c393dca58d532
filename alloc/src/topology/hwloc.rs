//! The topology as the C library hwloc sees it.

use super::{Topology, TopologyError};

impl Topology {
    /// This machine as hwloc sees it.
    ///
    /// # Errors
    ///
    /// [`TopologyError::Hwloc`] if hwloc cannot load the machine.
    pub fn from_hwloc() -> Result<Topology, TopologyError> {
        let why = "not wired up yet".to_owned();
        Err(TopologyError::Hwloc { why })
    }
}
