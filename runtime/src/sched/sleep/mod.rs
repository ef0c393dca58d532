//! Falling asleep and being woken, node by node.
//!
//! `README.md` beside this file is the protocol in prose: who may search, how no wake-up is lost, what the watcher is for.
//! In one paragraph: a producer makes a job visible, fences, and looks at `searching` and `sleeping` of its node; a
//! worker that found nothing gives up `searching`, adds itself to the sleepers, fences, and looks at the queues once
//! more. One of the two sees the other.

#[cfg(all(test, loom))]
mod model;
#[cfg(not(loom))]
mod place;
mod sleeper;

pub(crate) use self::sleeper::{Sleeper, current_sleeper};
use crate::sync::{AtomicUsize, Mutex, Ordering, fence};

/// The sleep state of one node's workers.
pub(crate) struct NodeSleep {
    /// Workers that are looking for work on behalf of this node: at most one per wake-up chain.
    searching: AtomicUsize,
    /// Length of `idle`, readable without the lock.
    sleeping: AtomicUsize,
    /// Threads of this node (spares included) that are neither idle nor parked in a wait.
    awake: AtomicUsize,
    /// 1 + the worker that sleeps with a timeout and looks round when it ends; 0 if none does.
    watcher: AtomicUsize,
    /// Idle workers, the most recently used last: it is woken first, its caches are warm.
    idle: Mutex<Vec<usize>>,
}

impl NodeSleep {
    pub(crate) fn new() -> Self {
        NodeSleep {
            searching: AtomicUsize::new(0),
            sleeping: AtomicUsize::new(0),
            awake: AtomicUsize::new(0),
            watcher: AtomicUsize::new(0),
            idle: Mutex::new(Vec::new()),
        }
    }

