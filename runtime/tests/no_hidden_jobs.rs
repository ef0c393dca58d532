//! Jobs that somebody must come for although nobody looks up: each test blocks for ever if nobody does.

#![cfg(not(loom))]

use std::sync::{Barrier, mpsc};
use std::time::Duration;

use numart_runtime::{Affinity, Runtime, current_node};

/// Ends the process if `run` hangs: a hung test says nothing.
fn within(limit: Duration, run: impl FnOnce()) {
    let (done, waits) = mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if waits.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("hung for {limit:?}");
            std::process::abort();
        }
    });
    run();
    drop(done);
    watchdog.join().unwrap();
}

/// The body and both jobs must run at the same time. The first job is published, the second is private; whoever takes
/// the first must see to it that somebody comes for the second.
#[test]
fn a_private_job_of_a_blocked_owner_is_found_while_others_are_idle() {
    let runtime = Runtime::builder().workers(4).build().unwrap();
    within(Duration::from_secs(60), || {
        for round in 0..50 {
            let all = Barrier::new(3);
            runtime.scope(|s| {
                s.spawn(|_| _ = all.wait());
                s.spawn(|_| _ = all.wait());
                all.wait();
            });
            if round % 5 == 0 {
                // Everybody asleep, no watcher.
                std::thread::sleep(Duration::from_millis(15));
            }
        }
    });
}

/// The only worker of the first node blocks until its own root job ran: the other node must come for it.
#[test]
fn a_root_job_of_a_blocked_node_is_found_by_another() {
    let runtime = Runtime::builder().topology_text("2x1").build().unwrap();
    let home = runtime.nodes()[0];
    within(Duration::from_secs(60), || {
        for _ in 0..500 {
            let affinity = runtime.affinity().on(home).unwrap();
            let waits = affinity.spawn(|| {
                let (done, waits) = mpsc::channel();
                drop(numart_runtime::spawn(move || done.send(()).unwrap()));
                waits.recv().unwrap();
            });
            waits.join().unwrap();
        }
    });
}

/// Other nodes' idle workers never get a job below a strict root, however they race with its beginning.
#[test]
fn halves_of_strict_roots_stay_at_home() {
    fn tree(depth: u32) {
        assert_eq!(current_node().map(|node| node.0), Some(0));
        if depth > 0 {
            numart_runtime::join(|| tree(depth - 1), || tree(depth - 1));
        }
    }
    let runtime = Runtime::builder().topology_text("2x2").build().unwrap();
    let home: Affinity = runtime.affinity().on(runtime.nodes()[0]).unwrap().strict();
    within(Duration::from_secs(120), || {
        for _ in 0..2_000 {
            home.spawn(|| tree(4)).join().unwrap();
        }
    });
}
