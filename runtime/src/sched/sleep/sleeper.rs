//! One thread's sleep cell: why it is parked, and how to unpark it.

use std::sync::Arc;

use crate::sync::{AtomicU32, Ordering, fence, thread};

const AWAKE: u32 = 0;
/// In its node's list of sleepers.
const IDLE: u32 = 1;
/// Parked in a wait; may be woken to help with a job below that wait.
const WAITING: u32 = 2;
/// Taken out of the sleepers by somebody for whose job it is to search: `searching` counts it.
const HANDED: u32 = 3;

/// Made on the thread it belongs to. Shared by `Arc`: whoever completes something that the thread waits for keeps the
/// cell alive until it has unparked it.
pub(crate) struct Sleeper {
    state: AtomicU32,
    thread: thread::Thread,
}

impl Sleeper {
    pub(crate) fn for_current_thread() -> Arc<Sleeper> {
        Arc::new(Sleeper { state: AtomicU32::new(AWAKE), thread: thread::current() })
    }

    /// With the node's list locked.
    pub(super) fn set_idle(&self) {
        self.state.store(IDLE, Ordering::SeqCst);
    }

    pub(super) fn set_awake(&self) {
        self.state.store(AWAKE, Ordering::SeqCst);
    }

    pub(super) fn set_handed(&self) {
        self.state.store(HANDED, Ordering::SeqCst);
    }

    /// Was this thread woken as a searcher? Asked once, after it left the sleepers.
    pub(crate) fn take_handed(&self) -> bool {
        self.state.swap(AWAKE, Ordering::SeqCst) == HANDED
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.state.load(Ordering::SeqCst) == IDLE
    }

    /// Announces a parked wait. Fences: the caller looks for related jobs next, then parks.
    pub(crate) fn begin_wait(&self) {
        self.state.store(WAITING, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Ends it. True if a helper was asked for ([`Sleeper::wake_waiter`]) meanwhile.
    pub(crate) fn end_wait(&self) -> bool {
        self.state.swap(AWAKE, Ordering::SeqCst) != WAITING
    }

    /// Unparks a parked waiter so that it looks for related jobs. False if it is not parked in a wait.
    pub(crate) fn wake_waiter(&self) -> bool {
        if self.state.load(Ordering::Relaxed) != WAITING
            || self.state.compare_exchange(WAITING, AWAKE, Ordering::SeqCst, Ordering::Relaxed).is_err()
        {
            return false;
        }
        self.unpark();
        true
    }

    pub(crate) fn unpark(&self) {
        self.thread.unpark();
    }
}

#[cfg(not(loom))]
mod current {
    use super::*;

    thread_local! {
        static CURRENT: Arc<Sleeper> = Sleeper::for_current_thread();
    }

    /// This thread's sleep cell, whatever thread it is.
    pub(crate) fn current_sleeper() -> Arc<Sleeper> {
        // During thread-local destruction a fresh cell does as well: cells carry no history.
        CURRENT.try_with(Arc::clone).unwrap_or_else(|_| Sleeper::for_current_thread())
    }
}

#[cfg(loom)]
mod current {
    use super::*;

    pub(crate) fn current_sleeper() -> Arc<Sleeper> {
        Sleeper::for_current_thread()
    }
}

pub(crate) use current::current_sleeper;
