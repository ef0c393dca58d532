//! Futures as tasks: spawned, awaited, woken from anywhere, aborted, blocked on.

mod common;

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use common::{Drops, Event, ON_PURPOSE, PanicsOnDrop, WORKERS, mock, panic_text, pool, scaled, tick, until, watchdog};
use numart::{BlockOnError, JoinError, JoinHandle, Runtime, Shutdown, block_on, spawn, try_block_on, yield_now};

/// Pending until it is opened; keeps the last waker that polled it.
#[derive(Default)]
struct Door {
    open: Mutex<(bool, Option<Waker>)>,
}

impl Door {
    fn new() -> Arc<Door> {
        Arc::default()
    }

    fn open(&self) {
        let waker = {
            let mut door = self.open.lock().unwrap();
            door.0 = true;
            door.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn has_waiter(&self) -> bool {
        self.open.lock().unwrap().1.is_some()
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut door = self.open.lock().unwrap();
        if door.0 {
            return Poll::Ready(());
        }
        door.1 = Some(cx.waker().clone());
        Poll::Pending
    }

    async fn passed(&self) {
        poll_fn(|cx| self.poll(cx)).await;
    }
}

#[test]
fn a_future_runs_on_its_runtime_and_is_awaited_or_joined() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        for round in 0..scaled(200) {
            let outer = runtime.spawn(async move {
                let inner = spawn(async move { (round, numart::current_worker().is_some()) });
                let closure = spawn(move || round + 1);
                (inner.await.unwrap(), closure.await.unwrap())
            });
            assert_eq!(outer.join().unwrap(), ((round, true), round + 1));
        }
    }
}

#[test]
fn a_closure_that_returns_a_future_yields_it_unpolled() {
    let _dog = watchdog();
    let runtime = pool(1);
    let polled = Arc::new(AtomicUsize::new(0));
    let inside = polled.clone();
    // What such a closure is taken for has to be said: it is one thing or the other.
    let future = runtime.spawn(move || Box::pin(async move { tick(&inside) })).join().unwrap();
    assert_eq!(polled.load(Ordering::SeqCst), 0);
    block_on(future);
    assert_eq!(polled.load(Ordering::SeqCst), 1);
}

#[test]
fn it_is_woken_from_outside_from_another_task_and_by_itself() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        for _ in 0..scaled(100) {
            let (first, second) = (Door::new(), Door::new());
            let (one, two) = (first.clone(), second.clone());
            let task = runtime.spawn(async move {
                one.passed().await;
                for _ in 0..10 {
                    yield_now().await;
                }
                two.passed().await;
                7
            });
            until(|| first.has_waiter());
            first.open();
            let opener = runtime.spawn(async move { second.open() });
            assert_eq!(task.join().unwrap(), 7);
            opener.join().unwrap();
        }
    }
}

#[test]
fn aborted_while_pending_it_is_dropped_by_a_worker_once() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        let drops = Drops::new();
        /// Says on which thread it was dropped.
        struct Where(Arc<Mutex<Option<bool>>>);
        impl Drop for Where {
            fn drop(&mut self) {
                *self.0.lock().unwrap() = Some(numart::current_worker().is_some());
            }
        }
        for _ in 0..scaled(200) {
            let (door, place) = (Door::new(), Arc::new(Mutex::new(None)));
            let (inside, guard, dropped) = (door.clone(), drops.guard(), Where(place.clone()));
            let task = runtime.spawn(async move {
                let _both = (guard, dropped);
                inside.passed().await;
            });
            until(|| door.has_waiter());
            task.abort();
            let error = task.join().unwrap_err();
            assert!(matches!(error, JoinError::Aborted) && error.is_cancelled(), "{error}");
            assert_eq!(*place.lock().unwrap(), Some(true), "dropped by a worker");
            door.open();
        }
        drop(runtime);
        drops.check();
    }
}

