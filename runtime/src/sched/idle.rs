//! A worker between jobs: its main loop, its search for the next job, and its sleep.

use std::time::Duration;

use numart_alloc::sys;

use super::clock::nanos;
use super::gate::Phase;
use super::roots::Taken;
use super::worker::Worker;

/// First nap of the watcher, which doubles up to [`LONGEST_NAP`]. Two hundred wake-ups a second cost 0.1 % of a CPU.
const FIRST_NAP: Duration = Duration::from_micros(50);
const LONGEST_NAP: Duration = Duration::from_millis(5);

impl Worker {
    /// Runs jobs until the runtime has ended.
    pub(super) fn main_loop(&self) {
        let counters = &self.shared().counters.own;
        while let Some(taken) = self.next_job() {
            let now = nanos();
            counters.set_busy_since(now);
            self.note_cpu();
            self.run(taken);
            loop {
                if self.is_surplus() {
                    break;
                }
                match self.find_any() {
                    Some(taken) => self.run(taken),
                    None => break,
                }
            }
            counters.busy_ns.add(nanos() - now);
            counters.set_busy_since(0);
        }
        // Whoever ended the runtime may have run others' last jobs, and they may have spawned some.
        while let Some(job) = self.pop() {
            self.run(Taken::of(job));
        }
    }

    /// Searches, sleeps, searches: until there is a job, or the runtime has ended (`None`).
    fn next_job(&self) -> Option<Taken> {
        let registry = &*self.registry;
        let sleep = &self.node().sleep;
        let counters = &self.shared().counters.own;
        let mut handed = false;
        let mut from = nanos();
        let count_search = |from: u64| counters.search_ns.add(nanos() - from);
        loop {
            if registry.gate.phase() == Phase::Terminated {
                return None;
            }
            if self.is_surplus() {
                self.bench(&mut from);
                continue;
            }
            let mut look_again = None;
            if handed || sleep.try_search() {
                let found = self.search(&mut look_again);
                if sleep.end_search() && found.is_some() && self.more_to_do() {
                    // We promised to look for others' jobs too; pass the promise on.
                    self.wake_for_published();
                }
                if found.is_some() {
                    count_search(from);
                    return found;
                }
                handed = false;
            } else if let Some(taken) = self.find(&mut look_again) {
                count_search(from);
                return Some(taken);
            }
            if registry.gate.phase() == Phase::Terminated {
                return None;
            }
            if self.is_spare() {
                self.bench(&mut from);
                continue;
            }
            sleep.fall_asleep(self.index, self.sleep_cell());
            registry.sub_working();
            count_search(from);
            counters.parks.bump();
            handed = self.nap(look_again);
            registry.add_working();
            from = nanos();
        }
    }

    /// A spare without work leaves until it is called. `from`: since when it has been searching.
    fn bench(&self, from: &mut u64) {
        self.publish_all();
        self.shared().counters.own.search_ns.add(nanos() - *from);
        self.sit_on_bench();
        *from = nanos();
    }

    /// Asleep in the node's list. Returns when taken out (true: as a searcher) or after leaving it because there is
    /// something to do.
    fn nap(&self, look_again: Option<Duration>) -> bool {
        let registry = &*self.registry;
        let sleep = &self.node().sleep;
        let mut nap = FIRST_NAP;
        let look_again = look_again.or_else(|| self.work_abroad());
        loop {
            if registry.gate.phase() == Phase::Terminated || self.has_work_for_idle() {
                self.stop_watching();
                if sleep.cancel(self.index, self.sleep_cell()) {
                    return false;
                }
                self.shared().counters.own.wakeups.bump();
                return self.sleep_cell().take_handed();
            }
            let watching = sleep.keep_watch(self.index, || registry.anybody_works());
            let limit = match (watching, look_again) {
                (true, Some(wait)) => Some(nap.min(wait)),
                (true, None) => Some(nap),
                (false, wait) => wait,
            };
            self.sleep_cell().park(limit);
            if !self.sleep_cell().is_idle() {
                self.stop_watching();
                self.shared().counters.own.wakeups.bump();
                return self.sleep_cell().take_handed();
            }
            if look_again.is_some() {
                // Time to look at another node's queue again.
                self.stop_watching();
                if sleep.cancel(self.index, self.sleep_cell()) {
                    return false;
                }
                return self.sleep_cell().take_handed();
            }
            if watching {
                if self.somebody_hides() {
                    // Search, and force a split if need be.
                    self.stop_watching();
                    return if sleep.cancel(self.index, self.sleep_cell()) {
                        false
                    } else {
                        self.sleep_cell().take_handed()
                    };
                }
                nap = (nap * 2).min(LONGEST_NAP);
            }
        }
    }

    fn stop_watching(&self) {
        if self.node().sleep.is_watcher(self.index) {
            self.node().sleep.stop_watch(self.index);
        }
    }

    /// Remembers which L3 group we run in, for the steal order.
    fn note_cpu(&self) {
        let topology = &self.registry.config.topology;
        if topology.is_mock() {
            return;
        }
        let l3 = sys::current_cpu().and_then(|cpu| topology.cpu(cpu)).map_or(u32::MAX, |cpu| cpu.l3);
        self.shared().l3.store(l3, std::sync::atomic::Ordering::Relaxed);
    }
}
