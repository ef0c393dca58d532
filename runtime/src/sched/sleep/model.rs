//! Loom models of falling asleep and being woken. `README.md` beside this file names the races.
//!
//! The protocol's functions are the real ones. The glue that calls them (`Worker::next_job`, `nap` and `sit_on_bench`,
//! `Registry::wake_for_root`, `Worker::signal_published`) is written here again, step for step and by the same names, over
//! queues that are one counter each: looking at one orders nothing but what was read. Time does not exist: a nap with a
//! limit may end at once.
//!
//! A lost wake-up is a *deadlock* here, which loom reports: all jobs must run, and a job blocks its thread until the last
//! one has begun, so that none may simply wait for its worker to come back.
//!
//! Bounds: up to three threads and a spare; at most 2 preemptions per execution where a model says nothing else.

use std::sync::{Arc, OnceLock, Weak};

use loom::thread::{JoinHandle, spawn, yield_now};

use super::{NodeSleep, Sleeper, current_sleeper};
use crate::sched::latch::Latch;
use crate::sync::thread::{self, Thread};
use crate::sync::{AtomicUsize, Mutex, Ordering, fence, spin_hint};

const WORKERS: usize = 2;

struct Node {
    sleep: NodeSleep,
    /// Root jobs, all alike.
    roots: AtomicUsize,
}

struct World {
    this: Weak<World>,
    nodes: [Node; 2],
    /// Sleep cells by worker. A sleeper is looked up only after it was found in the list, whose lock orders that.
    sleepers: [OnceLock<Arc<Sleeper>>; WORKERS],
    /// Node of each worker.
    home: [usize; WORKERS],
    /// How many jobs there will be.
    jobs: usize,
    /// Jobs that have begun, and the threads that block in one.
    begun: Mutex<(usize, Vec<Thread>)>,
    over: AtomicUsize,
}

fn check(
    bound: Option<usize>,
    home: [usize; WORKERS],
    jobs: usize,
    model: impl Fn(Arc<World>) + Sync + Send + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = bound;
    builder.check(move || {
        let node = || Node { sleep: NodeSleep::new(), roots: AtomicUsize::new(0) };
        model(Arc::new_cyclic(|this| World {
            this: this.clone(),
            nodes: [node(), node()],
            sleepers: [const { OnceLock::new() }; WORKERS],
            home,
            jobs,
            begun: Mutex::new((0, Vec::new())),
            over: AtomicUsize::new(0),
        }));
    });
}

/// A queue as a worker sees it: nothing is ordered by looking.
fn look(queue: &AtomicUsize) -> bool {
    queue.load(Ordering::Relaxed) > 0
}

fn take(queue: &AtomicUsize) -> bool {
    let mut jobs = queue.load(Ordering::Relaxed);
    while jobs > 0 {
        match queue.compare_exchange(jobs, jobs - 1, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => jobs = now,
        }
    }
    false
}

impl World {
    fn start(self: &Arc<Self>, me: usize, life: impl FnOnce(&World, &Sleeper) + 'static) -> JoinHandle<()> {
        self.nodes[self.home[me]].sleep.add_awake();
        let world = self.clone();
        spawn(move || {
            let sleeper = world.sleepers[me].get_or_init(current_sleeper).clone();
            life(&world, &sleeper);
        })
    }

    fn worker(self: &Arc<Self>, me: usize) -> JoinHandle<()> {
        self.start(me, move |world, sleeper| world.main_loop(me, sleeper))
    }

    // ---- producers ---------------------------------------------------------------------------------------------

    /// `Registry::push_root`, whose fence is the gate's.
    fn push_root(&self, home: usize) {
        self.nodes[home].roots.fetch_add(1, Ordering::Relaxed);
        #[cfg(not(numart_break = "push_fence"))]
        fence(Ordering::SeqCst);
        self.wake_for_root(home);
    }

