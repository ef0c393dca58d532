//! Workers, the split deque, node queues, steal order, sleep and waiting.
//!
//! Bottom-up, each only using those before it:
//! `job` (what queues hold), `strand` (who works below whose wait), `sleep`, `latch`, `deque`, `roots` (a node's queue),
//! `slot` (a worker's next future), `alive` (futures not done), `inbox`, `counters`, `clock`, `config`, `gate` (shutdown
//! against spawn), `registry` (one runtime's shared state), `ending` (its shutdown), `waking` (whom), `spare` (threads that
//! stand in for waiting ones), `worker` (one thread's half, and how it runs a job), `search` (steal order), `wait` (the
//! waiting rule), `idle` (main loop and sleep), `thread` (a worker thread's life), `adopted` (a thread that became a worker).

pub(crate) mod deque;
pub(crate) mod gate;
pub(crate) mod job;
pub(crate) mod latch;
pub(crate) mod sleep;
pub(crate) mod strand;

#[cfg(not(loom))]
pub(crate) mod adopted;
#[cfg(not(loom))]
pub(crate) mod alive;
#[cfg(not(loom))]
pub(crate) mod clock;
#[cfg(not(loom))]
pub(crate) mod config;
#[cfg(not(loom))]
pub(crate) mod counters;
#[cfg(not(loom))]
mod ending;
#[cfg(not(loom))]
mod idle;
#[cfg(not(loom))]
pub(crate) mod inbox;
#[cfg(not(loom))]
pub(crate) mod registry;
#[cfg(not(loom))]
pub(crate) mod roots;
#[cfg(not(loom))]
mod search;
#[cfg(not(loom))]
pub(crate) mod slot;
#[cfg(not(loom))]
mod spare;
#[cfg(not(loom))]
mod thread;
#[cfg(not(loom))]
pub(crate) mod wait;
#[cfg(not(loom))]
pub(crate) mod waking;
#[cfg(not(loom))]
pub(crate) mod worker;
