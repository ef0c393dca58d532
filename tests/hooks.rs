//! Hooks and builder errors: start, stop, around, names; what bad settings and bad variables get.

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::{Drops, Event, ON_PURPOSE, PanicsOnDrop, is_child, mock, run_child, tick, until, watchdog};
use numart::{BuildError, NodeId, Runtime, WorkerInfo, current_worker, join, spawn};

#[test]
fn start_and_stop_are_called_once_on_each_worker() {
    let _dog = watchdog();
    let (begun, ended) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    #[allow(clippy::type_complexity, reason = "named once")]
    let note = |list: &Arc<Mutex<Vec<(WorkerInfo, Option<usize>)>>>| {
        let list = list.clone();
        move |info: WorkerInfo| list.lock().unwrap().push((info, current_worker()))
    };
    let runtime = mock("2x2").on_thread_start(note(&begun)).on_thread_stop(note(&ended)).build().unwrap();
    runtime.broadcast(|_| ());
    assert!(ended.lock().unwrap().is_empty());
    drop(runtime);
    for list in [begun, ended] {
        let list = list.lock().unwrap();
        let regular: BTreeSet<_> = list.iter().filter(|(info, _)| !info.spare).map(|(info, _)| info.index).collect();
        assert_eq!(regular, (0..4).collect());
        for (info, current) in &*list {
            assert_eq!(*current, Some(info.index));
            assert!(info.spare || info.node == NodeId(info.index as u32 / 2));
        }
        assert_eq!(list.iter().map(|(info, _)| info.index).collect::<BTreeSet<_>>().len(), list.len());
    }
}

#[test]
fn hooks_may_use_the_runtime() {
    let _dog = watchdog();
    let sum = Arc::new(AtomicUsize::new(0));
    let add = |sum: &Arc<AtomicUsize>| {
        let sum = sum.clone();
        move |_| {
            let (a, b) = join(|| 1, || 2);
            numart::scope(|s| s.spawn(|_| _ = sum.fetch_add(a + b, Ordering::SeqCst)));
            // Taken at the start, refused at the stop.
            drop(spawn(|| ()));
        }
    };
    let runtime = mock("1x2").on_thread_start(add(&sum)).on_thread_stop(add(&sum)).build().unwrap();
    runtime.broadcast(|_| ());
    let started = sum.load(Ordering::SeqCst) / 3;
    assert!(started >= 2);
    drop(runtime);
    assert!(sum.load(Ordering::SeqCst) >= 3 * (started + 2));
}

#[test]
fn panicking_hooks_cost_no_worker_and_are_reported() {
    let _dog = watchdog();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    let runtime = mock("1x2")
        .on_thread_start(|_| panic!("start {ON_PURPOSE}"))
        .on_thread_stop(|_| panic!("stop {ON_PURPOSE}"))
        .around_worker(|run| {
            run();
            panic!("around {ON_PURPOSE}");
        })
        .panic_handler(move |_| tick(&count))
        .build()
        .unwrap();
    assert_eq!(runtime.install(|| join(|| 1, || 2)), (1, 2));
    runtime.broadcast(|_| ());
    assert_eq!(seen.load(Ordering::SeqCst), 2);
    let handle = runtime.handle().clone();
    drop(runtime);
    assert_eq!(seen.load(Ordering::SeqCst), 6);
    let warnings = handle.stats().warnings;
    for hook in ["the start hook", "the stop hook", "the around_worker hook"] {
        assert!(warnings.iter().any(|text| text.contains(hook) && text.contains("panicked")), "{warnings:?}");
    }
}

#[test]
fn an_around_hook_that_panics_before_the_worker_ran() {
    let _dog = watchdog();
    let runtime = mock("1x2").around_worker(|_| panic!("early {ON_PURPOSE}")).build().unwrap();
    assert_eq!(runtime.broadcast(|context| context.index()), [0, 1]);
    assert_eq!(runtime.install(|| join(|| 1, || 2)), (1, 2));
}

#[test]
fn an_around_hook_that_never_runs_its_worker() {
    let _dog = watchdog();
    let runtime = mock("2x1").around_worker(|_| ()).build().unwrap();
    assert_eq!(runtime.broadcast(|context| context.index()), [0, 1]);
    let warnings = runtime.stats().warnings;
    assert!(warnings.iter().any(|text| text.contains("did not call `run`")), "{warnings:?}");
}

