//! A worker thread from its first instruction to its last: it binds itself, calls the hooks, and runs the main loop.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use numart_alloc::sys;
use numart_alloc::topology::CpuSet;

use super::config::Pinning;
use super::registry::{Node, Registry};
use super::worker::{Worker, set_current};
use super::{keeper, own_memory};

/// The whole life of a worker thread.
pub(super) fn worker_main(registry: Arc<Registry>, index: usize) {
    bind(&registry, index);
    own_memory::own_stack(&registry, index);
    registry.note_started();
    // SAFETY: one thread per slot: `start_thread` is called once for each.
    let worker = unsafe { Worker::new(registry.clone(), index) };
    let info = registry.info(index);
    let entered = Entered::new(&worker);
    guarded(&registry, "the start hook", || {
        if let Some(hook) = &registry.config.on_start {
            hook(info);
        }
    });
    let mut ran = false;
    let mut run = || {
        ran = true;
        // Here and not before the hooks, which may bind the thread as they like.
        worker.sleep_cell().choose_place();
        let _enrolled = keeper::enroll(&registry, index);
        worker.main_loop();
    };
    match &registry.config.around {
        Some(around) => {
            guarded(&registry, "the around_worker hook", || around(&mut run));
            if !ran {
                registry.warn_once(
                    "the around_worker hook did not call `run`: workers run without what it should set up".into(),
                );
                worker.main_loop();
            }
        }
        None => run(),
    }
    guarded(&registry, "the stop hook", || {
        if let Some(hook) = &registry.config.on_stop {
            hook(info);
        }
    });
    drop(entered);
    let node = worker.node_index();
    worker.publish_all();
    drop(worker);
    registry.nodes[node].sleep.sub_awake();
    registry.sub_working();
}

/// This thread's current worker is set, until this is dropped.
struct Entered;

impl Entered {
    fn new(worker: &Worker) -> Entered {
        set_current(Some(worker));
        Entered
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        set_current(None);
    }
}

/// Calls a user's hook; a panic in it is reported, never passed on.
fn guarded(registry: &Registry, what: &str, hook: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(hook)) {
        registry.warn_once(format!("{what} panicked; the worker went on"));
        if catch_unwind(AssertUnwindSafe(|| registry.report_panic(payload))).is_err() {
            registry.warn_once("the panic hook itself panicked".into());
        }
    }
}

/// Binds this thread to its node's CPUs, or one of them; where that is denied, says so and goes on unbound.
fn bind(registry: &Registry, index: usize) {
    let shared = &registry.workers[index];
    let node = &registry.nodes[shared.node];
    let cpus = &registry.config.nodes[shared.node].cpus;
    if registry.config.topology.is_mock() || cpus.is_empty() {
        return;
    }
    let set = match registry.config.pinning {
        Pinning::None => return,
        Pinning::Node => cpus.clone(),
        Pinning::Core => {
            // A spare has the whole node: it stands in for any of the others.
            let Some(place) = node.regular.clone().position(|slot| slot == index) else {
                return bind_to(registry, cpus, node);
            };
            let cpu = cpus.iter().nth(place % cpus.len()).expect("the set is not empty");
            CpuSet::from_iter([cpu])
        }
    };
    bind_to(registry, &set, node);
}

fn bind_to(registry: &Registry, cpus: &CpuSet, node: &Node) {
    if let Err(error) = sys::set_current_thread_affinity(cpus) {
        registry.warn_once(format!(
            "workers of node {} could not be bound to CPUs {cpus} ({error}): they run unbound, memory may be far; allow \
             sched_setaffinity(2), or ask for Pinning::None",
            node.id
        ));
    }
}
