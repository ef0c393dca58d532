//! The futures of a runtime that are not done: so that its end can drop those that nobody will wake.
//!
//! A few locked lists, by the address of the job: spawning and completing a future each take a lock that is almost never
//! contended, for some nanoseconds. The list holds a reference to each job in it.

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::job::{Job, JobHeader, Verb};

/// Lists: more than there are threads that complete futures at the same moment, on most machines.
const LISTS: usize = 32;

#[derive(Default)]
struct List {
    /// Places are stable: a job remembers its own.
    jobs: Vec<Option<Member>>,
    free: Vec<u32>,
    closed: bool,
}

#[derive(Clone, Copy)]
struct Member(*const JobHeader);

// SAFETY: an address; what it points to is kept alive by the list's reference.
unsafe impl Send for Member {}

/// See the module's page.
pub(crate) struct Alive {
    lists: Box<[CachePadded<Mutex<List>>]>,
}

impl Alive {
    pub(crate) fn new() -> Alive {
        Alive { lists: (0..LISTS).map(|_| CachePadded::default()).collect() }
    }

    fn list(&self, job: *const JobHeader) -> &Mutex<List> {
        // A cell is a cache line or more: the bits below say little.
        let addr = job.addr();
        &self.lists[(addr >> 6 ^ addr >> 12) % LISTS]
    }

    /// Adds a job, with a reference for the list. `None`: the runtime has ended. Returns the place, for `remove`.
    pub(crate) fn insert(&self, job: *const JobHeader) -> Option<u32> {
        let mut list = self.list(job).lock();
        if list.closed {
            return None;
        }
        Some(match list.free.pop() {
            Some(place) => {
                list.jobs[place as usize] = Some(Member(job));
                place
            }
            None => {
                list.jobs.push(Some(Member(job)));
                u32::try_from(list.jobs.len() - 1).expect("fewer than four thousand million futures at once")
            }
        })
    }

    /// The job is done; the list's reference is the caller's now.
    pub(crate) fn remove(&self, job: *const JobHeader, place: u32) {
        let mut list = self.list(job).lock();
        let member = list.jobs[place as usize].take();
        debug_assert!(member.is_some_and(|member| member.0 == job), "removed by whoever completed it, once");
        list.free.push(place);
    }

    /// The runtime has ended: drops all futures that are idle and marks the others, so that whoever has them drops them.
    /// None is added any more. Twice does no harm.
    pub(crate) fn close(&self) {
        let mut idle = Vec::new();
        for list in &self.lists {
            let mut list = list.lock();
            list.closed = true;
            let jobs = list.jobs.iter().flatten();
            idle.extend(jobs.copied().filter(|member| {
                // SAFETY: in the list, whose lock is held: alive. `Close` may be asked of anything that is.
                unsafe { as_job(*member).execute(Verb::Close) }
            }));
        }
        // Not before all are marked: dropping one may wake others.
        for member in idle {
            // SAFETY: `Close` made it ours, with a reference.
            unsafe { as_job(member).execute(Verb::End) };
        }
    }
}

fn as_job(member: Member) -> Job {
    Job { header: member.0, strand: std::ptr::null() }
}
