//! What is run: the same data and the same bodies for every runtime.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A binary tree whose sum is the number of its nodes.
pub struct Node {
    /// Always 1.
    pub val: u64,
    /// Visited before `right`.
    pub left: Option<Box<Node>>,
    /// Visited last.
    pub right: Option<Box<Node>>,
}

impl Node {
    /// A full tree. Each node is allocated before its children, the left ones before the right ones, so that a walk
    /// "node, left, right" meets the nodes in the order of their addresses. Every peer must walk like that: the same
    /// runtime is several times slower when it walks against the order of the addresses.
    pub fn tree(layers: u32) -> Box<Node> {
        let mut node = Box::new(Node { val: 1, left: None, right: None });
        if layers > 1 {
            node.left = Some(Node::tree(layers - 1));
            node.right = Some(Node::tree(layers - 1));
        }
        node
    }

    /// The sum, by plain recursion.
    pub fn sum(&self) -> u64 {
        self.val + self.left.as_deref().map_or(0, Node::sum) + self.right.as_deref().map_or(0, Node::sum)
    }
}

/// One thing to run.
pub enum Work {
    /// Sum the tree with one `join` per node.
    Tree(Box<Node>),
    /// Spawn `jobs` jobs into one flat scope, each of which calls [`job`] with `spins`.
    Spawn { jobs: u32, spins: u32 },
    /// A loop with a cheap body: [`store`] for each element.
    Store(Vec<AtomicU32>),
    /// A reduction with a cheap body: add up [`mix`] of every number below this one.
    Sum(u64),
    /// A loop with an irregular body: [`store_skewed`] for each element.
    Skewed(Vec<AtomicU32>),
}

impl Work {
    /// So many cells for a loop to write.
    pub fn cells(n: usize) -> Vec<AtomicU32> {
        (0..n).map(|_| AtomicU32::new(0)).collect()
    }

    /// How many nodes, jobs or elements one run has.
    pub fn items(&self) -> u64 {
        match self {
            Work::Tree(tree) => tree.sum(),
            Work::Spawn { jobs, .. } => u64::from(*jobs),
            Work::Store(cells) | Work::Skewed(cells) => cells.len() as u64,
            Work::Sum(n) => *n,
        }
    }

    /// Whether the cells hold what a run with this salt must leave in them. Looks at every 1009th, because looking at all
    /// would take as long as the run.
    pub fn left_behind(&self, salt: u32) -> bool {
        let probe = |cells: &[AtomicU32], value: fn(usize, usize, u32) -> u32| {
            let n = cells.len();
            (0..n).step_by(1009).chain(n.checked_sub(1)).all(|i| cells[i].load(Relaxed) == value(i, n, salt))
        };
        match self {
            Work::Store(cells) => probe(cells, |i, _, salt| stored(i, salt)),
            Work::Skewed(cells) => probe(cells, skewed),
            _ => true,
        }
    }
}

/// Some five instructions that no compiler can shorten for a whole range of numbers.
#[inline(always)]
pub fn mix(i: u64) -> u64 {
    let x = (i ^ (i >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ (x >> 29)
}

#[inline(always)]
fn stored(i: usize, salt: u32) -> u32 {
    mix(i as u64 ^ u64::from(salt) << 32) as u32
}

/// The cheap body. The salt differs from sample to sample, so that nothing left from the sample before can pass for a result.
#[inline(always)]
pub fn store(cells: &[AtomicU32], i: usize, salt: u32) {
    cells[i].store(stored(i, salt), Relaxed);
}

/// The irregular body: its cost grows along the range, and every 1000th element costs about 30 times the average.
#[inline(always)]
pub fn store_skewed(cells: &[AtomicU32], i: usize, salt: u32) {
    cells[i].store(skewed(i, cells.len(), salt), Relaxed);
}

fn skewed(i: usize, n: usize, salt: u32) -> u32 {
    let spins = if i % 1000 == 999 { 5000 } else { i * 320 / n };
    spin(spins as u32) as u32 ^ salt
}

/// A chain of dependent instructions, `spins` long.
#[inline(never)]
pub fn spin(spins: u32) -> u64 {
    let mut x = u64::from(spins);
    for i in 0..spins {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(u64::from(i));
        x ^= x >> 17;
    }
    x
}

/// How many spins take this long on this machine.
pub fn spins_for(time: Duration) -> u32 {
    const SPINS: u32 = 100_000;
    let fastest = (0..50)
        .map(|_| {
            let begin = Instant::now();
            black_box(spin(black_box(SPINS)));
            begin.elapsed()
        })
        .min()
        .expect("fifty are not none");
    (time.as_secs_f64() / fastest.as_secs_f64() * f64::from(SPINS)) as u32
}

/// The body of a spawned job: it spins, and counts itself on a cache line of its thread, because a counter for all threads
/// would measure that counter.
#[inline(always)]
pub fn job(spins: u32) {
    if spins > 0 {
        // The argument is hidden too: otherwise the serial loop would call `spin` once for all jobs.
        black_box(spin(black_box(spins)));
    }
    TALLY.with(|tally| tally.0.store(tally.0.load(Relaxed) + 1, Relaxed));
}

/// How often [`job`] was called since the program began.
pub fn jobs_done() -> u64 {
    TALLIES.lock().expect("no holder of this lock panics").iter().map(|tally| tally.0.load(Relaxed)).sum()
}

/// The jobs one thread has run, written by that thread alone.
#[repr(align(128))]
struct Tally(AtomicU64);

/// The tallies of all threads. Leaked: a handful of threads, whose counts must outlive them.
static TALLIES: Mutex<Vec<&'static Tally>> = Mutex::new(Vec::new());

thread_local! {
    static TALLY: &'static Tally = {
        let tally: &'static Tally = Box::leak(Box::new(Tally(AtomicU64::new(0))));
        TALLIES.lock().expect("no holder of this lock panics").push(tally);
        tally
    };
}
