//! How runtimes end: drained, cancelled, dropped from within; every closure run or dropped once, every thread gone.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Drops, Event, ON_PURPOSE, WORKERS, mock, pool, scaled, slowdown, text_of, tick, until, watchdog};
use numart::{Builder, Handle, JoinError, Runtime, Shutdown, Waiting, join, scope, spawn};

/// Runs a case on a thread of its own and fails, instead of hanging, if it does not end. (What hangs stays behind.)
fn finishes(case: impl FnOnce() + Send + 'static) {
    common::hush();
    let (done, ended) = channel();
    let thread = std::thread::spawn(move || {
        case();
        done.send(()).unwrap();
    });
    match ended.recv_timeout(Duration::from_secs(15 * slowdown())) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload)),
    }
}

/// Counts threads by their hooks.
#[derive(Clone, Default)]
struct Threads {
    started: Arc<AtomicUsize>,
    stopped: Arc<AtomicUsize>,
}

impl Threads {
    fn hook(&self, builder: Builder) -> Builder {
        let (started, stopped) = (self.started.clone(), self.stopped.clone());
        builder.on_thread_start(move |_| tick(&started)).on_thread_stop(move |_| tick(&stopped))
    }

    fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }

    fn all_gone(&self) -> bool {
        self.started() == self.stopped.load(Ordering::SeqCst)
    }
}

/// A runtime that a task may take and drop.
type Shared = Arc<Mutex<Option<Runtime>>>;

fn shared(runtime: Runtime) -> Shared {
    Arc::new(Mutex::new(Some(runtime)))
}

fn take(shared: &Shared) -> Option<Runtime> {
    shared.lock().unwrap().take()
}

#[test]
fn drop_drains_what_is_queued_and_what_that_spawns() {
    let _dog = watchdog();
    for workers in WORKERS {
        let threads = Threads::default();
        let runtime = threads.hook(Runtime::builder().workers(workers)).build().unwrap();
        let (drops, ran) = (Drops::new(), Arc::new(AtomicUsize::new(0)));
        fn family(depth: usize, drops: Drops, ran: Arc<AtomicUsize>) {
            tick(&ran);
            if depth > 0 {
                for _ in 0..3 {
                    let (guard, drops, ran) = (drops.guard(), drops.clone(), ran.clone());
                    drop(spawn(move || {
                        let _guard = guard;
                        family(depth - 1, drops, ran);
                    }));
                }
            }
        }
        let (first, counter) = (drops.clone(), ran.clone());
        let handle = runtime.spawn(move || family(6, first, counter));
        drop(runtime);
        assert_eq!(ran.load(Ordering::SeqCst), (3usize.pow(7) - 1) / 2);
        handle.join().unwrap();
        drops.check();
        assert!(threads.all_gone() && threads.started() >= workers);
    }
}

#[test]
fn cancel_finishes_what_runs_and_drops_the_rest() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = mock(&format!("1x{workers}")).build().unwrap();
        let handle = runtime.handle().clone();
        let (go_on, running, drops) = (Event::new(), Arc::new(AtomicUsize::new(0)), Drops::new());
        let blocked: Vec<_> = (0..workers)
            .map(|_| {
                let (go_on, running, guard) = (go_on.clone(), running.clone(), drops.guard());
                runtime.spawn(move || {
                    let _guard = guard;
                    tick(&running);
                    go_on.wait();
                    // Halves and scope jobs always run; spawns are refused.
                    let pair = join(|| 1, || 2);
                    let mut three = 0;
                    scope(|s| s.spawn(|_| three = 3));
                    let refused = spawn(|| ()).join();
                    (pair, three, matches!(refused, Err(JoinError::Shutdown)))
                })
            })
            .collect();
        until(|| running.load(Ordering::SeqCst) == workers);
        let queued: Vec<_> = (0..100)
            .map(|_| {
                let guard = drops.guard();
                runtime.spawn(move || drop(guard))
            })
            .collect();
        drop(runtime.spawn({
            let guard = drops.guard();
            move || drop(guard)
        }));
        let ending = std::thread::spawn(move || runtime.shutdown(Shutdown::Cancel));
        until(|| handle.is_shut_down());
        go_on.set();
        ending.join().unwrap();
        for handle in blocked {
            assert_eq!(handle.join().unwrap(), ((1, 2), 3, true));
        }
        for handle in queued {
            assert!(matches!(handle.join(), Err(JoinError::Shutdown)));
        }
        drops.check();
        assert!(matches!(handle.try_install(|| ()), Err(JoinError::Shutdown)));
    }
}

