//! Loom models of the split deque. `README.md` beside this file names the invariants and races that they look for.
//!
//! Every model counts: each job pushed is taken by exactly one thread, and who takes it sees what its maker wrote. The
//! job's *payload* is a cell that loom watches, so a missing release or acquire shows as a data race.
//!
//! Bounds: at most [`PREEMPTIONS`] preemptions per execution, except where a model says that it has none; a ring of two
//! slots (`FIRST_CAPACITY` under loom); at most three threads. Each model names the `numart_break` that must make it
//! fail; `tests/loom/run` holds it to that.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread::{self, JoinHandle};

use super::{Owner, SplitDeque, Steal};
use crate::sched::job::Job;
use crate::sync::spin_hint;

/// Every negative is found with less.
const PREEMPTIONS: usize = 4;

/// Jobs in a model, at most.
const JOBS: usize = 4;

/// A deque and the payloads of its jobs: job `n` owns payload `n`.
struct World {
    deque: SplitDeque,
    payload: [UnsafeCell<usize>; JOBS],
}

// SAFETY: payload `n` belongs to whoever holds job `n`: the very claim that loom checks.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

fn check(bound: Option<usize>, model: impl Fn(Arc<World>) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = bound;
    builder.check(move || {
        let payload = std::array::from_fn(|_| UnsafeCell::new(0));
        model(Arc::new(World { deque: SplitDeque::new(), payload }));
    });
}

impl World {
    /// The one owner, on the model's first thread.
    fn owner(&self) -> Owner<'_> {
        // SAFETY: called once per model, before any other thread: ONE-OWNER.
        unsafe { self.deque.owner() }
    }

    /// Writes a payload and pushes its job.
    fn push(&self, owner: &Owner<'_>, id: usize) -> usize {
        // SAFETY: not pushed yet: ours.
        self.payload[id].with_mut(|payload| unsafe { *payload = id + 1 });
        // Headers are not followed here: the number in the pointer is enough. Never null, so that a slot that was not
        // written shows.
        let header = std::ptr::without_provenance(id + 1);
        owner.push(Job { header, strand: std::ptr::null() }).index
    }

    /// Takes the job in, with its payload.
    fn took(&self, job: Job) -> usize {
        let id = job.header.addr().checked_sub(1).expect("a slot that nobody wrote");
        // SAFETY: the job is ours.
        self.payload[id].with_mut(|payload| unsafe {
            assert_eq!(*payload, id + 1, "taken twice, or before it was written");
            *payload = usize::MAX;
        });
        id
    }

    /// Steals until there is nothing public, at most `most` jobs.
    fn steal(&self, most: usize) -> Vec<usize> {
        let mut got = Vec::new();
        while got.len() < most {
            match self.deque.steal_if(|_| true) {
                Steal::Job(job) => got.push(self.took(job)),
                Steal::Retry => spin_hint(),
                Steal::Empty => break,
                Steal::Unrelated => unreachable!("the filter takes everything"),
            }
        }
        got
    }

    fn pop_all(&self, owner: &Owner<'_>) -> Vec<usize> {
        std::iter::from_fn(|| owner.pop()).map(|job| self.took(job)).collect()
    }
}

/// HUNGRY, when everybody is done: if nothing is public, the owner's next push publishes.
fn assert_asked(world: &World, owner: &Owner<'_>) {
    assert!(world.deque.has_public() || owner.hungry() != 0, "nothing is public and nobody asked for anything");
}

/// Another thread on the same world.
fn beside<T: 'static>(world: &Arc<World>, run: impl FnOnce(&World) -> T + 'static) -> JoinHandle<T> {
    let world = world.clone();
    thread::spawn(move || run(&world))
}

/// All of `0..jobs`, each once.
fn assert_all_taken(jobs: usize, parts: &[&[usize]]) {
    let mut all = parts.concat();
    all.sort_unstable();
    assert_eq!(all, (0..jobs).collect::<Vec<_>>(), "a job was lost or taken twice: {parts:?}");
}

/// PUBLISH: a thief sees the jobs below `split`, whole, and nothing else. Unbounded. Negative: `publish_release`.
#[test]
fn model_publish_and_steal() {
    check(None, |world| {
        let owner = world.owner();
        let thief = beside(&world, |world| world.steal(2));
        world.push(&owner, 0);
        world.push(&owner, 1);
        assert_eq!(owner.publish(1), 1);
        let stolen = thief.join().unwrap();
        assert!(stolen.is_empty() || stolen == [0], "the private job was stolen");
        assert_all_taken(2, &[&stolen, &world.pop_all(&owner)]);
    });
}

/// LAST-ONE: owner and two thieves want the only public job. Unbounded. Negative: `last_exchange`.
#[test]
fn model_last_public_job() {
    check(None, |world| {
        let owner = world.owner();
        world.push(&owner, 0);
        owner.publish(1);
        let first = beside(&world, |world| world.steal(1));
        let second = beside(&world, |world| world.steal(1));
        let popped = world.pop_all(&owner);
        assert_all_taken(1, &[&popped, &first.join().unwrap(), &second.join().unwrap()]);
        assert_asked(&world, &owner);
    });
}