#[test]
fn aborted_before_its_first_poll_or_after_its_end() {
    let _dog = watchdog();
    let runtime = pool(1);
    let (started, go) = (Event::new(), Event::new());
    let (inside, wait) = (started.clone(), go.clone());
    let busy = runtime.spawn(move || {
        inside.set();
        wait.wait();
    });
    started.wait();
    let drops = Drops::new();
    let (guard, other) = (drops.guard(), drops.guard());
    let future = runtime.spawn(async move { drop(guard) });
    let closure = runtime.spawn(move || drop(other));
    let (abort_future, abort_closure) = (future.abort_handle(), closure.abort_handle());
    assert!(!abort_future.is_finished() && abort_future.id() == future.id() && future.id() != closure.id());
    abort_future.abort();
    abort_closure.abort();
    busy.abort(); // runs: too late
    go.set();
    assert!(busy.join().is_ok());
    assert!(matches!(future.join(), Err(JoinError::Aborted)));
    assert!(matches!(closure.join(), Err(JoinError::Aborted)));
    drops.check();
    let done = runtime.spawn(async { 3 });
    until(|| done.is_finished());
    done.abort();
    assert_eq!(done.join().unwrap(), 3, "too late");
    assert!(abort_future.is_finished() && abort_closure.is_finished());
}

#[test]
fn a_task_aborts_itself_and_is_dropped_at_its_next_await() {
    let _dog = watchdog();
    let runtime = pool(2);
    for _ in 0..scaled(100) {
        let own: Arc<Mutex<Option<numart::AbortHandle>>> = Arc::default();
        let (door, inside, past) = (Door::new(), own.clone(), Arc::new(AtomicUsize::new(0)));
        let (enter, count) = (door.clone(), past.clone());
        let task = runtime.spawn(async move {
            enter.passed().await;
            inside.lock().unwrap().take().unwrap().abort();
            tick(&count);
            yield_now().await;
            tick(&count);
        });
        *own.lock().unwrap() = Some(task.abort_handle());
        door.open();
        assert!(matches!(task.join(), Err(JoinError::Aborted)));
        assert_eq!(past.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn panics_in_poll_in_drop_and_in_a_waker_are_told_or_reported() {
    let _dog = watchdog();
    let reported = Arc::new(AtomicUsize::new(0));
    let hook = reported.clone();
    let runtime = Runtime::builder().workers(2).panic_handler(move |_| tick(&hook)).build().unwrap();
    let drops = Drops::new();
    let guard = drops.guard();
    let poll = runtime.spawn(async move {
        let _held = guard;
        yield_now().await;
        panic!("poll {ON_PURPOSE}");
    });
    assert!(poll.join().unwrap_err().is_panic());
    // In the drop of what it holds: at its end, and when it is aborted.
    let guard = PanicsOnDrop(drops.guard());
    let end = runtime.spawn(async move {
        let _held = guard;
        5
    });
    assert!(end.join().unwrap_err().is_panic());
    let (guard, door) = (PanicsOnDrop(drops.guard()), Door::new());
    let inside = door.clone();
    let aborted = runtime.spawn(async move {
        let _held = guard;
        inside.passed().await;
    });
    until(|| door.has_waiter());
    aborted.abort();
    assert!(aborted.join().unwrap_err().is_panic());
    assert_eq!(reported.load(Ordering::SeqCst), 0);
    // Nobody joins it, and its output panics when dropped.
    drop(runtime.spawn(async { panic!("detached {ON_PURPOSE}") }));
    let output = PanicsOnDrop(drops.guard());
    drop(runtime.spawn(async move { output }));
    until(|| reported.load(Ordering::SeqCst) == 2);
    // A waker of somebody else.
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("waker {ON_PURPOSE}");
        }
    }
    let door = Door::new();
    let inside = door.clone();
    let mut task = runtime.spawn(async move { inside.passed().await });
    let waker = Waker::from(Arc::new(Panics));
    assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&waker)).is_pending());
    door.open();
    until(|| reported.load(Ordering::SeqCst) == 3);
    task.join().unwrap();
    drop(runtime);
    drops.check();
}

