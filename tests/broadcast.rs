//! `broadcast`, `broadcast_per_node`, `yield_now`, and where am I.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Drops, Event, WORKERS, mock, panic_text, pool, tick, until, watchdog};
use numart::{NodeId, Yield, current_node, current_num_workers, current_worker, yield_now};

#[test]
fn every_worker_is_called_once_on_its_own_thread() {
    let _dog = watchdog();
    let runtime = mock("4x2").build().unwrap();
    let from_outside = runtime.broadcast(|context| {
        assert_eq!(context.count(), 8);
        assert_eq!(Some(context.node()), current_node());
        (context.index(), current_worker().unwrap(), std::thread::current().id())
    });
    let from_inside =
        runtime.install(|| numart::broadcast(|c| (c.index(), current_worker().unwrap(), std::thread::current().id())));
    for results in [from_outside, from_inside] {
        for (i, (index, worker, _)) in results.iter().enumerate() {
            assert_eq!((i, i), (*index, *worker));
        }
        let mut threads: Vec<_> = results.iter().map(|(_, _, thread)| format!("{thread:?}")).collect();
        threads.sort();
        threads.dedup();
        assert_eq!(threads.len(), 8);
    }
}

#[test]
fn every_node_is_called_once() {
    let _dog = watchdog();
    let runtime = mock("node 3 cpus 0-1\nnode 33 cpus 2\nnode 72 cpus 3").build().unwrap();
    let nodes = [NodeId(3), NodeId(33), NodeId(72)];
    let call = |context: numart::BroadcastContext| {
        assert_eq!(context.count(), 3);
        assert_eq!(Some(context.node()), current_node());
        context.node()
    };
    assert_eq!(runtime.broadcast_per_node(call), nodes);
    assert_eq!(runtime.install(|| numart::broadcast_per_node(call)), nodes);
    assert_eq!(runtime.nodes(), nodes);
}

/// Two workers broadcast at each other at the same time.
#[test]
fn mutual_broadcasts() {
    let _dog = watchdog();
    for workers in [2, 4] {
        let runtime = pool(workers);
        for _ in 0..50 {
            let both = std::sync::Barrier::new(2);
            let calls = AtomicUsize::new(0);
            let half = || {
                both.wait();
                numart::broadcast(|_| calls.fetch_add(1, Ordering::Relaxed));
                numart::broadcast_per_node(|_| ());
            };
            runtime.join(half, half);
            assert_eq!(calls.into_inner(), 2 * workers);
        }
    }
}

#[test]
fn broadcasts_nest_and_come_from_all_sides() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        let calls = AtomicUsize::new(0);
        runtime.broadcast(|_| numart::broadcast(|_| tick(&calls)));
        assert_eq!(calls.load(Ordering::Relaxed), workers * workers);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| runtime.broadcast(|_| tick(&calls)));
            }
        });
        assert_eq!(calls.into_inner(), workers * workers + 4 * workers);
    }
}

/// A busy worker gets its call when its job is done; the others do not wait for that.
#[test]
fn a_busy_worker_is_called_later() {
    let _dog = watchdog();
    let runtime = pool(2);
    let (running, go_on) = (Event::new(), Event::new());
    let busy = runtime.spawn({
        let (running, go_on) = (running.clone(), go_on.clone());
        move || {
            running.set();
            go_on.wait();
            current_worker().unwrap()
        }
    });
    running.wait();
    let called = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        threads.spawn(|| runtime.broadcast(|_| tick(&called)));
        until(|| called.load(Ordering::SeqCst) == 1);
        go_on.set();
    });
    assert_eq!(called.into_inner(), 2);
    busy.join().unwrap();
}

#[test]
fn a_panic_comes_out_when_all_calls_are_done() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        let drops = Drops::new();
        for inside in [false, true] {
            let called = AtomicUsize::new(0);
            let broadcast = || {
                runtime.broadcast(|context| {
                    called.fetch_add(1, Ordering::SeqCst);
                    if context.index() == workers - 1 {
                        panic!("call on purpose");
                    }
                    drops.guard()
                })
            };
            let text = panic_text(|| if inside { runtime.install(broadcast) } else { broadcast() });
            assert_eq!((text.as_str(), called.into_inner()), ("call on purpose", workers));
            drops.check();
        }
        let text = panic_text(|| runtime.broadcast_per_node(|_| panic!("call on purpose")));
        assert_eq!(text, "call on purpose");
    }
}

#[test]
fn one_runtime_broadcasts_to_another() {
    let _dog = watchdog();
    for workers in WORKERS {
        let (one, other) = (pool(workers), pool(3));
        let calls = one.install(|| other.broadcast(|_| current_num_workers()));
        assert_eq!(calls, [3, 3, 3]);
        let back = one.install(|| other.broadcast(|_| one.install(current_num_workers)));
        assert_eq!(back, [workers; 3]);
    }
}

#[test]
fn yield_runs_one_job_whatever_it_is() {
    let _dog = watchdog();
    assert_eq!(yield_now(), None);
    let runtime = pool(1);
    let ran = AtomicUsize::new(0);
    runtime.install(|| {
        assert_eq!(yield_now(), Some(Yield::Idle));
        let stranger = numart::spawn(current_worker);
        assert_eq!(yield_now(), Some(Yield::Executed));
        assert!(stranger.is_finished());
        assert_eq!(stranger.join().unwrap(), Some(0));
        numart::scope(|s| {
            s.spawn(|_| tick(&ran));
            assert_eq!(yield_now(), Some(Yield::Executed));
            assert_eq!(ran.load(Ordering::Relaxed), 1);
        });
        assert_eq!(yield_now(), Some(Yield::Idle));
    });
}

#[test]
fn a_yielding_worker_takes_broadcasts() {
    let _dog = watchdog();
    let runtime = pool(1);
    let called = AtomicUsize::new(0);
    let (running, yielding) = (Event::new(), runtime.handle().clone());
    let looping = runtime.spawn({
        let running = running.clone();
        move || {
            running.set();
            while yield_now() == Some(Yield::Idle) {
                std::hint::spin_loop();
            }
            yielding.num_workers()
        }
    });
    running.wait();
    runtime.broadcast(|_| called.fetch_add(1, Ordering::SeqCst));
    assert_eq!((looping.join().unwrap(), called.into_inner()), (1, 1));
}

#[test]
fn where_am_i() {
    let _dog = watchdog();
    assert_eq!((current_worker(), current_node()), (None, None));
    let runtime = mock("2x3").build().unwrap();
    runtime.install(|| {
        assert_eq!(current_num_workers(), 6);
        let worker = current_worker().unwrap();
        assert_eq!(current_node(), Some(NodeId(worker as u32 / 3)));
        assert_eq!(numart::Handle::current().num_workers(), 6);
    });
    assert_eq!((current_worker(), current_node()), (None, None));
}
