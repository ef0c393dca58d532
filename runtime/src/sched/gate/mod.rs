//! Shutdown against spawn: whatever gets into a queue is run or cancelled, exactly once, and nothing gets in unseen.
//!
//! A spawner puts its job into a queue, fences, and looks at the phase; the thread that ends the runtime stores
//! `TERMINATED`, fences, and empties the queues. One of them sees the other: then either the spawner empties the queues
//! itself or the terminator finds the job. Both may do so, since taking from the queue is exclusive.

#[cfg(all(test, loom))]
mod model;

use crate::sync::{AtomicU32, Ordering, fence};

/// What the runtime does with root jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Phase {
    /// Takes and runs them.
    Open = 0,
    /// Takes none from outside; runs those it has, and what they spawn.
    Draining = 1,
    /// Takes none; cancels those it has.
    Cancelling = 2,
    /// All workers are leaving: whoever finds a root job cancels it.
    Terminated = 3,
}

/// The phase, which only moves forward.
pub(crate) struct Gate(AtomicU32);

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate(AtomicU32::new(Phase::Open as u32))
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        match self.0.load(Ordering::Acquire) {
            0 => Phase::Open,
            1 => Phase::Draining,
            2 => Phase::Cancelling,
            _ => Phase::Terminated,
        }
    }

    /// Moves forward to `phase`. False if the gate is there or beyond already.
    pub(crate) fn advance(&self, phase: Phase) -> bool {
        let before = self.0.fetch_max(phase as u32, Ordering::SeqCst);
        #[cfg(not(numart_break = "gate_fence"))]
        fence(Ordering::SeqCst);
        before < phase as u32
    }

    /// May a root job be queued? `inside`: the spawner is one of the runtime's own workers, running a job.
    pub(crate) fn admits(&self, inside: bool) -> bool {
        match self.phase() {
            Phase::Open => true,
            Phase::Draining => inside,
            Phase::Cancelling | Phase::Terminated => false,
        }
    }

    /// After a job was queued: must the spawner empty the queues itself, because nobody else will?
    pub(crate) fn closed_behind(&self) -> bool {
        #[cfg(not(numart_break = "gate_fence"))]
        fence(Ordering::SeqCst);
        self.phase() == Phase::Terminated
    }
}
