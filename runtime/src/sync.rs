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

/// A plain value that must not be looked at after some moment: a model says when that is, and loom reports who does.
pub(crate) struct Watched<T> {
    #[cfg(not(loom))]
    value: T,
    #[cfg(loom)]
    value: loom::cell::UnsafeCell<T>,
}

impl<T: Copy> Watched<T> {
    #[inline(always)]
    pub(crate) fn new(value: T) -> Self {
        #[cfg(loom)]
        let value = loom::cell::UnsafeCell::new(value);
        Watched { value }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> T {
        #[cfg(not(loom))]
        return self.value;
        #[cfg(loom)]
        // SAFETY: a read; the only "write" is `end`'s, which loom orders against it.
        self.value.with(|value| unsafe { *value })
    }

    /// From here on nobody may look.
    #[cfg(loom)]
    pub(crate) fn end(&self) {
        self.value.with_mut(|_| ());
    }
}

/// Threads and parking.
pub(crate) mod thread {
    #[cfg(loom)]
    pub(crate) use super::model_thread::{Thread, current, park};
    #[cfg(not(loom))]
    pub(crate) use std::thread::{Thread, current};
}

/// Parking for models. loom's own forgets a token if the thread yields or waits for a mutex between `unpark` and `park`,
/// and then reports a deadlock that is none; a condition variable with the token beside it does not.
#[cfg(loom)]
mod model_thread {
    use std::sync::Arc;

    use loom::sync::{Condvar, Mutex};

    struct Parker {
        token: Mutex<bool>,
        given: Condvar,
    }

    loom::thread_local! {
        static PARKER: Arc<Parker> = Arc::new(Parker { token: Mutex::new(false), given: Condvar::new() });
    }

    pub(crate) struct Thread(Arc<Parker>);

    pub(crate) fn current() -> Thread {
        Thread(PARKER.with(Arc::clone))
    }

    pub(crate) fn park() {
        PARKER.with(|parker| {
            let mut token = parker.token.lock().expect("no model panics with a lock held");
            while !*token {
                token = parker.given.wait(token).expect("no model panics with a lock held");
            }
            *token = false;
        });
    }

    impl Thread {
        pub(crate) fn unpark(&self) {
            *self.0.token.lock().expect("no model panics with a lock held") = true;
            self.0.given.notify_one();
        }
    }
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