#[test]
fn a_handle_forgets_the_waker_of_whoever_lost_interest() {
    let _dog = watchdog();
    struct Counts(AtomicUsize);
    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            tick(&self.0);
        }
    }
    let runtime = pool(1);
    let door = Door::new();
    let inside = door.clone();
    let mut task = runtime.spawn(async move { inside.passed().await });
    let (first, second) = (Arc::new(Counts(AtomicUsize::new(0))), Arc::new(Counts(AtomicUsize::new(0))));
    for counts in [&first, &first, &second] {
        let waker = Waker::from(counts.clone());
        assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert_eq!(Arc::strong_count(&first), 1, "replaced");
    door.open();
    until(|| task.is_finished() && second.0.load(Ordering::SeqCst) == 1);
    assert_eq!(first.0.load(Ordering::SeqCst), 0);
    let waker = Waker::noop();
    assert!(matches!(Pin::new(&mut task).poll(&mut Context::from_waker(waker)), Poll::Ready(Ok(()))));
    let again = panic_text(|| Pin::new(&mut task).poll(&mut Context::from_waker(waker)).is_ready());
    assert!(again.contains("polled after it was ready"), "{again}");
    // Dropped while it waits.
    let mut task = runtime.spawn(pending::<()>());
    let waker = Waker::from(first.clone());
    assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    drop(task);
    assert_eq!(Arc::strong_count(&first), 1);
}

#[test]
fn a_future_that_nobody_can_wake_is_dropped() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        let drops = Drops::new();
        for way in 0..3 {
            let (guard, door) = (drops.guard(), Door::new());
            let inside = Arc::downgrade(&door);
            let task = runtime.spawn(async move {
                let _held = guard;
                poll_fn(|cx| inside.upgrade().map_or(Poll::Pending, |door| door.poll(cx))).await;
            });
            match way {
                // The handle last, the waker last, and an abort handle beside them.
                0 => {
                    until(|| door.has_waiter());
                    drop(door);
                    drop(task);
                }
                1 => {
                    drop(task);
                    until(|| door.has_waiter());
                    drop(door);
                }
                _ => {
                    until(|| door.has_waiter());
                    let abort = task.abort_handle();
                    drop(task);
                    drop(door);
                    assert!(!abort.is_finished());
                    drop(abort);
                }
            }
        }
        until(|| drops.dropped() == drops.made());
    }
}

#[test]
fn block_on_waits_in_closures_and_outside_and_refuses_inside_a_poll() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        for _ in 0..scaled(50) {
            // Outside.
            let task = runtime.spawn(async { 1 });
            assert_eq!(block_on(task).unwrap(), 1);
            // In a closure, for something that is queued behind it, several levels deep.
            let sum = runtime.spawn(|| {
                let inner = spawn(|| block_on(async { spawn(async { 2 }).await.unwrap() + 1 }));
                block_on(inner).unwrap()
            });
            assert_eq!(sum.join().unwrap(), 3);
        }
        // Inside a poll, also below it.
        let refused = runtime.spawn(async {
            let here = try_block_on(async { 0 });
            let (left, right) = numart::join(|| try_block_on(async { 0 }), || try_block_on(async { 0 }));
            [here, left, right]
        });
        assert_eq!(refused.join().unwrap(), [Err(BlockOnError::InsidePoll); 3]);
        let text = runtime.spawn(async { panic_text(|| block_on(async {})) }).join().unwrap();
        assert!(text.contains(".await"), "{text}");
        // A task spawned there is not inside.
        let spawned = runtime.spawn(async { spawn(|| try_block_on(async { 4 })).await.unwrap() });
        assert_eq!(spawned.join().unwrap(), Ok(4));
    }
    assert_eq!(block_on(async { try_block_on(async { 0 }) }), Err(BlockOnError::InsidePoll));
    assert_eq!(block_on(async { 5 }), 5);
    assert_eq!(panic_text(|| block_on(async { panic!("inside {ON_PURPOSE}") })), format!("inside {ON_PURPOSE}"));
    assert_eq!(block_on(async { 6 }), 6);
}

#[test]
fn yield_now_serves_closures_and_futures() {
    let _dog = watchdog();
    let runtime = pool(1);
    let order: Arc<Mutex<Vec<usize>>> = Arc::default();
    let tasks: Vec<JoinHandle<()>> = runtime
        .spawn({
            let order = order.clone();
            move || {
                let task = |me: usize| {
                    let order = order.clone();
                    spawn(async move {
                        for _ in 0..3 {
                            order.lock().unwrap().push(me);
                            assert_eq!(yield_now(), None);
                            yield_now().await;
                        }
                    })
                };
                vec![task(0), task(1)]
            }
        })
        .join()
        .unwrap();
    tasks.into_iter().for_each(|task| task.join().unwrap());
    assert_eq!(*order.lock().unwrap(), [0, 1, 0, 1, 0, 1]);
}

