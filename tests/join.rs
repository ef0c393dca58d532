//! `join` and `join_context`: results, panics, depth.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::{Drops, Event, PanicsOnDrop, WORKERS, panic_text, pool, until, watchdog};
use numart::{join, join_context};

fn fibonacci(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = join(|| fibonacci(n - 1), || fibonacci(n - 2));
    a + b
}

#[test]
fn nested_joins_give_the_serial_result() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        assert_eq!(runtime.install(|| fibonacci(18)), 2584);
    }
}

#[test]
fn join_outside_moves_into_the_global_runtime() {
    let _dog = watchdog();
    let (a, b) = join(numart::current_worker, numart::current_worker);
    assert!(a.is_some() && b.is_some());
    let runtime = pool(2);
    let (a, b) = runtime.join(numart::current_num_workers, numart::current_num_workers);
    assert_eq!((a, b), (2, 2));
}

#[test]
fn both_halves_borrow_and_return_what_they_like() {
    let _dog = watchdog();
    let runtime = pool(2);
    let mut left = vec![3, 1, 2];
    let mut right = [String::from("b"), String::from("a")];
    let (big, nothing) = runtime.join(
        || {
            left.sort_unstable();
            [7u64; 512]
        },
        || right.sort(),
    );
    assert_eq!((left, right[0].as_str(), big, nothing), (vec![1, 2, 3], "a", [7; 512], ()));
}

/// Quicksort: uneven halves, mutable borrows at every level.
#[test]
fn quicksort_sorts() {
    fn sort(values: &mut [u32]) {
        if values.len() < 2 {
            return;
        }
        let last = values.len() - 1;
        let mut middle = 0;
        for i in 0..last {
            if values[i] <= values[last] {
                values.swap(i, middle);
                middle += 1;
            }
        }
        values.swap(middle, last);
        let (left, right) = values.split_at_mut(middle);
        join(|| sort(left), || sort(&mut right[1..]));
    }
    let _dog = watchdog();
    let mut random = common::Random(9);
    for workers in WORKERS {
        let runtime = pool(workers);
        let mut values: Vec<u32> = (0..common::scaled(20_000)).map(|_| random.below(5_000) as u32).collect();
        let mut expected = values.clone();
        expected.sort_unstable();
        runtime.install(|| sort(&mut values));
        assert_eq!(values, expected);
    }
}

#[test]
fn nothing_migrates_on_one_worker() {
    let _dog = watchdog();
    let runtime = pool(1);
    let (a, b) = runtime.install(|| join_context(|context| context.migrated(), |context| context.migrated()));
    assert!(!a && !b);
}

#[test]
fn a_stolen_half_knows_that_it_migrated() {
    let _dog = watchdog();
    let runtime = pool(2);
    let stolen = Event::new();
    let (here, (migrated, there)) = runtime.install(|| {
        join_context(
            |context| {
                assert!(!context.migrated());
                // Blocks this worker until another has the second half.
                stolen.wait();
                numart::current_worker()
            },
            |context| {
                stolen.set();
                (context.migrated(), numart::current_worker())
            },
        )
    });
    assert!(migrated);
    assert_ne!(here, there);
}

#[test]
fn from_outside_the_first_half_migrates() {
    let _dog = watchdog();
    let (a, _) = join_context(|context| context.migrated(), |_| ());
    assert!(a);
}

/// One panic: where, and whether the other half is stolen before it.
fn panicking(workers: usize, a_panics: bool, b_panics: bool, steal: bool) {
    let runtime = pool(workers);
    let drops = Drops::new();
    let done = AtomicUsize::new(0);
    let started = Event::new();
    let text = panic_text(|| {
        runtime.install(|| {
            let (in_a, in_b) = (drops.guard(), drops.guard());
            join(
                || {
                    let _in_a = in_a;
                    if steal {
                        started.wait();
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                    if a_panics {
                        panic!("a on purpose");
                    }
                    drops.guard()
                },
                || {
                    let _in_b = in_b;
                    started.set();
                    // Work below this half is done before the rethrow too.
                    join(|| done.fetch_add(1, Ordering::SeqCst), || done.fetch_add(1, Ordering::SeqCst));
                    if b_panics {
                        panic!("b on purpose");
                    }
                    drops.guard()
                },
            )
        })
    });
    assert_eq!(text, if a_panics { "a on purpose" } else { "b on purpose" });
    assert_eq!(done.into_inner(), 3, "everything is done before the rethrow");
    drops.check();
    // The workers go on.
    assert_eq!(runtime.install(|| fibonacci(8)), 21);
}

#[test]
fn panics_are_rethrown_after_both_halves() {
    let _dog = watchdog();
    for workers in WORKERS {
        for (a, b) in [(true, false), (false, true), (true, true)] {
            panicking(workers, a, b, false);
            if workers > 1 {
                panicking(workers, a, b, true);
            }
        }
    }
}

#[test]
fn a_panic_in_the_drop_of_a_captured_value_is_rethrown() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        let drops = Drops::new();
        for side in 0..2 {
            let (in_a, in_b) = if side == 0 {
                (Some(PanicsOnDrop(drops.guard())), None)
            } else {
                (None, Some(PanicsOnDrop(drops.guard())))
            };
            let other_ran = Arc::new(AtomicUsize::new(0));
            let (a_ran, b_ran) = (other_ran.clone(), other_ran.clone());
            let text = panic_text(|| {
                runtime.install(|| {
                    join(
                        move || {
                            a_ran.fetch_add(1, Ordering::SeqCst);
                            drop(in_a);
                        },
                        move || {
                            b_ran.fetch_add(1, Ordering::SeqCst);
                            drop(in_b);
                        },
                    )
                })
            });
            assert_eq!((text.as_str(), other_ran.load(Ordering::SeqCst)), ("drop panicked on purpose", 2));
        }
        drops.check();
    }
}

