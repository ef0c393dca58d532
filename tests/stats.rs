//! The statistics add up and can be read.

mod common;

use common::{Event, mock, pool, scaled, until, watchdog};
use numart::stats::Stats;
use numart::{NodeId, Runtime, join, par_for, scope, spawn};

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

/// All idle: from here on the counters are exact.
fn settled(runtime: &Runtime) -> Stats {
    let mut before = runtime.stats();
    // Ten looks at the same figures, with other threads in between.
    let mut same = 0;
    while same < 10 {
        (0..100).for_each(|_| std::thread::yield_now());
        let now = runtime.stats();
        let quiet = now.nodes.iter().all(|node| node.queue_depth == 0) && now == before;
        same = if quiet { same + 1 } else { 0 };
        before = now;
    }
    before
}

/// What must hold whatever ran.
fn adds_up(stats: &Stats) {
    let count = stats.nodes.len();
    assert_eq!((stats.steals.len(), stats.roots.len()), (count, count));
    for (i, node) in stats.nodes.iter().enumerate() {
        let of: Vec<_> = stats.workers.iter().filter(|worker| worker.node == node.node).map(|w| w.counts).collect();
        assert_eq!(of.len(), node.workers + node.spare_threads);
        let sum = |field: fn(&numart::stats::Counts) -> u64| of.iter().map(field).sum::<u64>();
        assert_eq!(node.counts.jobs, sum(|c| c.jobs));
        assert_eq!(node.counts.spawned, sum(|c| c.spawned));
        assert_eq!(node.counts.published, sum(|c| c.published));
        assert_eq!(node.counts.parks, sum(|c| c.parks));
        assert_eq!(node.counts.busy_ns, sum(|c| c.busy_ns));
        let row = &stats.steals[i];
        assert_eq!((row.len(), stats.roots[i].len()), (count, count));
        assert_eq!(row[i], node.counts.stolen_same_node);
        assert_eq!(row.iter().sum::<u64>(), node.counts.stolen_same_node + node.counts.stolen_other_nodes);
    }
    let totals = stats.totals();
    assert_eq!(totals.jobs, stats.nodes.iter().map(|node| node.counts.jobs).sum::<u64>());
    let indices: Vec<_> = stats.workers.iter().map(|worker| worker.worker).collect();
    assert!(indices.is_sorted());
}

#[test]
fn counters_add_up_after_mixed_work() {
    let _dog = watchdog();
    for shape in ["1x1", "1x2", "2x1", "4x2"] {
        let runtime = mock(shape).build().unwrap();
        adds_up(&runtime.stats());
        for _ in 0..3 {
            assert_eq!(runtime.install(|| fib(16)), 987);
            runtime.scope(|s| (0..100).for_each(|_| s.spawn(|_| par_for(0..10, |i| _ = std::hint::black_box(i)))));
            let handles: Vec<_> = (0..50).map(|_| runtime.spawn(|| fib(8))).collect();
            handles.into_iter().for_each(|handle| assert_eq!(handle.join().unwrap(), 21));
            runtime.broadcast(|_| ());
        }
        adds_up(&settled(&runtime));
    }
}

#[test]
fn roots_and_spawns_are_counted_where_they_happen() {
    let _dog = watchdog();
    let runtime = mock("2x2").home_delay(numart::HomeDelay::Never).build().unwrap();
    let nodes = runtime.nodes();
    for (node, tasks) in [(0, 30), (1, 70)] {
        let affinity = runtime.affinity().on(nodes[node]).unwrap();
        let handles: Vec<_> = (0..tasks).map(|_| affinity.spawn(|| drop(spawn(|| ())))).collect();
        handles.into_iter().for_each(|handle| handle.join().unwrap());
    }
    let stats = settled(&runtime);
    adds_up(&stats);
    assert_eq!(stats.spawned_outside, 100);
    assert_eq!(stats.roots, [[60, 0], [0, 140]]);
    assert_eq!([0, 1].map(|i| stats.nodes[i].counts.spawned), [30, 70]);
    assert_eq!(stats.totals().jobs, 200);
    // Another runtime's worker is an outside thread here.
    let other = pool(1);
    let handle = runtime.handle().clone();
    other.install(move || handle.spawn(|| ()).join().unwrap());
    assert_eq!(settled(&runtime).spawned_outside, 101);
}