/// Started by a drop inside: the last worker cleans up, nobody joins the threads.
#[test]
fn a_runtime_dropped_in_its_own_task_ends_all_its_threads() {
    let _dog = watchdog();
    for workers in WORKERS {
        for cancel in [false, true] {
            let (threads, drops) = (Threads::default(), Drops::new());
            let runtime = threads.hook(Runtime::builder().workers(workers)).build().unwrap();
            let hold = shared(runtime);
            let (go_on, hold_too) = (Event::new(), hold.clone());
            let inside = hold.lock().unwrap().as_ref().unwrap().spawn({
                let go_on = go_on.clone();
                move || {
                    go_on.wait();
                    let runtime = take(&hold_too).unwrap();
                    if cancel {
                        runtime.shutdown(Shutdown::Cancel)
                    } else {
                        drop(runtime)
                    }
                    join(|| 3, || 4)
                }
            });
            let queued: Vec<_> = (0..50)
                .map(|_| {
                    let guard = drops.guard();
                    hold.lock().unwrap().as_ref().unwrap().spawn(move || drop(guard))
                })
                .collect();
            go_on.set();
            assert_eq!(inside.join().unwrap(), (3, 4));
            let results: Vec<_> = queued.into_iter().map(|handle| handle.join()).collect();
            assert!(cancel || results.iter().all(Result::is_ok));
            assert!(take(&hold).is_none());
            until(|| threads.all_gone());
            until(|| drops.dropped() == drops.made());
        }
    }
}

#[test]
fn the_last_reference_may_be_a_queued_tasks() {
    let _dog = watchdog();
    for _ in 0..scaled(100) {
        let threads = Threads::default();
        let runtime = Arc::new(threads.hook(Runtime::builder().workers(2)).build().unwrap());
        let drops = Drops::new();
        for _ in 0..20 {
            let (runtime, guard) = (runtime.clone(), drops.guard());
            drop(runtime.clone().spawn(move || {
                let _ = (&runtime, guard);
            }));
        }
        drop(runtime);
        // Not `all_gone` first: before the first thread has started they are all gone too.
        until(|| drops.dropped() == drops.made());
        until(|| threads.started() >= 2 && threads.all_gone());
    }
}

#[test]
fn dropped_in_a_join_half_a_scope_job_and_a_broadcast_of_its_own() {
    let _dog = watchdog();
    for workers in WORKERS {
        for way in 0..3 {
            let threads = Threads::default();
            let hold = shared(threads.hook(Runtime::builder().workers(workers)).build().unwrap());
            let handle = hold.lock().unwrap().as_ref().unwrap().handle().clone();
            let gone = || drop(take(&hold));
            match way {
                0 => _ = handle.install(|| join(|| join(|| (), gone), gone)),
                1 => handle.scope(|s| (0..4).for_each(|_| s.spawn(|_| gone()))),
                // The first call may end the runtime before the last is queued: then it says so.
                _ => {
                    let call = || handle.broadcast(|_| gone());
                    if let Err(payload) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)) {
                        assert!(text_of(&*payload).contains("shut down"), "{}", text_of(&*payload));
                    }
                }
            }
            until(|| threads.all_gone());
        }
    }
}

/// A worker of one runtime waits for a task of another that drops the first.
#[test]
fn dropped_in_an_install_elsewhere_that_its_worker_waits_for() {
    let _dog = watchdog();
    for workers in WORKERS {
        finishes(move || {
            let threads = Threads::default();
            let hold = shared(threads.hook(Runtime::builder().workers(workers)).build().unwrap());
            let other = pool(2);
            let handle = hold.lock().unwrap().as_ref().unwrap().handle().clone();
            handle.install(|| other.install(|| join(|| (), || drop(take(&hold)))));
            until(|| threads.all_gone());
        });
    }
}

#[test]
fn dropped_in_a_task_elsewhere_that_its_worker_joins() {
    for workers in WORKERS {
        finishes(move || {
            let threads = Threads::default();
            let hold = shared(threads.hook(Runtime::builder().workers(workers)).build().unwrap());
            let other = pool(2);
            let handle = hold.lock().unwrap().as_ref().unwrap().handle().clone();
            handle.install(|| other.spawn(move || drop(take(&hold))).join().unwrap());
            until(|| threads.all_gone());
        });
    }
}

/// Two runtimes, each dropped in a task of the other.
#[test]
fn runtimes_that_drop_each_other() {
    finishes(|| {
        for _ in 0..scaled(100) {
            let threads = Threads::default();
            let one = shared(threads.hook(Runtime::builder().workers(2)).build().unwrap());
            let other = shared(threads.hook(Runtime::builder().workers(1)).build().unwrap());
            let (first, second) = (one.clone(), other.clone());
            let handles = [&one, &other].map(|hold| hold.lock().unwrap().as_ref().unwrap().handle().clone());
            let both = [handles[0].spawn(move || drop(take(&second))), handles[1].spawn(move || drop(take(&first)))];
            // The first task may have ended the second's runtime before the second was spawned, or before it ran: then the
            // first's runtime is still ours.
            both.into_iter().for_each(|handle| assert!(matches!(handle.join(), Ok(()) | Err(JoinError::Shutdown))));
            drop((take(&one), take(&other)));
            until(|| threads.all_gone());
        }
    });
}

