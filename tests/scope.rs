//! Scopes of all kinds: results, order, panics, jobs from elsewhere.

mod common;

use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Drops, Event, PanicsOnDrop, WORKERS, panic_text, pool, scaled, tick, watchdog};
use numart::{Scope, in_place_scope, in_place_scope_fifo, scope, scope_fifo};

#[test]
fn a_scope_returns_when_all_its_jobs_are_done() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        let count = scaled(10_000);
        let mut seen = vec![0u8; count];
        let result = runtime.scope(|s| {
            for slot in &mut seen {
                s.spawn(move |_| *slot += 1);
            }
            "body"
        });
        assert_eq!(result, "body");
        assert!(seen.iter().all(|&times| times == 1), "{workers} workers");
    }
}

#[test]
fn jobs_spawn_jobs_into_the_same_scope() {
    fn tree<'s>(s: &Scope<'s>, depth: u32, leaves: &'s AtomicUsize) {
        if depth == 0 {
            leaves.fetch_add(1, Ordering::Relaxed);
            return;
        }
        for _ in 0..3 {
            s.spawn(move |s| tree(s, depth - 1, leaves));
        }
    }
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        let leaves = AtomicUsize::new(0);
        runtime.scope(|s| tree(s, 6, &leaves));
        assert_eq!(leaves.into_inner(), 729);
    }
}

#[test]
fn scopes_nest_and_mix_with_joins() {
    fn level(depth: u32, count: &AtomicUsize) {
        count.fetch_add(1, Ordering::Relaxed);
        if depth > 0 {
            scope(|s| {
                s.spawn(|_| level(depth - 1, count));
                s.spawn(|_| {
                    numart::join(|| level(depth - 1, count), || level(depth - 1, count));
                });
            });
        }
    }
    let _dog = watchdog();
    for workers in WORKERS {
        let count = AtomicUsize::new(0);
        pool(workers).install(|| level(6, &count));
        assert_eq!(count.into_inner(), (3usize.pow(7) - 1) / 2);
    }
}

/// On one worker the jobs of a fifo scope start in the order of their spawning, those of nested spawns too.
#[test]
fn fifo_order_on_one_worker() {
    let _dog = watchdog();
    let runtime = pool(1);
    let order = Mutex::new(Vec::new());
    let note = |i: usize| order.lock().unwrap().push(i);
    runtime.scope_fifo(|s| {
        for i in 0..10 {
            s.spawn_fifo(move |s| {
                note(i);
                s.spawn_fifo(move |_| note(10 + i));
            });
        }
    });
    assert_eq!(order.into_inner().unwrap(), (0..20).collect::<Vec<_>>());
}

/// And a plain scope runs the newest first there.
#[test]
fn lifo_order_on_one_worker() {
    let _dog = watchdog();
    let runtime = pool(1);
    let order = Mutex::new(Vec::new());
    runtime.scope(|s| {
        for i in 0..10 {
            let order = &order;
            s.spawn(move |_| order.lock().unwrap().push(i));
        }
    });
    assert_eq!(order.into_inner().unwrap(), (0..10).rev().collect::<Vec<_>>());
}

/// With thieves a fifo scope still *starts* the jobs of one spawner in order: each takes the oldest.
#[test]
fn fifo_starts_in_order_under_thieves() {
    let _dog = watchdog();
    for workers in [2, 4] {
        let runtime = pool(workers);
        let count = scaled(2_000);
        let ran = Mutex::new(Vec::new());
        runtime.scope_fifo(|s| {
            for i in 0..count {
                let ran = &ran;
                s.spawn_fifo(move |_| ran.lock().unwrap().push(i));
            }
        });
        let ran = ran.into_inner().unwrap();
        // Between start and note a job may be overtaken by those that other workers run at the same time.
        let mut sorted = ran.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..count).collect::<Vec<_>>());
    }
}

#[test]
fn in_place_scopes_keep_their_body_on_the_calling_thread() {
    let _dog = watchdog();
    let here = std::thread::current().id();
    let runtime = pool(2);
    let local = Rc::new(5);
    let sum = AtomicUsize::new(0);
    let result = runtime.in_place_scope(|s| {
        assert_eq!(std::thread::current().id(), here);
        let (local, sum) = (*local, &sum);
        for _ in 0..100 {
            s.spawn(move |_| {
                assert_ne!(std::thread::current().id(), here);
                assert_eq!(numart::current_num_workers(), 2);
                sum.fetch_add(local, Ordering::Relaxed);
            });
        }
        Rc::new(1)
    });
    runtime.in_place_scope_fifo(|s| s.spawn_fifo(|_| tick(&sum)));
    in_place_scope(|s| s.spawn(|_| tick(&sum)));
    in_place_scope_fifo(|s| s.spawn_fifo(|_| tick(&sum)));
    scope_fifo(|s| s.spawn_fifo(|_| tick(&sum)));
    assert_eq!((*result, sum.into_inner()), (1, 504));
}

#[test]
fn in_place_scope_of_one_runtime_on_another_ones_worker() {
    let _dog = watchdog();
    for workers in WORKERS {
        let (one, other) = (pool(workers), numart::Runtime::builder().workers(3).build().unwrap());
        let sum = AtomicUsize::new(0);
        one.install(|| {
            other.in_place_scope(|s| {
                assert_eq!(numart::current_num_workers(), workers);
                for _ in 0..50 {
                    s.spawn(|s| {
                        assert_eq!(numart::current_num_workers(), 3);
                        s.spawn(|_| tick(&sum));
                        // And back, while the opener waits.
                        one.install(|| sum.fetch_add(1, Ordering::Relaxed));
                    });
                }
            });
        });
        assert_eq!(sum.into_inner(), 100);
    }
}