#[test]
fn scope_jobs_count_as_spawned_and_as_jobs() {
    let _dog = watchdog();
    let runtime = mock("1x1").build().unwrap();
    runtime.scope(|s| (0..500).for_each(|_| s.spawn(|_| ())));
    let totals = settled(&runtime).totals();
    assert_eq!((totals.spawned, totals.jobs), (500, 501), "500 and the install");
}

#[test]
fn a_task_joined_before_it_started_is_one_job() {
    let _dog = watchdog();
    let runtime = mock("1x1").build().unwrap();
    runtime.install(|| (0..500).for_each(|i| assert_eq!(spawn(move || i).join().unwrap(), i)));
    let totals = settled(&runtime).totals();
    assert_eq!((totals.spawned, totals.jobs), (500, 501), "500 and the install");
}

/// Tasks that were run by their joiner leave nothing behind, though the job that joins them goes on.
#[test]
fn tasks_joined_on_the_spot_do_not_pile_up() {
    let _dog = watchdog();
    let runtime = mock("1x1").build().unwrap();
    let depth = runtime.install(|| {
        (0..scaled(20_000)).for_each(|i| assert_eq!(spawn(move || i).join().unwrap(), i));
        numart::Handle::current().stats().nodes[0].queue_depth
    });
    assert!(depth < scaled(20_000) / 4, "{depth} finished tasks are still queued, and their memory with them");
}

#[test]
fn queue_depth_and_busy_time_show_what_is() {
    let _dog = watchdog();
    let runtime = mock("1x1").build().unwrap();
    let (go_on, begun) = (Event::new(), Event::new());
    let blocked = runtime.spawn({
        let (go_on, begun) = (go_on.clone(), begun.clone());
        move || {
            begun.set();
            go_on.wait();
        }
    });
    begun.wait();
    let queued: Vec<_> = (0..7).map(|_| runtime.spawn(|| ())).collect();
    let stats = runtime.stats();
    assert_eq!(stats.nodes[0].queue_depth, 7);
    let busy = stats.totals().busy_ns;
    until(|| runtime.stats().totals().busy_ns > busy);
    go_on.set();
    queued.into_iter().for_each(|handle| handle.join().unwrap());
    blocked.join().unwrap();
    let stats = settled(&runtime);
    assert_eq!(stats.nodes[0].queue_depth, 0);
    let busy = stats.totals().busy_ns;
    assert_eq!(settled(&runtime).totals().busy_ns, busy, "idle is not busy");
}

#[test]
fn spares_are_shown() {
    let _dog = watchdog();
    let runtime = mock("1x1").build().unwrap();
    let go_on = Event::new();
    let other = pool(1);
    let elsewhere = other.spawn({
        let go_on = go_on.clone();
        move || go_on.wait()
    });
    runtime.install(|| {
        drop(spawn(move || go_on.set()));
        elsewhere.join().unwrap();
    });
    let stats = settled(&runtime);
    adds_up(&stats);
    assert_eq!(stats.nodes[0].spare_threads, 1);
    assert!(stats.workers[1].spare && !stats.workers[0].spare);
    assert!(stats.totals().parked_waits > 0);
    assert!(stats.to_string().contains("1+1"), "{stats}");
}