    fn wake_for_root(&self, home: usize) {
        let sleep = &self.nodes[home].sleep;
        if self.wake_at(home) || sleep.has_searcher() {
            return;
        }
        if sleep.is_deserted() {
            self.start_spare(home);
            return;
        }
        self.wake_elsewhere(home);
    }

    fn wake_at(&self, node: usize) -> bool {
        let sleeper = |worker: usize| self.sleepers[worker].get().map_or(std::ptr::null(), Arc::as_ptr);
        let Some(woken) = self.nodes[node].sleep.wake_one(sleeper) else { return false };
        self.unpark(woken);
        true
    }

    fn wake_elsewhere(&self, home: usize) -> bool {
        let other = 1 - home;
        self.nodes[other].sleep.has_searcher() || self.wake_at(other)
    }

    fn unpark(&self, worker: usize) {
        self.sleepers[worker].get().expect("it has slept").unpark();
    }

    /// A spare for one job. It may come for nothing.
    fn start_spare(&self, home: usize) {
        let world = self.this.upgrade().expect("the model runs");
        spawn(move || {
            if take(&world.nodes[home].roots) {
                world.run();
            }
        });
    }

    // ---- workers -----------------------------------------------------------------------------------------------

    /// A job: blocks until the last one has begun.
    fn run(&self) {
        let mut begun = self.begun.lock();
        begun.0 += 1;
        assert!(begun.0 <= self.jobs, "a job ran twice");
        if begun.0 == self.jobs {
            let blocked = std::mem::take(&mut begun.1);
            drop(begun);
            blocked.iter().for_each(Thread::unpark);
            self.over.store(1, Ordering::SeqCst);
            for node in &self.nodes {
                let sleeper = |worker: usize| self.sleepers[worker].get().map_or(std::ptr::null(), Arc::as_ptr);
                node.sleep.wake_all(sleeper).into_iter().for_each(|worker| self.unpark(worker));
            }
        } else {
            drop(begun);
            self.wait_until_all_begun();
        }
    }

    fn wait_until_all_begun(&self) {
        loop {
            let mut begun = self.begun.lock();
            if begun.0 == self.jobs {
                return;
            }
            begun.1.push(thread::current());
            drop(begun);
            // A token of an earlier wake-up may be left over: then round again.
            thread::park();
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire) == 1
    }

    fn main_loop(&self, me: usize, sleeper: &Sleeper) {
        let sleep = &self.nodes[self.home[me]].sleep;
        let mut handed = false;
        // What it remembers of the other node's queue: the first look starts its delay, the second finds it over.
        let mut observed = false;
        loop {
            let mut look_again = false;
            let found = if handed || sleep.try_search() {
                let found = self.find(me, &mut observed, &mut look_again);
                if sleep.end_search() && found && self.more_to_do(me) {
                    self.wake_for_published(self.home[me]);
                }
                found
            } else {
                self.find(me, &mut observed, &mut look_again)
            };
            if found {
                self.run();
            }
            if self.is_over() {
                return;
            }
            sleep.fall_asleep(me, sleeper);
            handed = self.nap(me, sleeper, look_again);
        }
    }

    fn find(&self, me: usize, observed: &mut bool, look_again: &mut bool) -> bool {
        let home = self.home[me];
        if take(&self.nodes[home].roots) {
            return true;
        }
        let there = &self.nodes[1 - home];
        if !look(&there.roots) || there.sleep.has_idle() {
            *observed = false;
            return false;
        }
        if std::mem::replace(observed, true) {
            return take(&there.roots);
        }
        *look_again = true;
        false
    }

    fn more_to_do(&self, me: usize) -> bool {
        look(&self.nodes[self.home[me]].roots)
    }

    fn wake_for_published(&self, home: usize) {
        if !self.wake_at(home) && !self.nodes[home].sleep.has_searcher() {
            self.wake_elsewhere(home);
        }
    }

    /// Work at another node that may become ours, though nobody will tell us when.
    fn work_abroad(&self, me: usize) -> bool {
        let there = &self.nodes[1 - self.home[me]];
        look(&there.roots) && !there.sleep.has_idle()
    }

