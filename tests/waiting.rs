//! The waiting rule: what must finish however few workers there are, and what must never run on top of a wait.

mod common;

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::{Event, each_size, mock, pool, scaled, tick, until, watchdog};
use numart::{Runtime, Waiting, join, par_for, scope, spawn};

const BOTH: [Waiting; 2] = [Waiting::Related, Waiting::Any];

/// N tasks that join N handles that are queued behind them.
#[test]
fn tasks_that_join_queued_handles() {
    let _dog = watchdog();
    each_size(&BOTH, |case| {
        let runtime = case.pool();
        for count in [1, 2, 8, 50] {
            let handles: Vec<_> = (0..count).map(|i| runtime.spawn(move || spawn(move || i).join().unwrap())).collect();
            for (i, handle) in handles.into_iter().enumerate() {
                assert_eq!(handle.join().unwrap(), i);
            }
            // All inner ones first in the queue's tail, joined by outer ones in reverse.
            let inner: Vec<_> = (0..count).map(|i| runtime.spawn(move || i)).collect();
            let outer: Vec<_> =
                inner.into_iter().rev().map(|handle| runtime.spawn(move || handle.join().unwrap())).collect();
            let sum: usize = outer.into_iter().map(|handle| handle.join().unwrap()).sum();
            assert_eq!(sum, (0..count).sum::<usize>());
        }
    });
}

/// Each of two pools installs into the other, several levels deep, from both ends at once.
#[test]
fn pools_that_install_into_each_other() {
    fn deep(here: &Runtime, there: &Runtime, level: usize) -> usize {
        if level == 0 { 0 } else { 1 + here.install(|| deep(there, here, level - 1)) }
    }
    let _dog = watchdog();
    each_size(&BOTH, |case| {
        let (one, other) = (case.pool(), case.pool());
        for level in [1, 2, 3, 8, 20] {
            assert_eq!(deep(&one, &other, level), level);
        }
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| assert_eq!(deep(&one, &other, 6), 6));
                threads.spawn(|| assert_eq!(deep(&other, &one, 6), 6));
            }
        });
    });
}

/// The same with work at every level, which must be found across both pools.
#[test]
fn pools_that_join_inside_each_other() {
    fn deep(here: &Runtime, there: &Runtime, level: usize, count: &AtomicUsize) {
        here.install(|| {
            tick(count);
            if level > 0 {
                join(|| deep(there, here, level - 1, count), || deep(there, here, level - 1, count));
            }
        });
    }
    let _dog = watchdog();
    each_size(&BOTH, |case| {
        let (one, other) = (case.pool(), case.pool());
        let count = AtomicUsize::new(0);
        deep(&one, &other, 6, &count);
        assert_eq!(count.into_inner(), 127);
    });
}

/// A lock held over a nested join: related waiting only, since `Any` may run another locker on top.
#[test]
fn a_lock_held_over_a_join() {
    let _dog = watchdog();
    each_size(&[Waiting::Related], |case| {
        let runtime = case.pool();
        let lock = Mutex::new(0usize);
        let rounds = scaled(300);
        runtime.scope(|s| {
            for _ in 0..rounds {
                s.spawn(|_| {
                    let mut held = lock.lock().unwrap();
                    let (a, b) = join(|| std::hint::black_box(1), || std::hint::black_box(2));
                    *held += a + b;
                });
            }
        });
        assert_eq!(lock.into_inner().unwrap(), 3 * rounds);
    });
}

/// rayon issue 592: a parallel loop whose bodies run a parallel loop under one lock.
#[test]
fn a_parallel_loop_under_a_lock_inside_a_parallel_loop() {
    let _dog = watchdog();
    each_size(&[Waiting::Related], |case| {
        let runtime = case.pool();
        let lock = Mutex::new(());
        let count = AtomicUsize::new(0);
        runtime.install(|| {
            par_for(0..scaled(200), |_| {
                let _held = lock.lock().unwrap();
                par_for(0..20, |_| tick(&count));
                scope(|s| s.spawn(|_| tick(&count)));
            });
        });
        assert_eq!(count.into_inner(), scaled(200) * 21);
    });
}

/// The same through a pool of the library's own, called under its lock (rayon issue 1174).
#[test]
fn another_pool_under_a_lock() {
    let _dog = watchdog();
    each_size(&[Waiting::Related], |case| {
        let (caller, driver) = (case.pool(), case.pool());
        let lock = Mutex::new(());
        let count = AtomicUsize::new(0);
        caller.install(|| {
            par_for(0..scaled(200), |_| {
                let _held = lock.lock().unwrap();
                driver.scope(|s| {
                    for _ in 0..4 {
                        s.spawn(|_| tick(&count));
                    }
                });
            });
        });
        assert_eq!(count.into_inner(), scaled(200) * 4);
    });
}

