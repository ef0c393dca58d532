//! A join half that somebody ran on top of `a`, on `a`'s own worker, is not run again; and what has taken its place in
//! the ring meanwhile is not lost.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use common::{Event, mock, pool, slowdown, tick};
use numart::{Waiting, Yield, join, scope, yield_now};

fn finishes(case: impl FnOnce() + Send + 'static) {
    common::hush();
    let (done, ended) = channel();
    let thread = std::thread::spawn(move || {
        case();
        done.send(()).unwrap();
    });
    match ended.recv_timeout(Duration::from_secs(15 * slowdown())) {
        Err(RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload)),
    }
}

/// `a` runs `b` by a yield and then adds a scope job, which gets `b`'s index in the ring.
#[test]
fn by_a_yield() {
    finishes(|| {
        let (half, job) = (AtomicUsize::new(0), AtomicUsize::new(0));
        mock("1x1").build().unwrap().install(|| {
            scope(|s| {
                // Becomes public in place of the half, which so stays private: the other way back into its index.
                s.spawn(|_| ());
                join(
                    || {
                        assert_eq!(yield_now(), Some(Yield::Executed));
                        s.spawn(|_| tick(&job));
                    },
                    || {
                        // Before anything is dropped twice.
                        assert_eq!(half.fetch_add(1, Ordering::SeqCst), 0, "the half ran twice");
                    },
                )
            });
        });
        assert_eq!((half.into_inner(), job.into_inner()), (1, 1));
    });
}

/// The same with a wait that may run anything.
#[test]
fn by_a_wait_for_anything() {
    finishes(|| {
        let (half, job) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let other = pool(1);
        let ran = Event::new();
        mock("1x1").waiting(Waiting::Any).build().unwrap().install(|| {
            scope(|s| {
                // Becomes public in place of the half, which so stays private: the other way back into its index.
                s.spawn(|_| ());
                join(
                    || {
                        // Ends when the half has run: this worker, which waits, runs it.
                        let ran = ran.clone();
                        other.spawn(move || ran.wait()).join().unwrap();
                        s.spawn(|_| tick(&job));
                    },
                    || {
                        assert_eq!(half.fetch_add(1, Ordering::SeqCst), 0, "the half ran twice");
                        ran.set();
                    },
                )
            });
        });
        assert_eq!((half.into_inner(), job.into_inner()), (1, 1));
    });
}