/// `a` panics, and the result of `b`, which nobody will get, panics when dropped: `a`'s panic wins and nothing aborts.
#[test]
fn a_result_whose_drop_panics_does_not_hide_the_first_panic() {
    let _dog = watchdog();
    for workers in WORKERS {
        for steal in [false, true] {
            if steal && workers == 1 {
                continue;
            }
            let runtime = pool(workers);
            let drops = Drops::new();
            let started = Event::new();
            let text = panic_text(|| {
                runtime.install(|| {
                    join(
                        || {
                            if steal {
                                started.wait();
                            }
                            panic!("a on purpose")
                        },
                        || {
                            started.set();
                            PanicsOnDrop(drops.guard())
                        },
                    )
                })
            });
            assert_eq!(text, "a on purpose");
            drops.check();
        }
    }
}

/// A payload that panics when dropped, thrown by the half whose panic loses.
#[test]
fn a_payload_whose_drop_panics_is_survived() {
    let _dog = watchdog();
    let runtime = pool(2);
    let drops = Drops::new();
    let text =
        panic_text(|| runtime.join(|| panic!("a on purpose"), || std::panic::panic_any(PanicsOnDrop(drops.guard()))));
    assert_eq!(text, "a on purpose");
    drops.check();
}

const DEEP: u32 = 10_000;

#[test]
fn ten_thousand_deep_in_the_first_half() {
    fn deep(n: u32) -> u32 {
        if n == 0 { 0 } else { 1 + join(|| deep(n - 1), || ()).0 }
    }
    let _dog = watchdog();
    for workers in WORKERS {
        assert_eq!(pool(workers).install(|| deep(DEEP)), DEEP);
    }
}

#[test]
fn ten_thousand_deep_in_the_second_half() {
    fn deep(n: u32) -> u32 {
        if n == 0 { 0 } else { 1 + join(|| (), || deep(n - 1)).1 }
    }
    let _dog = watchdog();
    for workers in WORKERS {
        assert_eq!(pool(workers).install(|| deep(DEEP)), DEEP);
    }
}

/// Every level leaves work behind, so that thieves and waits come into play at depth.
#[test]
fn ten_thousand_deep_with_work_on_the_other_side() {
    fn deep(n: u32, sum: &AtomicUsize) -> u32 {
        let work = || {
            for i in 0..50 {
                sum.fetch_add(std::hint::black_box(i) & 1, Ordering::Relaxed);
            }
        };
        if n == 0 { 0 } else { 1 + join(|| deep(n - 1, sum), work).0 }
    }
    let _dog = watchdog();
    for workers in WORKERS {
        let sum = AtomicUsize::new(0);
        assert_eq!(pool(workers).install(|| deep(DEEP, &sum)), DEEP);
        assert_eq!(sum.into_inner(), DEEP as usize * 25);
    }
}

/// More halves open at once than a new ring has slots: it grows while thieves read it.
#[test]
fn many_open_halves_under_thieves() {
    fn wide(n: usize, seen: &[AtomicUsize]) {
        if n < seen.len() {
            join(
                || wide(n + 1, seen),
                || {
                    seen[n].fetch_add(1, Ordering::Relaxed);
                },
            );
        }
    }
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        for len in [255, 256, 257, 511, 513, 2_000] {
            let seen: Vec<_> = (0..len).map(|_| AtomicUsize::new(0)).collect();
            runtime.install(|| wide(0, &seen));
            assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{workers} workers, {len} halves");
        }
    }
}

/// Halves that need each other's threads at the same time: three leaves meet at a barrier.
#[test]
fn leaves_that_wait_for_each_other_meet() {
    let _dog = watchdog();
    for forced in [true, false] {
        let runtime = numart::Runtime::builder().workers(3).forced_splits(forced).build().unwrap();
        for _ in 0..20 {
            let barrier = std::sync::Barrier::new(3);
            let meet = || {
                barrier.wait();
            };
            runtime.install(|| join(|| join(meet, meet), meet));
        }
    }
}

#[test]
fn joins_from_many_outside_threads_at_once() {
    let _dog = watchdog();
    let runtime = pool(2);
    let sums = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                let (a, b) = runtime.join(|| fibonacci(10), || fibonacci(11));
                sums.lock().unwrap().push(a + b);
            });
        }
    });
    assert_eq!(sums.into_inner().unwrap(), [144; 8]);
    until(|| runtime.stats().nodes.iter().all(|node| node.queue_depth == 0));
}
