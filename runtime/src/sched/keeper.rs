//! The keeper: one thread of the process that keeps workers on their nodes' CPUs when the CPUs change under them.
//!
//! A cpuset may shrink or grow while we run, and a CPU may go offline. The kernel keeps every thread within what is left,
//! but it forgets what we asked for: since Linux 6.2 a thread whose own CPUs are all gone gets all of the cpuset's, before
//! that *every* thread of the cpuset does. Such workers run on any node and look as if they were at home. No notice comes
//! of it, so somebody has to look: the keeper compares each worker's mask with what it should be, twice a second, and
//! binds it anew. It is a thread of its own since workers may be in long jobs or blocked; it looks from outside, so the workers'
//! own loops do not pay for it.
//!
//! * While every runtime is idle it sleeps without a timeout. Whoever comes out of idleness, and whoever reads the warnings,
//!   pokes it. (It announces that it dozes, fences, and looks at the counts once more: one of the two sees the other.)
//! * A worker whose node has lost all its CPUs works on for that node on the CPUs of the nearest one that has some: its
//!   strict tasks have nobody else. A warning says so, and goes when the CPUs come back.
//! * Threads are enrolled by themselves and leave before they end, both under the lock that the keeper holds while it
//!   binds: it never binds a thread number that the kernel has given to somebody else.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::Thread;
use std::time::Duration;

use numart_alloc::sys::{self, ThreadId};
use numart_alloc::topology::{CpuId, CpuSet};
use parking_lot::Mutex;

use super::config::Pinning;
use super::registry::Registry;

/// How long a worker may run on the wrong CPUs before it is noticed. A look costs 0.3 us a worker.
const LOOK: Duration = Duration::from_millis(500);

/// A worker's thread.
struct Kept {
    registry: Weak<Registry>,
    /// Index of its node in the registry.
    node: usize,
    thread: ThreadId,
    /// Where it was bound when it started.
    own: CpuSet,
    /// Where it should be now; differs from `own` while CPUs are missing.
    target: CpuSet,
}

struct Keeper {
    kept: Vec<Kept>,
    /// The keeper's thread, while there is one.
    thread: Option<Thread>,
    /// Warnings in force, and whose.
    told: Vec<(Weak<Registry>, usize, String)>,
    /// It may bind nobody, not even itself.
    denied: bool,
}

static KEEPER: Mutex<Keeper> = Mutex::new(Keeper { kept: Vec::new(), thread: None, told: Vec::new(), denied: false });
/// The keeper sleeps until it is poked.
static DOZING: AtomicBool = AtomicBool::new(false);

/// Something begins to happen: the keeper should look, if it sleeps.
#[inline]
pub(super) fn poke() {
    if DOZING.load(Ordering::SeqCst) && DOZING.swap(false, Ordering::SeqCst) {
        wake();
    }
}

#[cold]
fn wake() {
    if let Some(thread) = &KEEPER.lock().thread {
        thread.unpark();
    }
}

/// Keeps the calling worker thread until the result is dropped, on that thread. `None` if it is not bound to its node's
/// CPUs: by choice, since it was denied, or because a hook bound it as the user likes.
pub(super) fn enroll(registry: &Registry, index: usize) -> Option<Enrolled> {
    let node = registry.workers[index].node;
    let config = &registry.config;
    if config.topology.is_mock() || config.pinning == Pinning::None {
        return None;
    }
    let thread = sys::current_thread_id()?;
    let own = sys::current_thread_affinity().ok()?;
    if own.is_empty() || !own.difference(&config.nodes[node].cpus).is_empty() {
        return None;
    }
    let mut keeper = KEEPER.lock();
    if keeper.denied {
        return None;
    }
    let target = own.clone();
    keeper.kept.push(Kept { registry: registry.weak(), node, thread, own, target });
    if keeper.thread.is_none() {
        match std::thread::Builder::new().name("numart-keeper".into()).stack_size(256 << 10).spawn(keep) {
            Ok(handle) => keeper.thread = Some(handle.thread().clone()),
            Err(error) => registry.warn_once(format!(
                "the keeper thread could not be started ({error}): workers will not follow a changed cpuset; raise the \
                 process's thread limit"
            )),
        }
    }
    Some(Enrolled(thread))
}

/// A thread that is kept.
pub(super) struct Enrolled(ThreadId);

impl Drop for Enrolled {
    fn drop(&mut self) {
        KEEPER.lock().kept.retain(|kept| kept.thread != self.0);
    }
}

