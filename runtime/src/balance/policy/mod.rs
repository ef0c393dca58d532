//! The balancing policy: a snapshot in, a plan out; no clocks, threads or randomness of its own.
