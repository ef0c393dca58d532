//! `use_current_thread`: the builder's thread as worker 0, and all the ways in which that thread and the runtime part.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Drops, Event, mock, panic_text, scaled, slowdown, tick, until, watchdog};
use numart::{BuildError, JoinError, NodeId, Runtime, Shutdown, current_node, current_worker, join, scope, spawn};

/// As in `shutdown.rs`: fails, instead of hanging. Each case gets a thread that is no worker yet.
fn on_a_thread(case: impl FnOnce() + Send + 'static) {
    common::hush();
    let (done, ended) = channel();
    let thread = std::thread::spawn(move || {
        case();
        done.send(()).unwrap();
    });
    match ended.recv_timeout(Duration::from_secs(15 * slowdown())) {
        Err(RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload)),
    }
}

const SHAPES: [&str; 4] = ["1x1", "1x2", "2x1", "2x2"];

fn own(shape: &str) -> Runtime {
    mock(shape).use_current_thread().build().unwrap()
}

#[test]
fn the_thread_is_worker_0_until_the_drop() {
    let _dog = watchdog();
    for shape in SHAPES {
        on_a_thread(move || {
            let runtime = own(shape);
            assert_eq!(current_worker(), Some(0));
            assert_eq!(current_node(), Some(NodeId(0)));
            assert_eq!(numart::current_num_workers(), runtime.num_workers());
            let thread = std::thread::current().id();
            assert_eq!(runtime.install(|| std::thread::current().id()), thread);
            assert_eq!(join(|| 1, || 2), (1, 2));
            assert_eq!(spawn(|| 5).join().unwrap(), 5);
            let all = runtime.broadcast(|context| (context.index(), std::thread::current().id()));
            assert_eq!(all[0], (0, thread));
            assert_eq!(all.len(), runtime.num_workers());
            assert!(matches!(mock("1x1").use_current_thread().build(), Err(BuildError::AlreadyWorker)));
            drop(runtime);
            assert_eq!((current_worker(), current_node()), (None, None));
            // And again, many times.
            for _ in 0..scaled(50) {
                let again = own(shape);
                assert_eq!(current_worker(), Some(0));
                assert_eq!(numart::reduce(0..500, || 0, |i| i, |a, b| a + b), 124_750);
                drop(again);
                assert_eq!(current_worker(), None);
            }
        });
    }
}

#[test]
fn queued_jobs_run_at_the_drop() {
    let _dog = watchdog();
    for shape in SHAPES {
        on_a_thread(move || {
            let runtime = own(shape);
            let (drops, ran) = (Drops::new(), Arc::new(AtomicUsize::new(0)));
            let strict = runtime.affinity().on(NodeId(0)).unwrap().strict();
            let handles: Vec<_> = (0..100)
                .map(|i| {
                    let (guard, ran) = (drops.guard(), ran.clone());
                    let task = move || {
                        let _guard = guard;
                        tick(&ran);
                        drop(spawn(move || tick(&ran)));
                    };
                    if i % 2 == 0 { strict.spawn(task) } else { runtime.spawn(task) }
                })
                .collect();
            drop(runtime);
            assert_eq!(ran.load(Ordering::SeqCst), 200);
            drops.check();
            assert!(handles.into_iter().all(|handle| handle.join().is_ok()));
        });
    }
}

#[test]
fn cancelled_where_it_was_built() {
    let _dog = watchdog();
    on_a_thread(|| {
        let runtime = own("1x1");
        let drops = Drops::new();
        let handles: Vec<_> = (0..20)
            .map(|_| {
                let guard = drops.guard();
                spawn(move || drop(guard))
            })
            .collect();
        runtime.shutdown(Shutdown::Cancel);
        drops.check();
        assert!(handles.into_iter().all(|handle| matches!(handle.join(), Err(JoinError::Shutdown))));
    });
}

#[test]
fn dropped_in_the_middle_of_joins_and_scopes() {
    let _dog = watchdog();
    for shape in SHAPES {
        on_a_thread(move || {
            for _ in 0..scaled(30) {
                let mut hold = Some(own(shape));
                let ((a, b), c) = join(|| join(|| drop(hold.take()), || 2), || 3);
                assert_eq!((a, b, c), ((), 2, 3));
                assert_eq!(current_worker(), None);

                let hold = Mutex::new(Some(own(shape)));
                let ran = AtomicUsize::new(0);
                scope(|s| {
                    (0..10).for_each(|_| s.spawn(|_| tick(&ran)));
                    drop(hold.lock().unwrap().take());
                    (0..10).for_each(|_| s.spawn(|_| tick(&ran)));
                });
                assert_eq!(ran.into_inner(), 20);

                let mut hold = Some(own(shape));
                numart::par_for(0..10, |_| ());
                let text = panic_text(|| join(|| drop(hold.take()), || panic!("half on purpose")));
                assert_eq!(text, "half on purpose");
            }
        });
    }
}

