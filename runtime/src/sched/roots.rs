//! A node's queue of root jobs, and when another node may take one.
//!
//! Root jobs that may leave in need, `strict` ones that never do, *strays* (jobs that a waiting worker found on top of what
//! it waits for and put here, since it may not run them), and scope jobs of threads that have no deque.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_deque::{Injector, Steal};
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::job::{Job, Verb};
use super::scoped::ScopedJobs;

/// A job out of a queue, with what its strand will need.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) job: Job,
    /// A strict root job. (What lies below one, its strand says.)
    pub(crate) strict: bool,
    /// The node whose queue of root jobs it was in.
    pub(crate) root_of: Option<usize>,
}

impl Taken {
    /// A job out of a deque, an inbox, or the strays.
    pub(crate) fn of(job: Job) -> Taken {
        Taken { job, strict: false, root_of: None }
    }
}

/// Stale entries from which on a sweep is considered: a few cache lines' worth.
const SWEEP_AT: usize = 64;

/// One node's root jobs. FIFO.
pub(crate) struct RootQueue {
    free: Injector<Job>,
    strict: Injector<Job>,
    strays: Injector<Job>,
    pub(crate) scoped: ScopedJobs,
    /// Free jobs that a sweep found alive: older than all in `free`.
    front: Mutex<VecDeque<Job>>,
    front_len: AtomicUsize,
    /// Entries in the two lists whose tasks their waiters have claimed.
    stale: AtomicIsize,
    /// Jobs ever taken from `free`: tells a foreign observer whether the home gets on with it.
    popped: CachePadded<AtomicU64>,
}

