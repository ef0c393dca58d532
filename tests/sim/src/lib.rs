//! The simulator that drives numart's balancing policy: virtual time, fixed seeds, the very code the runtime runs.

#![deny(unsafe_op_in_unsafe_fn)]
// Nodes are numbers that index several tables at once; iterating one of them would hide that.
#![allow(clippy::needless_range_loop)]

pub mod claims;
pub mod column;
pub mod constants;
pub mod fit;
pub mod machine;
pub mod noise;
pub mod pass;
pub mod picture;
pub mod place;
pub mod rates;
pub mod record;
pub mod rng;
pub mod runs;
pub mod scene;
pub mod seed0;
pub mod seed1;
pub mod seed2;
pub mod seed3;
pub mod seed4;
pub mod size;
pub mod stats;
pub mod tables;
pub mod world;
