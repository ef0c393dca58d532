//! Where a woken thread starts: not on its waker's CPU.
//!
//! The kernel often puts a woken thread on the CPU of its waker, above all where that was its last CPU too, and even
//! where another CPU is idle (on a virtual machine an idle virtual CPU looks taken). The waker runs on, since it has
//! work, and the woken thread waits for its time slice: 0.2 to 2.9 ms measured, in which the job it was woken for could
//! have been done many times over. So a waker that finds that the sleeper last ran on this CPU takes this CPU out of the
//! sleeper's set, and the sleeper puts it back when it runs. Two system calls of 0.6 us, in that case only.
//! `docs/decisions/3-sleep.md` has the measurements.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use numart_alloc::sys::{self, ThreadId};
use numart_alloc::topology::CpuSet;

/// A worker thread's set of CPUs, and where it went to sleep. Made on that thread.
pub(crate) struct Place {
    thread: ThreadId,
    cpus: CpuSet,
    /// The CPU on which it last went to sleep; `u32::MAX` if unknown.
    last: AtomicU32,
    /// A waker took a CPU out of its set.
    narrowed: AtomicBool,
}

impl Place {
    /// `None` where there is nothing to choose, or the kernel does not tell.
    pub(super) fn of_current_thread() -> Option<Place> {
        let thread = sys::current_thread_id()?;
        let cpus = sys::current_thread_affinity().ok().filter(|cpus| cpus.len() > 1)?;
        // Find out now whether it is allowed at all.
        sys::set_current_thread_affinity(&cpus).ok()?;
        Some(Place { thread, cpus, last: AtomicU32::new(u32::MAX), narrowed: AtomicBool::new(false) })
    }

    /// By the thread itself, about to park.
    pub(super) fn note(&self) {
        let cpu = sys::current_cpu().map_or(u32::MAX, |cpu| cpu.0);
        self.last.store(cpu, Ordering::Relaxed);
    }

    /// By the waker, before it unparks. The thread is alive: it sleeps in a list or a wait that the waker took it from.
    pub(super) fn keep_off_this_cpu(&self) {
        let Some(here) = sys::current_cpu() else { return };
        if self.last.load(Ordering::Relaxed) != here.0 {
            return;
        }
        let mut others = self.cpus.clone();
        others.remove(here);
        if sys::set_thread_affinity(self.thread, &others).is_ok() {
            // After the call: a thread that woke for another reason in between finds it set next time.
            self.narrowed.store(true, Ordering::Release);
        }
    }

    /// By the thread itself, awake again.
    pub(super) fn settle(&self) {
        if self.narrowed.load(Ordering::Relaxed) && self.narrowed.swap(false, Ordering::Acquire) {
            // It was allowed a moment ago. If not any more the thread keeps to fewer CPUs of its own node.
            let _ = sys::set_current_thread_affinity(&self.cpus);
        }
    }
}