    /// May this worker go on searching? True for one at a time; end it with [`NodeSleep::end_search`].
    pub(crate) fn try_search(&self) -> bool {
        self.searching.load(Ordering::Relaxed) == 0
            && self.searching.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Ends a search, successful or not. True if it was the last one on this node: the caller must then look at the
    /// queues once more (it holds the only promise that somebody will) and wake another if something is there, or go
    /// through [`NodeSleep::fall_asleep`], which looks too.
    pub(crate) fn end_search(&self) -> bool {
        let last = self.searching.fetch_sub(1, Ordering::SeqCst) == 1;
        #[cfg(not(numart_break = "end_search_fence"))]
        fence(Ordering::SeqCst);
        last
    }

    /// Enters the sleepers. After this the caller looks at the queues once more, and then parks until
    /// [`Sleeper::is_idle`] is false, or leaves by [`NodeSleep::cancel`].
    pub(crate) fn fall_asleep(&self, me: usize, sleeper: &Sleeper) {
        let mut idle = self.idle.lock();
        sleeper.set_idle();
        idle.push(me);
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        self.awake.fetch_sub(1, Ordering::SeqCst);
        drop(idle);
        #[cfg(not(numart_break = "sleep_fence"))]
        fence(Ordering::SeqCst);
    }

    /// Takes one given worker out: itself, since it has something to do, or another, whose inbox got something. False
    /// if it is not there: then somebody has taken it out, perhaps as a searcher ([`Sleeper::take_handed`]).
    pub(crate) fn cancel(&self, me: usize, sleeper: &Sleeper) -> bool {
        let mut idle = self.idle.lock();
        let Some(place) = idle.iter().rposition(|&other| other == me) else { return false };
        idle.remove(place);
        sleeper.set_awake();
        self.awake.fetch_add(1, Ordering::SeqCst);
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
        true
    }

    /// Takes one sleeper out, to be unparked by the caller, unless somebody searches already. The woken worker is a
    /// searcher from now on. The caller has made its job visible and fenced before.
    pub(crate) fn wake_one(&self, sleeper_of: impl Fn(usize) -> *const Sleeper) -> Option<usize> {
        if self.searching.load(Ordering::Relaxed) > 0 || self.sleeping.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut idle = self.idle.lock();
        if self.searching.load(Ordering::Relaxed) > 0 {
            return None;
        }
        // The watcher stays where it is while there is another.
        let watcher = self.watcher.load(Ordering::Relaxed);
        let place = idle.iter().rposition(|&other| other + 1 != watcher).or(idle.len().checked_sub(1))?;
        let woken = idle.remove(place);
        self.awake.fetch_add(1, Ordering::SeqCst);
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
        self.searching.fetch_add(1, Ordering::SeqCst);
        // SAFETY: sleep cells of this node's workers live as long as the node.
        unsafe { &*sleeper_of(woken) }.set_handed();
        Some(woken)
    }

    /// Takes every sleeper out (shutdown, broadcast). They are not searchers.
    pub(crate) fn wake_all(&self, sleeper_of: impl Fn(usize) -> *const Sleeper) -> Vec<usize> {
        let mut idle = self.idle.lock();
        let woken = std::mem::take(&mut *idle);
        self.awake.fetch_add(woken.len(), Ordering::SeqCst);
        self.sleeping.fetch_sub(woken.len(), Ordering::SeqCst);
        for &worker in &woken {
            // SAFETY: as in `wake_one`.
            unsafe { &*sleeper_of(worker) }.set_awake();
        }
        woken
    }

    pub(crate) fn has_sleeper(&self) -> bool {
        self.sleeping.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn has_searcher(&self) -> bool {
        self.searching.load(Ordering::Relaxed) > 0
    }

    /// Has the node an idle worker, asleep or searching?
    pub(crate) fn has_idle(&self) -> bool {
        self.has_sleeper() || self.has_searcher()
    }

    /// Nobody is awake or idle: all threads of this node are parked in waits. A worker that goes to sleep or leaves its
    /// sleep is counted in the new place before it goes from the old one, so it is not overlooked between the two looks
    /// at `awake` (unless it does both in that time: then a spare comes for nothing).
    pub(crate) fn is_deserted(&self) -> bool {
        self.awake() == 0 && self.sleeping.load(Ordering::SeqCst) == 0 && self.awake() == 0
    }

    pub(crate) fn awake(&self) -> usize {
        self.awake.load(Ordering::SeqCst)
    }

    /// A thread of this node starts, or comes back from a wait.
    pub(crate) fn add_awake(&self) {
        self.awake.fetch_add(1, Ordering::SeqCst);
    }

    /// A thread of this node ends, or parks in a wait. Fences: the caller looks at the queues next.
    pub(crate) fn sub_awake(&self) {
        self.awake.fetch_sub(1, Ordering::SeqCst);
        #[cfg(not(numart_break = "park_fence"))]
        fence(Ordering::SeqCst);
    }

    /// Before a sleeper parks: is it to watch, and so to park with a limit? It watches as long as somebody works and
    /// nobody else does. Whoever reads [`NodeSleep::has_watcher`] relies on that limit, so a sleeper that is to park without
    /// one is no watcher any more: race LAST-IDLE.
    pub(crate) fn keep_watch(&self, me: usize, anybody_works: impl Fn() -> bool) -> bool {
        loop {
            if anybody_works() {
                return self.is_watcher(me) || self.try_watch(me);
            }
            if !self.is_watcher(me) || cfg!(numart_break = "stale_watcher") {
                return false;
            }
            // Fences. Somebody may have begun to work meanwhile and rely on us: so look again.
            self.stop_watch(me);
        }
    }

    /// Becomes the watcher if there is none.
    fn try_watch(&self, me: usize) -> bool {
        self.watcher.load(Ordering::Relaxed) == 0
            && self.watcher.compare_exchange(0, me + 1, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn is_watcher(&self, me: usize) -> bool {
        self.watcher.load(Ordering::Relaxed) == me + 1
    }

    /// Stops being the watcher. Fences: the caller looks at the queues once more before it sleeps unwatched.
    pub(crate) fn stop_watch(&self, me: usize) {
        let _ = self.watcher.compare_exchange(me + 1, 0, Ordering::SeqCst, Ordering::Relaxed);
        #[cfg(not(numart_break = "watch_fence"))]
        fence(Ordering::SeqCst);
    }

    pub(crate) fn has_watcher(&self) -> bool {
        self.watcher.load(Ordering::Relaxed) != 0
    }
}
