//! What the guest tests share: what the kernel says of the machine and of threads, and tests that are skipped visibly.
#![allow(dead_code, reason = "each test binary uses some of it")]

pub mod kernel;

use std::cell::Cell;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use kernel::Machine;
use numart::{JoinHandle, NodeId, Runtime};

/// The machine, if it has what the test needs; else the test says so (`tests/guest/src/report.rs` counts that) and must
/// return.
pub fn need(what: &str, has: impl FnOnce(&Machine) -> bool) -> Option<Machine> {
    let machine = Machine::read();
    if has(&machine) {
        return Some(machine);
    }
    say(&format!("skipped: {}: {what}", test_name()));
    None
}

/// As [`need`], for two compute nodes or more.
pub fn need_nodes(count: usize) -> Option<Machine> {
    let machine = Machine::read();
    let has = machine.compute_nodes().len();
    let nodes = if has == 1 { "one node".to_owned() } else { format!("{has} nodes of {count}") };
    need(&nodes, |_| has >= count)
}

/// A line that the runner shows whether the test passes or not.
pub fn note(text: &str) {
    say(&format!("note: {text}"));
}

/// Not by `eprintln!`, which the test harness holds back.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

pub fn test_name() -> String {
    std::thread::current().name().unwrap_or("a test").to_owned()
}

/// Aborts the process, naming the test, unless dropped in time.
#[must_use]
pub struct Watchdog(Option<Sender<()>>);

pub fn watchdog(seconds: u64) -> Watchdog {
    let name = test_name();
    let (keep, dropped) = channel::<()>();
    std::thread::spawn(move || {
        if let Err(RecvTimeoutError::Timeout) = dropped.recv_timeout(Duration::from_secs(seconds)) {
            say(&format!("HANG: {name} did not finish within {seconds} s"));
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

/// Happens once; any thread may block until it does.
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

    pub fn wait(&self) {
        let mut set = self.set.lock().unwrap();
        while !*set {
            set = self.changed.wait(set).unwrap();
        }
    }
}

/// Waits until the condition holds; the watchdog bounds it.
pub fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Blocks every worker of a node until the event is set. Returns when all are.
pub fn occupy(runtime: &Runtime, node: NodeId, workers: usize) -> (Arc<Event>, Vec<JoinHandle<()>>) {
    let go_on = Event::new();
    let taken = Arc::new(AtomicUsize::new(0));
    let affinity = runtime.affinity().on(node).unwrap().strict();
    let handles = (0..workers)
        .map(|_| {
            let (go_on, taken) = (go_on.clone(), taken.clone());
            affinity.spawn(move || {
                taken.fetch_add(1, Ordering::SeqCst);
                go_on.wait();
            })
        })
        .collect();
    until(|| taken.load(Ordering::SeqCst) == workers);
    (go_on, handles)
}

/// Runs this test binary again with only `test` in it, as a process of its own, and shows what it printed if it failed.
/// The child finds [`is_child`] true.
pub fn in_child(test: &str) {
    let out = std::process::Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, test)
        .output()
        .expect("the test binary runs");
    let (text, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    errors.lines().filter(|line| line.starts_with("note: ")).for_each(say);
    assert!(out.status.success(), "{test} as a child: {}\n{text}\n{errors}", out.status);
    assert!(text.contains("1 passed"), "{test} did not run as a child\n{text}");
}

const CHILD: &str = "NUMART_GUEST_CHILD";

pub fn is_child(test: &str) -> bool {
    std::env::var_os(CHILD).is_some_and(|name| name == test)
}

/// A control group of our own below the root. Removed when dropped, if nobody else is in it.
pub struct Group {
    path: std::path::PathBuf,
    entered: Cell<bool>,
}

impl Group {
    /// Can one be made? Not outside a guest: this is not our machine then.
    pub fn possible() -> bool {
        std::env::var_os("NUMART_GUEST").is_some() && std::path::Path::new(ROOT).join("cgroup.procs").exists()
    }

    pub fn new(name: &str) -> Group {
        let path = std::path::Path::new(ROOT).join(name);
        std::fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Group { path, entered: Cell::new(false) }
    }

    pub fn write(&self, file: &str, value: &str) {
        std::fs::write(self.path.join(file), value).unwrap_or_else(|error| panic!("{file} = {value}: {error}"));
    }

    /// Puts this process into it.
    pub fn enter(&self) {
        self.write("cgroup.procs", &std::process::id().to_string());
        self.entered.set(true);
    }
}

const ROOT: &str = "/sys/fs/cgroup";

impl Drop for Group {
    fn drop(&mut self) {
        if self.entered.get() {
            let _ = std::fs::write(std::path::Path::new(ROOT).join("cgroup.procs"), std::process::id().to_string());
        }
        let _ = std::fs::remove_dir(&self.path);
    }
}
