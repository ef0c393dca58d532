//! How a runtime ends: it is shut down, the last worker finds nothing left to do, and what is queued or pending is cancelled.
//! What makes that exact is in `gate/README.md`.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use super::gate::Phase;
use super::job::Verb;
use super::registry::Registry;

impl Registry {
    /// Cancels every root job in the queues, and what can be cancelled of the strays: a scope's jobs run, since the scope
    /// waits for them, an install does not.
    ///
    /// What is dropped here may wake a future, which is then queued, and whoever queues it comes here: that inner call
    /// leaves it to the outer one, which looks again until nothing is left. So no chain of futures becomes a recursion.
    pub(crate) fn cancel_queued(&self) {
        thread_local! {
            /// The runtime whose queues this thread empties.
            static INSIDE: Cell<*const Registry> = const { Cell::new(std::ptr::null()) };
        }
        if std::ptr::eq(INSIDE.get(), self) {
            return;
        }
        let outer = INSIDE.replace(self);
        loop {
            (0..self.workers.len()).for_each(|index| {
                self.cancel_inbox(index);
                self.cancel_slot(index);
            });
            (0..self.nodes.len()).for_each(|node| self.cancel_node(node));
            // Of a closed runtime only: a private job is its owner's, and what is queued in an open one is not ours.
            if self.gate.phase() != Phase::Terminated || !self.has_cancellable() {
                break;
            }
        }
        INSIDE.set(outer);
    }

    fn has_cancellable(&self) -> bool {
        self.nodes.iter().any(|node| node.roots.has_any())
            || self.workers.iter().any(|worker| worker.inbox.has_job() || worker.slot.is_full())
    }

    fn cancel_slot(&self, index: usize) {
        if let Some(taken) = self.workers[index].slot.take() {
            // SAFETY: taken out of the slot: JOB-ONCE.
            unsafe { taken.job.execute(Verb::Cancel) };
        }
    }

    fn cancel_node(&self, node: usize) {
        let roots = &self.nodes[node].roots;
        while let Some(taken) = roots.pop(true) {
            // SAFETY: taken out of the queue: JOB-ONCE.
            unsafe { taken.job.execute(Verb::Cancel) };
        }
        while let Some(job) = roots.pop_stray(|_| true) {
            // SAFETY: as above.
            unsafe { job.execute(Verb::Cancel) };
        }
    }

    /// The node's only worker was the thread that built the runtime, and it is gone.
    pub(super) fn nobody_left(&self, node: usize) -> bool {
        let regular = &self.nodes[node].regular;
        regular.len() == 1 && self.workers[regular.start].gone.load(Ordering::SeqCst)
    }

    /// The worker of `use_current_thread` will not come back, and what is addressed to it alone is cancelled.
    pub(crate) fn give_up_adopted(&self, index: usize) {
        let shared = &self.workers[index];
        if shared.gone.swap(true, Ordering::SeqCst) {
            return;
        }
        self.cancel_inbox(index);
        let node = &self.nodes[shared.node];
        node.sleep.sub_awake();
        let stranded = node.sleep.awake() == 0 && node.roots.has_any() && !self.start_spare(shared.node);
        if stranded && self.nobody_left(shared.node) {
            self.bury(shared.node);
        }
        self.sub_working();
    }

    /// Its only worker is gone and no spare can stand in: what comes to this node is cancelled.
    pub(super) fn bury(&self, node: usize) {
        self.cancel_node(node);
    }

    pub(super) fn cancel_inbox(&self, index: usize) {
        while let Some(job) = self.workers[index].inbox.pop() {
            // SAFETY: taken out of the queue: JOB-ONCE.
            unsafe { job.execute(Verb::Cancel) };
        }
    }

    pub(super) fn end_if_done(&self) {
        let closing = matches!(self.gate.phase(), Phase::Draining | Phase::Cancelling);
        if closing && self.working.over(|| self.has_queued()) {
            self.gate.advance(Phase::Terminated);
            self.cancel_queued();
            // Nobody will wake what is pending now, or whoever does comes too late.
            self.alive.close();
            self.wake_everybody();
        }
    }

    /// Begins to shut down. Returns at once.
    pub(crate) fn begin_shutdown(&self, phase: Phase) {
        self.gate.advance(phase);
        // Everyone comes out of sleep, finds nothing, and the last one to fall asleep again ends it.
        self.wake_everybody();
        self.end_if_done();
    }

    /// Waits until all threads have ended. Not from one of them.
    pub(crate) fn join_threads(&self) {
        loop {
            let Some(handle) = self.threads.lock().pop() else { return };
            // A worker's main function catches everything, so this is never an error; if it is, the thread is gone too.
            let _ = handle.join();
        }
    }
}
