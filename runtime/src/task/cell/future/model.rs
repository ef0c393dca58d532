//! Loom models of a future's life in the task's state word. `README.md` beside this file names the invariants.
//!
//! The cell is `task/future`'s with its parts replaced by cells that loom watches, as in the module above: a body that two
//! have at once, one that is polled without having seen the last poll, an output dropped by two, or a touch after freeing
//! are data races that loom reports. The future is ready once it sees the flag that each waker raises, with no ordering of
//! its own, before it wakes: so a wake-up that is lost, or that the next poll does not see, leaves the future pending at
//! the end, when all threads have ended and the queue has been worked off.
//!
//! Three threads: unbounded where it says nothing, else with at most so many preemptions as it says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize as Plain, Ordering::Relaxed};

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

use super::super::{Claim, State};
use super::{Left, Pause};
use crate::sync::Mutex;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Body,
    Output,
    Empty,
}

/// The task cell, its runtime's queue and list. Never really freed, so that a late access is seen and not undefined.
struct Cell {
    state: State,
    alive: UnsafeCell<bool>,
    stage: UnsafeCell<Stage>,
    /// Entries of this task in the queue.
    queue: Mutex<usize>,
    /// The list has the task.
    listed: Mutex<bool>,
    /// What wakers raise before they wake.
    flag: AtomicUsize,
    /// Wake-ups that the future waits for.
    wanted: usize,
    /// Loom has no part in these: they are looked at when all threads have ended.
    polls: Plain,
    bodies_dropped: Plain,
    outputs_dropped: Plain,
    joined: Plain,
    freed: Plain,
}

// SAFETY: the state word says who may touch what, and loom checks it.
unsafe impl Sync for Cell {}
// SAFETY: as above.
unsafe impl Send for Cell {}

impl Cell {
    /// Just spawned: an entry in the queue, a handle, and a waker besides for each wake-up wanted.
    fn new(wanted: usize) -> Arc<Cell> {
        let cell = Arc::new(Cell {
            state: State::new_future(),
            alive: UnsafeCell::new(true),
            stage: UnsafeCell::new(Stage::Body),
            queue: Mutex::new(1),
            listed: Mutex::new(true),
            flag: AtomicUsize::new(0),
            wanted,
            polls: Plain::new(0),
            bodies_dropped: Plain::new(0),
            outputs_dropped: Plain::new(0),
            joined: Plain::new(0),
            freed: Plain::new(0),
        });
        (0..wanted).for_each(|_| cell.state.retain());
        cell
    }

    fn touch(&self) -> &Self {
        // SAFETY: a read; loom reports it if somebody frees the cell at the same time.
        self.alive.with(|alive| assert!(unsafe { *alive }, "used after it was freed"));
        self
    }

    fn change_stage(&self, from: Stage, to: Stage) {
        self.touch().stage.with_mut(|stage| {
            // SAFETY: the caller owns the stage by the state word, and loom checks that.
            let before = unsafe { std::mem::replace(&mut *stage, to) };
            assert_eq!(before, from);
        });
    }

    fn free(&self) {
        // SAFETY: the last reference: ours alone.
        self.alive.with_mut(|alive| unsafe { *alive = false });
        self.freed.fetch_add(1, Relaxed);
    }

    fn push(&self) {
        *self.queue.lock() += 1;
    }

    fn left(&self, left: Left) {
        match left {
            Left::Nothing => {}
            Left::Push => self.push(),
            Left::Free => self.free(),
        }
    }

    /// A worker: takes an entry, if there is one, and obeys it.
    fn work(&self) -> bool {
        {
            let mut queue = self.queue.lock();
            if *queue == 0 {
                return false;
            }
            *queue -= 1;
        }
        match self.touch().state.begin_poll(false) {
            Claim::No => self.left(self.touch().state.release_early()),
            Claim::Run => self.poll(),
            Claim::Drop => self.cancel(),
        }
        true
    }

    /// A waiter claims it in the queue.
    fn claim_in_place(&self) {
        match self.touch().state.begin_poll(true) {
            Claim::No => {}
            Claim::Run => self.poll(),
            Claim::Drop => self.cancel(),
        }
    }

    fn poll(&self) {
        self.polls.fetch_add(1, Relaxed);
        let ready = self.touch().stage.with_mut(|stage| {
            // SAFETY: claimed: the body is ours, and loom checks that.
            assert_eq!(unsafe { *stage }, Stage::Body, "polled after its end");
            self.flag.load(Relaxed) >= self.wanted
        });
        if ready {
            return self.complete();
        }
        match self.touch().state.pause() {
            Pause::Idle => {}
            Pause::Again => self.push(),
            Pause::Drop => self.cancel(),
        }
    }

    fn cancel(&self) {
        self.complete();
    }

    /// Drops the body, stores the output, gives up the list's reference and the poller's.
    fn complete(&self) {
        self.change_stage(Stage::Body, Stage::Output);
        self.bodies_dropped.fetch_add(1, Relaxed);
        let finished = self.touch().state.finish();
        if finished.unread {
            self.drop_output();
        }
        *self.listed.lock() = false;
        if self.touch().state.release_many(2) {
            self.free();
        }
    }

    fn drop_output(&self) {
        self.change_stage(Stage::Output, Stage::Empty);
        self.outputs_dropped.fetch_add(1, Relaxed);
    }

    fn wake(&self) {
        self.flag.fetch_add(1, Relaxed);
        let left = self.touch().state.wake();
        self.left(left);
    }

