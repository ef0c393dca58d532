//! Spare threads: stand in for workers that are parked in a wait, so that every worker may wait and work still goes on.
//!
//! A spare is a worker like any other, in a slot after the regular ones. It is started when a node has something to run
//! and nobody awake to run it, and goes back to the bench as soon as the node has its full number awake without it, or
//! when it finds nothing to do. Bounded per node; a thread once started stays on the bench until the runtime ends.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::gate::Phase;
use super::registry::{Node, Registry};
use super::waking::Then;
use super::worker::Worker;

/// One node's spares.
pub(crate) struct Spares {
    slots: Range<usize>,
    started: AtomicUsize,
    /// Slots whose threads sit on the bench.
    bench: Mutex<Vec<usize>>,
    /// Slots below `started` whose threads could not be started.
    vacant: Mutex<Vec<usize>>,
}

impl Spares {
    pub(crate) fn new(slots: Range<usize>) -> Spares {
        Spares { slots, started: AtomicUsize::new(0), bench: Mutex::new(Vec::new()), vacant: Mutex::new(Vec::new()) }
    }

    pub(crate) fn started(&self) -> usize {
        self.started.load(Ordering::Acquire)
    }

    pub(crate) fn started_slots(&self) -> Range<usize> {
        self.slots.start..self.slots.start + self.started()
    }

    /// None is on the bench, and none can be started (the last time it was tried).
    pub(crate) fn are_used_up(&self) -> bool {
        let none_to_start = self.started() == self.slots.len() || !self.vacant.lock().is_empty();
        none_to_start && self.bench.lock().is_empty()
    }

    /// A slot without a thread, the caller's to start one in.
    fn take_slot(&self) -> Option<usize> {
        let mut vacant = self.vacant.lock();
        if let Some(slot) = vacant.pop() {
            return Some(slot);
        }
        // Under the lock, so that two callers do not take one slot.
        let started = self.started();
        (started < self.slots.len()).then(|| {
            self.started.store(started + 1, Ordering::Release);
            self.slots.start + started
        })
    }

    /// Shutdown: every spare comes off the bench.
    pub(super) fn wake_all(&self, registry: &Registry) {
        for index in std::mem::take(&mut *self.bench.lock()) {
            registry.nodes[registry.workers[index].node].sleep.add_awake();
            registry.unpark(index, Then::RunsOn);
        }
    }
}

impl Registry {
    /// Sends a spare of this node to work, unless so many threads are awake there by now. False if there is none left.
    ///
    /// Many waiters may find the node short of threads at one moment. The first one's spare is for all of them.
    pub(crate) fn start_spare(&self, node: usize, enough: usize) -> bool {
        let Node { spares, sleep, .. } = &self.nodes[node];
        let mut bench = spares.bench.lock();
        if sleep.awake() >= enough {
            return true;
        }
        if let Some(index) = bench.pop() {
            // Counted with the bench locked: who looks next sees it.
            sleep.add_awake();
            drop(bench);
            self.unpark(index, Then::RunsOn);
            return true;
        }
        drop(bench);
        let Some(slot) = spares.take_slot() else {
            // The last ones may just have been sent.
            return sleep.awake() >= enough;
        };
        // No lock is held: the name callback is the user's, and may come here again.
        match self.start_thread(slot) {
            Ok(()) => true,
            Err(error) => {
                spares.vacant.lock().push(slot);
                self.warn_once(format!(
                    "a spare thread could not be started ({error}): work below waiting workers may be slow; raise the \
                     process's thread limit or lower the builder's stack_size"
                ));
                false
            }
        }
    }

    /// True for as long as nobody has called this spare up.
    fn on_bench(&self, index: usize) -> bool {
        self.nodes[self.workers[index].node].spares.bench.lock().contains(&index)
    }

    /// It gets up by itself. False if somebody called it up just now.
    fn leave_bench(&self, index: usize) -> bool {
        let mut bench = self.nodes[self.workers[index].node].spares.bench.lock();
        let Some(place) = bench.iter().position(|&other| other == index) else { return false };
        bench.swap_remove(place);
        true
    }
}

impl Worker {
    /// Is there a regular worker awake for every regular slot of the node, so that this spare is one too many?
    pub(super) fn is_surplus(&self) -> bool {
        self.is_spare() && self.node().sleep.awake() > self.node().regular.len()
    }

    /// Sits on the bench until called up. Everything this thread held is public by now.
    pub(super) fn sit_on_bench(&self) {
        let node = self.node();
        node.spares.bench.lock().push(self.index);
        node.sleep.sub_awake();
        if self.runnable_here() {
            // Something came in as we left: whoever queued it may have relied on the search that we just ended (race
            // SPARE-LEAVES), or we were the last one awake.
            self.registry.wake_for_root(self.node_index(), false, Then::RunsOn);
        }
        self.registry.sub_working();
        while self.registry.on_bench(self.index) {
            if self.registry.gate.phase() == Phase::Terminated && self.registry.leave_bench(self.index) {
                // Nobody calls us any more. (Who calls up counts us as awake himself.)
                node.sleep.add_awake();
                break;
            }
            self.sleep_cell().park(None);
        }
        self.registry.add_working();
    }
}
