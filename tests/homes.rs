//! Homes: where root jobs run, when they may leave, and that nothing below a strict task ever does.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use common::{Event, mock, scaled, tick, until, watchdog};
use numart::{
    Affinity, Clock, HomeDelay, JoinError, JoinHandle, NodeId, Runtime, Waiting, current_node, in_place_scope, join,
    par_for, reduce, scope, scope_fifo, spawn, yield_now,
};

/// Occupies every worker of `node` until the event is set, and returns when they are all taken.
fn occupy(runtime: &Runtime, node: NodeId, workers: usize) -> (Arc<Event>, Vec<JoinHandle<()>>) {
    let go_on = Event::new();
    let taken = Arc::new(AtomicUsize::new(0));
    let affinity = runtime.affinity().on(node).unwrap().strict();
    let handles = (0..workers)
        .map(|_| {
            let (go_on, taken) = (go_on.clone(), taken.clone());
            affinity.spawn(move || {
                tick(&taken);
                go_on.wait();
            })
        })
        .collect();
    until(|| taken.load(Ordering::SeqCst) == workers);
    (go_on, handles)
}

/// Runs enough on `node` that its workers have looked round many times.
fn look_round(runtime: &Runtime, node: NodeId) {
    let affinity = runtime.affinity().on(node).unwrap().strict();
    for _ in 0..scaled(300) {
        affinity.spawn(|| ()).join().unwrap();
    }
}

#[test]
fn tasks_run_at_home_if_homes_keep_them() {
    let _dog = watchdog();
    for shape in ["4x2", "4x1", "node 3 cpus 0-1\nnode 34 cpus 2\nnode 72 cpus 3-5"] {
        let runtime = mock(shape).home_delay(HomeDelay::Never).build().unwrap();
        let nodes = runtime.nodes();
        let handles: Vec<_> = (0..scaled(8_000))
            .map(|i| {
                // Three quarters to one node: the others are idle and want some.
                let node = nodes[if i % 4 == 0 { i / 4 % nodes.len() } else { 1 }];
                let affinity = runtime.affinity().on(node).unwrap();
                assert_eq!(affinity.home(), node);
                affinity.spawn(move || (current_node(), node))
            })
            .collect();
        for handle in handles {
            let (ran, home) = handle.join().unwrap();
            assert_eq!(ran, Some(home));
        }
        // A plain spawn stays with its spawner.
        for &node in &nodes {
            let affinity = runtime.affinity().on(node).unwrap();
            let child = affinity.spawn(|| spawn(current_node)).join().unwrap();
            assert_eq!(child.join().unwrap(), Some(node));
            let inherited = affinity.spawn(|| Affinity::new().spawn(current_node)).join().unwrap();
            assert_eq!(inherited.join().unwrap(), Some(node));
        }
    }
}

/// What strict tasks do; every piece notes whether it runs at home.
struct Watch {
    home: NodeId,
    astray: Arc<AtomicUsize>,
    pieces: Arc<AtomicUsize>,
}

impl Watch {
    fn here(&self) {
        self.pieces.fetch_add(1, Ordering::Relaxed);
        if current_node() != Some(self.home) {
            tick(&self.astray);
        }
    }

    fn tree(&self, depth: usize) {
        self.here();
        if depth > 0 {
            join(|| self.tree(depth - 1), || self.tree(depth - 1));
        }
    }

    fn work(&self, kind: usize) {
        self.here();
        match kind % 10 {
            0 => self.tree(4),
            1 => scope(|s| {
                for _ in 0..8 {
                    s.spawn(|s| {
                        self.here();
                        s.spawn(|_| self.here());
                    });
                }
            }),
            2 => par_for(0..64, |_| self.here()),
            3 => scope_fifo(|s| {
                for _ in 0..4 {
                    s.spawn_fifo(|_| self.tree(2));
                }
            }),
            // A task that is not strict, joined on top: it may run here or elsewhere, what follows it may not.
            4 => {
                let inner = spawn(|| reduce(0..100, || 0, |i| i, |a, b| a + b));
                assert_eq!(inner.join().unwrap(), 4950);
                self.tree(2);
            }
            5 => {
                let inner = spawn(|| join(|| 1, || join(|| 2, || 3)));
                let (_, value) = join(|| self.tree(2), || inner.join().unwrap());
                assert_eq!(value, (1, (2, 3)));
            }
            6 => {
                join(|| _ = yield_now(), || self.here());
                self.tree(2);
            }
            7 => drop(spawn(|| par_for(0..32, |i| _ = std::hint::black_box(i)))),
            _ => {}
        }
        self.here();
    }
}

