//! The state word of a task: who may touch the body, who the output, who the waiter, and when the cell is freed.
//!
//! `README.md` beside this file is the page of prose. The word is all there is to the protocol; `task/spawn.rs` puts a
//! closure around it (a future's states come into the same word later).

#[cfg(all(test, loom))]
mod model;

use crate::sync::{AtomicUsize, Ordering, fence};

/// In a queue, not started. Cleared by whoever claims the task: the worker that popped it, or its waiter. Never set again
/// for a closure.
const QUEUED: usize = 1;
/// Output, error or cancellation is stored. Set once, by the claimer. From then on the output belongs to the handle if
/// `HANDLE` was set at that moment, else to the claimer, who drops it.
const DONE: usize = 1 << 1;
/// The `JoinHandle` exists. Cleared once, when it is dropped or used up.
const HANDLE: usize = 1 << 2;
/// The waiter's slot is filled and belongs to the claimer, who will wake it at `DONE`. Set and cleared by the handle,
/// never after `DONE`.
const WAITER: usize = 1 << 3;
/// References: the queue entry, the handle. The last one frees the cell.
const REF: usize = 1 << 4;

/// See the module's page.
pub(crate) struct State(AtomicUsize);

/// What [`State::finish`] found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    /// The slot holds a waiter: take it out and wake it.
    pub(crate) wake: bool,
    /// Nobody will read the output: drop it.
    pub(crate) unread: bool,
}

impl State {
    /// Queued, with a handle.
    pub(crate) fn new() -> State {
        State(AtomicUsize::new(QUEUED | HANDLE | (2 * REF)))
    }

    /// Claims the body: true for exactly one caller.
    pub(crate) fn claim(&self) -> bool {
        #[cfg(not(numart_break = "claim"))]
        return self.0.fetch_and(!QUEUED, Ordering::AcqRel) & QUEUED != 0;
        #[cfg(numart_break = "claim")]
        {
            // Broken on purpose: looks, then clears.
            let queued = self.0.load(Ordering::Acquire) & QUEUED != 0;
            self.0.fetch_and(!QUEUED, Ordering::AcqRel);
            queued
        }
    }

    /// Not claimed yet?
    #[cfg(not(loom))]
    pub(crate) fn is_queued(&self) -> bool {
        self.0.load(Ordering::Relaxed) & QUEUED != 0
    }

    /// By the claimer, after the output was stored.
    pub(crate) fn finish(&self) -> Finished {
        // Release: the output to the handle. Acquire: the waiter's slot from the handle.
        let before = self.0.fetch_or(DONE, Ordering::AcqRel);
        debug_assert_eq!(before & (DONE | QUEUED), 0);
        #[cfg(not(numart_break = "unread"))]
        let unread = before & HANDLE == 0;
        #[cfg(numart_break = "unread")]
        let unread = self.0.load(Ordering::Acquire) & HANDLE == 0;
        Finished { wake: before & WAITER != 0, unread }
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire) & DONE != 0
    }

    /// By the handle, after it filled the slot. False: the task is done, the slot is the handle's again.
    pub(crate) fn offer_waiter(&self) -> bool {
        #[cfg(not(numart_break = "offer"))]
        return self.set_unless_done(WAITER);
        #[cfg(numart_break = "offer")]
        {
            // Broken on purpose: sets, and does not look.
            self.0.fetch_or(WAITER, Ordering::AcqRel);
            true
        }
    }

    /// By the handle: takes the slot back. False: the task is done, and the claimer wakes (or has woken) the waiter.
    #[cfg_attr(not(loom), allow(dead_code))]
    pub(crate) fn withdraw_waiter(&self) -> bool {
        let mut state = self.0.load(Ordering::Acquire);
        loop {
            #[cfg(not(numart_break = "withdraw"))]
            if state & DONE != 0 {
                return false;
            }
            match self.0.compare_exchange(state, state & !WAITER, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
    }

    fn set_unless_done(&self, bit: usize) -> bool {
        let mut state = self.0.load(Ordering::Acquire);
        loop {
            if state & DONE != 0 {
                return false;
            }
            match self.0.compare_exchange(state, state | bit, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
    }

    /// The handle goes. True: the task is done and the output, unread, is the handle's to drop.
    pub(crate) fn drop_handle(&self) -> bool {
        self.0.fetch_and(!HANDLE, Ordering::AcqRel) & DONE != 0
    }

    /// Gives up one reference. True: it was the last, free the cell.
    pub(crate) fn release(&self) -> bool {
        #[cfg(not(numart_break = "release_order"))]
        let order = Ordering::Release;
        #[cfg(numart_break = "release_order")]
        let order = Ordering::Relaxed;
        if self.0.fetch_sub(REF, order) / REF != 1 {
            return false;
        }
        #[cfg(not(numart_break = "release_order"))]
        fence(Ordering::Acquire);
        #[cfg(numart_break = "release_order")]
        let _ = fence;
        true
    }
}
