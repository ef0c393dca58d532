//! A NUMA-aware work-stealing task runtime: closures and fork-join on per-node worker pools, and statistics that say
//! where the work ran.
//!
//! ```
//! let handle = numart::spawn(|| 6 * 7);                            // a task with a handle
//! let (a, b) = numart::join(|| 1 + 1, || 2 + 2);                   // fork-join
//! let sum = numart::reduce(0..100, || 0, |i| i, |a, b| a + b);     // a parallel loop
//! assert_eq!((handle.join()?, a, b, sum), (42, 2, 4, 4950));
//! println!("{}", numart::stats());                                 // where it ran
//! # Ok::<(), numart::JoinError>(())
//! ```
//!
//! The guide is `docs/guide.md`; what the statistics mean is in `docs/stats.md`.

pub use numart_alloc::topology;
pub use numart_alloc::topology::NodeId;
pub use numart_runtime::*;