fn strict_under_pressure(rule: Waiting, count: usize) {
    let runtime = mock("4x2").waiting(rule).home_delay(HomeDelay::After(Duration::ZERO)).build().unwrap();
    let nodes = runtime.nodes();
    let (astray, pieces) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let strict: Vec<_> = nodes.iter().map(|&node| runtime.affinity().on(node).unwrap().strict()).collect();
    let mut handles = Vec::new();
    for i in 0..count {
        // Most on one node, which changes from time to time: the others starve beside it.
        let at = if i % 8 == 0 { i / 8 % 4 } else { i / 1000 % 4 };
        let watch = Watch { home: nodes[at], astray: astray.clone(), pieces: pieces.clone() };
        let handle = strict[at].spawn(move || watch.work(i));
        // Some are joined from another node's worker, which may not run them itself.
        if i % 50 == 0 {
            // (Many at once: the spares of a node may not suffice for all of them.)
            handles.push(strict[(at + 1) % 4].spawn(move || match handle.join() {
                Ok(()) | Err(JoinError::WouldDeadlock) => {}
                Err(other) => panic!("{other}"),
            }));
        } else {
            handles.push(handle);
        }
        if i % 16 == 0 {
            drop(runtime.spawn(|| ()));
        }
    }
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    drop(runtime);
    assert!(pieces.load(Ordering::Relaxed) >= 2 * count);
    assert_eq!(astray.load(Ordering::Relaxed), 0, "pieces of strict tasks that ran away from home");
}

#[test]
fn strict_tasks_and_all_below_them_stay() {
    let _dog = watchdog();
    strict_under_pressure(Waiting::Related, scaled(100_000));
}

#[test]
fn strict_tasks_stay_when_waits_run_anything() {
    let _dog = watchdog();
    strict_under_pressure(Waiting::Any, scaled(20_000));
}

/// A scope opened by a strict task, into which threads outside spawn: its jobs lie below the strict task.
#[test]
fn jobs_from_outside_threads_in_a_strict_scope_stay() {
    let _dog = watchdog();
    let runtime = mock("4x1").build().unwrap();
    let nodes = runtime.nodes();
    for round in 0..scaled(40) {
        let node = nodes[round % 4];
        let places = runtime
            .affinity()
            .on(node)
            .unwrap()
            .strict()
            .spawn(|| {
                let places = Mutex::new(Vec::new());
                scope(|s| {
                    std::thread::scope(|threads| {
                        for _ in 0..4 {
                            threads.spawn(|| s.spawn(|_| places.lock().unwrap().push(current_node())));
                        }
                    });
                });
                places.into_inner().unwrap()
            })
            .join()
            .unwrap();
        assert_eq!(places, vec![Some(node); 4], "round {round}");
    }
}

/// Out through another runtime and back in: still below the strict task.
#[test]
fn a_strict_task_stays_strict_across_runtimes() {
    let _dog = watchdog();
    let one = Arc::new(mock("4x2").build().unwrap());
    let other = Arc::new(mock("2x1").build().unwrap());
    for round in 0..scaled(400) {
        let node = one.nodes()[round % 4];
        let (here, there) = (one.clone(), other.clone());
        let back = one.affinity().on(node).unwrap().strict().spawn(move || {
            let home = || assert_eq!(current_node(), Some(node), "round {round}");
            there.install(|| here.install(|| join(|| join(home, home), || par_for(0..16, |_| home()))));
            home();
        });
        back.join().unwrap();
    }
}

/// Strict tasks that wait for strict tasks queued behind them: spares run those, at home.
#[test]
fn strict_tasks_that_wait_for_each_other() {
    let _dog = watchdog();
    for shape in ["4x1", "2x2"] {
        let runtime = mock(shape).build().unwrap();
        let nodes = runtime.nodes();
        let handles: Vec<_> = (0..40)
            .map(|i| {
                let here = runtime.affinity().on(nodes[i % nodes.len()]).unwrap().strict();
                let there = runtime.affinity().on(nodes[(i + 1) % nodes.len()]).unwrap().strict();
                let back = here.clone();
                here.spawn(move || {
                    let nested = there.spawn(move || {
                        let home = back.spawn(current_node).join().unwrap();
                        (current_node(), home)
                    });
                    (current_node(), nested.join().unwrap())
                })
            })
            .collect();
        for (i, handle) in handles.into_iter().enumerate() {
            let (here, there) = (Some(nodes[i % nodes.len()]), Some(nodes[(i + 1) % nodes.len()]));
            let homes = handle.join().unwrap_or_else(|error| panic!("{error}\n{}", runtime.stats()));
            assert_eq!(homes, (here, (there, here)));
        }
    }
}

