//! Jobs addressed to one worker alone: broadcasts, and installs by somebody this worker is waiting for.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::job::Job;

/// A cold queue: one flag to look at, a lock when there is something.
pub(crate) struct Inbox {
    full: AtomicBool,
    jobs: Mutex<VecDeque<Job>>,
}

impl Inbox {
    pub(crate) fn new() -> Inbox {
        Inbox { full: AtomicBool::new(false), jobs: Mutex::new(VecDeque::new()) }
    }

    /// The caller fences and wakes the worker afterwards.
    pub(crate) fn push(&self, job: Job) {
        let mut jobs = self.jobs.lock();
        jobs.push_back(job);
        self.full.store(true, Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn has_job(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    pub(crate) fn pop(&self) -> Option<Job> {
        if !self.has_job() {
            return None;
        }
        let mut jobs = self.jobs.lock();
        let job = jobs.pop_front();
        self.full.store(!jobs.is_empty(), Ordering::SeqCst);
        job
    }
}
