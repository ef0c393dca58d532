//! The waker of a task: a counted pointer to its cell. No locks: each operation is one exchange on the state word, and
//! what queues the task is the push that any spawn makes.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

use super::super::header::{Next, TaskHeader, queue_again, release_early, settle};

/// One for all tasks, whatever their body: so `will_wake` holds between two wakers of one task.
static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop);

/// A waker without a reference of its own.
///
/// # Safety
/// The caller holds a reference to the future's cell for as long as the waker lives.
pub(super) unsafe fn borrowed(task: NonNull<TaskHeader>) -> ManuallyDrop<Waker> {
    let raw = RawWaker::new(task.as_ptr().cast_const().cast(), &VTABLE);
    // SAFETY: the table's functions keep the contract of `RawWaker` (each thread-safe, `clone` adds a reference, `wake` and
    // `drop` give up one); not dropping this waker makes up for the reference it does not have.
    ManuallyDrop::new(unsafe { Waker::from_raw(raw) })
}

/// The task of a waker's pointer: never null.
unsafe fn task_of(data: *const ()) -> NonNull<TaskHeader> {
    // SAFETY: from `borrowed`.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: the waker's reference.
    unsafe { task_of(data).as_ref().state.retain() };
    RawWaker::new(data, &VTABLE)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: the waker's reference, which `settle` passes on if it is to be queued.
    unsafe {
        let task = task_of(data);
        settle(task, task.as_ref().state.wake());
    }
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the waker's reference.
    let task = unsafe { task_of(data) };
    // SAFETY: as above.
    if unsafe { task.as_ref().state.wake_by_ref() } {
        // SAFETY: the state has added the entry's reference.
        unsafe { queue_again(task, Next::Soon) };
    }
}

unsafe fn drop(data: *const ()) {
    // SAFETY: the waker's reference, given up.
    unsafe { release_early(task_of(data)) };
}
