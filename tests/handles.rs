//! `spawn` and `JoinHandle`: results, panics, detaching, and the errors of `join`.

mod common;

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use common::{Drops, Event, PanicsOnDrop, WORKERS, mock, pool, scaled, text_of, tick, until, watchdog};
use numart::{JoinError, JoinHandle, Runtime, Shutdown, spawn, spawn_fifo};

#[test]
fn a_handle_returns_the_output() {
    let _dog = watchdog();
    assert_eq!(spawn(|| String::from("out")).join().unwrap(), "out");
    assert_eq!(spawn_fifo(|| [9u64; 300]).join().unwrap(), [9; 300]);
    spawn(|| ()).join().unwrap();
    for workers in WORKERS {
        let runtime = pool(workers);
        let handles: Vec<_> = (0..scaled(2_000)).map(|i| runtime.spawn(move || i * i)).collect();
        for (i, handle) in handles.into_iter().enumerate() {
            assert_eq!(handle.join().unwrap(), i * i);
        }
    }
}

#[test]
fn is_finished_follows_the_task() {
    let _dog = watchdog();
    let runtime = pool(1);
    let go_on = Event::new();
    let blocked = runtime.spawn({
        let go_on = go_on.clone();
        move || go_on.wait()
    });
    let behind = runtime.spawn(|| 5);
    assert!(!blocked.is_finished() && !behind.is_finished());
    assert!(format!("{blocked:?}").contains("finished: false"));
    go_on.set();
    until(|| behind.is_finished());
    assert!(blocked.is_finished());
    assert_eq!(behind.join().unwrap(), 5);
}

