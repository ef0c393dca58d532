//! A NUMA-aware work-stealing task runtime.
