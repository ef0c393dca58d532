//! Balancing: the pure policy, and (later) the driver that applies its plans.

pub mod policy;
