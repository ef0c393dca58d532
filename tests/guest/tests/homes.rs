//! Tasks leave their home only when they may. The clock is turned by hand: with 8 or 16 virtual CPUs on 2 real ones any
//! delay in microseconds has always passed.

mod common;

use std::sync::Mutex;
use std::time::Duration;

use common::kernel::here;
use common::{need_nodes, occupy, until, watchdog};
use numart::{Clock, HomeDelay, NodeId, Runtime, in_place_scope, join, par_for};

fn runtime(delay: HomeDelay) -> (Runtime, numart::ManualClock) {
    let (clock, hand) = Clock::manual();
    (Runtime::builder().workers_per_node(2).clock(clock).home_delay(delay).build().unwrap(), hand)
}

/// Runs enough on `node` that its workers have looked round many times.
fn look_round(runtime: &Runtime, node: NodeId) {
    let affinity = runtime.affinity().on(node).unwrap().strict();
    (0..100).for_each(|_| affinity.spawn(|| ()).join().unwrap());
}

#[test]
fn what_a_strict_task_spawns_stays_with_it() {
    let Some(_) = need_nodes(2) else { return };
    let _dog = watchdog(300);
    let (runtime, _hand) = runtime(HomeDelay::After(Duration::ZERO));
    let places = Mutex::new(Vec::new());
    in_place_scope(|s| {
        for _ in 0..20 {
            for node in runtime.nodes() {
                let strict = runtime.affinity().on(node).unwrap().strict();
                let places = &places;
                // The handle's task borrows nothing: what it found comes back with it.
                s.spawn(move |_| {
                    let found = strict.spawn(move || {
                        let inner = Mutex::new(vec![here().1]);
                        join(|| par_for(0..32, |_| inner.lock().unwrap().push(here().1)), here);
                        inner.into_inner().unwrap()
                    });
                    places.lock().unwrap().extend(found.join().unwrap().into_iter().map(|at| (node.0, at)));
                });
            }
        }
    });
    let places = places.into_inner().unwrap();
    assert_eq!(places.len(), 20 * runtime.nodes().len() * 33);
    let astray = places.iter().filter(|(home, at)| home != at).count();
    assert_eq!(astray, 0, "of {}", places.len());
}

#[test]
fn a_task_leaves_a_busy_home_after_the_delay_and_not_before() {
    let Some(_) = need_nodes(2) else { return };
    let _dog = watchdog(300);
    let delay = Duration::from_secs(1000);
    let (runtime, hand) = runtime(HomeDelay::After(delay));
    let nodes = runtime.nodes();
    let home = runtime.affinity().on(nodes[0]).unwrap();
    let (go_on, blocked) = occupy(&runtime, nodes[0], 2);
    let tasks: Vec<_> = (0..10).map(|_| home.spawn(here)).collect();
    nodes[1..].iter().for_each(|&node| look_round(&runtime, node));
    assert!(tasks.iter().all(|task| !task.is_finished()), "the clock stands still");
    hand.advance(delay - Duration::from_nanos(1));
    nodes[1..].iter().for_each(|&node| look_round(&runtime, node));
    assert!(tasks.iter().all(|task| !task.is_finished()), "a nanosecond too early");
    hand.advance(Duration::from_nanos(1));
    // Each that leaves begins a new wait for those behind it.
    let mut turns = 0;
    until(|| {
        hand.advance(delay);
        turns += 1;
        tasks.iter().all(|task| task.is_finished())
    });
    let ran: Vec<u32> = tasks.into_iter().map(|task| task.join().unwrap().1).collect();
    assert!(ran.iter().all(|&node| node != nodes[0].0), "the home was busy all the time: {ran:?}");
    // The counters say the same as the kernel.
    let stats = runtime.stats();
    for (row, node) in stats.nodes.iter().enumerate().skip(1) {
        let observed = ran.iter().filter(|&&at| at == node.node).count() as u64;
        assert_eq!(stats.roots[row][0], observed, "tasks of node {} taken by node {}", nodes[0], node.node);
    }
    go_on.set();
    blocked.into_iter().for_each(|handle| handle.join().unwrap());
}

#[test]
fn a_task_does_not_leave_a_home_that_has_somebody_idle() {
    let Some(_) = need_nodes(2) else { return };
    let _dog = watchdog(300);
    let (runtime, hand) = runtime(HomeDelay::After(Duration::from_nanos(1)));
    let nodes = runtime.nodes();
    // One of the home's two workers is busy, the other idle, as fast as it may be woken.
    let (go_on, blocked) = occupy(&runtime, nodes[0], 1);
    let home = runtime.affinity().on(nodes[0]).unwrap();
    for _ in 0..300 {
        hand.advance(Duration::from_secs(1));
        assert_eq!(home.spawn(here).join().unwrap().1, nodes[0].0);
    }
    go_on.set();
    blocked.into_iter().for_each(|handle| handle.join().unwrap());
}

#[test]
fn homes_that_keep_their_tasks_keep_them() {
    let Some(_) = need_nodes(2) else { return };
    let _dog = watchdog(300);
    let (runtime, hand) = runtime(HomeDelay::Never);
    let nodes = runtime.nodes();
    let home = runtime.affinity().on(nodes[0]).unwrap();
    let (go_on, blocked) = occupy(&runtime, nodes[0], 2);
    let tasks: Vec<_> = (0..50).map(|_| home.spawn(here)).collect();
    for &node in &nodes[1..] {
        hand.advance(Duration::from_secs(1_000_000));
        look_round(&runtime, node);
    }
    assert!(tasks.iter().all(|task| !task.is_finished()));
    go_on.set();
    blocked.into_iter().for_each(|handle| handle.join().unwrap());
    tasks.into_iter().for_each(|task| assert_eq!(task.join().unwrap().1, nodes[0].0));
    let stats = runtime.stats();
    assert!((1..stats.nodes.len()).all(|row| stats.roots[row][0] == 0), "{stats}");
}
