//! Loom models of shutdown. `README.md` beside this file names the races.
//!
//! A queue is one slot for one job, of which `look` sees only whether it is full: as in the real queues, looking orders
//! nothing but what was read.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize as Count;

use loom::thread;

use super::{Gate, Phase, Working};
use crate::sync::{AtomicUsize, Ordering};

/// A queue for one job.
struct Queue(AtomicUsize);

impl Queue {
    fn new() -> Queue {
        Queue(AtomicUsize::new(0))
    }

    fn push(&self) {
        self.0.store(1, Ordering::Release);
    }

    fn look(&self) -> bool {
        self.0.load(Ordering::Acquire) == 1
    }

    fn take(&self) -> bool {
        self.look() && self.0.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

struct World {
    gate: Gate,
    working: Working,
    /// One per node.
    queues: [Queue; 2],
    /// Loom has no part in these.
    ran: Count,
    cancelled: Count,
}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World {
            gate: Gate::new(),
            working: Working::new(),
            queues: [Queue::new(), Queue::new()],
            ran: Count::new(0),
            cancelled: Count::new(0),
        })
    }

    fn count(&self, counter: &Count) -> usize {
        counter.load(Ordering::Relaxed)
    }

    /// `Registry::push_root` of a thread outside.
    fn spawn(&self) {
        if !self.gate.admits(false) {
            // Given back: the spawner cancels it.
            self.cancelled.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.queues[0].push();
        if self.gate.closed_behind() {
            self.cancel_queued();
        }
    }

    fn cancel_queued(&self) {
        for queue in &self.queues {
            if queue.take() {
                self.cancelled.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// A worker takes the job of `queue` and runs `body` in it, if it is there.
    fn work(&self, queue: usize, body: impl FnOnce()) {
        self.working.add();
        if self.queues[queue].take() {
            self.ran.fetch_add(1, Ordering::Relaxed);
            body();
        }
        self.rest();
    }

    /// `Registry::sub_working`.
    fn rest(&self) {
        if self.working.sub() {
            self.end_if_done();
        }
    }

    fn end_if_done(&self) {
        let closing = self.gate.phase() == Phase::Draining;
        if closing && self.working.over(|| self.queues.iter().any(Queue::look)) {
            self.gate.advance(Phase::Terminated);
            self.cancel_queued();
        }
    }

    /// The worker that a push wakes, which the models otherwise leave out. There is one as long as the runtime has not
    /// ended, and none after.
    fn last_worker(&self) {
        if self.gate.phase() != Phase::Terminated {
            self.work(0, || ());
        }
    }

    fn assert_open_for_jobs(&self) {
        assert_ne!(self.gate.phase(), Phase::Terminated, "the runtime ended while a job ran");
    }
}

/// LATE-PUSH: a spawner that was let in pushes as the runtime ends. Unbounded. Negative: `gate_fence`.
#[test]
fn model_spawn_against_shutdown() {
    loom::model(|| {
        let world = World::new();
        let spawner = {
            let world = world.clone();
            thread::spawn(move || world.spawn())
        };
        world.gate.advance(Phase::Draining);
        world.end_if_done();
        spawner.join().unwrap();
        world.last_worker();
        assert_eq!(world.count(&world.ran) + world.count(&world.cancelled), 1, "lost, or taken twice");
        assert_eq!(world.gate.phase(), Phase::Terminated);
    });
}

/// LATE-PUSH with a worker about that may take the job: run or cancelled, once. At most 3 preemptions.
#[test]
fn model_spawn_and_run_against_shutdown() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let world = World::new();
        let spawner = {
            let world = world.clone();
            thread::spawn(move || world.spawn())
        };
        let worker = {
            let world = world.clone();
            thread::spawn(move || world.work(0, || ()))
        };
        world.gate.advance(Phase::Draining);
        world.end_if_done();
        spawner.join().unwrap();
        worker.join().unwrap();
        world.last_worker();
        assert_eq!(world.count(&world.ran) + world.count(&world.cancelled), 1, "lost, or taken twice");
        assert_eq!(world.gate.phase(), Phase::Terminated);
    });
}

/// SHELL-GAME: a draining runtime must not end while a job moves from queue to worker to the other queue behind the
/// back of the one who looks. At most 2 preemptions (there are three threads of a dozen steps). Negative:
/// `working_mark`.
#[test]
fn model_end_against_wake_up() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let world = World::new();
        world.gate.advance(Phase::Draining);
        // We are the last worker: our job queues one for the other node and wakes somebody there, and we are done.
        world.working.add();
        world.queues[1].push();
        let other = {
            let world = world.clone();
            thread::spawn(move || {
                let mut woken = None;
                world.work(1, || {
                    world.assert_open_for_jobs();
                    world.queues[0].push();
                    let world = world.clone();
                    woken = Some(thread::spawn(move || world.work(0, || world.assert_open_for_jobs())));
                });
                if let Some(woken) = woken {
                    woken.join().unwrap();
                }
            })
        };
        world.rest();
        other.join().unwrap();
        assert_eq!(world.count(&world.ran), 2, "a draining runtime runs what it has and what that spawns");
        assert_eq!(world.count(&world.cancelled), 0);
        assert_eq!(world.gate.phase(), Phase::Terminated, "and then it ends");
    });
}
