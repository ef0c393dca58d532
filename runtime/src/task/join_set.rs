//! `JoinSet`: many tasks, joined in the order in which they end.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

use super::abort::{AbortHandle, TaskId};
use super::budget;
use super::error::JoinError;
use super::handle::JoinHandle;
use super::spawn::{SpawnTo, Task};
use crate::runtime::{Handle, current_registry};

/// What the tasks' wakers tell the set.
#[derive(Default)]
struct Told {
    /// Places whose handles are to be polled: new, or woken.
    ready: VecDeque<usize>,
    /// Whoever awaits the set.
    waker: Option<Waker>,
}

/// The waker of one place.
struct PlaceWaker {
    place: usize,
    told: Arc<Mutex<Told>>,
}

impl Wake for PlaceWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let waker = {
            let mut told = self.told.lock();
            told.ready.push_back(self.place);
            told.waker.take()
        };
        // Not under the lock: it may be anybody's.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

struct Member<T> {
    handle: JoinHandle<T>,
    waker: Waker,
}

/// Tasks that belong together, joined as they end. Dropping the set aborts those that have not.
///
/// ```
/// let mut set = numart_runtime::JoinSet::new();
/// for i in 0..10 {
///     set.spawn(async move { i * i });
/// }
/// let sum = numart_runtime::block_on(async {
///     let mut sum = 0;
///     while let Some(square) = set.join_next().await {
///         sum += square.unwrap();
///     }
///     sum
/// });
/// assert_eq!(sum, 285);
/// ```
///
/// # Cost
/// Per task: one allocation beside its own, and a lock at its spawn and its end, which only this set's tasks share.
pub struct JoinSet<T> {
    members: Vec<Option<Member<T>>>,
    free: Vec<usize>,
    told: Arc<Mutex<Told>>,
}

impl<T> JoinSet<T> {
    /// An empty set.
    pub fn new() -> JoinSet<T> {
        JoinSet { members: Vec::new(), free: Vec::new(), told: Arc::default() }
    }

    /// Tasks that have not been joined.
    pub fn len(&self) -> usize {
        self.members.len() - self.free.len()
    }

    /// No task is left to be joined.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Spawns a closure or a future, as [`spawn`](crate::spawn), into the set.
    pub fn spawn<M, K>(&mut self, task: K) -> AbortHandle
    where
        K: Task<M, Output = T> + Send + 'static,
        T: Send + 'static,
    {
        self.insert(task.spawn_to(SpawnTo::here(current_registry())))
    }

    /// As [`JoinSet::spawn`], on another runtime.
    pub fn spawn_on<M, K>(&mut self, task: K, runtime: &Handle) -> AbortHandle
    where
        K: Task<M, Output = T> + Send + 'static,
        T: Send + 'static,
    {
        self.insert(runtime.spawn(task))
    }

    /// Takes in a task that was spawned elsewhere: by an affinity, say.
    pub fn insert(&mut self, handle: JoinHandle<T>) -> AbortHandle {
        let abort = handle.abort_handle();
        let place = self.free.pop().unwrap_or_else(|| {
            self.members.push(None);
            self.members.len() - 1
        });
        let waker = Arc::new(PlaceWaker { place, told: self.told.clone() });
        self.members[place] = Some(Member { handle, waker: Waker::from(waker.clone()) });
        // It is polled at the next `join_next`, so that it knows whom to wake.
        waker.wake_by_ref();
        abort
    }

    /// Waits for the next task to end. `None`: the set is empty. Nothing is lost if it is dropped before it is ready.
    ///
    /// # Errors
    /// As [`JoinHandle::join`].
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.join_next_with_id().await.map(|(_, result)| result)
    }

    /// As [`JoinSet::join_next`], with the task's number.
    ///
    /// # Errors
    /// As [`JoinHandle::join`].
    pub async fn join_next_with_id(&mut self) -> Option<(TaskId, Result<T, JoinError>)> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// A task that has ended, if there is one; does not wait.
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.next_ended().map(|(_, result)| result)
    }

    /// As [`JoinSet::join_next_with_id`], for futures written by hand.
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(TaskId, Result<T, JoinError>)>> {
        if self.is_empty() {
            return Poll::Ready(None);
        }
        if !budget::take_one(cx) {
            return Poll::Pending;
        }
        loop {
            if let Some(ended) = self.next_ended() {
                return Poll::Ready(Some(ended));
            }
            let mut told = self.told.lock();
            if told.ready.is_empty() {
                match &mut told.waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    none => *none = Some(cx.waker().clone()),
                }
                return Poll::Pending;
            }
        }
    }

    /// Polls those that are new or were woken until one has ended.
    fn next_ended(&mut self) -> Option<(TaskId, Result<T, JoinError>)> {
        loop {
            let place = self.told.lock().ready.pop_front()?;
            // A place may be told of twice, and the task there may be another by then: it is only polled once too often.
            let Some(member) = &mut self.members[place] else { continue };
            let id = member.handle.id();
            // No budget: the caller has paid, and a handle that gives way would look pending.
            let polled = budget::free(|| {
                let waker = &member.waker;
                Pin::new(&mut member.handle).poll(&mut Context::from_waker(waker))
            });
            if let Poll::Ready(result) = polled {
                self.members[place] = None;
                self.free.push(place);
                return Some((id, result));
            }
        }
    }

    /// Waits for all tasks and returns their outputs in the order in which they ended.
    ///
    /// # Panics
    /// With the first task's panic, and if a task was aborted or its runtime shut down; the other tasks are aborted then.
    pub async fn join_all(mut self) -> Vec<T> {
        let mut outputs = Vec::with_capacity(self.len());
        while let Some(result) = self.join_next().await {
            match result.map_err(JoinError::try_into_panic) {
                Ok(output) => outputs.push(output),
                Err(Ok(payload)) => std::panic::resume_unwind(payload),
                Err(Err(error)) => panic!("{error}"),
            }
        }
        outputs
    }

    /// Aborts all tasks. They are still to be joined.
    pub fn abort_all(&self) {
        self.members.iter().flatten().for_each(|member| member.handle.abort());
    }

    /// Aborts all tasks and waits until each has ended.
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Lets all tasks run on by themselves.
    pub fn detach_all(&mut self) {
        self.members.clear();
        self.free.clear();
        self.told = Arc::default();
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        JoinSet::new()
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.abort_all();
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish()
    }
}
