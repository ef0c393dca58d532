//! Per-node worker pools, tasks, touch tracking and balancing: the runtime half of `numart`.
//!
//! Use the crate `numart`, which re-exports all of this. `docs/architecture.md` says who may use whom.

// Under loom only the protocols and their models are compiled, and most of what they offer has no caller there.
#![cfg_attr(loom, allow(dead_code, unused_imports))]

pub mod balance;
mod sched;
mod sync;

#[cfg(not(loom))]
mod runtime;
#[cfg(not(loom))]
pub mod stats;
mod task;

#[cfg(not(loom))]
pub use self::api::*;

#[cfg(not(loom))]
mod api {
    pub use crate::runtime::{BuildError, Builder, Handle, Runtime, global, stats};
    pub use crate::sched::clock::{Clock, ManualClock};
    pub use crate::sched::config::{HomeDelay, Pinning, Shutdown, Waiting, WorkerInfo};
    pub use crate::task::abort::{AbortHandle, TaskId};
    pub use crate::task::affinity::{Affinity, Group, UnknownNode};
    pub use crate::task::block_on::{BlockOnError, block_on, try_block_on};
    pub use crate::task::broadcast::{BroadcastContext, broadcast, broadcast_per_node};
    pub use crate::task::budget::{Unconstrained, consume_budget, unconstrained};
    pub use crate::task::handle::{JoinError, JoinHandle, PanicPayload};
    pub use crate::task::here::{Yield, YieldNow, current_node, current_num_workers, current_worker, yield_now};
    pub use crate::task::join::{JoinContext, join, join_context};
    pub use crate::task::join_set::JoinSet;
    pub use crate::task::par::{par_chunks, par_chunks_mut, par_for, reduce};
    pub use crate::task::scope::{Scope, ScopeFifo, in_place_scope, in_place_scope_fifo, scope, scope_fifo};
    pub use crate::task::spawn::{Task, install, spawn, spawn_fifo};
}