#[test]
fn an_around_hook_that_runs_it_twice() {
    let _dog = watchdog();
    let ends = Arc::new(AtomicUsize::new(0));
    let count = ends.clone();
    let runtime = mock("1x2")
        .around_worker(move |run| {
            run();
            run();
            tick(&count);
        })
        .build()
        .unwrap();
    assert_eq!(runtime.install(|| join(|| 1, || 2)), (1, 2));
    drop(runtime);
    assert!(ends.load(Ordering::SeqCst) >= 2);
}

#[test]
fn payloads_of_hooks_that_panic_when_dropped() {
    let _dog = watchdog();
    let drops = Drops::new();
    let made = drops.clone();
    let runtime = mock("1x1")
        .on_thread_start(move |_| std::panic::panic_any(PanicsOnDrop(made.guard())))
        .panic_handler(drop)
        .build()
        .unwrap();
    assert_eq!(runtime.install(|| 3), 3);
    drop(runtime);
    drops.check();
}

#[test]
fn names_are_obeyed_and_bad_ones_do_no_harm() {
    let _dog = watchdog();
    let name = |runtime: &Runtime| runtime.install(|| std::thread::current().name().map(str::to_owned));
    let runtime = mock("1x1").thread_name(|info| format!("search-{}", info.index)).build().unwrap();
    assert_eq!(name(&runtime).as_deref(), Some("search-0"));
    let runtime = mock("node 7 cpus 0").build().unwrap();
    assert_eq!(name(&runtime).as_deref(), Some("numart-n7-w0"));
    let runtime = mock("1x1").thread_name(|_| panic!("name {ON_PURPOSE}")).build().unwrap();
    assert_eq!(name(&runtime).as_deref(), Some("numart-n0-w0"));
    assert!(runtime.stats().warnings.iter().any(|text| text.contains("name")));
    let runtime = mock("1x1").thread_name(|_| "a\0b".into()).build().unwrap();
    assert_eq!(runtime.install(|| 1), 1);
    let runtime = mock("1x1").thread_name(|_| String::new()).build().unwrap();
    assert_eq!(runtime.install(|| 1), 1);
}

/// All workers meet in their start hooks: none of them waits for the builder, nor the builder for them.
#[test]
fn start_hooks_may_block() {
    let _dog = watchdog();
    let (go_on, inside) = (Event::new(), Arc::new(AtomicUsize::new(0)));
    let (wait, count) = (go_on.clone(), inside.clone());
    let runtime = mock("2x1")
        .on_thread_start(move |_| {
            tick(&count);
            wait.wait();
        })
        .build()
        .unwrap();
    let handle = runtime.spawn(|| 1);
    until(|| inside.load(Ordering::SeqCst) == 2);
    assert!(!handle.is_finished());
    go_on.set();
    assert_eq!(handle.join().unwrap(), 1);
}

fn error(builder: numart::Builder) -> BuildError {
    builder.build().expect_err("an error")
}