#[test]
fn the_table_names_nodes_matrices_and_warnings() {
    let _dog = watchdog();
    let runtime = mock("node 3 cpus 0-1\nnode 34 cpus 2").around_worker(|_| ()).build().unwrap();
    runtime.install(|| fib(10));
    let text = runtime.stats().to_string();
    for part in [
        "node*",
        "     3 ",
        "    34 ",
        "all",
        "stolen from workers",
        "root jobs taken",
        "mock nodes",
        "warning: the around",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert!(text.lines().all(|line| line.trim_end() == line || !line.is_empty()));
    let one = mock("1x2").build().unwrap().stats().to_string();
    assert!(!one.contains("by\\of"), "one node needs no matrix:\n{one}");
    assert_eq!(runtime.stats().node(NodeId(34)).unwrap().workers, 1);
    assert!(runtime.stats().node(NodeId(0)).is_none());
    let many = mock("20x1").build().unwrap().stats();
    assert!(!many.to_string().contains("by\\of"));
    assert_eq!(many.steals.len(), 20);
    assert!(numart::stats().to_string().contains("workers"));
}

#[test]
fn what_was_joined_is_counted() {
    let _dog = watchdog();
    for shape in ["1x1", "2x2"] {
        let runtime = mock(shape).build().unwrap();
        for done in 1..=scaled(2_000) as u64 {
            runtime.spawn(|| ()).join().unwrap();
            assert!(runtime.stats().totals().jobs >= done);
        }
    }
}

/// Tasks that their waiters ran themselves are in no queue any more, and were root jobs of their home.
#[test]
fn claimed_tasks_are_counted_as_what_they_are() {
    let _dog = watchdog();
    let runtime = mock("1x1").build().unwrap();
    let seen = runtime.install(|| {
        (0..50).for_each(|_| numart::spawn(|| ()).join().unwrap());
        numart::Handle::current().stats()
    });
    assert_eq!((seen.nodes[0].queue_depth, seen.roots[0][0]), (0, 51));
    let runtime = mock("2x1").build().unwrap();
    let strict = runtime.affinity().on(runtime.nodes()[0]).unwrap().strict();
    let inner = strict.clone();
    strict.spawn(move || (0..1_000).for_each(|_| inner.spawn(|| ()).join().unwrap())).join().unwrap();
    let stats = settled(&runtime);
    assert_eq!((stats.roots[0][0], stats.totals().jobs, stats.nodes[0].queue_depth), (1_001, 1_001, 0));
}

#[test]
fn scope_jobs_from_outside_are_spawned_there_and_stolen_from_nobody() {
    let _dog = watchdog();
    let runtime = mock("1x1").build().unwrap();
    runtime.in_place_scope(|s| (0..1_000).for_each(|_| s.spawn(|_| ())));
    let stats = settled(&runtime);
    let totals = stats.totals();
    assert_eq!(
        (totals.jobs, totals.stolen_same_node, stats.spawned_outside, stats.roots[0][0]),
        (1_000, 0, 1_000, 1_000)
    );
}

#[test]
fn the_thread_that_built_the_runtime_is_busy_in_its_calls() {
    let _dog = watchdog();
    std::thread::spawn(|| {
        let runtime = mock("1x1").use_current_thread().build().unwrap();
        let nap = std::time::Duration::from_millis(20);
        runtime.spawn(move || std::thread::sleep(nap)).join().unwrap();
        let stats = runtime.stats();
        assert_eq!(stats.totals().jobs, 1);
        assert!(stats.totals().busy_ns >= nap.as_nanos() as u64, "{stats}");
    })
    .join()
    .unwrap();
}

/// A pool without work comes to rest: from some moment on nothing is counted any more. (Not from the moment its jobs are
/// done: a thread woken for the last of them may not have had a CPU yet.)
#[test]
fn an_idle_pool_stops_counting() {
    let _dog = watchdog();
    for shape in ["1x2", "4x2"] {
        let runtime = mock(shape).build().unwrap();
        runtime.install(|| scope(|s| (0..100).for_each(|_| s.spawn(|_| _ = fib(5)))));
        let mut before = settled(&runtime);
        let at_rest = (0..10).any(|_| {
            // A pool that wakes up by itself, now and then, would show.
            std::thread::sleep(std::time::Duration::from_millis(500));
            let now = runtime.stats();
            std::mem::replace(&mut before, now.clone()) == now
        });
        assert!(at_rest, "{shape}: something goes on: {before}");
    }
}

#[cfg(feature = "serde")]
#[test]
fn statistics_can_be_serialized() {
    let _dog = watchdog();
    let runtime = mock("2x1").build().unwrap();
    runtime.install(|| fib(10));
    let stats = settled(&runtime);
    let value: serde_json::Value = serde_json::from_str(&serde_json::to_string(&stats).unwrap()).unwrap();
    assert_eq!(value["nodes"].as_array().unwrap().len(), 2);
    assert_eq!(value["nodes"][1]["node"], 1);
    assert_eq!(value["nodes"][0]["counts"]["jobs"], stats.nodes[0].counts.jobs);
    assert_eq!(value["steals"][1].as_array().unwrap().len(), 2);
    assert_eq!(value["mock"], true);
    assert_eq!(value["warnings"].as_array().unwrap().len(), stats.warnings.len());
}
