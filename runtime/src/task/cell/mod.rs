//! The state word of a task: who may touch the body, who the output, who the waiter, and when the cell is freed.
//!
//! `README.md` beside this file is the page of prose. The word is all there is to the protocol; `task/spawn.rs` puts a
//! closure around it, `task/future` a future, whose further steps are in `future`.

pub(crate) mod future;
#[cfg(all(test, loom))]
mod model;

use crate::sync::{AtomicUsize, Ordering, fence};

/// To be run: in a queue, or (a future) woken while it is polled and about to be queued again by its poller. Cleared by
/// whoever claims the task: the worker that popped it, or its waiter. Never set again for a closure; for a future by
/// whoever wakes or aborts it.
const QUEUED: usize = 1;
/// Output, error or cancellation is stored. Set once, by the claimer. From then on the output belongs to the handle if
/// `HANDLE` was set at that moment, else to the claimer, who drops it.
const DONE: usize = 1 << 1;
/// The `JoinHandle` exists. Cleared once, when it is dropped or used up.
const HANDLE: usize = 1 << 2;
/// The waiter's slot is filled and belongs to the claimer, who will wake it at `DONE`. Set and cleared by the handle,
/// never after `DONE`.
const WAITER: usize = 1 << 3;
/// A future is polled or dropped: whoever set it has the body. Set with the claim, cleared by the same thread when the
/// future is pending. Never set for a closure, which has no second run to be kept apart from the first.
const RUNNING: usize = 1 << 4;
/// The body is to be dropped, not run: `abort` was called, nobody is left to wake it, or its runtime has ended. Set by
/// anybody before `DONE`, never cleared. A claimer looks at it, and a poller before it lets go.
const ABORT: usize = 1 << 5;
/// A closure: between its claim and `DONE` nothing shows that it runs, so nobody may take it for idle. Set from the
/// beginning, never cleared.
const ONCE: usize = 1 << 6;
/// References: each queue entry (a poller takes over its entry's), the handle, `AbortHandle`s, a future's wakers, and the
/// list of the runtime's futures until the future is done. The last one frees the cell.
const REF: usize = 1 << 7;

/// See the module's page.
pub(crate) struct State(AtomicUsize);

/// What a claim got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Nothing: somebody else has the body, or it is gone.
    No,
    /// The body, to run.
    Run,
    /// The body, to drop.
    Drop,
}

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
        State(AtomicUsize::new(QUEUED | HANDLE | ONCE | (2 * REF)))
    }

    /// Claims a closure: anything but `No` for exactly one caller.
    pub(crate) fn claim(&self) -> Claim {
        #[cfg(not(numart_break = "claim"))]
        let before = self.0.fetch_and(!QUEUED, Ordering::AcqRel);
        #[cfg(numart_break = "claim")]
        // Broken on purpose: looks, then clears.
        let before = {
            let before = self.0.load(Ordering::Acquire);
            self.0.fetch_and(!QUEUED, Ordering::AcqRel);
            before
        };
        match (before & QUEUED != 0, before & ABORT != 0) {
            (false, _) => Claim::No,
            (true, false) => Claim::Run,
            (true, true) => Claim::Drop,
        }
    }

    /// An entry popped now would find something to do.
    pub(crate) fn is_queued(&self) -> bool {
        self.0.load(Ordering::Relaxed) & (QUEUED | RUNNING | DONE) == QUEUED
    }

    /// By the claimer, after the output was stored.
    pub(crate) fn finish(&self) -> Finished {
        // Release: the output to the handle. Acquire: the waiter's slot from the handle.
        let before = self.0.fetch_or(DONE, Ordering::AcqRel);
        debug_assert_eq!(before & DONE, 0, "done once");
        debug_assert!(before & ONCE == 0 || before & (QUEUED | RUNNING) == 0, "a closure is claimed once");
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

    /// The handle goes, or has read the output. True: the task is done, and the output (if it was not read) is the
    /// handle's to drop.
    pub(crate) fn drop_handle(&self) -> bool {
        self.0.fetch_and(!HANDLE, Ordering::AcqRel) & DONE != 0
    }

    /// By the handle: does it exist still? Only itself ends that.
    pub(crate) fn has_handle(&self) -> bool {
        self.0.load(Ordering::Relaxed) & HANDLE != 0
    }

    /// By the handle: has it offered a waiter? Only itself changes that.
    pub(crate) fn has_waiter(&self) -> bool {
        self.0.load(Ordering::Relaxed) & WAITER != 0
    }

    /// One more reference, by somebody who has one.
    pub(crate) fn retain(&self) {
        // Relaxed: who has a reference sees the cell, and whoever frees it has seen all releases.
        let before = self.0.fetch_add(REF, Ordering::Relaxed);
        debug_assert!(before / REF > 0, "alive");
        if before > usize::MAX / 2 {
            // As `Arc` does: somebody forgets clones in a loop, and the next step is a freed cell in use.
            std::process::abort();
        }
    }

    /// Gives up a reference to a closure, or to a future that is done. True: it was the last, free the cell.
    pub(crate) fn release(&self) -> bool {
        self.release_many(1)
    }

    /// As [`State::release`], several at once.
    pub(crate) fn release_many(&self, count: usize) -> bool {
        #[cfg(not(numart_break = "release_order"))]
        let order = Ordering::Release;
        #[cfg(numart_break = "release_order")]
        let order = Ordering::Relaxed;
        if self.0.fetch_sub(count * REF, order) / REF != count {
            return false;
        }
        #[cfg(not(numart_break = "release_order"))]
        fence(Ordering::Acquire);
        #[cfg(numart_break = "release_order")]
        let _ = fence;
        true
    }
}