#[test]
fn impossible_settings_are_errors_that_say_what_to_do() {
    assert!(matches!(error(mock("1x1").workers(0)), BuildError::NoWorkers));
    assert!(matches!(error(mock("1x1").workers_per_node(0)), BuildError::NoWorkers));
    assert!(matches!(error(mock("2x1").nodes([])), BuildError::NoNodes));
    for builder in [
        mock("2x1").workers(usize::MAX),
        mock("2x1").workers(100_000_000_000),
        mock("2x1").workers_per_node(usize::MAX),
        mock("2x1").spare_threads(usize::MAX),
        mock("2x1").spare_threads(1 << 63),
        mock("2x1").spare_threads(100_000),
    ] {
        let error = error(builder);
        assert!(matches!(error, BuildError::TooManyThreads { .. }), "{error:?}");
        assert!(error.to_string().contains("fewer"), "{error}");
    }
    assert!(error(mock("1x1").workers(0)).to_string().contains("at least one worker"));
    match error(mock("2x1").nodes([NodeId(0), NodeId(9)])) {
        BuildError::UnknownNode { node, nodes } => {
            assert_eq!((node, nodes), (NodeId(9), vec![NodeId(0), NodeId(1)]));
        }
        other => panic!("{other}"),
    }
    // Memory only.
    let other = error(mock("node 0 cpus 0\nnode 1 cpus").nodes([NodeId(1)]));
    assert!(matches!(other, BuildError::NodeWithoutCpus(NodeId(1)) | BuildError::Topology(_)), "{other:?}");
    for text in [
        "",
        " ",
        "0x2",
        "2x0",
        "x",
        "4x",
        "x2",
        "-1x2",
        "4x2x1",
        "99999999999x2",
        "node",
        "node 0",
        "node 0 cpus 0\nnode 0 cpus 1",
        "node 0 cpus 0\nnode 1 cpus 0",
        "node 0 cpus 3-1",
        "node 0 cpus 0\ndistances\n10 20",
    ] {
        match mock(text).build() {
            Err(BuildError::Topology(error)) => assert!(!error.to_string().is_empty()),
            Err(BuildError::NoWorkers) => {}
            Err(other) => panic!("{text:?}: {other}"),
            Ok(runtime) => panic!("{text:?} gave {runtime:?}"),
        }
    }
}

#[test]
fn stacks_too_big_are_an_error() {
    let _dog = watchdog();
    match mock("1x2").stack_size(1 << 60).build() {
        Err(BuildError::Thread(error)) => assert!(!error.to_string().is_empty()),
        other => panic!("{other:?}"),
    }
}

/// The child builds by the environment and prints what it gets.
#[test]
fn child_builds() {
    if !is_child() {
        return;
    }
    match Runtime::builder().build() {
        Ok(runtime) => println!("built {} on {}", runtime.num_workers(), runtime.nodes().len()),
        Err(error) => println!("error {error}"),
    }
    println!("ignoring: {}", Runtime::builder().ignore_environment().build().is_ok());
    println!("spawned: {}", spawn(|| 7).join().unwrap());
    println!("warnings: {:?}", numart::stats().warnings);
}

fn child(variables: &[(&str, &str)]) -> String {
    let output = run_child("child_builds", variables);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("ignoring: true") && text.contains("spawned: 7"), "{text}");
    text
}

#[test]
fn bad_variables_are_errors_for_the_builder_and_warnings_for_the_global_runtime() {
    if is_child() {
        return;
    }
    assert!(child(&[("NUMART_WORKERS", "3"), ("NUMART_TOPOLOGY", "2x2")]).contains("built 3 on 2"));
    assert!(child(&[("NUMART_WORKERS", " 2 ")]).contains("built 2 on "));
    assert!(child(&[("NUMART_TOPOLOGY", "4x2")]).contains("built 8 on 4"));
    for bad in ["0", "-1", "two", "", "1.5", "99999999999999999999999"] {
        let text = child(&[("NUMART_WORKERS", bad)]);
        assert!(text.contains("error NUMART_WORKERS="), "{bad:?}: {text}");
        assert!(text.contains("the environment was not obeyed"), "{bad:?}: {text}");
    }
    for bad in ["0x1", "4y2", "/no/such/file", "node 0 cpus 0\nnode 0 cpus 1"] {
        let text = child(&[("NUMART_TOPOLOGY", bad)]);
        assert!(text.contains("error "), "{bad:?}: {text}");
        assert!(text.contains("the environment was not obeyed"), "{bad:?}: {text}");
    }
}

#[test]
fn child_builds_the_global() {
    if !is_child() {
        return;
    }
    let handle = Runtime::builder().topology_text("3x1").build_global().unwrap();
    assert_eq!(handle.num_workers(), 3);
    assert_eq!(spawn(numart::current_num_workers).join().unwrap(), 3);
    assert_eq!(numart::global().nodes(), handle.nodes());
    let second = Runtime::builder().workers(1).build_global();
    assert!(matches!(second, Err(BuildError::GlobalExists)));
    println!("global as asked");
}

#[test]
fn build_global_is_obeyed_once() {
    if is_child() {
        return;
    }
    let output = run_child("child_builds_the_global", &[]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("global as asked"), "{output:?}");
}
