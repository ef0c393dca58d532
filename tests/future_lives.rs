//! Random lives of futures: spawned, woken by each other, by threads outside and by themselves, aborted, joined, awaited,
//! detached, panicking in their poll, in their drop and in a waker, ended by a shutdown. Each is dropped exactly once, with
//! all it holds, and each output too.
//!
//! `NUMART_LIVES=10000000 cargo test --release --test future_lives -- --nocapture` for the long run.

mod common;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use common::{ON_PURPOSE, Random, mock, slowdown, watchdog_of};
use numart::{JoinError, JoinHandle, JoinSet, Runtime, Shutdown, spawn, yield_now};

/// Futures when nothing is said: some seconds in debug.
const LIVES: u64 = 300_000;
const ONE_RUNTIME: u64 = 5_000;

#[derive(Default)]
struct Census {
    born: AtomicU64,
    died: AtomicU64,
    spawned: AtomicU64,
    polled: AtomicU64,
    finished: AtomicU64,
    aborted: AtomicU64,
    shut: AtomicU64,
    panicked: AtomicU64,
}

fn count(of: &AtomicU64) {
    of.fetch_add(1, Ordering::Relaxed);
}

/// What every future holds and returns.
struct Life {
    census: Arc<Census>,
    alive: Box<u64>,
    /// Its drop panics, once it has been counted.
    bitter: bool,
}

const ALIVE: u64 = 0x11FE_F07E;

impl Life {
    fn new(census: &Arc<Census>) -> Life {
        count(&census.born);
        Life { census: census.clone(), alive: Box::new(ALIVE), bitter: false }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        assert_eq!(*self.alive, ALIVE, "dropped twice");
        *self.alive = 0;
        count(&self.census.died);
        if self.bitter && !std::thread::panicking() {
            panic!("drop {ON_PURPOSE}");
        }
    }
}

/// Places where futures leave their wakers for whoever comes by. A waker may be lost (overwritten): then its task is woken
/// by its own time limit or nobody, and dropped as an orphan or by the end of the runtime.
struct Town {
    census: Arc<Census>,
    doors: Vec<Mutex<Option<Waker>>>,
}

impl Town {
    fn new(census: &Arc<Census>) -> Arc<Town> {
        Arc::new(Town { census: census.clone(), doors: (0..16).map(|_| Mutex::default()).collect() })
    }

    fn leave(&self, at: u64, waker: Waker) {
        let before = self.doors[at as usize % 16].lock().unwrap().replace(waker);
        // The one that loses its place is woken, dropped, or woken by reference and dropped.
        match before {
            Some(before) if at.is_multiple_of(5) => drop(before),
            Some(before) if at % 5 == 1 => {
                before.wake_by_ref();
                drop(before);
            }
            Some(before) => before.wake(),
            None => {}
        }
    }