/// An easy mistake: `Group::new()` belongs to the global runtime.
#[test]
fn a_group_of_another_runtime_is_refused_aloud() {
    let _dog = watchdog();
    let (runtime, other) = (mock("2x1").build().unwrap(), mock("2x1").build().unwrap());
    let group = other.group().on(other.nodes()[1]).unwrap().named("orders");
    let affinity = runtime.affinity().on(runtime.nodes()[0]).unwrap().group(&group);
    assert_eq!(affinity.spawn(current_node).join().unwrap(), Some(runtime.nodes()[0]));
    let warnings = runtime.stats().warnings;
    assert!(warnings.iter().any(|text| text.contains("orders") && text.contains("Handle::group")), "{warnings:?}");
}

#[test]
fn yield_takes_no_strict_task_of_another_node() {
    let _dog = watchdog();
    let runtime = mock("2x1").home_delay(HomeDelay::After(Duration::ZERO)).build().unwrap();
    let nodes = runtime.nodes();
    let (go_on, blocked) = occupy(&runtime, nodes[0], 1);
    let strict = runtime.affinity().on(nodes[0]).unwrap().strict();
    let queued: Vec<_> = (0..20).map(|_| strict.spawn(current_node)).collect();
    let elsewhere = runtime.affinity().on(nodes[1]).unwrap().strict();
    let idle = elsewhere.spawn(|| (0..1_000).all(|_| yield_now() == Some(numart::Yield::Idle)));
    assert!(idle.join().unwrap());
    assert!(queued.iter().all(|handle| !handle.is_finished()));
    go_on.set();
    blocked.into_iter().for_each(|handle| handle.join().unwrap());
    queued.into_iter().for_each(|handle| assert_eq!(handle.join().unwrap(), Some(nodes[0])));
}

#[test]
fn a_root_leaves_after_the_delay_and_not_before() {
    let _dog = watchdog();
    let (clock, hand) = Clock::manual();
    let delay = Duration::from_secs(10);
    let runtime = mock("2x1").clock(clock).home_delay(HomeDelay::After(delay)).build().unwrap();
    let nodes = runtime.nodes();
    let home = runtime.affinity().on(nodes[0]).unwrap();
    let (go_on, blocked) = occupy(&runtime, nodes[0], 1);
    let first = home.spawn(current_node);
    look_round(&runtime, nodes[1]);
    assert!(!first.is_finished(), "the clock stands still");
    hand.advance(delay - Duration::from_nanos(1));
    look_round(&runtime, nodes[1]);
    assert!(!first.is_finished(), "a nanosecond too early");
    hand.advance(Duration::from_nanos(1));
    assert_eq!(first.join().unwrap(), Some(nodes[1]));
    // The next begins anew, and so does what stood behind when its like was taken at home.
    let second = home.spawn(current_node);
    look_round(&runtime, nodes[1]);
    assert!(!second.is_finished());
    go_on.set();
    assert_eq!(second.join().unwrap(), Some(nodes[0]));
    blocked.into_iter().for_each(|handle| handle.join().unwrap());
    assert_eq!(runtime.stats().roots[1][0], 1, "one root of node 0 ran on node 1");
}

#[test]
fn a_root_does_not_leave_an_idle_home() {
    let _dog = watchdog();
    let (clock, hand) = Clock::manual();
    let runtime = mock("2x1").clock(clock).home_delay(HomeDelay::After(Duration::from_nanos(1))).build().unwrap();
    let nodes = runtime.nodes();
    let home = runtime.affinity().on(nodes[0]).unwrap();
    let parks = || runtime.stats().node(nodes[0]).unwrap().counts.parks;
    until(|| parks() > 0);
    for _ in 0..scaled(500) {
        // Its worker sleeps: `parks` counts before the sleep ends.
        let before = parks();
        hand.advance(Duration::from_secs(1));
        let handle = home.spawn(current_node);
        hand.advance(Duration::from_secs(1));
        assert_eq!(handle.join().unwrap(), Some(nodes[0]));
        until(|| parks() > before);
    }
}

#[test]
fn never_means_never() {
    let _dog = watchdog();
    let (clock, hand) = Clock::manual();
    let runtime = mock("2x1").clock(clock).home_delay(HomeDelay::Never).build().unwrap();
    let nodes = runtime.nodes();
    let (go_on, blocked) = occupy(&runtime, nodes[0], 1);
    let queued: Vec<_> = (0..10).map(|_| runtime.affinity().on(nodes[0]).unwrap().spawn(current_node)).collect();
    for _ in 0..3 {
        hand.advance(Duration::from_secs(3600));
        look_round(&runtime, nodes[1]);
    }
    assert!(queued.iter().all(|handle| !handle.is_finished()));
    go_on.set();
    blocked.into_iter().for_each(|handle| handle.join().unwrap());
    queued.into_iter().for_each(|handle| assert_eq!(handle.join().unwrap(), Some(nodes[0])));
}