#[test]
fn tasks_of_one_thread_start_in_order_on_one_worker() {
    let _dog = watchdog();
    let runtime = pool(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let handles: Vec<_> = (0..100)
        .map(|i| {
            let order = order.clone();
            runtime.spawn_fifo(move || order.lock().unwrap().push(i))
        })
        .collect();
    // Not joined in order: an outside thread claims nothing.
    handles.into_iter().rev().for_each(|handle| handle.join().unwrap());
    assert_eq!(*order.lock().unwrap(), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_dropped_handle_detaches() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        let (drops, ran) = (Drops::new(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..scaled(1_000) {
            let (guard, output, ran) = (drops.guard(), drops.guard(), ran.clone());
            drop(runtime.spawn(move || {
                let _guard = guard;
                tick(&ran);
                output
            }));
        }
        drop(runtime);
        assert_eq!(ran.load(Ordering::SeqCst), scaled(1_000));
        drops.check();
    }
}

#[test]
fn a_panic_is_an_error_with_message_and_payload() {
    let _dog = watchdog();
    let runtime = pool(2);
    let error = runtime.spawn(|| panic!("static on purpose")).join().unwrap_err();
    assert!(error.is_panic());
    assert_eq!(error.to_string(), "the task panicked: static on purpose");
    let JoinError::Panic(payload) = error else { unreachable!() };
    assert_eq!(payload.message(), Some("static on purpose"));
    assert_eq!(text_of(&*payload.into_inner()), "static on purpose");

    let number = 3;
    let error = runtime.spawn(move || panic!("formatted {number} on purpose")).join().unwrap_err();
    assert_eq!(text_of(&*error.try_into_panic().unwrap()), "formatted 3 on purpose");

    let error = runtime.spawn(|| std::panic::panic_any(17u8)).join().unwrap_err();
    assert_eq!(error.to_string(), "the task panicked");
    assert_eq!(error.try_into_panic().unwrap().downcast_ref(), Some(&17u8));
    assert_eq!(runtime.stats().panics, 0, "all were joined");
}

#[test]
fn a_panic_in_the_drop_of_a_captured_value_is_an_error() {
    let _dog = watchdog();
    let runtime = pool(1);
    let drops = Drops::new();
    let bomb = PanicsOnDrop(drops.guard());
    let error = runtime.spawn(move || drop(bomb)).join().unwrap_err();
    assert!(error.is_panic());
    let unused = PanicsOnDrop(drops.guard());
    let error = runtime
        .spawn(move || {
            let _keep = &unused;
        })
        .join()
        .unwrap_err();
    assert!(error.is_panic());
    drops.check();
    assert_eq!(runtime.spawn(|| 1).join().unwrap(), 1);
}

/// A runtime whose panic hook sends what it gets.
fn hooked() -> (Runtime, std::sync::mpsc::Receiver<String>) {
    let (send, receive) = channel::<String>();
    let send: Mutex<Sender<String>> = Mutex::new(send);
    let hook = move |payload: Box<dyn Any + Send>| {
        send.lock().unwrap().send(text_of(&*payload).to_owned()).unwrap();
    };
    (Runtime::builder().workers(2).panic_handler(hook).build().unwrap(), receive)
}

#[test]
fn panics_nobody_joins_go_to_the_hook() {
    let _dog = watchdog();
    let (runtime, hook) = hooked();
    drop(runtime.spawn(|| panic!("detached on purpose")));
    assert_eq!(hook.recv().unwrap(), "detached on purpose");
    // Dropped after the end: the panic is unread all the same.
    let handle = runtime.spawn(|| panic!("late on purpose"));
    until(|| handle.is_finished());
    assert!(hook.try_recv().is_err());
    drop(handle);
    assert_eq!(hook.recv().unwrap(), "late on purpose");
    // The output of a detached task that panics in its drop.
    let drops = Drops::new();
    let output = PanicsOnDrop(drops.guard());
    drop(runtime.spawn(move || output));
    assert_eq!(hook.recv().unwrap(), "drop panicked on purpose");
    // And one that is dropped with its handle.
    let output = PanicsOnDrop(drops.guard());
    let handle = runtime.spawn(move || output);
    until(|| handle.is_finished());
    drop(handle);
    assert_eq!(hook.recv().unwrap(), "drop panicked on purpose");
    drops.check();
    assert_eq!(runtime.stats().panics, 4);
    // Joined: not the hook's.
    assert!(runtime.spawn(|| panic!("joined on purpose")).join().is_err());
    drop(runtime);
    assert!(hook.recv().is_err());
}

#[test]
fn a_hook_that_panics_costs_no_worker() {
    let _dog = watchdog();
    let runtime = Runtime::builder().workers(1).panic_handler(|_| panic!("hook on purpose")).build().unwrap();
    for _ in 0..3 {
        drop(runtime.spawn(|| panic!("detached on purpose")));
    }
    assert_eq!(runtime.spawn(|| 4).join().unwrap(), 4);
    let stats = runtime.stats();
    assert_eq!(stats.panics, 3);
    assert!(stats.warnings.iter().any(|warning| warning.contains("panic hook")), "{:?}", stats.warnings);
}

#[test]
fn payloads_that_panic_when_dropped_cost_no_worker() {
    let _dog = watchdog();
    let runtime = pool(1);
    let drops = Drops::new();
    for _ in 0..3 {
        let bomb = PanicsOnDrop(drops.guard());
        drop(runtime.spawn(move || std::panic::panic_any(bomb)));
    }
    assert_eq!(runtime.spawn(|| 4).join().unwrap(), 4);
    drops.check();
}

/// A task that is sent its own handle.
fn sent_its_handle<F>(runtime: &Runtime, join: F) -> Result<Result<(), JoinError>, JoinError>
where
    F: FnOnce(JoinHandle<()>) -> Result<(), JoinError> + Send + 'static,
{
    let (send, receive) = channel::<JoinHandle<()>>();
    let (tell, told) = channel();
    let handle = runtime.spawn(move || tell.send(join(receive.recv().unwrap())).unwrap());
    send.send(handle).unwrap();
    Ok(told.recv().unwrap())
}

fn assert_own(result: Result<Result<(), JoinError>, JoinError>) {
    assert!(matches!(result, Ok(Err(JoinError::Own))), "{result:?}");
}

#[test]
fn joining_ones_own_handle_is_an_error() {
    let _dog = watchdog();
    for workers in WORKERS {
        assert_own(sent_its_handle(&pool(workers), |handle| handle.join()));
    }
}

#[test]
fn joining_an_ancestors_handle_is_an_error() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        assert_own(sent_its_handle(&runtime, |handle| numart::join(|| handle.join(), || ()).0));
        assert_own(sent_its_handle(&runtime, |handle| numart::join(|| (), || handle.join()).1));
        assert_own(sent_its_handle(&runtime, |handle| {
            let mut result = Ok(());
            numart::scope(|s| s.spawn(|_| result = handle.join()));
            result
        }));
        // By a call that moves to another runtime and back.
        let other = pool(1);
        assert_own(sent_its_handle(&runtime, move |handle| other.install(|| handle.join())));
    }
}

/// However deep the job lies below the task.
#[test]
fn joining_a_far_ancestors_handle_is_an_error() {
    fn below(depth: usize, handle: JoinHandle<()>) -> Result<(), JoinError> {
        match depth {
            0 => handle.join(),
            _ => numart::scope(|_| below(depth - 1, handle)),
        }
    }
    let _dog = watchdog();
    for depth in [10, 200, 300, 1_000] {
        assert_own(sent_its_handle(&pool(2), move |handle| below(depth, handle)));
    }
}

#[test]
fn spawning_after_the_shutdown_is_an_error() {
    let _dog = watchdog();
    for how in [Shutdown::Drain, Shutdown::Cancel] {
        let runtime = pool(2);
        let handle = runtime.handle().clone();
        let affinity = runtime.affinity();
        runtime.shutdown(how);
        assert!(handle.is_shut_down());
        let drops = Drops::new();
        let guard = drops.guard();
        let result = handle.spawn(move || drop(guard)).join();
        assert!(matches!(result, Err(JoinError::Shutdown)), "{result:?}");
        assert!(matches!(affinity.spawn(|| ()).join(), Err(JoinError::Shutdown)));
        assert!(matches!(handle.try_install(|| ()), Err(JoinError::Shutdown)));
        assert!(common::panic_text(|| handle.install(|| ())).contains("shut down"));
        assert!(common::panic_text(|| handle.broadcast(|_| ())).contains("shut down"));
        assert!(common::panic_text(|| handle.broadcast_per_node(|_| ())).contains("shut down"));
        assert!(common::panic_text(|| handle.in_place_scope(|s| s.spawn(|_| ()))).contains("shut down"));
        assert!(common::panic_text(|| handle.in_place_scope_fifo(|_| ())).contains("shut down"));
        let bomb = PanicsOnDrop(drops.guard());
        assert!(handle.spawn(move || drop(bomb)).join().unwrap_err().is_panic());
        drops.check();
    }
}

/// Without spares a wait that would leave the node standing still gives up, and the task goes on.
#[test]
fn a_join_without_spares_would_deadlock() {
    let _dog = watchdog();
    let runtime = mock("1x1").spare_threads(0).build().unwrap();
    let other = pool(1);
    let (go_on, ended) = (Event::new(), Event::new());
    let elsewhere = other.spawn({
        let (go_on, ended) = (go_on.clone(), ended.clone());
        move || {
            go_on.wait();
            ended.set();
        }
    });
    let result = runtime.install(|| {
        let queued = numart::spawn(|| ());
        let result = elsewhere.join();
        go_on.set();
        queued.join().unwrap();
        result
    });
    assert!(matches!(result, Err(JoinError::WouldDeadlock)), "{result:?}");
    ended.wait();
    // With spares the same ends well.
    let runtime = mock("1x1").spare_threads(1).build().unwrap();
    let go_on = Event::new();
    let elsewhere = other.spawn({
        let go_on = go_on.clone();
        move || go_on.wait()
    });
    runtime
        .install(|| {
            drop(numart::spawn(move || go_on.set()));
            elsewhere.join()
        })
        .unwrap();
}

#[test]
fn handles_travel_between_runtimes() {
    let _dog = watchdog();
    for workers in WORKERS {
        let (one, other) = (Arc::new(pool(workers)), Arc::new(pool(2)));
        let handles: Vec<_> = (0..100).map(|i| other.spawn(move || (i, numart::current_num_workers()))).collect();
        let results = one.install(|| handles.into_iter().map(|handle| handle.join().unwrap()).collect::<Vec<_>>());
        assert_eq!(results, (0..100).map(|i| (i, 2)).collect::<Vec<_>>());
        // Tasks of one that join tasks of the other that join tasks of the first.
        let nested: Vec<_> = (0..20)
            .map(|i| {
                let (one, other) = (one.clone(), other.clone());
                one.clone().spawn(move || {
                    let inner = other.spawn(move || one.spawn(move || i).join().unwrap() + 1);
                    inner.join().unwrap() + 1
                })
            })
            .collect();
        for (i, handle) in nested.into_iter().enumerate() {
            assert_eq!(handle.join().unwrap(), i + 2);
        }
    }
}

#[test]
fn many_outside_threads_join_at_once() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        let sum = AtomicUsize::new(0);
        std::thread::scope(|threads| {
            for thread in 0..8 {
                let (runtime, sum) = (&runtime, &sum);
                threads.spawn(move || {
                    for i in 0..scaled(300) {
                        let handle = runtime.spawn(move || i + thread);
                        sum.fetch_add(handle.join().unwrap() - thread, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), 8 * (0..scaled(300)).sum::<usize>());
    }
}

#[test]
fn a_long_chain_of_tasks_that_join_the_next() {
    fn chain(n: usize) -> usize {
        if n == 0 { 0 } else { 1 + spawn(move || chain(n - 1)).join().unwrap() }
    }
    let _dog = watchdog();
    for workers in WORKERS {
        assert_eq!(pool(workers).install(|| chain(1_000)), 1_000);
    }
}
