//! The system calls the topology and the workers need.
//!
//! This is the only module with `unsafe` that talks to the kernel. A kernel,
//! a container or a seccomp filter may refuse any of these calls, so each one
//! returns a [`SysError`] that says what was refused and what to do; callers go
//! on without it and show the message. On systems other than Linux every call
//! answers [`SysError::is_unsupported`].

mod affinity;
mod cpu;
mod error;
pub mod membarrier;
mod memory;

pub use affinity::{
    ThreadId, current_thread_affinity, current_thread_id, set_current_thread_affinity, set_thread_affinity,
    thread_affinity,
};
pub use cpu::current_cpu;
pub use error::SysError;
pub use memory::{Pages, current_stack, prefer_node};
