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
            if !self.start_spare(home) && self.nobody_left(home) {
                self.bury(home);
            }
            return;
        }
        if !strict {
            self.wake_elsewhere(home, then);
        }
    }

    /// Wakes worker `last` for a root job just queued at `home`, if it is idle there and nobody is on the way anyway. The
    /// caller has fenced.
    pub(super) fn wake_last(&self, home: usize, last: usize) -> bool {
        let Some(shared) = self.workers.get(last).filter(|shared| shared.node == home) else { return false };
        let sleep = &self.nodes[home].sleep;
        let Some(sleeper) = shared.sleeper.get().filter(|sleeper| sleeper.is_idle()) else { return false };
        let taken_out = !sleep.has_searcher() && sleep.cancel(last, sleeper);
        if taken_out {
            self.unpark(last, Then::RunsOn);
        }
        taken_out
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
