//! `Runtime`, `Handle`, the builder, and the global runtime behind the free functions.

mod builder;
mod error;
mod handle;

use std::sync::{Arc, OnceLock};

pub use self::builder::Builder;
pub use self::error::BuildError;
pub use self::handle::{Handle, Runtime};
use crate::sched::registry::Registry;
use crate::sched::worker::Worker;
use crate::stats::Stats;
use crate::task::handle::JoinError;

static GLOBAL: OnceLock<Runtime> = OnceLock::new();

/// The runtime behind the free functions, started on first use and never shut down.
///
/// It is what [`Builder::build`] makes by default, from `NUMART_TOPOLOGY` and `NUMART_WORKERS`. If one of these is wrong
/// it is not obeyed, and `stats().warnings` and one line on standard error say so; to have the error, build a [`Runtime`]
/// yourself, or call [`Builder::build_global`] first.
///
/// # Panics
/// If no thread can be started.
pub fn global() -> &'static Handle {
    GLOBAL.get_or_init(start_global).handle()
}

pub(crate) fn global_registry() -> Arc<Registry> {
    global().registry().clone()
}

/// The runtime that a free function means: the one whose worker this thread is, else the global one.
pub(crate) fn current_registry() -> Arc<Registry> {
    Worker::here().map_or_else(global_registry, |worker| worker.registry.clone())
}

fn start_global() -> Runtime {
    let error = match Runtime::builder().build() {
        Ok(runtime) => return runtime,
        Err(error) => error,
    };
    let text = format!("the environment was not obeyed: {error}");
    eprintln!("numart: {text}");
    match Runtime::builder().ignore_environment().build() {
        Ok(runtime) => {
            runtime.handle().registry().warn_once(text);
            runtime
        }
        Err(error) => panic!("numart: the global runtime cannot be started: {error}"),
    }
}

/// Makes `runtime` the global one, if there is none yet.
fn set_global(runtime: Runtime) -> Result<&'static Handle, BuildError> {
    let mut given = Some(runtime);
    let global = GLOBAL.get_or_init(|| given.take().expect("called once"));
    match given {
        None => Ok(global.handle()),
        Some(_) => Err(BuildError::GlobalExists),
    }
}

/// The statistics of the global runtime: `println!("{}", numart::stats())`.
///
/// ```
/// numart_runtime::spawn(|| ()).join().unwrap();
/// assert!(numart_runtime::stats().totals().jobs >= 1);
/// ```
pub fn stats() -> Stats {
    global().stats()
}

/// For calls that have no error to return.
pub(crate) fn panic_if_shut_down<R>(result: Result<R, JoinError>) -> R {
    match result {
        Ok(result) => result,
        Err(error) => panic!("numart: {error}; keep the Runtime alive while its Handle is used"),
    }
}