/// Two roots at a blocked home that need each other: each must leave, to a node of its own.
#[test]
fn two_roots_that_need_each_other_both_leave_a_blocked_home() {
    let _dog = watchdog();
    for round in 0..scaled(50) {
        let runtime = mock("3x1").build().unwrap();
        let nodes = runtime.nodes();
        let (go_on, blocked) = occupy(&runtime, nodes[0], 1);
        let meet = Arc::new(Barrier::new(2));
        let home = runtime.affinity().on(nodes[0]).unwrap();
        let handles: Vec<_> = (0..2)
            .map(|_| {
                let meet = meet.clone();
                home.spawn(move || {
                    meet.wait();
                    current_node()
                })
            })
            .collect();
        let mut ran: Vec<_> = handles.into_iter().map(|handle| handle.join().unwrap()).collect();
        ran.sort();
        assert_eq!(ran, [Some(nodes[1]), Some(nodes[2])], "round {round}");
        go_on.set();
        blocked.into_iter().for_each(|handle| handle.join().unwrap());
    }
}

/// The same, queued by the blocked home's own task and found by sleepers only.
#[test]
fn a_queue_of_roots_that_need_each_other_leaves_a_home_that_blocks() {
    let _dog = watchdog();
    for _ in 0..scaled(30) {
        let runtime = mock("4x1").build().unwrap();
        let home = runtime.affinity().on(runtime.nodes()[0]).unwrap();
        home.strict()
            .spawn(|| {
                // This worker and the three others.
                let meet = Arc::new(Barrier::new(4));
                let handles: Vec<_> = (0..3)
                    .map(|_| {
                        let meet = meet.clone();
                        spawn(move || _ = meet.wait())
                    })
                    .collect();
                meet.wait();
                handles.into_iter().for_each(|handle| handle.join().unwrap());
            })
            .join()
            .unwrap();
    }
}

#[test]
fn unknown_nodes_are_errors_that_name_those_there_are() {
    let runtime = mock("node 2 cpus 0\nnode 5 cpus 1").build().unwrap();
    let there = vec![NodeId(2), NodeId(5)];
    for node in [0, 1, 3, 6, u32::MAX].map(NodeId) {
        let error = runtime.affinity().on(node).unwrap_err();
        assert_eq!((error.node, &error.nodes), (node, &there));
        assert!(error.to_string().contains("use one of 2, 5"), "{error}");
        assert_eq!(runtime.group().on(node).unwrap_err().node, node);
    }
    // A node that the machine has and this runtime does not use.
    let part = mock("4x1").nodes([NodeId(1), NodeId(3)]).build().unwrap();
    assert_eq!(part.affinity().on(NodeId(0)).unwrap_err().nodes, [NodeId(1), NodeId(3)]);
}

#[test]
fn groups_give_a_home_to_those_without_one() {
    let _dog = watchdog();
    let runtime = mock("4x1").home_delay(HomeDelay::Never).build().unwrap();
    let nodes = runtime.nodes();
    let group = runtime.group().on(nodes[2]).unwrap().named("orders");
    assert_eq!(group.name(), Some("orders"));
    let member = runtime.affinity().group(&group).named("w7");
    assert_eq!((member.home(), member.name()), (nodes[2], Some("w7")));
    assert_eq!(member.spawn(current_node).join().unwrap(), Some(nodes[2]));
    // One's own home comes first, in whichever order it was said.
    assert_eq!(runtime.affinity().group(&group).on(nodes[1]).unwrap().home(), nodes[1]);
    assert_eq!(runtime.affinity().on(nodes[1]).unwrap().group(&group).home(), nodes[1]);
    // A group without a home, and one of another runtime, change nothing.
    let creator = runtime.affinity().home();
    assert_eq!(runtime.affinity().group(&runtime.group()).home(), creator);
    let other = mock("4x1").build().unwrap();
    for node in other.nodes() {
        assert_eq!(runtime.affinity().group(&other.group().on(node).unwrap()).home(), creator);
    }
    // Strict holds for a group's home too.
    let strict = runtime.affinity().group(&group).strict();
    let places = strict.spawn(|| {
        let places = Mutex::new(Vec::new());
        in_place_scope(|s| (0..50).for_each(|_| s.spawn(|_| places.lock().unwrap().push(current_node()))));
        places.into_inner().unwrap()
    });
    assert_eq!(places.join().unwrap(), vec![Some(nodes[2]); 50]);
}
