//! Workers, the split deque, node queues, steal order, sleep and waiting.
//!
//! Bottom-up, each only using those before it:
//! `job` (what queues hold), `strand` (who works below whose wait), `sleep`, `latch`, `deque`, `roots` (a node's queue),
//! `inbox`, `counters`, `clock`, `config`, `gate` (shutdown against spawn), `registry` (one runtime's shared state),
//! `spare` (threads that stand in for waiting ones), `worker` (one thread), `search` (steal order), `wait` (the waiting rule).

pub(crate) mod deque;
pub(crate) mod gate;
pub(crate) mod job;
pub(crate) mod latch;
pub(crate) mod sleep;
pub(crate) mod strand;

#[cfg(not(loom))]
pub(crate) mod clock;
#[cfg(not(loom))]
pub(crate) mod config;
#[cfg(not(loom))]
pub(crate) mod counters;
#[cfg(not(loom))]
pub(crate) mod inbox;
#[cfg(not(loom))]
pub(crate) mod registry;
#[cfg(not(loom))]
pub(crate) mod roots;
#[cfg(not(loom))]
mod search;
#[cfg(not(loom))]
mod spare;
#[cfg(not(loom))]
pub(crate) mod wait;
#[cfg(not(loom))]
pub(crate) mod worker;