/// A scope may be handed to threads the runtime does not know.
#[test]
fn jobs_from_foreign_threads() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        let sum = AtomicUsize::new(0);
        runtime.in_place_scope(|s| {
            std::thread::scope(|threads| {
                for _ in 0..4 {
                    threads.spawn(|| {
                        for _ in 0..scaled(200) {
                            s.spawn(|_| tick(&sum));
                        }
                    });
                }
            });
        });
        assert_eq!(sum.into_inner(), 4 * scaled(200));
    }
}

/// Scope bodies and jobs that panic: `jobs` jobs run, of which those in `panics` do panic.
fn panicking(workers: usize, body_panics: bool, job_panics: bool) {
    let runtime = pool(workers);
    let drops = Drops::new();
    let ran = AtomicUsize::new(0);
    let text = panic_text(|| {
        runtime.scope(|s| {
            for i in 0..20 {
                let guard = drops.guard();
                let ran = &ran;
                s.spawn(move |s| {
                    let _guard = guard;
                    s.spawn(move |_| tick(ran));
                    if job_panics && i % 3 == 0 {
                        panic!("job on purpose");
                    }
                });
            }
            if body_panics {
                panic!("body on purpose");
            }
        })
    });
    assert_eq!(text, if body_panics { "body on purpose" } else { "job on purpose" });
    assert_eq!(ran.into_inner(), 20, "everything is done before the rethrow");
    drops.check();
    assert_eq!(runtime.scope(|_| 1), 1);
}

#[test]
fn panics_are_rethrown_when_all_jobs_are_done() {
    let _dog = watchdog();
    for workers in WORKERS {
        panicking(workers, true, false);
        panicking(workers, false, true);
        panicking(workers, true, true);
    }
}

#[test]
fn panics_in_drops_of_captured_values_are_rethrown() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        let drops = Drops::new();
        let text = panic_text(|| {
            runtime.scope(|s| {
                for _ in 0..5 {
                    let bomb = PanicsOnDrop(drops.guard());
                    s.spawn(move |_| drop(bomb));
                    let unused = PanicsOnDrop(drops.guard());
                    s.spawn(move |_| {
                        let _keep = &unused;
                    });
                }
            })
        });
        assert_eq!(text, "drop panicked on purpose");
        drops.check();
    }
}

#[test]
fn payloads_whose_drop_panics_are_survived() {
    let _dog = watchdog();
    let runtime = pool(2);
    let drops = Drops::new();
    let text = panic_text(|| {
        runtime.scope(|s| {
            for _ in 0..3 {
                s.spawn(|_| std::panic::panic_any(PanicsOnDrop(drops.guard())));
            }
            panic!("body on purpose");
        })
    });
    assert_eq!(text, "body on purpose");
    drops.check();
}

#[test]
fn an_in_place_scope_outside_rethrows_too() {
    let _dog = watchdog();
    let runtime = pool(2);
    let ran = AtomicUsize::new(0);
    let text = panic_text(|| {
        runtime.in_place_scope(|s| {
            s.spawn(|_| tick(&ran));
            s.spawn(|_| panic!("job on purpose"));
        })
    });
    assert_eq!((text.as_str(), ran.into_inner()), ("job on purpose", 1));
}

/// A job may run before the body ends: the body waits for it.
#[test]
fn the_body_may_wait_for_a_job() {
    let _dog = watchdog();
    for forced in [true, false] {
        let runtime = numart::Runtime::builder().workers(2).forced_splits(forced).build().unwrap();
        for _ in 0..20 {
            let ran = Event::new();
            runtime.scope(|s| {
                s.spawn(|_| ran.set());
                ran.wait();
            });
        }
    }
}

/// Many blocked bodies and jobs: each of `n` jobs waits for all others, on `n + 1` workers.
#[test]
fn jobs_that_wait_for_each_other_meet() {
    let _dog = watchdog();
    for forced in [true, false] {
        let runtime = numart::Runtime::builder().workers(5).forced_splits(forced).build().unwrap();
        for _ in 0..10 {
            let barrier = std::sync::Barrier::new(5);
            runtime.scope(|s| {
                for _ in 0..4 {
                    s.spawn(|_| {
                        barrier.wait();
                    });
                }
                barrier.wait();
            });
        }
    }
}

/// The runtime's own thread locals may be gone by then. (In a child: a panic in such a destructor aborts.)
#[test]
fn all_calls_work_in_the_destructor_of_a_thread_local() {
    struct AtExit(Mutex<Option<std::sync::mpsc::Sender<u32>>>);
    impl Drop for AtExit {
        fn drop(&mut self) {
            let mut seven = 0;
            in_place_scope(|s| s.spawn(|_| seven = 7));
            let (a, b) = numart::join(|| 1, || 2);
            let joined = numart::spawn(move || a + b).join().unwrap();
            self.0.lock().unwrap().take().unwrap().send(seven + joined).unwrap();
        }
    }
    thread_local!(static LATE: AtExit = const { AtExit(Mutex::new(None)) });
    let _dog = watchdog();
    if !common::is_child() {
        let output = common::run_child("all_calls_work_in_the_destructor_of_a_thread_local", &[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    numart::install(|| ());
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        LATE.with(|late| *late.0.lock().unwrap() = Some(send));
        // Makes the runtime's own thread locals, which are destroyed before or after ours.
        in_place_scope(|s| s.spawn(|_| ()));
    });
    assert_eq!(receive.recv(), Ok(10));
}