/// The thread that drops it is told to by nobody but a task that it runs itself.
#[test]
fn dropped_in_a_task_that_the_thread_runs_itself() {
    let _dog = watchdog();
    for shape in SHAPES {
        on_a_thread(move || {
            let hold = Arc::new(Mutex::new(Some(own(shape))));
            let mine = hold.clone();
            let strict = hold.lock().unwrap().as_ref().unwrap().affinity().on(NodeId(0)).unwrap().strict();
            let handle = strict.spawn(move || drop(mine.lock().unwrap().take()));
            handle.join().unwrap();
        });
    }
}

/// Worker 1 waits for a call on worker 0, which drops the runtime.
#[test]
fn dropped_by_worker_0_while_another_worker_waits_for_that() {
    for shape in ["1x2", "2x1"] {
        on_a_thread(move || {
            let hold = Arc::new(Mutex::new(Some(own(shape))));
            let mine = hold.clone();
            let handle = hold.lock().unwrap().as_ref().unwrap().handle().clone();
            let begun = Event::new();
            let task = handle.spawn({
                let (handle, begun) = (handle.clone(), begun.clone());
                move || {
                    begun.set();
                    handle.broadcast(|context| {
                        if context.index() == 0 {
                            drop(mine.lock().unwrap().take());
                        }
                    });
                }
            });
            // Blocked outside the runtime: so it is worker 1 that takes the task.
            begun.wait();
            task.join().unwrap();
        });
    }
}

#[test]
fn dropped_on_another_thread() {
    let _dog = watchdog();
    for shape in SHAPES {
        on_a_thread(move || {
            let runtime = own(shape);
            let (drops, ran) = (Drops::new(), Arc::new(AtomicUsize::new(0)));
            let strict = runtime.affinity().on(NodeId(0)).unwrap().strict();
            let handles: Vec<_> = (0..20)
                .map(|_| {
                    let (guard, ran) = (drops.guard(), ran.clone());
                    strict.spawn(move || {
                        drop(guard);
                        tick(&ran);
                    })
                })
                .collect();
            let handle = runtime.handle().clone();
            std::thread::spawn(move || drop(runtime)).join().unwrap();
            // A spare stood in.
            assert!(handles.into_iter().all(|handle| handle.join().is_ok()));
            drops.check();
            assert!(handle.stats().warnings.iter().any(|text| text.contains("use_current_thread")));
            // This thread is an ordinary one again: calls go to the global runtime.
            assert_eq!(current_worker(), None);
            assert_eq!(join(|| 1, || 2), (1, 2));
            assert_eq!(spawn(|| 3).join().unwrap(), 3);
            assert!(matches!(handle.spawn(|| ()).join(), Err(JoinError::Shutdown)));
            let mut one = 0;
            scope(|s| s.spawn(|_| one = 1));
            assert_eq!(one, 1);
        });
    }
}

/// No spare may stand in for worker 0: its strict tasks cannot run any more, and must not be waited for.
#[test]
fn dropped_on_another_thread_without_spares() {
    for shape in ["1x1", "2x1"] {
        on_a_thread(move || {
            let runtime = mock(shape).use_current_thread().spare_threads(0).build().unwrap();
            let drops = Drops::new();
            let guard = drops.guard();
            let strict = runtime.affinity().on(NodeId(0)).unwrap().strict();
            let handle = strict.spawn(move || drop(guard));
            std::thread::spawn(move || drop(runtime)).join().unwrap();
            drops.check();
            drop(handle);
        });
    }
}

