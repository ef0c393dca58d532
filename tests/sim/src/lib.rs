//! The simulator that drives numart's balancing policy: virtual time, fixed seeds, the very code the runtime runs.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod constants;
pub mod fit;
pub mod machine;
pub mod rates;
pub mod rng;