/// The keeper's life: as long as there is somebody to keep.
fn keep() {
    // Started by a worker it has that worker's few CPUs. It needs the cpuset's, to see what there is.
    let all: CpuSet = (0..8192).map(CpuId).collect();
    let unbound = sys::set_current_thread_affinity(&all);
    loop {
        let mut keeper = KEEPER.lock();
        keeper.kept.retain(|kept| kept.registry.strong_count() > 0);
        keeper.told.retain(|(registry, ..)| registry.strong_count() > 0);
        keeper.denied = unbound.is_err();
        if keeper.kept.is_empty() || keeper.denied {
            keeper.thread = None;
            return;
        }
        if let Ok(allowed) = sys::current_thread_affinity() {
            keeper.look(&allowed);
        }
        let doze = !keeper.anybody_works() && {
            DOZING.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            !keeper.anybody_works()
        };
        drop(keeper);
        if doze {
            while DOZING.load(Ordering::SeqCst) {
                std::thread::park();
            }
        } else {
            DOZING.store(false, Ordering::SeqCst);
            std::thread::park_timeout(LOOK);
        }
    }
}

impl Keeper {
    fn anybody_works(&self) -> bool {
        self.kept.iter().any(|kept| kept.registry.upgrade().is_some_and(|registry| registry.anybody_works()))
    }

    /// Compares everybody's mask with where he should be.
    fn look(&mut self, allowed: &CpuSet) {
        for kept in &mut self.kept {
            let Some(registry) = kept.registry.upgrade() else { continue };
            let target = target(&registry, kept.node, &kept.own, allowed);
            let astray = match sys::thread_affinity(kept.thread) {
                // A subset is all right: a waker keeps a sleeper off its own CPU for a moment.
                Ok(mask) => target != kept.target || !mask.difference(&target).is_empty(),
                Err(_) => false,
            };
            // Refused only if the CPUs changed again this moment: the next look sees that.
            if astray && sys::set_thread_affinity(kept.thread, &target).is_ok() {
                kept.target = target;
            }
        }
        self.tell(allowed);
    }

    /// Brings the warnings in line with what is missing now.
    fn tell(&mut self, allowed: &CpuSet) {
        let mut now: Vec<(Weak<Registry>, usize, String)> = Vec::new();
        for kept in &self.kept {
            let known = |(registry, node, _): &(Weak<Registry>, usize, String)| {
                registry.ptr_eq(&kept.registry) && *node == kept.node
            };
            if let Some(registry) = kept.registry.upgrade()
                && kept.target != kept.own
                && !now.iter().any(known)
            {
                now.push((kept.registry.clone(), kept.node, warning(&registry, kept.node, &kept.target, allowed)));
            }
        }
        for (registry, node, text) in &self.told {
            let same = |(r, n, t): &(Weak<Registry>, usize, String)| r.ptr_eq(registry) && n == node && t == text;
            if let Some(registry) = registry.upgrade()
                && !now.iter().any(same)
            {
                registry.change_warning(Some(text), None);
            }
        }
        for (registry, _, text) in &now {
            if let Some(registry) = registry.upgrade() {
                registry.change_warning(Some(text), Some(text));
            }
        }
        self.told = now;
    }
}

/// Where a worker of `node` should be: what is left of its own CPUs, else of its node's, else of the nearest node's that
/// has some; at last wherever this process may run.
fn target(registry: &Registry, node: usize, own: &CpuSet, allowed: &CpuSet) -> CpuSet {
    let cpus_of = |node: usize| &registry.config.nodes[node].cpus;
    let candidates =
        [own, cpus_of(node)].into_iter().chain(registry.nodes[node].others.iter().map(|&other| cpus_of(other)));
    let mut left = candidates.map(|cpus| cpus.intersection(allowed)).filter(|cpus| !cpus.is_empty());
    left.next().unwrap_or_else(|| allowed.clone())
}

fn warning(registry: &Registry, node: usize, target: &CpuSet, allowed: &CpuSet) -> String {
    let there = &registry.config.nodes[node];
    let gone = there.cpus.difference(allowed);
    let lost = if gone.len() == there.cpus.len() { "all its CPUs" } else { "CPUs" };
    format!(
        "node {} has lost {lost} ({gone}) while the program ran, by a cpuset or because they went offline; CPUs {allowed} \
         are left to this process: workers of the node run on CPUs {target}; give the CPUs back, or start anew to have as \
         many workers as CPUs",
        there.id
    )
}