/// Spawns from many threads against a shutdown: run or dropped, once, and the handle says which.
#[test]
fn spawns_that_race_with_a_shutdown() {
    let _dog = watchdog();
    for round in 0..scaled(300) {
        let runtime = mock(["1x1", "1x2", "2x1", "2x2"][round % 4]).build().unwrap();
        let how = if round % 3 == 0 { Shutdown::Cancel } else { Shutdown::Drain };
        let (drops, start) = (Drops::new(), Event::new());
        let spawners: Vec<_> = (0..3)
            .map(|thread| {
                let (handle, drops, start) = (runtime.handle().clone(), drops.clone(), start.clone());
                std::thread::spawn(move || race(&handle, &drops, &start, thread))
            })
            .collect();
        start.set();
        for _ in 0..round % 7 * 50 {
            std::hint::spin_loop();
        }
        runtime.shutdown(how);
        spawners.into_iter().for_each(|thread| thread.join().unwrap());
        drops.check();
    }
}

fn race(handle: &Handle, drops: &Drops, start: &Event, thread: usize) {
    start.wait();
    let mut late = 0;
    let mut spawned = Vec::new();
    for i in 0.. {
        let (guard, ran) = (drops.guard(), Arc::new(AtomicUsize::new(0)));
        let task = {
            let ran = ran.clone();
            move || {
                tick(&ran);
                drop(guard);
                // From inside a drain takes it; whatever happens to it, its guard is dropped.
                (i % 4 == 0).then(|| spawn(|| ()))
            }
        };
        if thread == 1 && i % 5 == 0 {
            let ok = handle.try_install(task).map(drop).is_ok();
            assert_eq!(ran.load(Ordering::SeqCst), usize::from(ok));
        } else if thread == 2 && i % 5 == 0 {
            // A scope is refused before its body, or its jobs run, whatever comes.
            let scope = || handle.in_place_scope(|s| s.spawn(|_| _ = task()));
            let ok = catch_unwind(AssertUnwindSafe(scope)).is_ok();
            assert!(ok || handle.is_shut_down());
            assert_eq!(ran.load(Ordering::SeqCst), usize::from(ok));
        } else {
            spawned.push((handle.spawn(task), ran));
        }
        late += usize::from(handle.is_shut_down());
        if late == 5 {
            break;
        }
    }
    for (i, (handle, ran)) in spawned.into_iter().enumerate() {
        if i % 3 == 0 {
            drop(handle);
            continue;
        }
        match handle.join() {
            Ok(_) => assert_eq!(ran.load(Ordering::SeqCst), 1),
            Err(JoinError::Shutdown) => assert_eq!(ran.load(Ordering::SeqCst), 0),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn two_hundred_runtimes() {
    let _dog = watchdog();
    for round in 0..scaled(200) {
        let (threads, drops) = (Threads::default(), Drops::new());
        let rule = if round % 2 == 0 { Waiting::Related } else { Waiting::Any };
        let builder = mock(["1x1", "1x2", "2x1", "2x2", "4x1"][round % 5]).waiting(rule);
        let hook_guard = drops.guard();
        let builder = threads.hook(builder).panic_handler(move |_| _ = &hook_guard);
        let runtime = builder.forced_splits(round % 3 != 0).build().unwrap();
        if round % 4 != 0 {
            assert_eq!(runtime.install(|| numart::reduce(0..1_000, || 0, |i| i, |a, b| a + b)), 499_500);
        }
        let guard = drops.guard();
        drop(runtime.spawn(move || drop(guard)));
        drop(runtime);
        assert!(threads.all_gone());
        drops.check();
    }
}

#[test]
fn every_drain_ends_with_workers_that_wait() {
    let _dog = watchdog();
    for _ in 0..scaled(100) {
        let threads = Threads::default();
        let runtime = threads.hook(mock("2x1")).build().unwrap();
        let nodes = runtime.nodes();
        for i in 0..8 {
            let there = runtime.affinity().on(nodes[i % 2]).unwrap().strict();
            let back = runtime.affinity().on(nodes[(i + 1) % 2]).unwrap().strict();
            drop(there.spawn(move || back.spawn(move || drop(spawn(|| ()))).join().unwrap()));
        }
        drop(runtime);
        assert!(threads.all_gone());
    }
}

/// A panic hook that panics, in a runtime that is being drained.
#[test]
fn panics_while_draining_end_nothing_early() {
    let _dog = watchdog();
    for workers in WORKERS {
        let (threads, drops) = (Threads::default(), Drops::new());
        let builder = threads.hook(Runtime::builder().workers(workers));
        let runtime = builder.panic_handler(|_| panic!("hook {ON_PURPOSE}")).build().unwrap();
        let handle = runtime.handle().clone();
        for i in 0..scaled(200) {
            let guard = drops.guard();
            drop(runtime.spawn(move || {
                let _guard = guard;
                if i % 2 == 0 {
                    panic!("task {ON_PURPOSE}");
                }
            }));
        }
        drop(runtime);
        drops.check();
        assert!(threads.all_gone());
        assert_eq!(handle.stats().panics, scaled(200).div_ceil(2) as u64);
    }
}
