//! The waiting rule. `docs/waiting.md` has the cases that must finish, with what each rests on.
//!
//! A worker that waits runs only what lies below its wait: jobs of the very scope, from its own deque; jobs addressed to
//! this worker alone; and jobs, wherever they are, whose chain of strands leads to the thing waited for. If there is none
//! it publishes what it holds and parks; if then nobody on the node is awake while something is runnable, a spare thread
//! takes its place.

use std::time::Duration;

use super::clock::{COARSE, nanos, stamp};
use super::config::Waiting;
use super::job::Job;
use super::latch::Latch;
use super::roots::Taken;
use super::strand::{Strand, WaitId};
use super::waking::Then;
use super::worker::Worker;

/// What a waiter does when it would park, the node has runnable jobs, nobody is awake, and no spare is left.
#[derive(Clone, Copy)]
pub(crate) enum AtBound<'a> {
    /// Run anything: for `join` and `scope`, which cannot return early.
    RunAnything,
    /// Give up, after [`PATIENCE`] if this says that what is waited for lies in the queue of a node that stands still, else
    /// after [`LONG_PATIENCE`]: for handles.
    GiveUp(&'a dyn Fn() -> bool),
}

/// [`AtBound::GiveUp`] happened.
#[derive(Debug)]
pub(crate) struct WouldDeadlock;

/// One wait.
pub(crate) struct Wait<'a> {
    pub(crate) latch: &'a Latch,
    pub(crate) id: WaitId,
    /// Jobs in our deque from this index on are newer than the frame that waits.
    pub(crate) base: usize,
    /// The scope's record: its jobs run on this strand. Null for waits that have no jobs of their own.
    pub(crate) own: *const Strand,
    pub(crate) at_bound: AtBound<'a>,
}

enum Found {
    Own(Job),
    Strand(Taken),
}

/// A waiter looks for related jobs this long (about 10 us) before it parks: most halves end sooner than a park and
/// unpark take.
const SPIN: u64 = 2 * COARSE;
/// First sleep of a parked waiter. It looks round when it ends: it is its own watcher.
const FIRST_NAP: Duration = Duration::from_micros(100);
const LONGEST_NAP: Duration = Duration::from_millis(5);
/// From this nap on (the third) it calls a spare if something is runnable and the node has fewer awake than workers.
const STAND_IN: Duration = Duration::from_micros(400);
/// Nothing must have begun on this runtime for so long before a wait is given up: others' waits, for work elsewhere, may
/// end and free a thread meanwhile.
const PATIENCE: Duration = Duration::from_millis(100);
/// As [`PATIENCE`], where another node or runtime runs or will run what is waited for. Most likely the wait ends by itself;
/// but it may depend, in a way that we cannot see, on a job that is queued here.
const LONG_PATIENCE: Duration = Duration::from_secs(5);

