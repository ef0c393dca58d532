//! Scopes that a thread outside has open: the runtime may be dropped meanwhile, and no job is lost.

mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Event, mock, panic_text, scaled, tick, watchdog};
use numart::{Handle, Runtime, Shutdown};

/// Opens scopes with nested jobs until it is refused. Returns how many jobs it queued; all have run.
fn scopes_until_refused(handle: &Handle) -> usize {
    let (made, ran) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let refused = panic_text(|| {
        loop {
            handle.in_place_scope(|s| {
                for _ in 0..5 {
                    tick(&made);
                    s.spawn(|s| {
                        tick(&made);
                        s.spawn(|_| tick(&ran));
                        tick(&ran);
                    });
                }
            });
            assert_eq!(ran.load(Ordering::SeqCst), made.load(Ordering::SeqCst));
        }
    });
    assert!(refused.contains("shut down"), "{refused}");
    made.into_inner()
}

#[test]
fn a_drop_waits_for_open_scopes_and_loses_none_of_their_jobs() {
    let _dog = watchdog();
    for round in 0..scaled(600) {
        let shape = ["1x1", "2x1", "2x2", "1x2"][round % 4];
        let runtime = mock(shape).spare_threads(if round % 3 == 0 { 0 } else { 64 }).build().unwrap();
        let handle = runtime.handle().clone();
        let opener = std::thread::spawn(move || scopes_until_refused(&handle));
        for _ in 0..round % 11 * 1_000 {
            std::hint::spin_loop();
        }
        runtime.shutdown(if round % 2 == 0 { Shutdown::Drain } else { Shutdown::Cancel });
        opener.join().unwrap();
    }
}

/// The drop cannot wait for the scope whose body it is called in.
#[test]
fn a_runtime_dropped_in_the_body_of_its_own_scope() {
    let _dog = watchdog();
    for shape in ["1x1", "2x2"] {
        let runtime = mock(shape).build().unwrap();
        let handle = runtime.handle().clone();
        let ran = AtomicUsize::new(0);
        handle.in_place_scope(|s| {
            s.spawn(|s| s.spawn(|_| tick(&ran)));
            drop(runtime);
            // It is open still, and so is one within it.
            s.spawn(|s| s.spawn(|_| tick(&ran)));
            handle.in_place_scope(|s| s.spawn(|_| tick(&ran)));
        });
        assert_eq!(ran.into_inner(), 3);
        assert!(panic_text(|| handle.in_place_scope(|_| ())).contains("shut down"));
    }
}

/// Adding a job never runs it on the spot: the caller may hold a lock that the job takes.
#[test]
fn a_job_added_under_a_lock_while_the_runtime_ends() {
    let _dog = watchdog();
    for shape in ["1x1", "2x1"] {
        let runtime = mock(shape).build().unwrap();
        let handle = runtime.handle().clone();
        let ending = Event::new();
        let lock = Mutex::new(0);
        let ender = std::thread::scope(|threads| {
            handle
                .in_place_scope(|s| {
                    let ender = threads.spawn({
                        let ending = ending.clone();
                        move || {
                            ending.set();
                            drop(runtime);
                        }
                    });
                    ending.wait();
                    common::until(|| handle.is_shut_down());
                    for _ in 0..100 {
                        let mut count = lock.lock().unwrap();
                        s.spawn(|_| *lock.lock().unwrap() += 1);
                        *count += 1;
                    }
                    ender
                })
                .join()
        });
        assert!(ender.is_ok());
        assert_eq!(lock.into_inner().unwrap(), 200);
    }
}

/// A chain of jobs, each spawned by the one before, in a scope that outlives its runtime's open days.
#[test]
fn a_long_chain_does_not_nest() {
    let _dog = watchdog();
    fn link<'scope>(s: &numart::Scope<'scope>, left: usize, ran: &'scope AtomicUsize) {
        tick(ran);
        if left > 1 {
            s.spawn(move |s| link(s, left - 1, ran));
        }
    }
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let handle = runtime.handle().clone();
    let ran = AtomicUsize::new(0);
    let length = scaled(200_000);
    handle.in_place_scope(|s| {
        drop(runtime);
        s.spawn(|s| link(s, length, &ran));
    });
    assert_eq!(ran.into_inner(), length);
}

/// Jobs that wait while very many others of their scope are queued. (That each look costs a test per scope, and not one
/// per job, is what lets this end in time.)
#[test]
fn waits_in_front_of_a_long_queue() {
    let _dog = watchdog();
    let (runtime, other) = (mock("1x1").build().unwrap(), mock("1x1").build().unwrap());
    let there = other.handle().clone();
    let ran = AtomicUsize::new(0);
    let count = scaled(20_000);
    runtime.in_place_scope(|s| {
        for _ in 0..count {
            s.spawn(|_| {
                there.install(|| tick(&ran));
            });
        }
    });
    assert_eq!(ran.into_inner(), count);
}
