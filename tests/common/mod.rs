//! What all tests share: a watchdog instead of endless hangs, pools of given sizes, events, and values that count their
//! drops.
#![allow(dead_code, reason = "each test binary uses some of it")]

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, Once};
use std::time::Duration;

use numart::{Builder, Runtime, Waiting};

/// Worker counts that every waiting case must finish with.
pub const WORKERS: [usize; 3] = [1, 2, 4];

/// Seconds a test may take; a factor for slow tools (valgrind) comes from `NUMART_TEST_SLOWDOWN`.
const LIMIT: u64 = 60;

pub fn slowdown() -> u64 {
    std::env::var("NUMART_TEST_SLOWDOWN").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// A size that shrinks under a slow tool.
pub fn scaled(size: usize) -> usize {
    (size / slowdown() as usize).max(1)
}

/// Aborts the process, naming the test, unless it is dropped in time: a hang in a worker cannot be unwound.
#[must_use]
pub struct Watchdog(Option<Sender<()>>);

pub fn watchdog() -> Watchdog {
    watchdog_of(LIMIT)
}

/// As [`watchdog`], for a test that may take so many seconds (times the slowdown).
pub fn watchdog_of(limit: u64) -> Watchdog {
    hush();
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let (keep, dropped) = channel::<()>();
    std::thread::spawn(move || {
        if let Err(RecvTimeoutError::Timeout) = dropped.recv_timeout(Duration::from_secs(limit * slowdown())) {
            // Not `eprintln`, which the test harness may hold back.
            let _ = writeln!(std::io::stderr(), "\nHANG: {name} did not finish within {} s\n", limit * slowdown());
            std::process::abort();
        }
    });
    Watchdog(Some(keep))
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.take();
    }
}

/// Panics on purpose say so, and are not printed.
pub const ON_PURPOSE: &str = "on purpose";

pub fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload();
            let on_purpose = text
                .downcast_ref::<&str>()
                .map(|text| text.contains(ON_PURPOSE))
                .or_else(|| text.downcast_ref::<String>().map(|text| text.contains(ON_PURPOSE)))
                .unwrap_or(true);
            if !on_purpose {
                before(info);
            }
        }));
    });
}

/// The text of a panic payload.
pub fn text_of(payload: &(dyn std::any::Any + Send)) -> &str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("")
}

/// Runs `body`, which must panic, and returns the text of its panic.
pub fn panic_text<R>(body: impl FnOnce() -> R) -> String {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(body()))) {
        Ok(()) => panic!("expected a panic"),
        Err(payload) => text_of(&*payload).to_owned(),
    }
}

/// A runtime of so many workers on whatever `NUMART_TOPOLOGY` says.
pub fn pool(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("a pool")
}

/// A runtime on mock nodes.
pub fn mock(shape: &str) -> Builder {
    Runtime::builder().ignore_environment().topology_text(shape)
}

/// Runs a case with 1, 2 and 4 workers under each waiting rule.
pub fn each_size(rules: &[Waiting], case: impl Fn(&Builder4)) {
    for &rule in rules {
        for workers in WORKERS {
            case(&Builder4 { workers, rule });
        }
    }
}

/// What `each_size` hands to a case: makes pools of its size and rule.
#[derive(Debug)]
pub struct Builder4 {
    pub workers: usize,
    pub rule: Waiting,
}

impl Builder4 {
    pub fn builder(&self) -> Builder {
        Runtime::builder().workers(self.workers).waiting(self.rule)
    }

    pub fn pool(&self) -> Runtime {
        self.builder().build().expect("a pool")
    }
}

/// Happens once; any thread may wait for it.
#[derive(Default)]
pub struct Event {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Event {
    pub fn new() -> Arc<Event> {
        Arc::default()
    }

    pub fn set(&self) {
        *self.set.lock().unwrap() = true;
        self.changed.notify_all();
    }

    pub fn is_set(&self) -> bool {
        *self.set.lock().unwrap()
    }

    /// Blocks the thread: what the runtime does not know of.
    pub fn wait(&self) {
        let mut set = self.set.lock().unwrap();
        while !*set {
            set = self.changed.wait(set).unwrap();
        }
    }
}

/// Counts one more.
pub fn tick(count: &AtomicUsize) {
    count.fetch_add(1, Ordering::SeqCst);
}

/// Waits until the condition holds, without a sleep of its own; the watchdog bounds it.
pub fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

/// Counts the drops of what it made.
#[derive(Clone, Default)]
pub struct Drops {
    made: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
}

/// Dropped exactly once, or `Drops::check` says so.
pub struct Counted(Arc<AtomicUsize>);

impl Drops {
    pub fn new() -> Drops {
        Drops::default()
    }

    pub fn guard(&self) -> Counted {
        self.made.fetch_add(1, Ordering::SeqCst);
        Counted(self.dropped.clone())
    }

    pub fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }

    pub fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }

    #[track_caller]
    pub fn check(&self) {
        assert_eq!(self.dropped(), self.made(), "values dropped, values made");
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Panics when dropped, having counted.
pub struct PanicsOnDrop(pub Counted);

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("drop panicked on purpose");
    }
}

/// xorshift: tests need no better randomness, and the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Starts this test binary again, running only `test`, with `CHILD` and the given variables set.
pub fn run_child(test: &str, variables: &[(&str, &str)]) -> std::process::Output {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    command.env_remove("NUMART_TOPOLOGY").env_remove("NUMART_WORKERS");
    for (name, value) in variables {
        command.env(name, value);
    }
    command.output().expect("the test binary runs")
}

pub const CHILD: &str = "NUMART_TEST_CHILD";

pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}
