//! The one door to atomics, fences and parking: the real ones, or loom's under `cfg(loom)`.
//!
//! The protocols (split deque, sleep, latch, task cell, gate) name nothing but this module, so that the code
//! that loom explores is the code that runs.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};

#[cfg(not(loom))]
pub(crate) use parking_lot::Mutex;

/// loom's mutex with parking_lot's signature.
#[cfg(loom)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

#[cfg(loom)]
impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().expect("no model panics with a lock held")
    }
}

/// Threads and parking.
pub(crate) mod thread {
    #[cfg(loom)]
    pub(crate) use loom::thread::{Thread, current, park};
    #[cfg(not(loom))]
    pub(crate) use std::thread::{Thread, current};
}

/// One iteration of a bounded spin: a pause on real CPUs, a scheduling point in a model.
#[inline]
pub(crate) fn spin_hint() {
    #[cfg(not(loom))]
    std::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// The owner's half of the asymmetric fence: orders the owner's store before its load *as seen by a thread that
/// calls [`heavy_fence`]*. Costs no instruction; the compiler may not reorder across it.
///
/// Loom has no membarrier, so the model gives both halves a full fence, which is the definition of what the pair
/// must achieve.
#[inline(always)]
pub(crate) fn light_fence() {
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(all(loom, not(numart_break = "light_fence")))]
    fence(Ordering::SeqCst);
}

/// The thief's half: a full barrier here and in every running thread of the process (2 to 13 us).
///
/// False if the kernel refuses it (a seccomp filter installed after the runtime started): then nothing is ordered and
/// the caller undoes what relied on it.
#[inline]
pub(crate) fn heavy_fence() -> bool {
    #[cfg(not(loom))]
    return numart_alloc::sys::membarrier::barrier().is_ok();
    #[cfg(loom)]
    {
        #[cfg(not(numart_break = "heavy_fence"))]
        fence(Ordering::SeqCst);
        true
    }
}
