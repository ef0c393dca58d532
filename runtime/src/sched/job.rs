//! What a queue holds: a pointer to a job's header and the strand it was made in.
//!
//! The scheduler knows a header and no more. The layers above (`task`) embed a [`JobHeader`] as the first field of
//! their stack or heap job and cast back in `execute`.

use super::strand::Strand;

/// What the scheduler asks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Run it to its end.
    Run,
    /// The runtime was shut down with [`Shutdown::Cancel`](crate::Shutdown) before the job started: drop what it
    /// captured and tell its handle. Only root jobs see this: `join` and `scope` halves always run, since a frame
    /// waits for them.
    Cancel,
    /// Only let go of it if somebody has run it already (a task that its waiter claimed in the queue): the queue is
    /// rid of such entries now and then.
    Sweep,
    /// Of a future in the list of those not done (see `alive.rs`), asked under the list's lock, not of an entry: the
    /// runtime has ended. True: it is the caller's, who asks for `End` next. False: whoever has it will end it.
    Close,
    /// Drop the future that `Close` gave us.
    End,
}

/// First field of every job: one function that runs (or cancels) it.
#[repr(C)]
pub(crate) struct JobHeader {
    /// Obeys the verb. Must not unwind: the layers above catch panics and hand them to the waiter. True if it did
    /// something: ran or cancelled the job, or let go of a stale entry; false if the entry was stale (`Run`, `Cancel`)
    /// or is not (`Sweep`: it stays queued).
    pub(crate) execute: unsafe fn(*const JobHeader, Verb) -> bool,
}

/// A queue entry. `Copy`, two words: the deque stores it in two relaxed atomics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Job {
    pub(crate) header: *const JobHeader,
    /// The strand (or scope) below which the job lies; null for root jobs. Read by waiters to decide whether the
    /// job lies below their wait. See `strand.rs` for why it may be read before the job is owned.
    pub(crate) strand: *const Strand,
}

// SAFETY: a `Job` is only a pair of addresses. What they point to is shared between threads by the protocols that
// move jobs: the header belongs to whoever took the job out of its queue, and strands are atomics that are never
// freed (invariant STRAND-STABLE in `strand.rs`).
unsafe impl Send for Job {}

impl Job {
    /// # Safety
    /// The caller took this job out of a queue (or never queued it) and calls this once: invariant JOB-ONCE.
    pub(crate) unsafe fn execute(self, verb: Verb) -> bool {
        // SAFETY: JOB-ONCE of the caller; the header is alive until it ran.
        unsafe { ((*self.header).execute)(self.header, verb) }
    }
}
