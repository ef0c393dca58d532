//! Who runs next: woken futures, the slot, budgets. Order and counts only; no test here looks at time.

mod common;

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use common::{Event, pool, tick, until, watchdog};
use numart::{JoinHandle, consume_budget, spawn, unconstrained, yield_now};

/// A place where one task waits for another.
#[derive(Default)]
struct Cell(Mutex<(bool, Option<Waker>)>);

impl Cell {
    fn raise(&self) {
        let mut cell = self.0.lock().unwrap();
        cell.0 = true;
        let waker = cell.1.take();
        drop(cell);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn lowered(&self) {
        poll_fn(|cx| {
            let mut cell = self.0.lock().unwrap();
            if std::mem::take(&mut cell.0) {
                return Poll::Ready(());
            }
            cell.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Two tasks that wake each other by turns until told to stop, on a runtime of one worker.
fn ping_pong(runtime: &numart::Runtime, stop: &Arc<AtomicBool>, polls: &Arc<AtomicUsize>) -> Vec<JoinHandle<()>> {
    let (ping, pong) = (Arc::new(Cell::default()), Arc::new(Cell::default()));
    let player = |mine: &Arc<Cell>, other: &Arc<Cell>| {
        let (mine, other, stop, polls) = (mine.clone(), other.clone(), stop.clone(), polls.clone());
        runtime.spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                tick(&polls);
                other.raise();
                mine.lowered().await;
            }
            other.raise();
        })
    };
    vec![player(&ping, &pong), player(&pong, &ping)]
}

#[test]
fn two_that_wake_each_other_do_not_starve_the_queue() {
    let _dog = watchdog();
    let runtime = pool(1);
    let (stop, polls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let players = ping_pong(&runtime, &stop, &polls);
    until(|| polls.load(Ordering::SeqCst) > 1_000);
    // Closures and futures from outside get their turn.
    for _ in 0..50 {
        runtime.spawn(|| ()).join().unwrap();
        runtime.spawn(async { yield_now().await }).join().unwrap();
    }
    // And one spawned by a task: within one budget, counted by the players.
    let waited = runtime
        .spawn({
            let polls = polls.clone();
            move || {
                let before = polls.load(Ordering::SeqCst);
                (before, spawn(move || polls.load(Ordering::SeqCst)))
            }
        })
        .join()
        .unwrap();
    let after = waited.1.join().unwrap();
    assert!(after - waited.0 <= 2 * 129, "{} polls of others before a queued closure", after - waited.0);
    stop.store(true, Ordering::SeqCst);
    players.into_iter().for_each(|player| player.join().unwrap());
}

#[test]
fn a_task_that_finds_everything_ready_gives_way_after_its_budget() {
    let _dog = watchdog();
    let runtime = pool(1);
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (until_stop, count) = (stop.clone(), done.clone());
    let busy = runtime.spawn(async move {
        while !until_stop.load(Ordering::SeqCst) {
            consume_budget().await;
            tick(&count);
        }
    });
    until(|| done.load(Ordering::SeqCst) > 0);
    runtime.spawn(|| ()).join().unwrap();
    stop.store(true, Ordering::SeqCst);
    busy.join().unwrap();
    // The budget is 128 units, whatever they are spent on; unconstrained there is none.
    let polls_of = |limited: bool| {
        runtime
            .spawn(async move {
                let mut polls = 0;
                let mut work = Box::pin(async {
                    for _ in 0..1_280 {
                        consume_budget().await;
                    }
                });
                poll_fn(|cx| {
                    polls += 1;
                    let work = work.as_mut();
                    if limited { work.poll(cx) } else { std::pin::pin!(unconstrained(work)).poll(cx) }
                })
                .await;
                polls
            })
            .join()
            .unwrap()
    };
    assert_eq!((polls_of(true), polls_of(false)), (10, 1));
}

#[test]
fn handles_that_are_ready_cost_budget_too() {
    let _dog = watchdog();
    let runtime = pool(1);
    let turns = runtime
        .spawn(async {
            let handles: Vec<_> = (0..300).map(|_| spawn(|| ())).collect();
            until_finished(&handles).await;
            let mut polls = 0;
            let mut work = Box::pin(async {
                for handle in handles {
                    handle.await.unwrap();
                }
            });
            poll_fn(|cx| {
                polls += 1;
                work.as_mut().poll(cx)
            })
            .await;
            polls
        })
        .join()
        .unwrap();
    // The first poll may have less than a full budget.
    assert!((3..=4).contains(&turns), "{turns}");
}

async fn until_finished(handles: &[JoinHandle<()>]) {
    while !handles.iter().all(JoinHandle::is_finished) {
        yield_now().await;
    }
}

#[test]
fn a_woken_task_is_not_hidden_behind_a_long_poll() {
    let _dog = watchdog();
    // tokio#4941: a poll wakes (or spawns) a task and goes on for ever; the other worker must run it.
    for round in 0..50 {
        let runtime = pool(2);
        let done = Event::new();
        let cell = Arc::new(Cell::default());
        let waiter = {
            let (cell, done) = (cell.clone(), done.clone());
            runtime.spawn(async move {
                cell.lowered().await;
                done.set();
            })
        };
        until(|| cell.0.lock().unwrap().1.is_some());
        let long = runtime.spawn(async move {
            if round % 2 == 0 {
                cell.raise();
            } else {
                let cell = cell.clone();
                drop(spawn(async move { cell.raise() }));
            }
            // Blocks its worker, on purpose.
            done.wait();
        });
        long.join().unwrap();
        waiter.join().unwrap();
    }
}

#[test]
fn a_woken_task_is_not_lost_in_the_slot_of_a_worker_that_waits() {
    let _dog = watchdog();
    for workers in [1, 2] {
        let runtime = pool(workers);
        for _ in 0..50 {
            // The poll fills the slot and then waits for what is in it: by blocking in `join`.
            let sum = runtime.spawn(async { spawn(async { 3 }).join().unwrap() + 1 });
            assert_eq!(sum.join().unwrap(), 4);
            let sum = runtime.spawn(async {
                let first = spawn(async { 3 });
                let second = spawn(async { first.await.unwrap() + 1 });
                second.join().unwrap()
            });
            assert_eq!(sum.join().unwrap(), 4);
        }
    }
}

#[test]
fn spawn_fifo_keeps_the_order_in_a_poll_too() {
    let _dog = watchdog();
    let runtime = pool(1);
    let order: Arc<Mutex<Vec<usize>>> = Arc::default();
    let spawned = order.clone();
    let spawner = runtime.spawn(async move {
        let push = |i: usize| {
            let order = spawned.clone();
            async move { order.lock().unwrap().push(i) }
        };
        let tasks: Vec<_> = (0..4).map(|i| numart::spawn_fifo(push(i))).collect();
        let next = spawn(push(9));
        for task in tasks.into_iter().chain([next]) {
            task.await.unwrap();
        }
    });
    spawner.join().unwrap();
    assert_eq!(*order.lock().unwrap(), [9, 0, 1, 2, 3]);
}

#[test]
fn woken_tasks_run_in_the_order_of_their_wake_ups_but_for_the_last() {
    let _dog = watchdog();
    let runtime = pool(1);
    let order: Arc<Mutex<Vec<usize>>> = Arc::default();
    let cells: Vec<Arc<Cell>> = (0..5).map(|_| Arc::default()).collect();
    let tasks: Vec<_> = cells
        .iter()
        .enumerate()
        .map(|(i, cell)| {
            let (cell, order) = (cell.clone(), order.clone());
            runtime.spawn(async move {
                cell.lowered().await;
                order.lock().unwrap().push(i);
            })
        })
        .collect();
    cells.iter().for_each(|cell| until(|| cell.0.lock().unwrap().1.is_some()));
    // From a poll: the last one is in the slot, the others in line.
    runtime.spawn(async move { cells.iter().for_each(|cell| cell.raise()) }).join().unwrap();
    tasks.into_iter().for_each(|task| task.join().unwrap());
    assert_eq!(*order.lock().unwrap(), [4, 0, 1, 2, 3]);
}
