//! Where an idle worker looks for a job, in which order, and for how long.
//!
//! Own slot, own deque, inbox, own node's strays, own node's workers (same L3 first), own node's root jobs; then the other nodes,
//! nearest first: their workers' public jobs, their strays, and their root jobs if they have been left there for
//! `home_delay`. Jobs that exist come before jobs that would begin something new, since that bounds memory; but every
//! 64th time the root queue comes first, so that a flood of small jobs does not starve it. Two futures that wake each other
//! by turns go through the slot of their worker: after [`POLLS`] of these in a row the one in the slot goes to the end of the
//! queue. Others' slots come last of all, after a search that found nothing: their owners are about to run them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::clock::{COARSE, stamp};
use super::config::HomeDelay;
use super::deque::Steal;
use super::gate::Phase;
use super::job::Job;
use super::registry::WorkerShared;
use super::roots::Taken;
use super::strand::Strand;
use super::worker::Worker;

/// A search lasts about this long (20 us) before the worker forces a split or sleeps: long enough to meet the next job
/// of a busy neighbour, short enough not to be seen in an idle program's CPU use.
const SEARCH: u64 = 4 * COARSE;
/// A sleeper looks at another node's strays this often: they may be strict, which only popping them tells.
const LOOK_AT_STRAYS: Duration = Duration::from_micros(200);
/// Turns of a search after which victims are told that somebody is hungry: a job that is being published right now
/// shows before.
const HUNGRY_AFTER: u32 = 4;

/// Jobs from the slot in a row. As many as tokio's budget for one task: the queue waits for no more polls than one
/// task may take there.
const POLLS: u32 = 128;

impl Worker {
    /// One look everywhere. Ignores when a foreign queue will become ours.
    pub(crate) fn find_any(&self) -> Option<Taken> {
        self.find(&mut None)
    }

    /// One look everywhere. `look_again` is set if another node's root jobs may be taken after that time.
    pub(super) fn find(&self, look_again: &mut Option<Duration>) -> Option<Taken> {
        if self.shared().slot.is_full() {
            let (polls, others) = (self.from_slot.get() + 1, self.node().roots.has_any());
            if polls > POLLS && others {
                self.from_slot.set(0);
                self.empty_slot();
                if let Some(root) = self.pop_root_at_home(false) {
                    return Some(root);
                }
            } else if let Some(taken) = self.shared().slot.take() {
                self.from_slot.set(polls.min(POLLS));
                return Some(taken);
            }
        } else {
            self.from_slot.set(0);
        }
        if let Some(job) = self.pop() {
            return Some(taken(job));
        }
        if let Some(job) = self.shared().inbox.pop() {
            return Some(taken(job));
        }
        let tick = self.tick.get().wrapping_add(1);
        self.tick.set(tick);
        let strict_first = tick & 1 == 0;
        if tick & 63 == 0
            && let Some(root) = self.pop_root_at_home(strict_first)
        {
            return Some(root);
        }
        let home = self.node_index();
        self.stray_from(home, |_| true)
            .or_else(|| self.steal_from(home, &|_| true))
            .or_else(|| self.pop_root_at_home(strict_first))
            .or_else(|| self.find_abroad(look_again))
    }

    fn pop_root_at_home(&self, strict_first: bool) -> Option<Taken> {
        let root = self.node().roots.pop(strict_first)?;
        self.shared().counters.roots.bump(self.node_index());
        Some(root)
    }

