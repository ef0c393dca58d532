//! A worker's slot for the future that a poll of its own woke: run next by it, while its caches hold what both touched.
//!
//! Others may take it (a worker that finds nothing else, see `search.rs`), so a long poll cannot keep it hidden: it is as
//! visible as a job in a private ring, and the node's watcher looks at both. Taking is one exchange, so a job leaves the
//! slot once: JOB-ONCE.

use std::sync::atomic::{AtomicPtr, Ordering};

use super::job::{Job, JobHeader};
use super::roots::Taken;

/// Set in the pointer if the job is `strict`: headers are aligned to a pointer.
const STRICT: usize = 1;

/// See the module's page.
pub(crate) struct Slot(AtomicPtr<JobHeader>);

impl Slot {
    pub(crate) fn new() -> Slot {
        Slot(AtomicPtr::new(std::ptr::null_mut()))
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        !self.0.load(Ordering::Relaxed).is_null()
    }

    /// Puts a root job in and returns the one that was there.
    pub(crate) fn replace(&self, taken: Taken) -> Option<Taken> {
        debug_assert!(taken.job.strand.is_null(), "root jobs only");
        let tag = if taken.strict { STRICT } else { 0 };
        self.swap(taken.job.header.cast_mut().map_addr(|addr| addr | tag))
    }

    /// Takes the job out: by its worker or anybody else.
    pub(crate) fn take(&self) -> Option<Taken> {
        if self.is_full() { self.swap(std::ptr::null_mut()) } else { None }
    }

    fn swap(&self, new: *mut JobHeader) -> Option<Taken> {
        // Release and acquire: the job's memory, from whoever puts it in to whoever takes it out.
        let old = self.0.swap(new, Ordering::AcqRel);
        if old.is_null() {
            return None;
        }
        let header = old.map_addr(|addr| addr & !STRICT).cast_const();
        Some(Taken { job: Job { header, strand: std::ptr::null() }, strict: old.addr() & STRICT != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::Verb;
    use super::*;

    #[test]
    fn what_goes_in_comes_out_once_with_its_mark() {
        fn nothing(_: *const JobHeader, _: Verb) -> bool {
            true
        }
        let headers = [JobHeader { execute: nothing }, JobHeader { execute: nothing }];
        let of =
            |index: usize, strict| Taken { job: Job { header: &headers[index], strand: std::ptr::null() }, strict };
        let slot = Slot::new();
        assert!(!slot.is_full() && slot.take().is_none());
        assert!(slot.replace(of(0, true)).is_none());
        let first = slot.replace(of(1, false)).unwrap();
        assert!(first.strict && std::ptr::eq(first.job.header, &headers[0]));
        let second = slot.take().unwrap();
        assert!(!second.strict && std::ptr::eq(second.job.header, &headers[1]));
        assert!(slot.take().is_none());
    }
}
