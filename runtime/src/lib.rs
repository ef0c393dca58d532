//! Per-node worker pools, tasks, touch tracking and balancing.

pub mod balance;
