//! No job stays hidden behind a worker that does not look up. The one test that looks at time.

mod common;

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use common::{mock, slowdown, watchdog};
use numart::{Runtime, join, scope, spawn};

const NAP: Duration = Duration::from_millis(100);

fn leaves(count: usize) {
    if count == 1 {
        std::thread::sleep(NAP);
    } else {
        join(|| leaves(count / 2), || leaves(count - count / 2));
    }
}

/// 2W leaves on W workers: two rounds, plus 20 %. If the machine was busy with something else, the median of three tries.
fn in_two_naps(name: &str, runtime: &Runtime, work: impl Fn() + Send + Sync) {
    let limit = 2 * NAP * 12 / 10 * slowdown() as u32;
    let once = || {
        let begin = Instant::now();
        runtime.install(&work);
        let took = begin.elapsed();
        assert!(took >= 2 * NAP, "{name}: {took:?}");
        println!("{name}: {took:?}");
        took
    };
    if once() > limit {
        let tries = [once(), once()];
        assert!(tries.iter().all(|&took| took <= limit), "{name} took {tries:?}: some leaf was hidden");
    }
}

/// One test, so that no other shares the CPUs.
#[test]
fn sleeping_leaves_and_blocking_receivers_hide_nothing() {
    let _dog = watchdog();
    for forced in [true, false] {
        for (shape, workers) in [("1x2", 2), ("1x4", 4), ("2x1", 2), ("2x2", 4)] {
            let runtime = mock(shape).forced_splits(forced).build().unwrap();
            let name = |what: &str| format!("{what}, {shape}, forced splits {forced}");
            in_two_naps(&name("nested joins"), &runtime, || leaves(2 * workers));
            in_two_naps(&name("left-leaning joins"), &runtime, || left_leaning(2 * workers));
            in_two_naps(&name("a scope"), &runtime, || {
                scope(|s| (0..2 * workers).for_each(|_| s.spawn(|_| std::thread::sleep(NAP))));
            });
            in_two_naps(&name("par_for"), &runtime, || numart::par_for(0..2 * workers, |_| std::thread::sleep(NAP)));
        }
        blocking_receiver(forced);
    }
}

/// `join(join(join(.., leaf), leaf), leaf)`: all halves in one ring, the owner asleep in the innermost.
fn left_leaning(count: usize) {
    if count == 1 {
        std::thread::sleep(NAP);
    } else {
        join(|| left_leaning(count - 1), || std::thread::sleep(NAP));
    }
}

/// A worker spawns 100 jobs and blocks, outside the runtime's knowledge, for all of them.
fn blocking_receiver(forced: bool) {
    let runtime = Runtime::builder().workers(2).forced_splits(forced).build().unwrap();
    for _ in 0..20 {
        let sum: usize = runtime.install(|| {
            let (send, receive) = channel();
            for i in 0..100 {
                let send = send.clone();
                drop(spawn(move || send.send(i).unwrap()));
            }
            drop(send);
            receive.iter().sum()
        });
        assert_eq!(sum, 4950);
        // The same with scope jobs, which lie in the ring of the worker that blocks.
        let sum: usize = runtime.install(|| {
            scope(|s| {
                let (send, receive) = channel();
                for i in 0..100 {
                    let send = send.clone();
                    s.spawn(move |_| send.send(i).unwrap());
                }
                drop(send);
                receive.iter().sum()
            })
        });
        assert_eq!(sum, 4950);
        // And with a join half that the first one blocks for.
        let (send, receive) = channel();
        let got = runtime.install(|| join(move || receive.recv().unwrap(), move || send.send(5).unwrap()).0);
        assert_eq!(got, 5);
    }
}