/// A lock held while a handle is joined whose task is queued behind others that want the lock.
#[test]
fn a_lock_held_over_a_joined_handle() {
    let _dog = watchdog();
    each_size(&[Waiting::Related], |case| {
        let runtime = case.pool();
        let lock = Arc::new(Mutex::new(0));
        let tasks: Vec<_> = (0..scaled(100))
            .map(|_| {
                let lock = lock.clone();
                runtime.spawn(move || {
                    let mut held = lock.lock().unwrap();
                    *held += spawn(|| 1).join().unwrap();
                })
            })
            .collect();
        let count = tasks.len();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(*lock.lock().unwrap(), count);
    });
}

std::thread_local! {
    /// The caller whose frame is waiting on this thread; 0 if none.
    static WAITING_FOR: Cell<usize> = const { Cell::new(0) };
}

/// Marks the thread while `body`, which waits, runs; all of `family` may run there meanwhile.
fn marked<R>(family: usize, body: impl FnOnce() -> R) -> R {
    let outer = WAITING_FOR.replace(family);
    let result = body();
    WAITING_FOR.set(outer);
    result
}

/// Fails if the thread is in the middle of another family's wait.
fn assert_related(family: usize, strangers: &AtomicUsize) {
    if ![0, family].contains(&WAITING_FOR.get()) {
        tick(strangers);
    }
}