fn take(queue: &Injector<Job>) -> Option<Job> {
    loop {
        match queue.steal() {
            Steal::Success(job) => return Some(job),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}

impl RootQueue {
    pub(crate) fn new() -> RootQueue {
        RootQueue {
            free: Injector::new(),
            strict: Injector::new(),
            strays: Injector::new(),
            scoped: ScopedJobs::new(),
            front: Mutex::new(VecDeque::new()),
            front_len: AtomicUsize::new(0),
            stale: AtomicIsize::new(0),
            popped: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// The caller fences and wakes afterwards.
    pub(crate) fn push(&self, job: Job, strict: bool) {
        if strict { &self.strict } else { &self.free }.push(job);
    }

    /// For the node's own workers. `strict_first` alternates, so that neither list starves the other.
    pub(crate) fn pop(&self, strict_first: bool) -> Option<Taken> {
        if strict_first {
            self.pop_strict().or_else(|| self.pop_free())
        } else {
            self.pop_free().or_else(|| self.pop_strict())
        }
    }

    /// Also for workers of other nodes, when [`Observation`] allows it.
    pub(crate) fn pop_free(&self) -> Option<Taken> {
        let job = self.take_front().or_else(|| take(&self.free))?;
        self.popped.fetch_add(1, Ordering::Relaxed);
        Some(Taken::of(job))
    }

    fn pop_strict(&self) -> Option<Taken> {
        take(&self.strict).map(|job| Taken { strict: true, ..Taken::of(job) })
    }

    fn take_front(&self) -> Option<Job> {
        if self.front_len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut front = self.front.lock();
        let job = front.pop_front();
        self.front_len.store(front.len(), Ordering::Release);
        job
    }

    /// A waiter ran a queued task itself: its entry, still queued, has nothing to say any more. A job that spawns and
    /// joins for a long time would pile them up, so when they may be most of the queue it is swept. Amortised: each
    /// sweep looks at no more entries than twice what it removes, or so.
    pub(crate) fn note_stale(&self) {
        self.stale.fetch_add(1, Ordering::Relaxed);
        let stale = self.stale();
        if stale >= SWEEP_AT && stale * 2 >= self.entries() {
            self.sweep(&self.free, true);
            self.sweep(&self.strict, false);
        }
    }

    /// A stale entry was taken out.
    pub(crate) fn note_gone(&self) {
        // Whoever claimed the task may come to note it only after this: below zero for a moment.
        self.stale.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes what is there now, lets go of what is stale, and keeps the order of the rest. `front`: the free list, whose
    /// survivors go before it; strict jobs have no line before theirs and go to its end.
    fn sweep(&self, queue: &Injector<Job>, to_front: bool) {
        let mut front = self.front.lock();
        let alive = (0..queue.len()).map_while(|_| take(queue)).filter(|job| {
            // SAFETY: taken out of the queue; put back if it is alive.
            !unsafe { job.execute(Verb::Sweep) }
        });
        if to_front {
            front.extend(alive);
        } else {
            alive.for_each(|job| queue.push(job));
        }
        self.front_len.store(front.len(), Ordering::Release);
    }

    pub(crate) fn push_stray(&self, job: Job) {
        self.strays.push(job);
    }

    /// A stray that `wanted` accepts; the others go to the back of the line.
    pub(crate) fn pop_stray(&self, wanted: impl Fn(Job) -> bool) -> Option<Job> {
        for _ in 0..self.strays.len() {
            let job = take(&self.strays)?;
            if wanted(job) {
                return Some(job);
            }
            self.strays.push(job);
        }
        None
    }

    pub(crate) fn has_free(&self) -> bool {
        self.front_len.load(Ordering::Acquire) > 0 || !self.free.is_empty()
    }

    /// Strays, or scope jobs of threads without a deque.
    pub(crate) fn has_strays(&self) -> bool {
        !self.strays.is_empty() || !self.scoped.is_empty()
    }

    /// Anything at all for the node's own workers.
    pub(crate) fn has_any(&self) -> bool {
        self.has_free() || !self.strict.is_empty() || self.has_strays()
    }

    /// Jobs waiting, without the entries of those that their waiters have run.
    pub(crate) fn depth(&self) -> usize {
        (self.entries() + self.scoped.len()).saturating_sub(self.stale())
    }

    fn stale(&self) -> usize {
        self.stale.load(Ordering::Relaxed).max(0).cast_unsigned()
    }

    /// Root jobs' entries, stale ones too.
    fn entries(&self) -> usize {
        self.front_len.load(Ordering::Acquire) + self.free.len() + self.strict.len()
    }
}

/// What one worker remembers of another node's queue.
///
/// The rule: a foreign worker takes a root job only after it saw the queue, as it stood at some moment, not drained
/// for `home_delay`, while the home had nobody idle. That is the design's "head unchanged" made to hold for queues that
/// move but are longer than the home can work off: what counts is how long a job at their end waits. No per-job stamps.
#[derive(Clone, Copy, Default)]
pub(crate) struct Observation {
    /// `popped` at which everything that was there when we looked is gone.
    drained_at: u64,
    since: Option<Duration>,
}

impl Observation {
    /// Looks at `queue` at time `now`. `None`: nothing for us there. `Some(0)`: we may take one. Else: look again
    /// after that time.
    pub(crate) fn look(
        &mut self,
        queue: &RootQueue,
        home_is_busy: bool,
        delay: Duration,
        now: Duration,
    ) -> Option<Duration> {
        if !queue.has_free() || !home_is_busy {
            self.since = None;
            return None;
        }
        let popped = queue.popped.load(Ordering::Relaxed);
        match self.since {
            Some(since) if popped < self.drained_at => Some(delay.saturating_sub(now.saturating_sub(since))),
            _ => {
                self.drained_at = popped + (queue.front_len.load(Ordering::Acquire) + queue.free.len()).max(1) as u64;
                self.since = Some(now);
                Some(delay)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Job { header: std::ptr::dangling(), strand: std::ptr::null() }
    }

    #[test]
    fn a_foreign_worker_waits_until_the_queue_was_not_drained_for_the_delay() {
        let queue = RootQueue::new();
        let mut seen = Observation::default();
        let delay = Duration::from_micros(200);
        let at = Duration::from_micros;
        assert_eq!(seen.look(&queue, true, delay, at(0)), None, "empty");
        queue.push(job(), false);
        queue.push(job(), false);
        assert_eq!(seen.look(&queue, true, delay, at(10)), Some(delay));
        assert_eq!(seen.look(&queue, true, delay, at(110)), Some(at(100)));
        // The home took one of the two: what we saw is still not drained.
        queue.pop_free();
        assert_eq!(seen.look(&queue, true, delay, at(210)), Some(at(0)));
        // Drained and filled again: a new observation.
        queue.pop_free();
        queue.push(job(), false);
        assert_eq!(seen.look(&queue, true, delay, at(300)), Some(delay));
        // Somebody at home is idle: hands off, and start anew.
        assert_eq!(seen.look(&queue, false, delay, at(900)), None);
        assert_eq!(seen.look(&queue, true, delay, at(901)), Some(delay));
    }

    #[test]
    fn strict_jobs_are_not_for_others_and_strays_go_round() {
        let queue = RootQueue::new();
        queue.push(job(), true);
        assert!(!queue.has_free() && queue.pop_free().is_none() && queue.has_any());
        assert!(queue.pop(false).unwrap().strict);
        queue.push_stray(job());
        assert!(queue.pop_stray(|_| false).is_none());
        assert!(queue.pop_stray(|_| true).is_some());
    }
}
