//! A latch: set once by whoever completes a job, waited for by one thread.
//!
//! States: `UNSET -> SET`, or `UNSET -> SLEEPING -> SET` (the waiter parks), or `SLEEPING -> UNSET` (it woke for another
//! reason). The setter's exchange is its last touch of the latch, since the waiter's frame, where the latch lies, may be
//! gone right after: it takes a reference to the waiter's sleep cell *before*.

use std::sync::Arc;

use super::sleep::Sleeper;
use crate::sync::{AtomicU32, Ordering};

const UNSET: u32 = 0;
const SLEEPING: u32 = 1;
const SET: u32 = 2;

/// See the module's page. Lies in the waiter's frame.
pub(crate) struct Latch {
    state: AtomicU32,
    /// The waiter's sleep cell, from `Arc::as_ptr`: alive while the waiter's thread is.
    waiter: *const Sleeper,
}

// SAFETY: the state is atomic; the sleep cell is `Sync` and kept alive as `set` describes.
unsafe impl Sync for Latch {}
// SAFETY: as above.
unsafe impl Send for Latch {}

impl Latch {
    /// A latch that `waiter`'s thread will wait for.
    pub(crate) fn new(waiter: *const Sleeper) -> Latch {
        Latch { state: AtomicU32::new(UNSET), waiter }
    }

    /// The waiter's sleep cell.
    pub(crate) fn waiter(&self) -> *const Sleeper {
        self.waiter
    }

    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.state.load(Ordering::Acquire) == SET
    }

    /// Announces that the waiter is about to park. False if the latch is set already.
    pub(crate) fn try_sleep(&self) -> bool {
        match self.state.compare_exchange(UNSET, SLEEPING, Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => true,
            Err(state) => state == SLEEPING,
        }
    }

    /// The waiter woke, perhaps for another reason. True if the latch is set.
    pub(crate) fn wake_up(&self) -> bool {
        match self.state.compare_exchange(SLEEPING, UNSET, Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => false,
            Err(state) => state == SET,
        }
    }

    /// Sets the latch and unparks the waiter if it sleeps.
    ///
    /// # Safety
    /// `this` is alive until the latch is set, is set once, and the waiter's thread holds an `Arc` of its sleep cell
    /// until it has seen the latch set: invariant LATCH-ALIVE.
    pub(crate) unsafe fn set(this: *const Latch) {
        // SAFETY: LATCH-ALIVE: not set yet, so both the latch and the cell are alive.
        let waiter = unsafe {
            Arc::increment_strong_count((*this).waiter);
            Arc::from_raw((*this).waiter)
        };
        // SAFETY: as above. After this exchange `this` is not touched again.
        let before = unsafe { (*this).state.swap(SET, Ordering::AcqRel) };
        #[cfg(not(numart_break = "latch_wake"))]
        if before == SLEEPING {
            waiter.unpark();
        }
        #[cfg(numart_break = "latch_wake")]
        let _ = (before, waiter);
    }
}