/// Families of joins and scopes, spawned by the hundred: no member ever runs on top of another family's wait.
#[test]
fn no_stranger_on_top_of_a_wait() {
    fn work(family: usize, depth: usize, strangers: &AtomicUsize) {
        assert_related(family, strangers);
        if depth == 0 {
            (0..100).for_each(|i| {
                std::hint::black_box(i);
            });
            return;
        }
        marked(family, || join(|| work(family, depth - 1, strangers), || work(family, depth - 1, strangers)));
        marked(family, || {
            scope(|s| {
                for _ in 0..2 {
                    s.spawn(|_| work(family, depth - 1, strangers));
                }
            })
        });
    }
    let _dog = watchdog();
    each_size(&[Waiting::Related], |case| {
        let runtime = case.pool();
        let strangers = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (1..=scaled(200))
            .map(|family| {
                let strangers = strangers.clone();
                runtime.spawn(move || {
                    assert_related(family, &strangers);
                    work(family, 4, &strangers);
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(strangers.load(Ordering::SeqCst), 0, "{case:?}");
    });
}

/// An install that comes back to the pool it came from lies below the first wait there, but not below those that its
/// waiter is in by now.
#[test]
fn an_install_does_not_run_on_top_of_an_unrelated_wait() {
    let _dog = watchdog();
    let (one, other) = (mock("1x1").build().unwrap(), mock("1x1").build().unwrap());
    for _ in 0..scaled(200) {
        let lock = Mutex::new(());
        let (locked, installing) = (Event::new(), Event::new());
        one.install(|| {
            other.install(|| {
                // This job lies below the wait of `one`'s worker, which will run it there ...
                one.in_place_scope(|s| {
                    s.spawn(|_| {
                        let _held = lock.lock().unwrap();
                        locked.set();
                        installing.wait();
                        // ... and waits with a lock held: only for what is below this join.
                        let slow = pool_of_its_own();
                        slow.install(|| (0..1_000).for_each(|_| std::thread::yield_now()));
                    });
                    locked.wait();
                    installing.set();
                    one.install(|| drop(lock.lock().unwrap()));
                });
            });
        });
    }
}

fn pool_of_its_own() -> &'static Runtime {
    static POOL: std::sync::OnceLock<Runtime> = std::sync::OnceLock::new();
    POOL.get_or_init(|| pool(1))
}

/// The worker that waits for an install's job may be busy with another job below it; another worker is idle.
#[test]
fn an_install_reaches_an_idle_worker_when_its_waiter_is_busy() {
    let _dog = watchdog();
    let (one, other) = (mock("1x2").build().unwrap(), mock("1x1").build().unwrap());
    for _ in 0..scaled(300) {
        let (running, installed) = (Event::new(), Event::new());
        one.install(|| {
            other.install(|| {
                one.in_place_scope(|s| {
                    s.spawn(|_| {
                        running.set();
                        installed.wait();
                    });
                    running.wait();
                    one.install(|| installed.set());
                });
            });
        });
    }
}

/// Jobs for an outer scope, spawned inside an inner join and an inner scope, lie on top of what the inner ones wait for.
#[test]
fn strays_reach_their_scope() {
    let _dog = watchdog();
    each_size(&BOTH, |case| {
        let runtime = case.pool();
        for spares in [0, 64] {
            let runtime = if spares == 0 { case.builder().spare_threads(0).build().unwrap() } else { case.pool() };
            let (count, inner) = (AtomicUsize::new(0), AtomicUsize::new(0));
            for _ in 0..scaled(50) {
                runtime.scope(|outer| {
                    for _ in 0..5 {
                        join(
                            || outer.spawn(|_| tick(&count)),
                            || {
                                outer.spawn(|_| tick(&count));
                                tick(&inner);
                            },
                        );
                        scope(|s| {
                            s.spawn(|_| {
                                outer.spawn(|_| tick(&count));
                                tick(&inner);
                            });
                            outer.spawn(|outer| outer.spawn(|_| tick(&count)));
                            s.spawn(|_| tick(&inner));
                        });
                    }
                });
            }
            assert_eq!((count.into_inner(), inner.into_inner()), (scaled(50) * 20, scaled(50) * 15), "{case:?}");
        }
        drop(runtime);
    });
}

/// A stray needs another thread while its scope's opener waits, blocked, for something below.
#[test]
fn a_stray_runs_while_its_scopes_opener_waits_below() {
    let _dog = watchdog();
    each_size(&[Waiting::Related], |case| {
        if case.workers == 1 {
            return;
        }
        let runtime = case.pool();
        for _ in 0..scaled(50) {
            let ran = Event::new();
            runtime.scope(|outer| {
                join(
                    || {
                        outer.spawn(|_| ran.set());
                        ran.wait();
                    },
                    || (),
                );
            });
        }
    });
}

/// Every worker waits in a handle, and the tasks they wait for are queued elsewhere: spares do the work.
#[test]
fn work_goes_on_while_every_worker_waits() {
    let _dog = watchdog();
    each_size(&BOTH, |case| {
        let (runtime, other) = (Arc::new(case.pool()), case.pool());
        let tasks: Vec<_> = (0..case.workers * 2)
            .map(|i| {
                // Not claimed by its waiter: a task of another runtime, which needs this one.
                let back = runtime.clone();
                let elsewhere = other.spawn(move || back.spawn(move || i).join().unwrap());
                runtime.spawn(move || elsewhere.join().unwrap())
            })
            .collect();
        for (i, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.join().unwrap(), i);
        }
    });
}

/// With no spare a `join` or scope that would stand still runs anything, and that is counted.
#[test]
fn at_the_bound_joins_run_anything() {
    let _dog = watchdog();
    let runtime = mock("1x1").spare_threads(0).build().unwrap();
    let other = pool(1);
    let mut done = false;
    let needed = Event::new();
    runtime.install(|| {
        drop(spawn({
            let needed = needed.clone();
            move || needed.set()
        }));
        // Waits for another pool's job, which waits for a task queued here.
        other.in_place_scope(|s| {
            s.spawn(|_| {
                needed.wait();
                done = true;
            });
        });
    });
    assert!(done);
    assert!(runtime.stats().totals().waits_at_bound > 0);
    assert_eq!(runtime.stats().nodes[0].spare_threads, 0);
}

/// No more spares than asked for are ever started.
#[test]
fn spares_are_bounded() {
    let _dog = watchdog();
    let runtime = Arc::new(mock("1x1").spare_threads(3).build().unwrap());
    let other = pool(8);
    let sum = AtomicUsize::new(0);
    other.scope(|s| {
        for i in 0..8 {
            let (runtime, other, sum) = (&runtime, &other, &sum);
            s.spawn(move |_| {
                runtime.install(|| other.install(|| runtime.install(|| sum.fetch_add(i, Ordering::Relaxed))));
            });
        }
    });
    assert_eq!(sum.into_inner(), 28);
    assert!(runtime.stats().nodes[0].spare_threads <= 3);
    until(|| runtime.stats().nodes[0].queue_depth == 0);
}

/// More tasks than threads wait for another runtime, whose tasks are slow: that is no deadlock.
#[test]
fn more_waits_for_another_runtime_than_there_are_threads() {
    let _dog = watchdog();
    for spares in [0, 1, 64] {
        let runtime = mock("1x1").spare_threads(spares).build().unwrap();
        let other = pool(1);
        let there = other.handle().clone();
        runtime.install(|| {
            scope(|s| {
                for _ in 0..100 {
                    s.spawn(|_| {
                        let slow = there.spawn(|| std::thread::sleep(std::time::Duration::from_millis(2)));
                        slow.join().unwrap();
                    });
                }
            });
        });
        let slow = |runtime: &Runtime| {
            let there = there.clone();
            runtime
                .spawn(move || there.spawn(|| std::thread::sleep(std::time::Duration::from_millis(2))).join().unwrap())
        };
        let waits: Vec<_> = (0..100).map(|_| slow(&runtime)).collect();
        waits.into_iter().for_each(|wait| wait.join().unwrap());
    }
}

/// Each task joins the next, which nobody has started: they run on top of each other as far as a stack goes, and then on
/// another.
#[test]
fn a_chain_of_joins_longer_than_a_stack() {
    let _dog = watchdog();
    fn link(left: usize) -> usize {
        if left == 0 { 0 } else { 1 + spawn(move || link(left - 1)).join().unwrap() }
    }
    for workers in [1, 2] {
        let length = scaled(200_000);
        assert_eq!(pool(workers).install(|| link(length)), length);
    }
}