impl Worker {
    /// Waits for the latch by the waiting rule.
    pub(crate) fn wait(&self, wait: &Wait<'_>) -> Result<(), WouldDeadlock> {
        let mut any = self.registry.config.waiting == Waiting::Any;
        let mut nap = FIRST_NAP;
        // Somebody published a job and woke us for it, and nobody else.
        let mut asked = false;
        let mut hopeless = Hopeless::default();
        'busy: loop {
            // Since when it has found nothing: a clock is not looked at between two jobs.
            let mut since = 0;
            let mut turn = 0u32;
            // Look for something to do, for a while.
            loop {
                if wait.latch.is_set() {
                    return Ok(());
                }
                if let Some(found) = self.find_below(wait).or_else(|| self.find_if(any)) {
                    self.run_found(found);
                    continue 'busy;
                }
                turn += 1;
                match turn {
                    1 => since = stamp(),
                    4 => self.ask_helpees(wait.id),
                    _ => {}
                }
                if turn > 1 && stamp().wrapping_sub(since) > SPIN {
                    break;
                }
                for _ in 0..8 {
                    std::hint::spin_loop();
                }
            }
            if let Some(taken) = self.force_any(&|strand| any || Strand::below(strand, wait.id), &|_| true) {
                self.run(taken);
                continue;
            }
            self.publish_all();
            self.pass_on(asked);
            // Park, a nap at a time.
            loop {
                self.sleep_cell().begin_wait();
                if let Some(found) = self.find_below(wait).or_else(|| self.find_if(any)) {
                    self.pass_on(self.sleep_cell().end_wait());
                    asked = false;
                    self.run_found(found);
                    nap = FIRST_NAP;
                    continue 'busy;
                }
                if !wait.latch.try_sleep() {
                    self.pass_on(self.sleep_cell().end_wait());
                    return Ok(());
                }
                let covered = self.park_in_wait(nap, wait.at_bound);
                let set = wait.latch.wake_up();
                asked = self.sleep_cell().end_wait();
                if set {
                    self.pass_on(asked);
                    return Ok(());
                }
                match wait.at_bound {
                    _ if covered => hopeless = Hopeless::default(),
                    AtBound::RunAnything => {
                        self.shared().counters.own.waits_at_bound.bump();
                        any = true;
                    }
                    AtBound::GiveUp(stands_still) => {
                        if hopeless.for_too_long(self.registry.jobs_begun(), stands_still) {
                            self.pass_on(asked);
                            return Err(WouldDeadlock);
                        }
                    }
                }
                if asked || any && !covered {
                    nap = FIRST_NAP;
                    continue 'busy;
                }
                nap = (nap * 2).min(LONGEST_NAP);
                if nap < LONGEST_NAP {
                    // It may have become worth a look, or a forced split.
                    continue 'busy;
                }
            }
        }
    }

    /// Parks for one nap. False if the node is left with runnable jobs, nobody awake and no spare to call; a wait that may
    /// run anything then does not park.
    fn park_in_wait(&self, nap: Duration, at_bound: AtBound<'_>) -> bool {
        let sleep = &self.node().sleep;
        self.shared().counters.own.waits_parked.bump();
        sleep.sub_awake();
        let awake = sleep.awake();
        let stranded = awake == 0 && !sleep.has_idle();
        let short = nap >= STAND_IN && awake < self.node().regular.len() && !sleep.has_idle();
        let stuck = stranded && self.runnable_here();
        let mut covered = true;
        // Another node's work counts too: its workers may all be busy, and this one's CPU is free.
        if stuck || (short && (self.runnable_here() || self.has_work_for_idle())) {
            let enough = if stuck { 1 } else { self.node().regular.len() };
            covered = self.registry.start_spare(self.node_index(), enough) || !stuck;
        }
        if covered || !matches!(at_bound, AtBound::RunAnything) {
            self.sleep_cell().park(Some(nap));
        }
        sleep.add_awake();
        covered
    }

    /// A waiter that was woken for a job and did not take it (it waits for something else on top, or is done) tells the
    /// next: the publisher counts on it.
    fn pass_on(&self, asked: bool) {
        if asked && self.has_work_for_idle() {
            self.wake_for_published();
        }
    }

    fn find_if(&self, any: bool) -> Option<Found> {
        if any { self.find_any().map(Found::Strand) } else { None }
    }

    fn run_found(&self, found: Found) {
        match found {
            Found::Own(job) => self.run_own(job),
            Found::Strand(taken) => self.run(taken),
        }
    }

    /// A job that lies below the wait.
    fn find_below(&self, wait: &Wait<'_>) -> Option<Found> {
        while self.mark() > wait.base {
            let Some(job) = self.pop() else { break };
            if job.strand == wait.own && !wait.own.is_null() {
                return Some(Found::Own(job));
            }
            if is_below(job, wait.id) {
                return Some(Found::Strand(Taken::of(job)));
            }
            self.put_aside(job);
        }
        // A broadcast's call, addressed to this worker: nobody else can run it, and somebody waits for it.
        if let Some(job) = self.shared().inbox.pop() {
            return Some(Found::Strand(Taken::of(job)));
        }
        let below = |strand: *const Strand| Strand::below(strand, wait.id);
        let mut found = None;
        self.each_node(|node| {
            found = self.steal_from(node, &below).or_else(|| self.stray_from(node, |job| is_below(job, wait.id)));
            found.is_some()
        });
        found.map(Found::Strand)
    }

    /// A job on top of what we wait for that is not below it: it belongs to a scope further out. Its scope's waiter,
    /// an idle worker or a spare finds it among the node's strays.
    pub(crate) fn put_aside(&self, job: Job) {
        self.node().roots.push_stray(job);
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        self.registry.wake_for_root(self.node_index(), Strand::is_strict(job.strand), Then::RunsOn);
    }

    /// Tells those who work below our wait that we would help.
    fn ask_helpees(&self, id: WaitId) {
        self.each_node(|node| {
            self.visit(node, |victim| {
                let strand = victim.strand.load(std::sync::atomic::Ordering::Acquire);
                if victim.deque.has_private() && Strand::below(strand, id) {
                    victim.deque.raise_hungry();
                }
                false
            });
            false
        });
    }
}

/// Since when a wait at the bound saw nothing begin, and how many jobs had begun then.
#[derive(Default)]
struct Hopeless(Option<(u64, u64)>);

impl Hopeless {
    fn for_too_long(&mut self, begun: u64, stands_still: &dyn Fn() -> bool) -> bool {
        match self.0 {
            Some((since, before)) if before == begun => {
                let patience = if stands_still() { PATIENCE } else { LONG_PATIENCE };
                u128::from(nanos() - since) > patience.as_nanos()
            }
            _ => {
                self.0 = Some((nanos(), begun));
                false
            }
        }
    }
}

/// Is this the very job waited for, or one made below it?
fn is_below(job: Job, wait: WaitId) -> bool {
    WaitId::of(job.header) == wait || Strand::below(job.strand, wait)
}

/// Waits for a job that was queued: by the rule on a worker, else by blocking.
pub(crate) fn wait_for(caller: Option<&Worker>, latch: &Latch, id: WaitId) {
    let Some(worker) = caller else { return wait_outside(latch) };
    let wait = Wait { latch, id, base: usize::MAX, own: std::ptr::null(), at_bound: AtBound::RunAnything };
    let waited = worker.wait(&wait);
    debug_assert!(waited.is_ok(), "only `GiveUp` gives up");
}

/// A latch and nothing to help with: for threads that are no workers.
pub(crate) fn wait_outside(latch: &Latch) {
    while !latch.is_set() {
        if latch.try_sleep() {
            std::thread::park();
            latch.wake_up();
        }
    }
}
