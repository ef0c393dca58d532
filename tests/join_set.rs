//! `JoinSet`: as tokio's documentation describes it.

mod common;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Drops, ON_PURPOSE, WORKERS, panic_text, pool, scaled, until, watchdog};
use numart::{JoinError, JoinSet, block_on, yield_now};

#[test]
fn tasks_are_joined_as_they_end_each_once() {
    let _dog = watchdog();
    for workers in WORKERS {
        let runtime = pool(workers);
        for round in 0..scaled(50) {
            let seen = runtime
                .spawn(async move {
                    let mut set = JoinSet::new();
                    for i in 0..100_usize {
                        if i % 3 == 0 {
                            set.spawn(move || i);
                        } else {
                            set.spawn(async move {
                                for _ in 0..(i * round) % 5 {
                                    yield_now().await;
                                }
                                i
                            });
                        }
                    }
                    assert_eq!(set.len(), 100);
                    let mut seen = vec![false; 150];
                    let mut more = 100;
                    while let Some(result) = set.join_next().await {
                        let i = result.unwrap();
                        assert!(!std::mem::replace(&mut seen[i], true));
                        if more < 150 {
                            // Places are used again.
                            let next = more;
                            more += 1;
                            set.spawn(async move { next });
                        }
                    }
                    assert!(set.is_empty() && set.join_next().await.is_none());
                    seen
                })
                .join()
                .unwrap();
            assert!(seen.iter().all(|&seen| seen));
        }
    }
}

#[test]
fn aborting_detaching_and_dropping() {
    let _dog = watchdog();
    let runtime = pool(2);
    let drops = Drops::new();
    let fill = |set: &mut JoinSet<()>| {
        for _ in 0..20 {
            let guard = drops.guard();
            set.spawn_on(
                async move {
                    let _held = guard;
                    pending::<()>().await;
                },
                &runtime,
            );
        }
    };
    // One by its own handle, the rest together.
    let mut set = JoinSet::new();
    fill(&mut set);
    let one = set.spawn_on(pending::<()>(), &runtime);
    one.abort();
    let (id, result) = block_on(set.join_next_with_id()).unwrap();
    assert!(id == one.id() && matches!(result, Err(JoinError::Aborted)));
    assert_eq!(set.len(), 20);
    block_on(set.shutdown());
    assert!(set.is_empty());
    drops.check();
    // Dropped: all are aborted, nobody waits.
    fill(&mut set);
    drop(set);
    until(|| drops.dropped() == drops.made());
    // Detached: they run on.
    let ran = Arc::new(AtomicUsize::new(0));
    let mut set = JoinSet::new();
    for _ in 0..20 {
        let ran = ran.clone();
        set.spawn_on(
            async move {
                yield_now().await;
                ran.fetch_add(1, Ordering::SeqCst);
            },
            &runtime,
        );
    }
    set.detach_all();
    drop(set);
    until(|| ran.load(Ordering::SeqCst) == 20);
}

#[test]
fn panics_come_one_by_one_and_join_all_passes_on_the_first() {
    let _dog = watchdog();
    let runtime = pool(2);
    let mut set = JoinSet::new();
    for i in 0..6 {
        set.spawn_on(async move { if i == 2 { panic!("member {ON_PURPOSE}") } else { i } }, &runtime);
    }
    let (mut fine, mut panicked) = (0, 0);
    while let Some(result) = block_on(set.join_next()) {
        match result {
            Ok(_) => fine += 1,
            Err(error) => panicked += usize::from(error.is_panic()),
        }
    }
    assert_eq!((fine, panicked), (5, 1));
    let mut set = JoinSet::new();
    (0..5).for_each(|i| _ = set.spawn_on(async move { i }, &runtime));
    let mut all = block_on(set.join_all());
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3, 4]);
    let mut set = JoinSet::new();
    set.spawn_on(async { panic!("all {ON_PURPOSE}") }, &runtime);
    assert_eq!(panic_text(|| block_on(set.join_all())), format!("all {ON_PURPOSE}"));
    // What has ended is there without waiting.
    let mut set = JoinSet::new();
    let task = set.spawn_on(async { 8 }, &runtime);
    until(|| task.is_finished());
    assert_eq!(set.try_join_next().unwrap().unwrap(), 8);
    assert!(set.try_join_next().is_none());
}
