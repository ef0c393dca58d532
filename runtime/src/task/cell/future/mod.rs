//! A future's steps in the task's state word: poll, wake, abort, and the wakers' references.
//!
//! `README.md` beside this file says which invariants they keep; the bits are documented in the module above.

#[cfg(all(test, loom))]
mod model;

use super::{ABORT, Claim, DONE, HANDLE, ONCE, QUEUED, REF, RUNNING, State};
use crate::sync::{AtomicUsize, Ordering};

/// What a poller does with a future that is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Nothing: it is not the poller's any more, nor is the poller's reference.
    Idle,
    /// It was woken meanwhile: queue it again; the reference is the entry's now.
    Again,
    /// Drop it: the poller has the body still, and its reference.
    Drop,
}

/// What a reference that is given up leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    /// Queue the task; the reference is the entry's now.
    Push,
    /// It was the last: free the cell.
    Free,
}

impl State {
    /// A future, queued, with a handle, in the list of its runtime's futures.
    pub(crate) fn new_future() -> State {
        State(AtomicUsize::new(QUEUED | HANDLE | (3 * REF)))
    }

    /// Claims a queued future. `retain`: with a reference of its own, for a claimer that did not pop an entry.
    pub(crate) fn begin_poll(&self, retain: bool) -> Claim {
        let mut state = self.0.load(Ordering::Relaxed);
        loop {
            #[cfg(not(numart_break = "poll_alone"))]
            let claimable = state & (QUEUED | RUNNING | DONE) == QUEUED;
            #[cfg(numart_break = "poll_alone")]
            // Broken on purpose: a second entry of a future that was woken while it is polled is taken for the first.
            let claimable = state & (QUEUED | DONE) == QUEUED;
            if !claimable {
                return Claim::No;
            }
            let next = (state & !QUEUED | RUNNING) + usize::from(retain) * REF;
            // Acquire: the body from the poller before, and what all those did who woke it.
            match self.0.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if state & ABORT != 0 => return Claim::Drop,
                Ok(_) => return Claim::Run,
                Err(now) => state = now,
            }
        }
    }

    /// By the poller: the future is pending.
    pub(crate) fn pause(&self) -> Pause {
        let mut state = self.0.load(Ordering::Relaxed);
        loop {
            debug_assert_eq!(state & (RUNNING | DONE), RUNNING);
            #[cfg(not(numart_break = "pause_abort"))]
            let unwanted = state & ABORT != 0;
            #[cfg(numart_break = "pause_abort")]
            let unwanted = false;
            #[cfg(not(numart_break = "pause_woken"))]
            let woken = state & QUEUED != 0;
            #[cfg(numart_break = "pause_woken")]
            let woken = false;
            let (next, pause) = if unwanted || (!woken && is_orphan(state - REF)) {
                (state, Pause::Drop)
            } else if woken {
                (state & !RUNNING, Pause::Again)
            } else {
                #[cfg(not(numart_break = "pause_woken"))]
                let next = state & !RUNNING;
                #[cfg(numart_break = "pause_woken")]
                let next = state & !(RUNNING | QUEUED);
                (next - REF, Pause::Idle)
            };
            #[cfg(not(numart_break = "pause_release"))]
            let order = Ordering::AcqRel;
            #[cfg(numart_break = "pause_release")]
            let order = Ordering::Relaxed;
            // Release: the body to the next poller. (Acquire: for `Drop`, nothing to do with who woke it.)
            match self.0.compare_exchange_weak(state, next, order, Ordering::Relaxed) {
                Ok(_) => return pause,
                Err(now) => state = now,
            }
        }
    }

    /// Wakes. True: queue the task; the entry's reference has been added.
    pub(crate) fn wake_by_ref(&self) -> bool {
        let mut state = self.0.load(Ordering::Relaxed);
        loop {
            if state & DONE != 0 {
                return false;
            }
            #[cfg(numart_break = "wake_unseen")]
            // Broken on purpose: the poll to come need not see what happened before this wake-up.
            if state & QUEUED != 0 {
                return false;
            }
            let push = is_idle(state);
            let next = (state | QUEUED) + usize::from(push) * REF;
            // Release, and by an exchange even if it is queued already: the poll to come sees what we did before.
            match self.0.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return push,
                Err(now) => state = now,
            }
        }
    }

    /// Wakes, and gives up a reference (or hands it to the entry).
    pub(crate) fn wake(&self) -> Left {
        self.give_up(QUEUED)
    }

    /// Gives up the reference of a waker, a handle or a stale entry: of any task, done or not.
    pub(crate) fn release_early(&self) -> Left {
        self.give_up(0)
    }

    /// One reference less, and `wake` (`QUEUED` or nothing) set unless the task is done.
    fn give_up(&self, wake: usize) -> Left {
        let mut state = self.0.load(Ordering::Relaxed);
        loop {
            let (next, left) = if state & DONE != 0 {
                (state - REF, if (state - REF) / REF == 0 { Left::Free } else { Left::Nothing })
            } else if wake != 0 && is_idle(state) {
                (state | QUEUED, Left::Push)
            } else if is_orphan((state | wake) - REF) {
                // Nobody is left who could wake it: a worker shall drop it, with our reference for the entry.
                (state | QUEUED | ABORT, Left::Push)
            } else {
                ((state | wake) - REF, Left::Nothing)
            };
            #[cfg(not(numart_break = "give_up_order"))]
            let order = Ordering::AcqRel;
            #[cfg(numart_break = "give_up_order")]
            let order = Ordering::Relaxed;
            // Release: our last touch, and what we did before we woke it. Acquire: all others' last touches, to free.
            match self.0.compare_exchange_weak(state, next, order, Ordering::Relaxed) {
                Ok(_) => return left,
                Err(now) => state = now,
            }
        }
    }

    /// The body shall be dropped, if it has not been run to its end. True: queue the task; the entry's reference has been
    /// added.
    pub(crate) fn abort(&self) -> bool {
        let mut state = self.0.load(Ordering::Relaxed);
        loop {
            if state & DONE != 0 {
                return false;
            }
            #[cfg(not(numart_break = "abort_idle"))]
            let push = is_idle(state);
            #[cfg(numart_break = "abort_idle")]
            let push = false;
            let next = if push { (state | ABORT | QUEUED) + REF } else { state | ABORT };
            match self.0.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return push,
                Err(now) => state = now,
            }
        }
    }

    /// The runtime has ended. True: the future was idle, and is the caller's to drop, with a reference of its own. If not,
    /// whoever has it, or its entry, drops it.
    pub(crate) fn close(&self) -> bool {
        let mut state = self.0.load(Ordering::Relaxed);
        loop {
            if state & DONE != 0 {
                return false;
            }
            let ours = is_idle(state);
            #[cfg(not(numart_break = "close_mark"))]
            let mark = ABORT;
            #[cfg(numart_break = "close_mark")]
            let mark = 0;
            let next = if ours { (state | ABORT | RUNNING) + REF } else { state | mark };
            match self.0.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return ours,
                Err(now) => state = now,
            }
        }
    }
}

/// Nobody has the body and no entry will lead to it.
fn is_idle(state: usize) -> bool {
    state & (QUEUED | RUNNING | DONE | ONCE) == 0
}

/// Pending, and only the runtime's list holds it: nobody can wake it, abort it or ask for its output.
fn is_orphan(state: usize) -> bool {
    state / REF == 1 && state & (QUEUED | DONE | HANDLE | ABORT | ONCE) == 0
}