    fn wake_by_ref_and_drop(&self) {
        self.flag.fetch_add(1, Relaxed);
        if self.touch().state.wake_by_ref() {
            self.push();
        }
        let left = self.touch().state.release_early();
        self.left(left);
    }

    fn drop_waker(&self) {
        let left = self.touch().state.release_early();
        self.left(left);
    }

    /// The handle's `abort`.
    fn abort(&self) {
        if self.touch().state.abort() {
            self.push();
        }
    }

    fn drop_handle(&self) {
        if self.touch().state.drop_handle() {
            self.drop_output();
        }
        let left = self.touch().state.release_early();
        self.left(left);
    }

    /// The handle, once the task is done.
    fn take_output(&self) {
        assert!(self.touch().state.is_done(), "pending, and nobody will poll it again");
        self.change_stage(Stage::Output, Stage::Empty);
        self.joined.fetch_add(1, Relaxed);
        if self.touch().state.release() {
            self.free();
        }
    }

    /// The runtime ends: as the registry's walk over the list.
    fn close(&self) {
        let ours = {
            let listed = self.listed.lock();
            *listed && self.touch().state.close()
        };
        if ours {
            self.cancel();
        }
        self.work_off();
    }

    fn work_off(&self) {
        while self.work() {}
    }

    /// When all threads have ended: it is over, each part of it once.
    fn assert_over(&self) {
        self.work_off();
        let count = |counter: &Plain| counter.load(Relaxed);
        assert_eq!(count(&self.bodies_dropped), 1, "the future was dropped once");
        assert_eq!(count(&self.outputs_dropped) + count(&self.joined), 1, "the output went one way");
        assert_eq!(count(&self.freed), 1, "the cell was freed");
    }
}

/// Runs `main` here and the others on threads of their own, works off the queue, then `end`.
fn model(preemptions: Option<usize>, wanted: usize, others: &'static [fn(&Cell)], main: fn(&Cell), end: fn(&Cell)) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(move || {
        let cell = Cell::new(wanted);
        let threads: Vec<_> = others
            .iter()
            .map(|other| {
                let cell = cell.clone();
                thread::spawn(move || other(&cell))
            })
            .collect();
        main(&cell);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        cell.work_off();
        end(&cell);
        cell.assert_over();
    });
}

fn nothing(_: &Cell) {}

/// NO-LOST-WAKE: woken while it is polled. Negative: `pause_woken`.
#[test]
fn model_wake_against_poll() {
    model(None, 1, &[Cell::work_off], Cell::wake, Cell::take_output);
}

/// SEEN-WAKE: woken twice while it is queued: the poll sees what happened before either. Negative: `wake_unseen`.
#[test]
fn model_two_wakes_against_poll() {
    model(Some(3), 2, &[Cell::wake, Cell::wake_by_ref_and_drop], Cell::work_off, Cell::take_output);
}

/// ONE-POLLER: a waiter polls it in place while its entry is popped and it is woken. Negative: `poll_alone`.
#[test]
fn model_waiter_and_popper_and_wake() {
    model(Some(3), 1, &[Cell::work_off, Cell::wake], Cell::claim_in_place, Cell::take_output);
}

/// HAND-OVER: the next poller, on another thread, sees the last poll. Negative: `pause_release`.
#[test]
fn model_polls_on_two_threads() {
    model(
        Some(3),
        1,
        &[|cell| _ = cell.work()],
        |cell| {
            cell.wake();
            cell.work_off();
        },
        Cell::take_output,
    );
}

/// ABORT-ONCE: aborted before, while or after it is polled, or when it is done. Negative: `pause_abort`.
#[test]
fn model_abort_against_poll() {
    model(None, 1, &[Cell::work_off], Cell::abort, |cell| {
        // The waker never wakes it.
        cell.take_output();
        cell.drop_waker();
    });
}

/// ABORT-ONCE with a wake-up and a poll. Negative: `abort_idle`.
#[test]
fn model_abort_against_wake_and_poll() {
    model(Some(3), 1, &[Cell::work_off, Cell::drop_waker], Cell::abort, Cell::take_output);
}

/// OUTPUT-ONCE: completed as the handle is dropped and it is woken.
#[test]
fn model_complete_against_handle_drop() {
    model(Some(3), 1, &[Cell::work_off, Cell::wake], Cell::drop_handle, nothing);
}

/// Abort, then drop of the handle, against a wake-up and a poll.
#[test]
fn model_abort_and_drop_against_wake_and_poll() {
    model(
        Some(3),
        1,
        &[Cell::work_off, Cell::wake],
        |cell| {
            cell.abort();
            cell.drop_handle();
        },
        nothing,
    );
}

/// ORPHAN: the last waker and the handle go while it is polled: nobody could wake it, so it is dropped.
#[test]
fn model_orphan_against_poll() {
    model(Some(3), 1, &[Cell::work_off, Cell::drop_waker], Cell::drop_handle, nothing);
}

/// LAST-FREES: whoever gives up the last reference has seen all others' last touch. Negative: `give_up_order`.
#[test]
fn model_last_reference_of_a_future_frees() {
    model(
        Some(3),
        1,
        &[Cell::drop_waker],
        |cell| {
            cell.abort();
            cell.work_off();
            cell.drop_handle();
        },
        nothing,
    );
}

/// CLOSE: the runtime ends while a worker polls and somebody wakes. Negative: `close_mark`.
#[test]
fn model_close_against_poll_and_wake() {
    model(Some(3), 2, &[|cell| _ = cell.work(), Cell::wake], Cell::close, |cell| {
        cell.take_output();
        cell.drop_waker();
    });
}
