//! Ending a task from outside, and its number.

use std::fmt;
use std::ptr::NonNull;

use super::header::{Next, TaskHeader, queue_again, release_early};

/// Aborts the task.
///
/// # Safety
/// The caller holds a reference.
pub(super) unsafe fn abort(task: NonNull<TaskHeader>) {
    // SAFETY: the caller's reference.
    if unsafe { task.as_ref() }.state.abort() {
        // SAFETY: the state has added the entry's reference.
        unsafe { queue_again(task, Next::Soon) };
    }
}

/// Can end a task, and nothing else: see [`JoinHandle::abort`](crate::JoinHandle::abort). Cheap to clone; may outlive the
/// task and its handle.
///
/// ```
/// let task = numart_runtime::spawn(std::future::pending::<()>());
/// let other = task.abort_handle();
/// std::thread::spawn(move || other.abort()).join().unwrap();
/// assert!(task.join().unwrap_err().is_cancelled());
/// ```
pub struct AbortHandle {
    /// One reference to the cell.
    task: NonNull<TaskHeader>,
}

// SAFETY: it reads and changes the state word only, and queues the task.
unsafe impl Send for AbortHandle {}
// SAFETY: as above.
unsafe impl Sync for AbortHandle {}

impl AbortHandle {
    /// # Safety
    /// The caller holds a reference.
    pub(super) unsafe fn of(task: NonNull<TaskHeader>) -> AbortHandle {
        // SAFETY: the caller's reference.
        unsafe { task.as_ref() }.state.retain();
        AbortHandle { task }
    }

    /// As [`JoinHandle::abort`](crate::JoinHandle::abort).
    pub fn abort(&self) {
        // SAFETY: our reference.
        unsafe { abort(self.task) };
    }

    /// The task has ended, one way or another.
    pub fn is_finished(&self) -> bool {
        // SAFETY: our reference.
        unsafe { self.task.as_ref() }.state.is_done()
    }

    /// The task's number.
    pub fn id(&self) -> TaskId {
        TaskId::of(self.task)
    }
}

impl Clone for AbortHandle {
    fn clone(&self) -> Self {
        // SAFETY: our reference.
        unsafe { AbortHandle::of(self.task) }
    }
}

impl Drop for AbortHandle {
    fn drop(&mut self) {
        // SAFETY: our reference, given up once.
        unsafe { release_early(self.task) };
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle").field("id", &self.id()).field("finished", &self.is_finished()).finish()
    }
}

/// A task's number: no two tasks have the same one at the same time. When a task is over and all its handles are gone its
/// number may be given to another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(usize);

impl TaskId {
    pub(super) fn of(task: NonNull<TaskHeader>) -> TaskId {
        TaskId(task.addr().get())
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskId({:x})", self.0)
    }
}
