//! The machine and its memory. Knows nothing of tasks.
//!
//! - [`topology`]: which nodes, CPUs, caches and distances there are, and what
//!   this process may use of them.
//! - [`sys`]: the system calls behind it, and the only `unsafe` that talks to
//!   the kernel. A refused call is an error value, never a panic.
//!
//! ```
//! use numart_alloc::topology::Topology;
//!
//! let machine = Topology::this_machine()?;
//! println!("{machine}");
//! assert!(machine.default_workers() >= 1);
//! # Ok::<(), numart_alloc::topology::TopologyError>(())
//! ```

mod node_box;
pub mod sys;
pub mod topology;

pub use node_box::NodeBox;