    fn knock(&self, at: u64) {
        let waker = self.doors[at as usize % 16].lock().unwrap().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A waker that panics.
struct Angry;

impl Wake for Angry {
    fn wake(self: Arc<Self>) {
        panic!("waker {ON_PURPOSE}");
    }
}

fn task(town: &Arc<Town>, seed: u64, budget: u64) -> Pin<Box<dyn Future<Output = Life> + Send>> {
    let (town, mut held) = (town.clone(), Life::new(&town.census));
    count(&town.census.spawned);
    Box::pin(async move {
        let mut random = Random(seed | 1);
        (0..3).for_each(|_| _ = random.next());
        let mut left = budget;
        let mut kept: Vec<JoinHandle<Life>> = Vec::new();
        let mut set = JoinSet::new();
        for _ in 0..2 + random.below(6) {
            count(&town.census.polled);
            assert_eq!(*held.alive, ALIVE);
            match random.below(16) {
                0..=4 if left > 0 => {
                    let share = 1 + random.below(left);
                    left -= share;
                    let child = spawn(task(&town, random.next(), share - 1));
                    match random.below(7) {
                        0 => drop(child),
                        1 => child.abort(),
                        2 => _ = ended(&town.census, child.await),
                        3 => {
                            let abort = child.abort_handle();
                            kept.push(child);
                            // From a thread's point of view: whenever that closure runs.
                            drop(spawn(move || abort.abort()));
                        }
                        4 => _ = set.insert(child),
                        _ => kept.push(child),
                    }
                }
                5..=7 => {
                    // Wait to be woken, but not for ever: by itself at the latest.
                    let (at, mut turns) = (random.next(), random.below(3));
                    poll_fn(|cx| {
                        if turns == 0 {
                            return Poll::Ready(());
                        }
                        turns -= 1;
                        town.leave(at, cx.waker().clone());
                        if turns == 0 && at % 8 != 0 {
                            cx.waker().wake_by_ref();
                        }
                        Poll::Pending
                    })
                    .await;
                }
                8 => town.knock(random.next()),
                9 => yield_now().await,
                10 => {
                    if let Some(handle) = kept.pop() {
                        _ = ended(&town.census, handle.await);
                    }
                }
                11 => {
                    if let Some(result) = set.try_join_next() {
                        _ = ended(&town.census, result);
                    }
                }
                12 => {
                    let at = random.next();
                    let town = town.clone();
                    drop(spawn(move || town.knock(at)));
                }
                13 if random.below(8) == 0 => panic!("poll {ON_PURPOSE}"),
                14 if random.below(8) == 0 => held.bitter = true,
                15 => {
                    // Asked once by somebody whose waker panics.
                    if let Some(handle) = kept.last_mut() {
                        let waker = Waker::from(Arc::new(Angry));
                        if let Poll::Ready(result) = Pin::new(handle).poll(&mut Context::from_waker(&waker)) {
                            _ = ended(&town.census, result);
                            kept.pop();
                        }
                    }
                }
                _ => {}
            }
        }
        // Before the output is made: rustc leaks a return value if a local's drop panics after it.
        let census = held.census.clone();
        drop(held);
        Life::new(&census)
    })
}

fn ended(census: &Census, result: Result<Life, JoinError>) -> Option<Life> {
    count(match &result {
        Ok(_) => &census.finished,
        Err(JoinError::Panic(_)) => &census.panicked,
        Err(JoinError::Aborted) => &census.aborted,
        Err(JoinError::Shutdown) => &census.shut,
        Err(other) => panic!("{other}"),
    });
    result.ok()
}

fn one_runtime(census: &Arc<Census>, random: &mut Random, lives: u64) {
    let builder = match random.below(5) {
        0 => mock("2x1"),
        1 => mock("2x2"),
        _ => Runtime::builder().workers(1 + random.below(4) as usize),
    };
    let runtime = builder.build().unwrap();
    let town = Town::new(census);
    let before = census.spawned.load(Ordering::SeqCst);
    let mut handles: Vec<JoinHandle<Life>> = Vec::new();
    while census.spawned.load(Ordering::SeqCst) - before < lives {
        // This thread is outside: it spawns, knocks, aborts and drops.
        match random.below(8) {
            0..=3 => {
                let budget = random.below(12);
                handles.push(runtime.spawn(task(&town, random.next(), budget)));
            }
            4 => town.knock(random.next()),
            5 => {
                if let Some(handle) = handles.last() {
                    handle.abort();
                }
            }
            6 => drop(handles.pop()),
            _ => {
                if let Some(handle) = handles.pop() {
                    // It may wait for a waker that got lost; then this is what ends it.
                    if random.below(2) == 0 {
                        handle.abort();
                        _ = ended(census, handle.join());
                    } else if handle.is_finished() {
                        _ = ended(census, handle.join());
                    }
                }
            }
        }
        if handles.len() > 40 {
            handles.truncate(20);
        }
    }
    let how = if random.below(2) == 0 { Shutdown::Cancel } else { Shutdown::Drain };
    if random.below(2) == 0 {
        handles.drain(..).for_each(|handle| handle.abort());
    }
    runtime.shutdown(how);
    (0..16).for_each(|at| town.knock(at));
    for handle in handles {
        assert!(handle.is_finished());
        _ = ended(census, handle.join());
    }
    let read = |of: &AtomicU64| of.load(Ordering::SeqCst);
    assert_eq!(read(&census.died), read(&census.born), "dropped, made");
}

#[test]
fn every_future_ends_once() {
    let lives: u64 = std::env::var("NUMART_LIVES")
        .map_or(LIVES / slowdown(), |text| text.parse().expect("NUMART_LIVES is a number"));
    let _dog = watchdog_of(60 + lives / 10_000);
    let seed = std::env::var("NUMART_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x5EED_F07E_u64);
    let (census, mut random) = (Arc::new(Census::default()), Random(seed));
    let read = |of: &AtomicU64| of.load(Ordering::SeqCst);
    let mut runtimes = 0;
    while read(&census.spawned) < lives {
        one_runtime(&census, &mut random, ONE_RUNTIME.min(lives));
        runtimes += 1;
    }
    println!(
        "{} futures in {runtimes} runtimes; joined: {} with an output, {} aborted, {} shut down, {} panicked; values made \
         {}, dropped {}",
        read(&census.spawned),
        read(&census.finished),
        read(&census.aborted),
        read(&census.shut),
        read(&census.panicked),
        read(&census.born),
        read(&census.died),
    );
    assert_eq!(read(&census.born), read(&census.died));
    // Each way out was taken.
    for way in [&census.finished, &census.aborted, &census.shut, &census.panicked] {
        assert!(read(way) > 0 || lives < 100_000);
    }
}
