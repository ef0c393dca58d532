//! `par_for`, `par_chunks`, `par_chunks_mut`, `reduce` against their serial counterparts.

mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{WORKERS, panic_text, pool, scaled, tick, watchdog};
use numart::{par_chunks, par_chunks_mut, par_for, reduce};

const LENGTHS: [usize; 14] = [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 100, 1_023, 1_024, 4_097];

#[test]
fn par_for_calls_every_index_once() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        for length in LENGTHS {
            let seen: Vec<_> = (0..length).map(|_| AtomicUsize::new(0)).collect();
            runtime.install(|| par_for(0..length, |i| tick(&seen[i])));
            assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{workers} workers, length {length}");
        }
    }
}

#[test]
fn ranges_may_start_anywhere_and_be_empty_or_backward() {
    let _dog = watchdog();
    let sum = AtomicUsize::new(0);
    par_for(1_000..1_100, |i| {
        sum.fetch_add(i, Ordering::Relaxed);
    });
    assert_eq!(sum.load(Ordering::Relaxed), (1_000..1_100).sum::<usize>());
    #[allow(clippy::reversed_empty_ranges)]
    par_for(5..3, |_| unreachable!());
    par_for(usize::MAX..usize::MAX, |_| unreachable!());
    par_chunks::<u8, _>(&[], |_| unreachable!());
    par_chunks_mut::<u8, _>(&mut [], |_| unreachable!());
    assert_eq!(reduce(9..9, || 4, |_| unreachable!(), |_, _| unreachable!()), 4);
}

/// Ranges that end at the last index there is.
#[test]
fn ranges_may_end_at_the_largest_index() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        for length in [1, 3, 17, 67, 68, 69, 500] {
            let start = usize::MAX - length;
            let count = AtomicUsize::new(0);
            runtime.install(|| {
                par_for(start..usize::MAX, |i| {
                    assert!(i >= start);
                    count.fetch_add(1, Ordering::Relaxed);
                })
            });
            assert_eq!(count.into_inner(), length);
        }
    }
}

#[test]
fn chunks_make_up_the_slice() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        for length in LENGTHS {
            let numbers: Vec<usize> = (0..length).collect();
            let parts = Mutex::new(Vec::new());
            runtime.install(|| par_chunks(&numbers, |part| parts.lock().unwrap().push(part.to_vec())));
            let mut parts = parts.into_inner().unwrap();
            assert!(parts.iter().all(|part| !part.is_empty() && part.is_sorted()));
            parts.sort();
            assert_eq!(parts.concat(), numbers, "{workers} workers");
        }
    }
}

#[test]
fn mutable_chunks_change_every_element_once() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        for length in LENGTHS {
            let mut words: Vec<String> = (0..length).map(|i| i.to_string()).collect();
            runtime.install(|| par_chunks_mut(&mut words, |part| part.iter_mut().for_each(|word| word.push('!'))));
            assert!(words.iter().enumerate().all(|(i, word)| *word == format!("{i}!")));
        }
    }
}

#[test]
fn zero_sized_elements() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        for length in [1, 1_000, isize::MAX as usize, usize::MAX] {
            let units = vec![(); length];
            let (count, calls) = (AtomicUsize::new(0), AtomicUsize::new(0));
            runtime.install(|| {
                par_chunks(&units, |part| {
                    count.fetch_add(part.len(), Ordering::Relaxed);
                    calls.fetch_add(1, Ordering::Relaxed);
                })
            });
            assert_eq!(count.into_inner(), length, "{workers} workers");
            assert!(calls.into_inner() <= 100_000);
            let mut units = units;
            let count = AtomicUsize::new(0);
            runtime.install(|| {
                par_chunks_mut(&mut units, |part| {
                    count.fetch_add(part.len(), Ordering::Relaxed);
                })
            });
            assert_eq!(count.into_inner(), length);
        }
    }
}

/// Concatenation: associative, not commutative.
#[test]
fn reduce_keeps_the_order() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        for length in LENGTHS {
            let text = runtime.install(|| reduce(0..length, String::new, |i| format!("{i},"), |a, b| a + &b));
            let serial: String = (0..length).map(|i| format!("{i},")).collect();
            assert_eq!(text, serial, "{workers} workers, length {length}");
        }
    }
}

#[test]
fn uneven_bodies() {
    fn work(i: usize) -> u64 {
        // One in 64 costs a thousand times the others.
        let rounds = if i.is_multiple_of(64) { 2_000 } else { 2 };
        (0..rounds).fold(i as u64, |x, _| x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1))
    }
    let _dog = watchdog();
    let length = scaled(20_000);
    let serial = (0..length).fold(0u64, |sum, i| sum.wrapping_add(work(i)));
    for workers in WORKERS {
        let runtime = pool(workers);
        for _ in 0..3 {
            let sum = runtime.install(|| reduce(0..length, || 0, work, |a, b| a.wrapping_add(b)));
            assert_eq!(sum, serial);
        }
    }
}

#[test]
fn loops_nest() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        let size = 60;
        let cells: Vec<_> = (0..size * size).map(|_| AtomicUsize::new(0)).collect();
        runtime.install(|| {
            par_for(0..size, |i| {
                par_for(0..i, |j| tick(&cells[i * size + j]));
            });
        });
        for i in 0..size {
            for j in 0..size {
                assert_eq!(cells[i * size + j].load(Ordering::Relaxed), usize::from(j < i));
            }
        }
    }
}

/// Every body that began has ended when the panic comes out, and nothing runs afterwards.
#[test]
fn a_panic_comes_out_when_all_pieces_are_done() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        let running = AtomicUsize::new(0);
        for _ in 0..20 {
            let text = panic_text(|| {
                runtime.install(|| {
                    par_for(0..1_000, |i| {
                        running.fetch_add(1, Ordering::SeqCst);
                        let end = || running.fetch_sub(1, Ordering::SeqCst);
                        if i == 300 || i == 700 {
                            end();
                            panic!("body on purpose");
                        }
                        end();
                    })
                })
            });
            assert_eq!(text, "body on purpose");
            assert_eq!(running.load(Ordering::SeqCst), 0);
        }
        let text = panic_text(|| {
            runtime.install(|| reduce(0..100, String::new, |i| i.to_string(), |_, _| panic!("combine on purpose")))
        });
        assert_eq!(text, "combine on purpose");
    }
}

/// A piece that blocks until another index ran: some other worker must get that other index.
#[test]
fn an_idle_worker_gets_a_part_of_a_blocked_loop() {
    let _dog = watchdog();
    for forced in [true, false] {
        let runtime = numart::Runtime::builder().workers(2).forced_splits(forced).build().unwrap();
        for _ in 0..50 {
            let last_ran = common::Event::new();
            runtime.install(|| {
                par_for(0..2, |i| if i == 0 { last_ran.wait() } else { last_ran.set() });
            });
        }
    }
}

#[test]
fn values_are_dropped_once() {
    let _dog = watchdog();
    for workers in WORKERS {
        let drops = common::Drops::new();
        let last = pool(workers).install(|| {
            reduce(
                0..scaled(5_000),
                || drops.guard(),
                |_| drops.guard(),
                |a, b| if drops.made().is_multiple_of(2) { a } else { b },
            )
        });
        drop(last);
        drops.check();
    }
}
