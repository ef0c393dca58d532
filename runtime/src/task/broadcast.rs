//! `broadcast`: one call on every worker, or one on every node.

use std::sync::Arc;

use numart_alloc::topology::NodeId;

use super::stack_job::{Outcome, StackJob};
use crate::runtime::{current_registry, panic_if_shut_down};
use crate::sched::job::Verb;
use crate::sched::registry::{Registry, drop_quietly};
use crate::sched::sleep::current_sleeper;
use crate::sched::wait::wait_for;
use crate::sched::waking::Then;
use crate::sched::worker::Worker;
use crate::task::handle::JoinError;

/// Which of a broadcast's calls this is.
#[derive(Clone, Copy, Debug)]
pub struct BroadcastContext {
    index: usize,
    count: usize,
    node: NodeId,
}

impl BroadcastContext {
    /// 0 up to the number of calls; of [`broadcast`], the worker's index.
    pub fn index(&self) -> usize {
        self.index
    }

    /// How many calls there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The node it runs on.
    pub fn node(&self) -> NodeId {
        self.node
    }
}

/// Calls `body` once on every worker (not on spare threads), each on its own thread, and returns the results by worker
/// index.
///
/// A worker runs its call when its current job ends or waits. That is the one exception from the waiting rule: nobody
/// else can run it, so do not take a lock in it that somebody may hold over a wait. A worker blocked outside the
/// runtime's knowledge (a system call, a channel) delays it.
///
/// ```
/// let nodes = numart_runtime::broadcast(|context| context.node());
/// assert_eq!(nodes.len(), numart_runtime::current_num_workers());
/// ```
///
/// # Panics
/// With the first of the calls' panics, after all are done.
pub fn broadcast<F, R>(body: F) -> Vec<R>
where
    F: Fn(BroadcastContext) -> R + Sync,
    R: Send,
{
    current_registry().broadcast(body)
}

/// Calls `body` once on every node with workers, on whichever of its workers takes it, and returns the results in
/// ascending order of node id.
///
/// ```
/// let nodes = numart_runtime::broadcast_per_node(|context| context.node());
/// assert!(nodes.is_sorted());
/// ```
///
/// # Panics
/// As [`broadcast`].
pub fn broadcast_per_node<F, R>(body: F) -> Vec<R>
where
    F: Fn(BroadcastContext) -> R + Sync,
    R: Send,
{
    current_registry().broadcast_per_node(body)
}

impl Registry {
    pub(crate) fn broadcast<F, R>(&self, body: F) -> Vec<R>
    where
        F: Fn(BroadcastContext) -> R + Sync,
        R: Send,
    {
        let count = self.regular_workers();
        let calls = (0..count).map(|index| {
            let node = self.nodes[self.workers[index].node].id;
            BroadcastContext { index, count, node }
        });
        panic_if_shut_down(self.call_all(&body, calls, |context, entry, inside| {
            self.gate.admits(inside) && self.push_inbox(context.index, entry)
        }))
    }

    pub(crate) fn broadcast_per_node<F, R>(&self, body: F) -> Vec<R>
    where
        F: Fn(BroadcastContext) -> R + Sync,
        R: Send,
    {
        let count = self.nodes.len();
        let calls = (0..count).map(|index| BroadcastContext { index, count, node: self.nodes[index].id });
        panic_if_shut_down(self.call_all(&body, calls, |context, entry, _| {
            // SAFETY: `call_all` keeps the job until its latch is set.
            unsafe { self.push_root(context.index, entry, true, Then::RunsOn) }.is_ok()
        }))
    }

    /// Queues one job per call and waits for all.
    fn call_all<F, R>(
        &self,
        body: &F,
        calls: impl Iterator<Item = BroadcastContext>,
        queue: impl Fn(BroadcastContext, crate::sched::job::Job, bool) -> bool,
    ) -> Result<Vec<R>, JoinError>
    where
        F: Fn(BroadcastContext) -> R + Sync,
        R: Send,
    {
        let caller = Worker::here();
        let inside = Worker::current_of(self).is_some();
        let strand = caller.map_or(std::ptr::null(), Worker::strand);
        let sleeper = current_sleeper();
        let jobs: Vec<_> =
            calls.map(|context| (context, StackJob::new(move |_| body(context), Arc::as_ptr(&sleeper)))).collect();
        for (context, job) in &jobs {
            let entry = job.as_job(strand);
            if !queue(*context, entry, inside) {
                // SAFETY: not queued: JOB-ONCE.
                unsafe { entry.execute(Verb::Cancel) };
            }
        }
        // From here to the last latch the jobs may not move, and nothing below unwinds.
        for (_, job) in &jobs {
            wait_for(caller, &job.latch, job.wait_id());
        }
        let mut results = Vec::with_capacity(jobs.len());
        let mut panic = None;
        let mut cancelled = false;
        for (_, job) in jobs {
            // SAFETY: the latch is set (waited for above); once for each job.
            match unsafe { job.take_outcome() } {
                Outcome::Ok(result) => results.push(result),
                Outcome::Panicked(payload) if panic.is_none() => panic = Some(payload),
                Outcome::Panicked(payload) => drop_quietly(payload),
                Outcome::Cancelled => cancelled = true,
            }
        }
        match panic {
            Some(payload) => std::panic::resume_unwind(payload),
            None if cancelled => Err(JoinError::Shutdown),
            None => Ok(results),
        }
    }
}
