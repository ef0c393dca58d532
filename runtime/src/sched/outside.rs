//! Threads that are no workers and have a scope open: the runtime does not end before the scope does.
//!
//! The body of an `in_place_scope` runs on its caller's thread and may add jobs at any moment, and jobs add more. If the
//! runtime could end meanwhile, nobody would be left to run them but the thread that adds them, which may hold a lock that
//! they take. So an open scope counts as work (`Working`), like a job of a worker.

use std::cell::Cell;
use std::ptr;

use super::gate::Phase;
use super::registry::Registry;
use super::worker::Worker;

/// One open scope of this thread, and the one it was opened in. Lives in the frame of [`Registry::hold_open`].
struct Open {
    registry: *const Registry,
    outer: *const Open,
}

thread_local! {
    /// The innermost open scope of this thread. Const-initialised and without a destructor: usable in any.
    static INNERMOST: Cell<*const Open> = const { Cell::new(ptr::null()) };
}

/// Takes the scope off the thread's list again, and out of the count.
struct Close<'a>(&'a Registry, *const Open);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        INNERMOST.set(self.1);
        self.0.sub_working();
    }
}

impl Registry {
    /// Calls `body`, on a thread that is no worker of this runtime, and keeps the runtime from ending before it returns.
    /// `None`: the runtime is closed, `body` was not called.
    ///
    /// Who gets in: anybody while the runtime is open, and later whoever keeps it from ending already. The order is the
    /// gate's: we count ourselves and then look at the phase; who closes it moves the phase and then looks at the count.
    pub(crate) fn hold_open<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        let inside = self.is_held_open_here()
            || Worker::current().is_some_and(|worker| self.waiting_ancestor(worker.strand()).is_some());
        self.add_working();
        let open = Open { registry: self, outer: INNERMOST.get() };
        INNERMOST.set(&open);
        let _close = Close(self, open.outer);
        let phase = self.gate.phase();
        if phase != Phase::Open && !(inside && phase != Phase::Terminated) {
            return None;
        }
        Some(body())
    }

    /// Has this thread a scope of this runtime open?
    pub(crate) fn is_held_open_here(&self) -> bool {
        let mut next = INNERMOST.get();
        // SAFETY: the list holds frames of this thread that have not returned: `Close` takes them off.
        while let Some(open) = unsafe { next.as_ref() } {
            if ptr::eq(open.registry, self) {
                return true;
            }
            next = open.outer;
        }
        false
    }
}