    fn nap(&self, me: usize, sleeper: &Sleeper, look_again: bool) -> bool {
        let sleep = &self.nodes[self.home[me]].sleep;
        #[cfg(not(numart_break = "work_abroad"))]
        let look_again = look_again || self.work_abroad(me);
        loop {
            if self.is_over() || self.more_to_do(me) {
                return !sleep.cancel(me, sleeper) && sleeper.take_handed();
            }
            if look_again {
                yield_now();
            } else {
                thread::park();
            }
            if !sleeper.is_idle() {
                return sleeper.take_handed();
            }
            if look_again {
                return !sleep.cancel(me, sleeper) && sleeper.take_handed();
            }
        }
    }
}

/// PUSH-SLEEP: a root job is queued as the node's only worker falls asleep. At most 3 preemptions. Negatives: `sleep_fence`,
/// `push_fence`.
#[test]
fn model_push_against_sleep() {
    check(Some(3), [0, 0], 1, |world| {
        let worker = world.worker(0);
        world.push_root(0);
        worker.join().unwrap();
    });
}

/// PUSH-SEARCH: a root job is queued as the one searcher ends its search with another job, on which it then blocks.
/// Negative: `end_search_fence`.
#[test]
fn model_push_against_search() {
    check(Some(2), [0, 0], 2, |world| {
        let workers = [world.worker(0), world.worker(1)];
        world.push_root(0);
        world.push_root(0);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

/// ABROAD: a root job is queued at a node whose workers are all busy, as a worker of another node ends its search.
/// Unbounded. Negative: `work_abroad`.
#[test]
fn model_push_for_another_node() {
    check(None, [1, 1], 1, |world| {
        let worker = world.worker(0);
        // The model's own thread is node 0's busy worker.
        world.nodes[0].sleep.add_awake();
        world.push_root(0);
        worker.join().unwrap();
    });
}

/// ABROAD again: node 0's idle worker takes one of two jobs and blocks on it, and must have woken node 1's. At most 1
/// preemption: 2 take minutes.
#[test]
fn model_promise_passed_to_another_node() {
    check(Some(1), [0, 1], 2, |world| {
        let workers = [world.worker(0), world.worker(1)];
        world.push_root(0);
        world.push_root(0);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

/// SPARE-LEAVES: a producer relies on a spare that searches, which finds nothing and goes to the bench. Negative:
/// `bench_look`.
#[test]
fn model_push_against_spare_leaving() {
    check(Some(2), [0, 0], 1, |world| {
        world.nodes[0].sleep.add_awake();
        let worker = world.worker(0);
        // Worker 1 is a spare: `next_job` without a nap, then `sit_on_bench`.
        let spare = world.start(1, |world, _| {
            let sleep = &world.nodes[0].sleep;
            let found = if sleep.try_search() {
                let found = take(&world.nodes[0].roots);
                let _last = sleep.end_search();
                found
            } else {
                take(&world.nodes[0].roots)
            };
            if found {
                return world.run();
            }
            sleep.sub_awake();
            #[cfg(not(numart_break = "bench_look"))]
            if look(&world.nodes[0].roots) {
                world.wake_for_root(0);
            }
        });
        world.push_root(0);
        spare.join().unwrap();
        worker.join().unwrap();
    });
}

/// WATCHER: an owner publishes and leaves it to the watcher, who stops watching. Unbounded. Negative: `watch_fence`.
#[test]
fn model_publish_against_watcher_leaving() {
    check(None, [0, 0], 1, |world| {
        let watcher = world.start(0, |world, sleeper| {
            let sleep = &world.nodes[0].sleep;
            sleep.fall_asleep(0, sleeper);
            if look(&world.nodes[0].roots) || !sleep.keep_watch(0, || true) {
                // Not this time.
            } else {
                // Its nap ended and nobody seemed to work: it sleeps on, unwatched.
                sleep.stop_watch(0);
                while !look(&world.nodes[0].roots) && sleeper.is_idle() {
                    thread::park();
                }
            }
            if !sleep.cancel(0, sleeper) && sleeper.take_handed() {
                sleep.end_search();
            }
            assert!(take(&world.nodes[0].roots));
        });
        // `Owner::publish` and `Worker::signal_published`, not coarse.
        world.nodes[0].roots.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !world.nodes[0].sleep.has_watcher() {
            world.wake_for_published(0);
        }
        watcher.join().unwrap();
    });
}

/// LAST-IDLE: everybody but the watcher goes idle, then somebody works again, publishes, and leaves it to the watcher.
/// Negative: `stale_watcher`.
#[test]
fn model_publish_against_watcher_of_an_idle_pool() {
    check(Some(3), [0, 0], 1, |world| {
        let working = Arc::new(AtomicUsize::new(1));
        let works = working.clone();
        let watcher = world.start(0, move |world, sleeper| {
            let sleep = &world.nodes[0].sleep;
            sleep.fall_asleep(0, sleeper);
            // `Worker::nap`.
            while !look(&world.nodes[0].roots) && sleeper.is_idle() {
                if sleep.keep_watch(0, || works.load(Ordering::SeqCst) > 0) {
                    // A nap: its limit passes.
                    spin_hint();
                } else {
                    thread::park();
                }
            }
            sleep.stop_watch(0);
            if !sleep.cancel(0, sleeper) && sleeper.take_handed() {
                sleep.end_search();
            }
            assert!(take(&world.nodes[0].roots));
        });
        // The last job ends, and a root job comes.
        working.fetch_sub(1, Ordering::SeqCst);
        working.fetch_add(1, Ordering::SeqCst);
        // `Owner::publish` and `Worker::signal_published`, not coarse. From here on it blocks in its job.
        world.nodes[0].roots.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !world.nodes[0].sleep.has_watcher() {
            world.wake_for_published(0);
        }
        watcher.join().unwrap();
    });
}

/// WAITER: somebody publishes a job below a wait as the waiter parks, and then blocks on it. Unbounded. Negative:
/// `wait_fence`.
#[test]
fn model_publish_against_parking_waiter() {
    check(None, [0, 0], 1, |world| {
        // The model's own thread waits; the helper's job ends when its child has run.
        let sleeper = current_sleeper();
        let latch = Arc::new(Latch::new(Arc::as_ptr(&sleeper)));
        let helper = {
            let (world, latch, waiter) = (world.clone(), latch.clone(), sleeper.clone());
            spawn(move || {
                world.nodes[0].roots.fetch_add(1, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                if !waiter.wake_waiter() {
                    // It is awake, so it looks before it parks. Nothing to do here.
                }
                world.wait_until_all_begun();
                // SAFETY: LATCH-ALIVE: both live to the end of the model.
                unsafe { Latch::set(&raw const *latch) };
            })
        };
        // `Worker::wait`, the parking part.
        loop {
            sleeper.begin_wait();
            if take(&world.nodes[0].roots) {
                sleeper.end_wait();
                world.run();
                continue;
            }
            if !latch.try_sleep() {
                sleeper.end_wait();
                break;
            }
            thread::park();
            let set = latch.wake_up();
            sleeper.end_wait();
            if set {
                break;
            }
        }
        helper.join().unwrap();
        assert_eq!(world.begun.lock().0, 1);
    });
}

/// LAST-PARKS: a root job is queued as the last awake worker of its node parks in a wait: one of them calls a spare.
/// Unbounded. Negative: `park_fence`.
#[test]
fn model_push_against_last_one_parking() {
    check(None, [0, 0], 1, |world| {
        let waiter = world.start(0, |world, _| {
            let sleep = &world.nodes[0].sleep;
            // `Worker::park_in_wait`.
            sleep.sub_awake();
            if sleep.is_deserted() && look(&world.nodes[0].roots) {
                world.start_spare(0);
            }
        });
        world.push_root(0);
        waiter.join().unwrap();
        // The job ran, or its spare is on the way; else this waits for ever.
        world.wait_until_all_begun();
    });
}
