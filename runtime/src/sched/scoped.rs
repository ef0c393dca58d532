//! A node's scope jobs from threads that have no deque here, by scope.
//!
//! A waiter takes only what lies below its wait, and all jobs of a scope lie below the same waits. So they are kept by
//! scope, and a look costs one test per scope, not one per job: there may be a million.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::job::Job;

/// Jobs of one scope (of one strand), oldest first. Never empty.
type OfScope = VecDeque<Job>;

pub(crate) struct ScopedJobs {
    /// Those that were served last are at the end.
    scopes: Mutex<VecDeque<OfScope>>,
    /// Jobs in all.
    len: AtomicUsize,
}

impl ScopedJobs {
    pub(crate) fn new() -> ScopedJobs {
        ScopedJobs { scopes: Mutex::new(VecDeque::new()), len: AtomicUsize::new(0) }
    }

    /// The caller fences and wakes afterwards.
    pub(crate) fn push(&self, job: Job) {
        let mut scopes = self.scopes.lock();
        // The newest scope is the likeliest.
        match scopes.iter_mut().rev().find(|scope| scope[0].strand == job.strand) {
            Some(scope) => scope.push_back(job),
            None => scopes.push_back(VecDeque::from([job])),
        }
        self.len.fetch_add(1, Ordering::Release);
    }

    /// The oldest job of a scope whose jobs `wanted` accepts.
    pub(crate) fn pop(&self, wanted: impl Fn(Job) -> bool) -> Option<Job> {
        if self.is_empty() {
            return None;
        }
        let mut scopes = self.scopes.lock();
        let place = scopes.iter().position(|scope| wanted(scope[0]))?;
        let mut scope = scopes.remove(place).expect("it was found there");
        let job = scope.pop_front().expect("a scope without jobs is not kept");
        if !scope.is_empty() {
            scopes.push_back(scope);
        }
        self.len.fetch_sub(1, Ordering::Release);
        Some(job)
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_take_turns_and_keep_their_order() {
        let jobs = ScopedJobs::new();
        let job = |scope: usize, number: usize| Job {
            header: std::ptr::without_provenance(number),
            strand: std::ptr::without_provenance(scope),
        };
        for number in 1..=3 {
            jobs.push(job(1, number));
        }
        jobs.push(job(2, 4));
        let order: Vec<_> = std::iter::from_fn(|| jobs.pop(|_| true)).map(|job| job.header.addr()).collect();
        assert_eq!(order, [1, 4, 2, 3]);
        jobs.push(job(1, 5));
        assert!(jobs.pop(|job| job.strand.addr() == 2).is_none());
        assert_eq!((jobs.len(), jobs.pop(|job| job.strand.addr() == 1).is_some(), jobs.is_empty()), (1, true, true));
    }
}
