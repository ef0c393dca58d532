//! A runtime whose only worker is the thread that built it runs what is queued when it ends, since nobody else can.

#![cfg(not(loom))]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use numart_runtime::{JoinError, Runtime, Shutdown};

fn adopted(spares: usize) -> Runtime {
    Runtime::builder().workers(1).use_current_thread().spare_threads(spares).build().unwrap()
}

#[test]
fn drain_runs_what_the_adopted_worker_left_queued() {
    for spares in [0, 2] {
        let runtime = adopted(spares);
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let ran = ran.clone();
            drop(runtime.spawn(move || {
                let nested = ran.clone();
                drop(numart_runtime::spawn(move || _ = nested.fetch_add(1, Ordering::Relaxed)));
                ran.fetch_add(1, Ordering::Relaxed);
            }));
        }
        runtime.shutdown(Shutdown::Drain);
        assert_eq!(ran.load(Ordering::Relaxed), 20, "with {spares} spares");
        assert_eq!(Arc::strong_count(&ran), 1, "every closure was dropped");
    }
}

#[test]
fn cancel_drops_what_the_adopted_worker_left_queued() {
    for spares in [0, 2] {
        let runtime = adopted(spares);
        let captured = Arc::new(());
        let handle = {
            let captured = captured.clone();
            runtime.spawn(move || drop(captured))
        };
        runtime.shutdown(Shutdown::Cancel);
        assert_eq!(Arc::strong_count(&captured), 1);
        assert!(matches!(handle.join(), Ok(()) | Err(JoinError::Shutdown)));
    }
}