    fn find_abroad(&self, look_again: &mut Option<Duration>) -> Option<Taken> {
        for &node in &self.node().others {
            let found = self
                .steal_from(node, &|_| true)
                .or_else(|| self.stray_from(node, |_| true))
                .or_else(|| self.root_from_abroad(node, look_again));
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn root_from_abroad(&self, node: usize, look_again: &mut Option<Duration>) -> Option<Taken> {
        let HomeDelay::After(delay) = self.registry.config.home_delay else { return None };
        let there = &self.registry.nodes[node];
        if !there.roots.has_free() {
            self.observed[node].take();
            return None;
        }
        let clock = &self.registry.config.clock;
        let mut seen = self.observed[node].get();
        let wait = seen.look(&there.roots, !there.sleep.has_idle(), delay, clock.now());
        self.observed[node].set(seen);
        match wait {
            Some(Duration::ZERO) => {
                let root = there.roots.pop_free()?;
                self.shared().counters.roots.bump(node);
                Some(root)
            }
            Some(wait) => {
                let wait = clock.sleep_for(wait);
                *look_again = Some(look_again.map_or(wait, |other| other.min(wait)));
                None
            }
            None => None,
        }
    }

    /// May a job made under `strand` be taken from `node`'s workers? What lies below a strict root stays on its node.
    fn may_take(&self, node: usize, strand: *const Strand) -> bool {
        node == self.node_index() || !Strand::is_strict(strand)
    }

    /// Has this worker a public job that we may take?
    fn offers(&self, victim: &WorkerShared) -> bool {
        victim.deque.has_public()
            && (victim.node == self.node_index()
                || victim.deque.oldest_public().is_some_and(|strand| self.may_take(victim.node, strand)))
    }

    /// Has this worker private jobs that we might take?
    fn hides(&self, victim: &WorkerShared) -> bool {
        victim.deque.has_private() && self.may_take(victim.node, victim.strand.load(Ordering::Acquire).cast_const())
    }

    /// A stray of `node` that satisfies `wanted`.
    pub(super) fn stray_from(&self, node: usize, wanted: impl Fn(Job) -> bool) -> Option<Taken> {
        let there = &self.registry.nodes[node];
        if !there.roots.has_strays() {
            return None;
        }
        let job = there.roots.pop_stray(|job| self.may_take(node, job.strand) && wanted(job))?;
        self.shared().counters.stolen.bump(node);
        Some(taken(job))
    }

    /// Steals the oldest public job of a worker of `node`, from a random one on, those that share our L3 first.
    pub(super) fn steal_from(&self, node: usize, wanted: &dyn Fn(*const Strand) -> bool) -> Option<Taken> {
        let my_l3 = self.shared().l3.load(Ordering::Relaxed);
        if node == self.node_index() && my_l3 != u32::MAX {
            let near = self.steal_where(node, wanted, &|l3| l3 == my_l3);
            if near.is_some() {
                return near;
            }
        }
        self.steal_where(node, wanted, &|_| true)
    }

    fn steal_where(
        &self,
        node: usize,
        wanted: &dyn Fn(*const Strand) -> bool,
        l3_is: &dyn Fn(u32) -> bool,
    ) -> Option<Taken> {
        let mut stolen = None;
        self.visit(node, |victim| {
            if !victim.deque.has_public() || !l3_is(victim.l3.load(Ordering::Relaxed)) {
                return false;
            }
            for _ in 0..4 {
                match victim.deque.steal_if(|strand| self.may_take(node, strand) && wanted(strand)) {
                    Steal::Job(job) => {
                        stolen = Some(taken(job));
                        return true;
                    }
                    Steal::Retry => std::hint::spin_loop(),
                    Steal::Empty | Steal::Unrelated => return false,
                }
            }
            false
        });
        if stolen.is_some() {
            self.shared().counters.stolen.bump(node);
        }
        stolen
    }

    /// Calls `look` for every worker of `node` but us, from a random one on, until it returns true.
    pub(super) fn visit(&self, node: usize, mut look: impl FnMut(&WorkerShared) -> bool) {
        let there = &self.registry.nodes[node];
        let slots = there.slots();
        let count = there.regular.len() + there.spares.started();
        let skip = (self.random() % count.max(1) as u64) as usize;
        for index in slots.clone().skip(skip).chain(slots.take(skip)) {
            if index != self.index && look(&self.registry.workers[index]) {
                return;
            }
        }
    }

    /// xorshift64: which victim comes first need not be more random than that.
    fn random(&self) -> u64 {
        let mut x = self.seed.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.seed.set(x);
        x
    }

    /// The bounded search of the node's one searcher.
    pub(super) fn search(&self, look_again: &mut Option<Duration>) -> Option<Taken> {
        let begin = stamp();
        let mut turn = 0u32;
        loop {
            *look_again = None;
            let found = self.find(look_again);
            if found.is_some() || self.registry.gate.phase() == Phase::Terminated {
                return found;
            }
            if self.registry.works_alone() {
                // Nobody who could make a job is awake, and whoever comes from outside will wake us.
                return None;
            }
            turn += 1;
            if turn == HUNGRY_AFTER {
                self.each_node(|node| {
                    self.visit(node, |victim| {
                        if self.hides(victim) {
                            victim.deque.raise_hungry();
                        }
                        false
                    });
                    false
                });
            }
            if stamp().wrapping_sub(begin) > SEARCH {
                break;
            }
            for _ in 0..16 {
                std::hint::spin_loop();
            }
        }
        self.force_any(&|_| true).or_else(|| self.steal_slot())
    }

    /// A future that a worker of this node woke and has not come round to: its poll is a long one. Of other nodes' workers
    /// we only make it queue at home, where it waits for its turn as any root job does.
    fn steal_slot(&self) -> Option<Taken> {
        let mut found = None;
        self.each_node(|node| {
            self.visit(node, |victim| {
                let Some(taken) = victim.slot.take() else { return false };
                if node == self.node_index() {
                    self.shared().counters.stolen.bump(node);
                    found = Some(taken);
                } else {
                    // SAFETY: taken out of the slot: JOB-ONCE.
                    unsafe { self.registry.push_again(node, taken, None) };
                }
                true
            });
            found.is_some()
        });
        found
    }

    /// Last resort: forces a split on a worker that does not look up, and steals from it. `who` looks at the strand the
    /// victim works on.
    pub(super) fn force_any(&self, who: &dyn Fn(*const Strand) -> bool) -> Option<Taken> {
        if !self.registry.can_force() {
            return None;
        }
        let mut found = None;
        self.each_node(|node| {
            self.visit(node, |victim| {
                if !self.hides(victim) || !who(victim.strand.load(Ordering::Acquire).cast_const()) {
                    return false;
                }
                match victim.deque.force() {
                    Ok(0) => false,
                    Ok(_) => {
                        self.shared().counters.own.forced.bump();
                        true
                    }
                    Err(_) => {
                        self.registry.stop_forcing();
                        true
                    }
                }
            });
            found = self.steal_from(node, &|_| true);
            found.is_some()
        });
        found
    }

    /// Own node first, then the others, nearest first, until `f` returns true.
    pub(super) fn each_node(&self, mut f: impl FnMut(usize) -> bool) {
        if f(self.node_index()) {
            return;
        }
        for &node in &self.node().others {
            if f(node) {
                return;
            }
        }
    }

    /// Something that an idle worker here could take at once. Looked at after falling asleep.
    pub(super) fn has_work_for_idle(&self) -> bool {
        if self.shared().inbox.has_job() || self.node().roots.has_any() {
            return true;
        }
        let mut found = false;
        self.each_node(|node| {
            self.visit(node, |victim| {
                found = self.offers(victim);
                found
            });
            found
        });
        found
    }

    /// After a find: is there more, for which another should be woken?
    pub(super) fn more_to_do(&self) -> bool {
        self.has_work_for_idle()
            // Nobody looks round from time to time, and an owner that does not look up would hide its jobs for ever.
            || (!self.node().sleep.has_watcher() && self.somebody_hides())
            || self.roots_wait_abroad()
    }

    /// Somebody has private jobs: if he does not publish them, a split can be forced.
    pub(super) fn somebody_hides(&self) -> bool {
        let (mut found, can_force) = (false, self.registry.can_force());
        self.each_node(|node| {
            self.visit(node, |victim| {
                found = (can_force && self.hides(victim)) || victim.slot.is_full();
                found
            });
            found
        });
        found
    }

    /// Something at another node that an idle worker here may have in a while: look again after that time. Looked at once
    /// after falling asleep, since whoever queued it may have relied on the search that we just ended (race ABROAD).
    /// Whoever queues something later finds us among the sleepers.
    pub(super) fn work_abroad(&self) -> Option<Duration> {
        if self.node().others.iter().any(|&other| self.registry.nodes[other].roots.has_strays()) {
            return Some(LOOK_AT_STRAYS);
        }
        match self.registry.config.home_delay {
            HomeDelay::After(delay) if self.roots_wait_abroad() => Some(self.registry.config.clock.sleep_for(delay)),
            _ => None,
        }
    }

    /// Another node has root jobs and nobody idle: one of us should look how long they wait.
    fn roots_wait_abroad(&self) -> bool {
        self.registry.config.home_delay != HomeDelay::Never
            && self.node().others.iter().any(|&other| {
                let there = &self.registry.nodes[other];
                there.roots.has_free() && !there.sleep.has_idle()
            })
    }

    /// Something on this node that a spare could run.
    pub(super) fn runnable_here(&self) -> bool {
        let node = self.node();
        node.roots.has_any() || node.slots().any(|index| self.registry.workers[index].deque.has_public())
    }
}

/// A job from a deque: whether it is strict, its strand says.
fn taken(job: Job) -> Taken {
    Taken { job, strict: false }
}
