//! Random lives of closures: spawned, joined, detached, scoped, split, panicking, cancelled; each value they capture or
//! return is dropped exactly once, and each closure runs at most once.
//!
//! `NUMART_LIVES=10000000 cargo test --release --test lives -- --nocapture` for the long run.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{ON_PURPOSE, Random, mock, pool, slowdown, watchdog_of};
use numart::{JoinError, JoinHandle, Runtime, Shutdown, Waiting, join, par_for, scope, scope_fifo, spawn, yield_now};

/// Spawned tasks, scope jobs and join halves when nothing is said: about 5 s in debug.
const LIVES: u64 = 1_200_000;
/// Lives of one runtime.
const ONE_RUNTIME: u64 = 20_000;

#[derive(Default)]
struct Census {
    born: AtomicU64,
    died: AtomicU64,
    ran: AtomicU64,
    spawned: AtomicU64,
    halves: AtomicU64,
    scoped: AtomicU64,
    panics: AtomicU64,
    refused: AtomicU64,
    /// Waits may run strangers on top: then nobody may join a task of somebody else, which could be the one that lies
    /// below on the same stack.
    strangers: AtomicBool,
}

fn count(of: &AtomicU64) {
    of.fetch_add(1, Ordering::Relaxed);
}

/// What every closure captures and every task returns.
struct Life {
    census: Arc<Census>,
    /// To be taken for dead if dropped twice.
    alive: Box<u64>,
}

const ALIVE: u64 = 0x11FE_11FE;

impl Life {
    fn new(census: &Arc<Census>) -> Life {
        count(&census.born);
        Life { census: census.clone(), alive: Box::new(ALIVE) }
    }

    fn runs(&self) {
        assert_eq!(*self.alive, ALIVE);
        count(&self.census.ran);
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        assert_eq!(*self.alive, ALIVE, "dropped twice");
        *self.alive = 0;
        count(&self.census.died);
    }
}

/// One task's doings: about `budget` lives below it.
fn live(census: &Arc<Census>, seed: u64, budget: u64) {
    let mut random = Random(seed | 1);
    (0..3).for_each(|_| _ = random.next());
    let mut left = budget;
    let mut kept: Vec<JoinHandle<Life>> = Vec::new();
    while left > 0 {
        let share = 1 + random.below(left.min(1 + left / 2));
        left -= share;
        let seed = random.next();
        match random.below(24) {
            0..=7 => halves(census, seed, share),
            8..=10 => {
                let task = |census: &Arc<Census>| {
                    let (life, census) = (Life::new(census), census.clone());
                    count(&census.spawned);
                    spawn(move || {
                        life.runs();
                        live(&census, seed, share - 1);
                        life
                    })
                };
                match seed % 4 {
                    0 => drop(task(census)),
                    1 => kept.push(task(census)),
                    _ => ended(census, task(census).join()),
                }
            }
            11 => {
                // Small ones by the dozen, the handles dropped in one go or joined newest first.
                for i in 0..share {
                    let life = Life::new(census);
                    count(&census.spawned);
                    let handle = spawn(move || {
                        life.runs();
                        Life::new(&life.census)
                    });
                    if i % 3 == 0 { drop(handle) } else { kept.push(handle) }
                }
            }
            12..=15 => scope(|s| {
                let jobs = 1 + seed % 4;
                for i in 0..jobs {
                    let life = Life::new(census);
                    count(&census.scoped);
                    s.spawn(move |s| {
                        life.runs();
                        live(&life.census, seed ^ i << 32, share.saturating_sub(1) / jobs);
                        if i == 0 {
                            let again = Life::new(&life.census);
                            count(&life.census.scoped);
                            s.spawn(move |_| again.runs());
                        }
                    });
                }
            }),
            16 => scope_fifo(|s| {
                for _ in 0..share.min(30) {
                    let life = Life::new(census);
                    count(&census.scoped);
                    s.spawn_fifo(move |_| life.runs());
                }
            }),
            17 => par_for(0..share.min(200) as usize, |_| Life::new(census).runs()),
            18 => panics(census, seed),
            19 if census.strangers.load(Ordering::Relaxed) => _ = yield_now(),
            20 => kept.drain(..).rev().for_each(|handle| ended(census, handle.join())),
            21 => drop(kept.split_off(kept.len() / 2)),
            22 if !census.strangers.load(Ordering::Relaxed) => {
                // Joined by another task.
                if let Some(handle) = kept.pop() {
                    let life = Life::new(census);
                    count(&census.spawned);
                    kept.push(spawn(move || {
                        life.runs();
                        ended(&life.census, handle.join());
                        life
                    }));
                }
            }
            _ => {
                std::thread::yield_now();
                let _ = kept.iter().filter(|handle| handle.is_finished()).count();
            }
        }
        if kept.len() > 50 {
            drop(kept.split_off(25));
        }
    }
    if seed.is_multiple_of(2) {
        kept.into_iter().for_each(|handle| ended(census, handle.join()));
    }
}

