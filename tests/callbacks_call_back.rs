//! Callbacks of the builder that call into the runtime, drop it, or panic at the worst place.

mod common;

use std::sync::{Arc, Mutex, OnceLock};

use common::{Drops, ON_PURPOSE, PanicsOnDrop, mock, until, watchdog};
use numart::{Handle, Runtime};

/// Holds a runtime for a callback that was made before it.
type Shared = Arc<Mutex<Option<Runtime>>>;

/// The only worker waits for a task behind it, by way of another runtime's worker, which may not run it: a spare is started,
/// out of the wait.
fn start_a_spare(runtime: &Runtime) {
    let other = mock("1x1").build().unwrap();
    let handle = runtime.handle().clone();
    let waits = runtime.spawn(move || other.install(|| handle.spawn(|| 5).join().unwrap()));
    assert_eq!(waits.join().unwrap(), 5);
    assert!(runtime.stats().nodes[0].spare_threads > 0);
}

#[test]
fn a_name_callback_that_panics_with_a_payload_that_panics() {
    let _dog = watchdog();
    let drops = Drops::new();
    let bombs = drops.clone();
    let runtime = mock("1x1")
        .thread_name(move |worker| {
            if worker.spare {
                std::panic::panic_any(PanicsOnDrop(bombs.guard()));
            }
            "plain".into()
        })
        .build()
        .unwrap();
    start_a_spare(&runtime);
    assert!(runtime.stats().warnings.iter().any(|text| text.contains("thread name")), "{}", runtime.stats());
    drop(runtime);
    drops.check();
    assert!(drops.made() > 0);
    // At the build.
    let bombs = drops.clone();
    let runtime = mock("1x2").thread_name(move |_| std::panic::panic_any(PanicsOnDrop(bombs.guard()))).build().unwrap();
    assert_eq!(runtime.install(|| 1), 1);
    drop(runtime);
    drops.check();
}

#[test]
fn a_name_callback_that_spawns() {
    let _dog = watchdog();
    let there = Arc::new(OnceLock::<Handle>::new());
    let handle = there.clone();
    let runtime = mock("1x1")
        .thread_name(move |worker| {
            if let Some(handle) = handle.get() {
                drop(handle.spawn(|| ()));
            }
            format!("w{}", worker.index)
        })
        .build()
        .unwrap();
    there.set(runtime.handle().clone()).unwrap();
    start_a_spare(&runtime);
}

/// Builds a runtime that one of its own callbacks drops, when `begin` makes it be called; all its threads must end.
fn dropped_by(callback: impl FnOnce(Shared) -> numart::Builder, begin: impl FnOnce(&Handle)) {
    let shared: Shared = Arc::default();
    let builder = callback(shared.clone());
    // The callback may run before `build` returns: it waits for the lock.
    let mut hold = shared.lock().unwrap();
    let runtime = builder.build().unwrap();
    let handle = runtime.handle().clone();
    *hold = Some(runtime);
    drop(hold);
    begin(&handle);
    until(|| handle.is_shut_down());
    assert!(handle.spawn(|| ()).join().is_err());
}

fn take(shared: &Shared) {
    let taken = shared.lock().unwrap().take();
    drop(taken);
}

#[test]
fn a_runtime_dropped_by_its_own_callback() {
    let _dog = watchdog();
    for shape in ["1x1", "1x2", "2x1"] {
        dropped_by(|shared| mock(shape).on_thread_start(move |_| take(&shared)), |_| ());
        dropped_by(
            |shared| {
                mock(shape).around_worker(move |run| {
                    take(&shared);
                    run();
                })
            },
            |_| (),
        );
        dropped_by(
            |shared| mock(shape).panic_handler(move |_| take(&shared)),
            |handle| drop(handle.spawn(|| panic!("{ON_PURPOSE}"))),
        );
        dropped_by(
            |shared| {
                mock(shape)
                    .on_thread_start(|worker| {
                        if worker.index == 0 {
                            panic!("{ON_PURPOSE}")
                        }
                    })
                    .panic_handler(move |_| take(&shared))
            },
            |_| (),
        );
    }
}
