//! Loom models of the task's state word. `README.md` beside this file names the invariants.
//!
//! The cell here is `task/spawn.rs`'s with its parts replaced by cells that loom watches: body and output, the waiter's
//! slot, and the cell as a whole, which every access reads and freeing writes. So touching a freed cell, or freeing it
//! without having seen everybody's last touch, is a data race that loom reports. The functions are those of `spawn.rs` and
//! `handle.rs`, by the same names.
//!
//! Unbounded: every execution of two or three threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::cell::UnsafeCell;
use loom::thread;

use super::{Claim, State};
use crate::sched::latch::Latch;
use crate::sched::sleep::current_sleeper;
use crate::sync::thread::park;

/// What the stage holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Body,
    Output,
    /// Read out: by the handle or by a drop.
    Empty,
}

/// The task cell. Never really freed, so that a late access is seen and not undefined.
struct Cell {
    state: State,
    alive: UnsafeCell<bool>,
    stage: UnsafeCell<Stage>,
    waiter: UnsafeCell<Option<*const Latch>>,
    /// Loom has no part in these: they are looked at when all threads have ended.
    ran: AtomicUsize,
    dropped: AtomicUsize,
    joined: AtomicUsize,
    freed: AtomicUsize,
}

// SAFETY: the state word says who may touch what, and loom checks it.
unsafe impl Sync for Cell {}
// SAFETY: as above.
unsafe impl Send for Cell {}

impl Cell {
    fn new() -> Arc<Cell> {
        Arc::new(Cell {
            state: State::new(),
            alive: UnsafeCell::new(true),
            stage: UnsafeCell::new(Stage::Body),
            waiter: UnsafeCell::new(None),
            ran: AtomicUsize::new(0),
            dropped: AtomicUsize::new(0),
            joined: AtomicUsize::new(0),
            freed: AtomicUsize::new(0),
        })
    }

    /// Each access to the cell begins here.
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

    fn set_waiter(&self, waiter: Option<*const Latch>) -> Option<*const Latch> {
        // SAFETY: the caller owns the slot by the state word, and loom checks that.
        self.touch().waiter.with_mut(|slot| unsafe { std::mem::replace(&mut *slot, waiter) })
    }

    fn release(&self) {
        if self.touch().state.release() {
            // SAFETY: the last reference: ours alone.
            self.alive.with_mut(|alive| unsafe { *alive = false });
            self.freed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The queue's entry was popped.
    fn execute(&self) {
        if self.touch().state.claim() != Claim::No {
            self.run_claimed();
        }
        self.release();
    }

    fn run_claimed(&self) {
        self.change_stage(Stage::Body, Stage::Output);
        self.ran.fetch_add(1, Ordering::Relaxed);
        let finished = self.touch().state.finish();
        if finished.wake {
            let latch = self.set_waiter(None).expect("the handle filled the slot");
            // SAFETY: LATCH-ALIVE: the handle waits for it.
            unsafe { Latch::set(latch) };
        }
        if finished.unread {
            self.drop_output();
        }
    }

    fn drop_output(&self) {
        self.change_stage(Stage::Output, Stage::Empty);
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    fn drop_handle(&self) {
        if self.touch().state.drop_handle() {
            self.drop_output();
        }
        self.release();
    }

    fn take_output(&self) {
        self.change_stage(Stage::Output, Stage::Empty);
        self.joined.fetch_add(1, Ordering::Relaxed);
        self.release();
    }

    /// `JoinHandle::join` of a thread outside (`claims`: of a worker). Gives up if `patient` is false, as at the bound.
    fn join(&self, claims: bool, patient: bool) {
        if claims && self.touch().state.claim() != Claim::No {
            self.run_claimed();
        }
        if self.touch().state.is_done() {
            return self.take_output();
        }
        let sleeper = current_sleeper();
        let latch = Latch::new(Arc::as_ptr(&sleeper));
        self.set_waiter(Some(&raw const latch));
        if !self.touch().state.offer_waiter() {
            self.set_waiter(None);
            return self.take_output();
        }
        if !patient && self.touch().state.withdraw_waiter() {
            self.set_waiter(None);
            return self.drop_handle();
        }
        while !latch.is_set() {
            if latch.try_sleep() {
                park();
                latch.wake_up();
            }
        }
        self.take_output();
    }

    fn assert_over(&self) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        assert_eq!(count(&self.ran), 1, "the body ran once");
        assert_eq!(count(&self.dropped) + count(&self.joined), 1, "the output went one way");
        assert_eq!(count(&self.freed), 1, "the cell was freed");
    }
}

fn popper_and(handle: impl Fn(&Cell) + Sync + Send + 'static) {
    loom::model(move || {
        let cell = Cell::new();
        let popper = {
            let cell = cell.clone();
            thread::spawn(move || cell.execute())
        };
        handle(&cell);
        popper.join().unwrap();
        cell.assert_over();
    });
}

/// ONE-CLAIM: the worker that popped the entry and a waiter on another worker both want the body. Negative: `claim`.
#[test]
fn model_claim_by_popper_and_waiter() {
    popper_and(|cell| cell.join(true, true));
}

/// OUTPUT-ONCE: the task finishes as its handle is dropped. Negative: `unread`.
#[test]
fn model_finish_against_handle_drop() {
    popper_and(Cell::drop_handle);
}

/// NO-LOST-WAITER: the task finishes as a thread outside begins to wait. Negative: `offer`.
#[test]
fn model_finish_against_waiter() {
    popper_and(|cell| cell.join(false, true));
}

/// SLOT-OWNER: the waiter gives up as the task finishes. Negative: `withdraw`.
#[test]
fn model_finish_against_withdrawal() {
    popper_and(|cell| cell.join(false, false));
}

/// LAST-FREES: whoever gives up the last reference has seen the other's last touch. Negative: `release_order`.
#[test]
fn model_last_release_frees() {
    popper_and(|cell| {
        if cell.touch().state.claim() != Claim::No {
            cell.run_claimed();
            cell.take_output();
        } else {
            cell.drop_handle();
        }
    });
}
