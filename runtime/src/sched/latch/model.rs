//! Loom models of the latch: the waiter wakes, sees what was done, and may free the latch at once.
//!
//! Unbounded.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use super::Latch;
use crate::sched::sleep::{Sleeper, current_sleeper};
use crate::sync::thread::park;

/// A waiter's frame: the latch, and what the setter leaves beside it. Not really freed when the waiter is done with it,
/// but written (`Latch::bury`), so that a late look of the setter is a data race that loom reports.
struct Frame {
    latch: Latch,
    outcome: UnsafeCell<u32>,
    /// Keeps the cell until the end of the model: LATCH-ALIVE asks for it only until the waiter saw the latch set.
    _sleeper: Arc<Sleeper>,
}

// SAFETY: the latch says who may touch the outcome, and loom checks it.
unsafe impl Sync for Frame {}
// SAFETY: as above.
unsafe impl Send for Frame {}

fn frame() -> Arc<Frame> {
    let sleeper = current_sleeper();
    Arc::new(Frame { latch: Latch::new(Arc::as_ptr(&sleeper)), outcome: UnsafeCell::new(0), _sleeper: sleeper })
}

fn setter(frame: &Arc<Frame>) -> thread::JoinHandle<()> {
    let frame = frame.clone();
    thread::spawn(move || {
        // SAFETY: ours until the latch is set.
        frame.outcome.with_mut(|outcome| unsafe { *outcome = 7 });
        // SAFETY: LATCH-ALIVE: the frame and its sleep cell live to the end of the model.
        unsafe { Latch::set(&raw const frame.latch) };
    })
}

/// Reads the outcome and lets the frame go.
fn leave(frame: &Frame) {
    // SAFETY: set, so the outcome is ours.
    assert_eq!(frame.outcome.with(|outcome| unsafe { *outcome }), 7);
    frame.latch.bury();
}

/// WAKE: a waiter that parks is unparked; the frame goes at once. Negatives: `latch_wake`, `latch_late`.
#[test]
fn model_latch_set_against_sleep() {
    loom::model(|| {
        let frame = frame();
        let setter = setter(&frame);
        while !frame.latch.is_set() {
            if frame.latch.try_sleep() {
                park();
                frame.latch.wake_up();
            }
        }
        leave(&frame);
        setter.join().unwrap();
    });
}

/// WOKEN-EARLY: the waiter wakes for another reason, looks, and sleeps again. Negative: `latch_release`.
#[test]
fn model_latch_set_against_early_wake_up() {
    loom::model(|| {
        let frame = frame();
        let setter = setter(&frame);
        // A nap that ends by itself, twice.
        let mut set = false;
        for _ in 0..2 {
            if set || !frame.latch.try_sleep() {
                set = true;
                break;
            }
            thread::yield_now();
            set = frame.latch.wake_up();
        }
        // Then one that does not. (A setter that met `SLEEPING` above has left its unpark to this park.)
        while !set && frame.latch.try_sleep() {
            park();
            set = frame.latch.wake_up();
        }
        assert!(frame.latch.is_set());
        leave(&frame);
        setter.join().unwrap();
    });
}