fn halves(census: &Arc<Census>, seed: u64, share: u64) {
    let (left, right) = (Life::new(census), Life::new(census));
    count(&census.halves);
    count(&census.halves);
    let rest = share.saturating_sub(2);
    join(
        move || {
            left.runs();
            if rest > 0 {
                live(&left.census, seed, rest / 2);
            }
        },
        move || {
            right.runs();
            if rest > 1 {
                live(&right.census, !seed, rest / 2);
            }
        },
    );
}

fn panics(census: &Arc<Census>, seed: u64) {
    count(&census.panics);
    let one = Life::new(census);
    match seed % 5 {
        0 => {
            count(&census.spawned);
            let handle: JoinHandle<Life> = spawn(move || {
                one.runs();
                panic!("task {ON_PURPOSE}")
            });
            match handle.join() {
                Ok(_) => unreachable!(),
                other => ended(census, other),
            }
        }
        1 => {
            // The payload itself is a life.
            count(&census.spawned);
            drop(spawn(move || {
                one.runs();
                std::panic::panic_any(one)
            }));
        }
        way => {
            let other = Life::new(census);
            let both = AssertUnwindSafe(|| match way {
                2 => {
                    count(&census.halves);
                    count(&census.halves);
                    join(
                        move || {
                            one.runs();
                            panic!("half {ON_PURPOSE}")
                        },
                        move || other.runs(),
                    );
                }
                3 => {
                    count(&census.halves);
                    count(&census.halves);
                    join(
                        move || one.runs(),
                        move || {
                            other.runs();
                            std::panic::panic_any(other)
                        },
                    );
                }
                _ => scope(|s| {
                    count(&census.scoped);
                    count(&census.scoped);
                    s.spawn(move |_| {
                        one.runs();
                        panic!("job {ON_PURPOSE}")
                    });
                    s.spawn(move |_| other.runs());
                }),
            });
            assert!(catch_unwind(both).is_err());
        }
    }
}

/// A handle's result is one of those that there may be.
fn ended(census: &Census, result: Result<Life, JoinError>) {
    match result {
        Ok(life) => assert_eq!(*life.alive, ALIVE),
        Err(JoinError::Panic(_)) => {}
        Err(JoinError::Shutdown) => count(&census.refused),
        Err(other) => panic!("{other}"),
    }
}

fn one_runtime(census: &Arc<Census>, random: &mut Random, lives: u64) {
    let rule = if random.below(3) == 0 { Waiting::Any } else { Waiting::Related };
    let builder = match random.below(6) {
        0 => mock("2x1"),
        1 => mock("4x1"),
        2 => mock("2x2"),
        _ => Runtime::builder().workers(1 + random.below(4) as usize),
    };
    census.strangers.store(rule == Waiting::Any || random.below(2) == 0, Ordering::Relaxed);
    let runtime = builder.waiting(rule).forced_splits(random.below(4) > 0).build().unwrap();
    let how = if random.below(3) == 0 { Shutdown::Cancel } else { Shutdown::Drain };
    let roots = 1 + random.below(4);
    let mut handles = Vec::new();
    for _ in 0..roots {
        let (seed, life, census) = (random.next(), Life::new(census), census.clone());
        count(&census.spawned);
        handles.push(runtime.spawn(move || {
            life.runs();
            live(&census, seed, lives / roots);
            life
        }));
    }
    match random.below(4) {
        // Cancelled in the midst of it, or drained.
        0 => {
            runtime.shutdown(how);
            handles.into_iter().for_each(|handle| ended(census, handle.join()));
        }
        1 => {
            drop(handles);
            runtime.shutdown(how);
        }
        _ => {
            handles.into_iter().for_each(|handle| ended(census, handle.join()));
            runtime.shutdown(how);
        }
    }
    let read = |of: &AtomicU64| of.load(Ordering::SeqCst);
    assert_eq!(read(&census.died), read(&census.born), "dropped, made");
}

#[test]
fn every_life_ends_once() {
    let lives: u64 = std::env::var("NUMART_LIVES")
        .map_or(LIVES / slowdown(), |text| text.parse().expect("NUMART_LIVES is a number"));
    let _dog = watchdog_of(60 + lives / 40_000);
    let seed = std::env::var("NUMART_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x5EED_CAFE_F00D_u64);
    let (census, mut random) = (Arc::new(Census::default()), Random(seed));
    // A global runtime beside them is another's.
    drop(pool(1));
    let mut runtimes = 0;
    let done = |census: &Census| {
        let read = |of: &AtomicU64| of.load(Ordering::SeqCst);
        read(&census.spawned) + read(&census.halves) + read(&census.scoped)
    };
    while done(&census) < lives {
        one_runtime(&census, &mut random, ONE_RUNTIME.min(lives - done(&census)).max(100));
        runtimes += 1;
    }
    let read = |of: &AtomicU64| of.load(Ordering::SeqCst);
    let Census { born, died, ran, spawned, halves, scoped, panics, refused, .. } = &*census;
    println!(
        "{} closures in {runtimes} runtimes: {} spawned, {} join halves, {} scope jobs; {} ran; {} panics, {} refused at \
         the handle; values made {}, dropped {}",
        done(&census),
        read(spawned),
        read(halves),
        read(scoped),
        read(ran),
        read(panics),
        read(refused),
        read(born),
        read(died),
    );
    assert_eq!(read(born), read(died));
    assert!(read(ran) <= read(born));
}