#[test]
fn a_deep_chain_of_spawn_and_await_does_not_recurse() {
    let _dog = watchdog();
    /// Each link spawns and awaits the next; the last waits at the door.
    fn link(left: usize, door: Arc<Door>, drops: Drops) -> Pin<Box<dyn Future<Output = usize> + Send>> {
        let guard = drops.guard();
        Box::pin(async move {
            let _held = guard;
            if left == 0 {
                door.passed().await;
                return 0;
            }
            spawn(link(left - 1, door, drops.clone())).await.map_or(0, |below| below + 1)
        })
    }
    let depth = scaled(100_000);
    for end in 0..4 {
        let runtime = Runtime::builder().workers(2).stack_size(256 * 1024).build().unwrap();
        let (door, drops) = (Door::new(), Drops::new());
        let top = runtime.spawn(link(depth, door.clone(), drops.clone()));
        until(|| door.has_waiter());
        match end {
            0 => {
                door.open();
                assert_eq!(top.join().unwrap(), depth);
            }
            1 => {
                top.abort();
                assert!(matches!(top.join(), Err(JoinError::Aborted)));
                door.open();
            }
            2 => {
                runtime.shutdown(Shutdown::Cancel);
                assert!(matches!(top.join(), Err(JoinError::Shutdown)));
                drops.check();
                continue;
            }
            _ => {
                runtime.shutdown(Shutdown::Drain);
                assert!(matches!(top.join(), Err(JoinError::Shutdown)));
                drops.check();
                door.open(); // wakes nobody
                continue;
            }
        }
        drop(runtime);
        drops.check();
    }
}

#[test]
fn shutdown_drops_what_is_pending_and_drain_runs_what_can_run() {
    let _dog = watchdog();
    for how in [Shutdown::Drain, Shutdown::Cancel] {
        for workers in WORKERS {
            let runtime = pool(workers);
            let (drops, door) = (Drops::new(), Door::new());
            let tasks: Vec<_> = (0..20)
                .map(|i| {
                    let (guard, door) = (drops.guard(), door.clone());
                    runtime.spawn(async move {
                        let _held = guard;
                        if i % 2 == 0 {
                            poll_fn(|cx| door.poll(cx)).await;
                        } else {
                            for _ in 0..10 {
                                yield_now().await;
                            }
                        }
                        i
                    })
                })
                .collect();
            let handle = runtime.handle().clone();
            runtime.shutdown(how);
            drops.check();
            for (i, task) in tasks.into_iter().enumerate() {
                match task.join() {
                    Ok(value) => assert!(value == i && i % 2 == 1),
                    Err(JoinError::Shutdown) => assert!(i % 2 == 0 || how == Shutdown::Cancel),
                    Err(other) => panic!("{other}"),
                }
            }
            // Late wake-ups, aborts and spawns do no harm.
            door.open();
            let late = handle.spawn(async { 1 });
            late.abort();
            assert!(matches!(late.join(), Err(JoinError::Shutdown)));
        }
    }
}

#[test]
fn tasks_stay_at_home_wherever_they_are_woken() {
    let _dog = watchdog();
    let runtime = mock("2x2").home_delay(numart::HomeDelay::Never).build().unwrap();
    let nodes = runtime.nodes();
    for strict in [false, true] {
        let doors: Vec<_> = (0..50).map(|_| Door::new()).collect();
        let mut tasks = Vec::new();
        for (i, door) in doors.iter().enumerate() {
            let (home, door) = (nodes[i % 2], door.clone());
            let affinity = runtime.affinity().on(home).unwrap();
            let affinity = if strict { affinity.strict() } else { affinity };
            tasks.push(affinity.spawn(async move {
                let before = numart::current_node();
                door.passed().await;
                let between = numart::current_node();
                yield_now().await;
                assert_eq!([before, between, numart::current_node()], [Some(home); 3]);
            }));
        }
        doors.iter().for_each(|door| until(|| door.has_waiter()));
        // From the other node, from outside, in a poll and in a closure.
        for (i, door) in doors.into_iter().enumerate() {
            let elsewhere = runtime.affinity().on(nodes[(i + 1) % 2]).unwrap();
            match i % 3 {
                0 => door.open(),
                1 => elsewhere.spawn(async move { door.open() }).join().unwrap(),
                _ => elsewhere.spawn(move || door.open()).join().unwrap(),
            }
        }
        tasks.into_iter().for_each(|task| task.join().unwrap());
    }
}
