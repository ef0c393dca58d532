//! Who is not idle, and when a closed runtime has come to its end.

use crate::sync::{AtomicUsize, Ordering};

/// The low bits count threads; the rest counts how often one came out of idleness.
const COUNT: usize = 0xFFFF;
const WOKEN: usize = COUNT + 1;

/// Threads of a runtime that are not idle. A thread comes out of idleness itself, *before* it takes a job, so that each
/// job is at any moment in a queue or with a thread that counts.
pub(crate) struct Working(AtomicUsize);

impl Working {
    pub(crate) fn new() -> Working {
        Working(AtomicUsize::new(0))
    }

    /// A thread starts, or comes out of idleness.
    pub(crate) fn add(&self) {
        let before = self.0.fetch_add(WOKEN + 1, Ordering::SeqCst);
        debug_assert!(before & COUNT < COUNT, "a runtime has fewer than 65,535 threads");
    }

    /// A thread is idle now, or ends. True if it was the last.
    pub(crate) fn sub(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before & COUNT > 0, "counted once too often");
        before & COUNT == 1
    }

    /// How many.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst) & COUNT
    }

    /// Nobody works and nothing is queued, *at one moment*.
    ///
    /// Looking at the queues takes a while. A thread may wake meanwhile, take a job out of a queue that we have yet to
    /// look at, put another into one that we have seen, and be idle again (race SHELL-GAME in `README.md`). Then the count
    /// is 0 at both ends and each queue was empty when we looked, but the wake-up has left its mark.
    pub(crate) fn over(&self, has_queued: impl FnOnce() -> bool) -> bool {
        let before = self.0.load(Ordering::SeqCst);
        if before & COUNT != 0 || has_queued() {
            return false;
        }
        #[cfg(not(numart_break = "working_mark"))]
        return self.0.load(Ordering::SeqCst) == before;
        #[cfg(numart_break = "working_mark")]
        return self.count() == 0;
    }
}
