//! Whom to wake for what was just queued. How no wake-up is lost: `sleep/README.md`.

use std::sync::atomic::{Ordering, fence};

use super::registry::Registry;

/// What a waker does next: decides where the woken thread should start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    RunsOn,
    /// It waits for what it woke somebody for.
    Blocks,
}

impl Registry {
    /// Wakes somebody for a root job just queued at `home`. The caller has fenced.
    pub(crate) fn wake_for_root(&self, home: usize, strict: bool, then: Then) {
        if self.wake_at(home, then) || self.nodes[home].sleep.has_searcher() {
            return;
        }
        if self.nodes[home].sleep.is_deserted() {
            // Everybody at home is parked in a wait, or gone.
            if !self.start_spare(home, 1) && self.nobody_left(home) {
                self.bury(home);
            }
            return;
        }
        if !strict {
            self.wake_elsewhere(home, then);
        }
    }

    /// Wakes an idle worker of a node unless one searches there.
    pub(crate) fn wake_at(&self, node: usize, then: Then) -> bool {
        let Some(index) = self.nodes[node].sleep.wake_one(|worker| self.sleeper(worker)) else { return false };
        self.unpark(index, then);
        true
    }

    /// Wakes an idle worker of the nearest other node that has one, unless one searches there already.
    pub(crate) fn wake_elsewhere(&self, home: usize, then: Then) -> bool {
        for &other in &self.nodes[home].others {
            if self.nodes[other].sleep.has_searcher() || self.wake_at(other, then) {
                return true;
            }
        }
        false
    }

    /// Has a node that is nearer to `victim` than `thief` somebody idle? Then what is to be had there is left to it, and it
    /// is woken: whoever calls this may rely on its search as on one of his own (race ABROAD ends with the same look).
    pub(super) fn leave_to_nearer(&self, victim: usize, thief: usize) -> bool {
        let from = &self.nodes[victim];
        for &other in from.others.iter().take_while(|&&other| from.distances[other] < from.distances[thief]) {
            if self.nodes[other].sleep.has_idle() {
                self.wake_at(other, Then::RunsOn);
                return true;
            }
        }
        false
    }

    pub(crate) fn unpark(&self, index: usize, then: Then) {
        if let Some(sleeper) = self.workers[index].sleeper.get() {
            match then {
                Then::RunsOn => sleeper.unpark(),
                Then::Blocks => sleeper.unpark_here(),
            }
        }
    }

    /// Wakes one given worker because its inbox got something.
    pub(crate) fn wake_worker(&self, index: usize) {
        fence(Ordering::SeqCst);
        let shared = &self.workers[index];
        let Some(sleeper) = shared.sleeper.get() else { return };
        if self.nodes[shared.node].sleep.cancel(index, sleeper) {
            self.unpark(index, Then::RunsOn);
        } else {
            sleeper.wake_waiter();
        }
    }

    pub(super) fn wake_everybody(&self) {
        for node in &self.nodes {
            for index in node.sleep.wake_all(|worker| self.sleeper(worker)) {
                self.unpark(index, Then::RunsOn);
            }
            node.spares.wake_all(self);
        }
    }
}
