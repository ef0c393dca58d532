//! What a user gives the runtime: closures, fork-join, scopes, parallel loops, handles, affinities and groups.

pub(crate) mod cell;

#[cfg(not(loom))]
pub(crate) mod abort;
#[cfg(not(loom))]
pub(crate) mod affinity;
#[cfg(not(loom))]
pub(crate) mod block_on;
#[cfg(not(loom))]
pub(crate) mod broadcast;
#[cfg(not(loom))]
pub(crate) mod budget;
#[cfg(not(loom))]
pub(crate) mod error;
#[cfg(not(loom))]
mod future;
#[cfg(not(loom))]
pub(crate) mod handle;
#[cfg(not(loom))]
mod header;
#[cfg(not(loom))]
pub(crate) mod here;
#[cfg(not(loom))]
pub(crate) mod join;
#[cfg(not(loom))]
pub(crate) mod join_set;
#[cfg(not(loom))]
pub(crate) mod par;
#[cfg(not(loom))]
pub(crate) mod scope;
#[cfg(not(loom))]
pub(crate) mod spawn;
#[cfg(not(loom))]
pub(crate) mod stack_job;
