//! The thread that built a runtime as one of its workers: `use_current_thread`.

use std::cell::RefCell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::clock::nanos;
use super::registry::Registry;
use super::strand::{StrandGuard, WaitId};
use super::worker::{Worker, set_current};

impl Worker {
    /// The worker that this thread is for a call of its own code. As `current`, but the worker of `use_current_thread`
    /// whose runtime another thread has dropped is let go at its first call after that: the thread is an ordinary one
    /// again, as if it had dropped the runtime itself.
    pub(crate) fn here<'a>() -> Option<&'a Worker> {
        let worker = Worker::current()?;
        if !worker.is_in_strand() && worker.shared().gone.load(Ordering::SeqCst) {
            worker.publish_all();
            set_current(None);
            return None;
        }
        Some(worker)
    }

    /// Did its thread build the runtime (`use_current_thread`), so that it has no main loop?
    pub(crate) fn is_adopted(&self) -> bool {
        self.registry.config.use_current_thread && self.index == 0
    }

    /// Calls `body` inside a strand. A worker thread with a main loop always is in one; the worker of
    /// `use_current_thread` is not while its thread runs code of its own (ADOPTED-FREE).
    pub(crate) fn rooted<R>(&self, body: impl FnOnce() -> R) -> R {
        struct Leave<'a>(&'a Worker);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                let counters = &self.0.shared().counters.own;
                counters.busy_ns.add(nanos() - counters.busy_since.get());
                counters.set_busy_since(0);
                self.0.work_on(ptr::null());
                if self.0.shared().gone.load(Ordering::SeqCst) {
                    // The runtime was dropped inside: this thread is no worker any more.
                    set_current(None);
                }
            }
        }
        if self.is_in_strand() {
            return body();
        }
        let guard = StrandGuard::new(WaitId::NONE, ptr::null(), self.sleeper(), false);
        self.work_on(guard.record());
        self.shared().counters.own.set_busy_since(nanos());
        let _leave = Leave(self);
        body()
    }
}

/// The worker that a thread became by `use_current_thread`. Every call that holds on to it while a user's code runs does so
/// inside a strand ([`Worker::rooted`]), so outside any it may be freed; if the runtime is dropped inside one it stays until
/// the next runtime is built here, or the thread ends: invariant ADOPTED-FREE.
struct Adopted(Box<Worker>);

impl Drop for Adopted {
    fn drop(&mut self) {
        if Worker::current().is_some_and(|current| ptr::eq(current, &*self.0)) {
            set_current(None);
        }
        self.0.publish_all();
        self.0.registry.give_up_adopted(self.0.index);
    }
}

thread_local! {
    static ADOPTED: RefCell<Vec<Adopted>> = const { RefCell::new(Vec::new()) };
}

/// Makes this thread worker `index` of its runtime, without a main loop: `use_current_thread`.
pub(crate) fn adopt_current_thread(registry: &Arc<Registry>, index: usize) {
    registry.nodes[registry.workers[index].node].sleep.add_awake();
    registry.add_working();
    // SAFETY: the slot has no thread of its own (the builder skips it): ONE-OWNER.
    let worker = Box::new(unsafe { Worker::new(registry.clone(), index) });
    set_current(Some(&*worker));
    ADOPTED.with(|adopted| adopted.borrow_mut().push(Adopted(worker)));
}

/// Frees the workers that this thread was, of runtimes that have ended, if it is in no call of theirs. False if the thread
/// is ending and can be no worker any more.
pub(crate) fn forget_ended_adopted() -> bool {
    let ended = ADOPTED.try_with(|adopted| {
        adopted
            .borrow_mut()
            .extract_if(.., |worker| !worker.0.is_in_strand() && worker.0.shared().gone.load(Ordering::SeqCst))
            .collect::<Vec<_>>()
    });
    // Dropped here, not while the list is borrowed.
    ended.map(drop).is_ok()
}

/// The runtime of this thread's adopted worker is shutting down, by this thread. Outside any call: works until the runtime
/// has ended, and is no worker any more. Inside one: leaves the rest to others. False if this thread is no such worker.
pub(crate) fn end_adopted(registry: &Registry) -> bool {
    let adopted = Worker::current_of(registry).filter(|worker| worker.is_adopted());
    let Some(worker) = adopted else { return false };
    if worker.is_in_strand() {
        worker.publish_all();
        registry.give_up_adopted(0);
        return true;
    }
    worker.main_loop();
    set_current(None);
    worker.shared().gone.store(true, Ordering::SeqCst);
    forget_ended_adopted();
    true
}