#[test]
fn dropped_on_another_thread_while_worker_0_works() {
    let _dog = watchdog();
    for round in 0..scaled(200) {
        // A thread each: it stays a worker of the dead runtime.
        on_a_thread(move || {
            let runtime = own(SHAPES[round % 4]);
            let ran = AtomicUsize::new(0);
            let (go_on, begun) = (Event::new(), Event::new());
            let ending = std::thread::spawn({
                let (go_on, begun) = (go_on.clone(), begun.clone());
                move || {
                    go_on.wait();
                    begun.set();
                    drop(runtime);
                }
            });
            scope(|s| {
                go_on.set();
                begun.wait();
                for _ in 0..100 {
                    s.spawn(|_| {
                        join(|| tick(&ran), || tick(&ran));
                    });
                }
            });
            assert_eq!(ran.into_inner(), 200);
            ending.join().unwrap();
        });
    }
}

#[test]
fn a_thread_that_ends_before_its_runtime() {
    let _dog = watchdog();
    for shape in SHAPES {
        on_a_thread(move || {
            let (runtime, handles) = std::thread::spawn(move || {
                let runtime = own(shape);
                let strict = runtime.affinity().on(NodeId(0)).unwrap().strict();
                let handles: Vec<_> = (0..10).map(|i| strict.spawn(move || (i, current_node()))).collect();
                (runtime, handles)
            })
            .join()
            .unwrap();
            for (i, handle) in handles.into_iter().enumerate() {
                assert_eq!(handle.join().unwrap(), (i, Some(NodeId(0))));
            }
            assert_eq!(runtime.install(|| join(|| 1, || 2)), (1, 2));
            // Nobody is there for worker 0's call.
            assert!(panic_text(|| runtime.broadcast(|_| ())).contains("numart"));
            assert_eq!(runtime.broadcast_per_node(|context| context.index()).len(), runtime.nodes().len());
            let handle = runtime.handle().clone();
            drop(runtime);
            assert!(matches!(handle.spawn(|| ()).join(), Err(JoinError::Shutdown)));
        });
    }
}

/// A broadcast of another thread while worker 0 is not in a call: it is done at the next wait or at the drop.
#[test]
fn broadcasts_reach_worker_0_at_its_next_wait() {
    let _dog = watchdog();
    for shape in SHAPES {
        on_a_thread(move || {
            let runtime = own(shape);
            let handle = runtime.handle().clone();
            let count = Arc::new(AtomicUsize::new(0));
            let caller = std::thread::spawn({
                let count = count.clone();
                move || handle.broadcast(|_| tick(&count)).len()
            });
            let others = runtime.num_workers() - 1;
            until(|| count.load(Ordering::SeqCst) == others);
            assert_eq!(others, count.load(Ordering::SeqCst));
            until(|| {
                // Not a loop of waits: yield runs it too.
                numart::yield_now();
                count.load(Ordering::SeqCst) == others + 1
            });
            assert_eq!(caller.join().unwrap(), others + 1);
        });
    }
}

/// What the builder was given is dropped with the runtime, not when the thread ends.
#[test]
fn hooks_are_dropped_with_the_runtime() {
    let _dog = watchdog();
    on_a_thread(|| {
        let drops = Drops::new();
        for _ in 0..scaled(200) {
            let guard = drops.guard();
            let builder = mock("1x2").use_current_thread().panic_handler(move |_| _ = &guard);
            drop(builder.build().unwrap());
        }
        // The last one may wait for the next build.
        assert!(drops.dropped() + 1 >= drops.made(), "{} of {} dropped", drops.dropped(), drops.made());
    });
}

/// Thread-local values may be destroyed after ours.
#[test]
fn built_in_the_destructor_of_a_thread_local() {
    let _dog = watchdog();
    struct Builds(std::sync::mpsc::Sender<String>);
    impl Drop for Builds {
        fn drop(&mut self) {
            let text = match mock("1x1").use_current_thread().build() {
                Ok(runtime) => {
                    drop(runtime);
                    String::new()
                }
                Err(error) => error.to_string(),
            };
            self.0.send(text).unwrap();
        }
    }
    thread_local! {
        static BUILDS: std::cell::RefCell<Option<Builds>> = const { std::cell::RefCell::new(None) };
    }
    for used_before in [false, true] {
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            if used_before {
                // Registered first, so destroyed last or first, as the platform has it.
                drop(own("1x1"));
            }
            BUILDS.with(|builds| *builds.borrow_mut() = Some(Builds(send)));
            if !used_before {
                drop(own("1x1"));
            }
        })
        .join()
        .unwrap();
        let text = receive.recv().unwrap();
        assert!(text.is_empty() || text.contains("another thread"), "{text}");
    }
}
