//! The same small programs on numart and on the runtimes it is measured against.
//!
//! - [`work`]: what is run: the tree, the jobs, the loop bodies, the same for every runtime.
//! - [`peers`]: how each runtime runs it, one file per runtime; [`peers::columns`] is the list of them.
//! - [`bounce`]: how far apart the two CPUs are at this moment.
//! - [`sample`]: interleaved rounds, with a bounce before and after each sample.
//! - [`table`]: medians and ratios as markdown.

pub mod bounce;
pub mod cpu;
pub mod peers;
pub mod sample;
pub mod table;
pub mod work;