/// TAKE-BACK: the owner moves `split` down over jobs that a thief is working its way up to. Negative:
/// `take_back_fence`.
#[test]
fn model_take_back() {
    check(Some(PREEMPTIONS), |world| {
        let owner = world.owner();
        for id in 0..3 {
            world.push(&owner, id);
        }
        owner.publish(3);
        let thief = beside(&world, |world| world.steal(3));
        let popped = world.pop_all(&owner);
        assert_all_taken(3, &[&popped, &thief.join().unwrap()]);
    });
}

/// HUNGRY: the owner takes back all but one of the public jobs while a thief takes that one. Negative: `last_look`.
#[test]
fn model_take_back_leaves_nothing() {
    check(None, |world| {
        let owner = world.owner();
        world.push(&owner, 0);
        world.push(&owner, 1);
        owner.publish(2);
        let thief = beside(&world, |world| world.steal(1));
        let popped: Vec<_> = owner.pop().map(|job| world.took(job)).into_iter().collect();
        let stolen = thief.join().unwrap();
        assert_asked(&world, &owner);
        assert_all_taken(2, &[&popped, &stolen, &world.pop_all(&owner)]);
    });
}

/// TAKE-BACK with two thieves, of whom one sees the other's steal. (A thief's own last steal fenced.) Negative:
/// `steal_fence`.
#[test]
fn model_take_back_two_thieves() {
    check(Some(2), |world| {
        let owner = world.owner();
        for id in 0..2 {
            world.push(&owner, id);
        }
        owner.publish(2);
        let first = beside(&world, |world| world.steal(1));
        let second = beside(&world, |world| world.steal(1));
        let popped = world.pop_all(&owner);
        assert_all_taken(2, &[&popped, &first.join().unwrap(), &second.join().unwrap()]);
    });
}

/// FORCE: a thief moves the split while the owner pops without looking at the lock. Negatives: `light_fence`,
/// `heavy_fence`, `force_recheck`.
#[test]
fn model_force_against_pop() {
    check(Some(PREEMPTIONS), |world| {
        let owner = world.owner();
        world.push(&owner, 0);
        world.push(&owner, 1);
        let thief = beside(&world, |world| {
            world.deque.force().expect("no kernel here to refuse it");
            world.steal(2)
        });
        let popped = world.pop_all(&owner);
        assert_all_taken(2, &[&popped, &thief.join().unwrap()]);
    });
}

/// FORCE against a join: push, take back by index, and again, so that a new job lies where the thief saw an old one.
/// Negative: `force_recheck`.
#[test]
fn model_force_against_join() {
    check(Some(PREEMPTIONS), |world| {
        let owner = world.owner();
        let thief = beside(&world, |world| {
            world.deque.force().expect("no kernel here to refuse it");
            world.steal(2)
        });
        let mut popped = Vec::new();
        for id in 0..2 {
            let index = world.push(&owner, id);
            let header = std::ptr::without_provenance(id + 1);
            if owner.pop_at(index, header) {
                popped.push(world.took(Job { header, strand: std::ptr::null() }));
            } else {
                popped.extend(world.pop_all(&owner));
            }
        }
        assert_all_taken(2, &[&popped, &thief.join().unwrap()]);
    });
}

/// BORDER: two forcing thieves and a publishing owner. The border moves under the lock only. Negative: `border_lock`.
#[test]
fn model_force_against_publish() {
    check(Some(2), |world| {
        let owner = world.owner();
        for id in 0..3 {
            world.push(&owner, id);
        }
        let force = |world: &World| {
            world.deque.force().expect("no kernel here to refuse it");
            world.steal(1)
        };
        let first = beside(&world, force);
        let second = beside(&world, force);
        let popped = owner.pop().map(|job| world.took(job));
        owner.publish(1);
        let (first, second) = (first.join().unwrap(), second.join().unwrap());
        assert_all_taken(3, &[popped.as_slice(), &world.pop_all(&owner), &first, &second]);
    });
}

/// GROW: the ring of two fills and doubles while a thief reads from it; then indices lap it. Negative: `grow_release`.
#[test]
fn model_growing_ring() {
    check(Some(PREEMPTIONS), |world| {
        let owner = world.owner();
        world.push(&owner, 0);
        world.push(&owner, 1);
        owner.publish(2);
        let thief = beside(&world, |world| world.steal(2));
        world.push(&owner, 2);
        world.push(&owner, 3);
        owner.publish(1);
        let popped = world.pop_all(&owner);
        assert_all_taken(4, &[&popped, &thief.join().unwrap()]);
    });
}

/// LAP: a slot is written again as soon as its job was stolen, while another thief may still read it. Negative:
/// `steal_exchange`.
#[test]
fn model_slots_are_reused() {
    check(Some(2), |world| {
        let owner = world.owner();
        world.push(&owner, 0);
        owner.publish(1);
        let first = beside(&world, |world| world.steal(1));
        let second = beside(&world, |world| world.steal(2));
        let mut popped = Vec::new();
        for id in 1..3 {
            world.push(&owner, id);
            owner.publish(1);
        }
        popped.extend(world.pop_all(&owner));
        assert_all_taken(3, &[&popped, &first.join().unwrap(), &second.join().unwrap()]);
    });
}
