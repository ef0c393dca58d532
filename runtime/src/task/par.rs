//! Parallel loops with automatic grain.
//!
//! A range is halved by `join` until there are a few pieces per worker; a piece that was stolen is halved further, since
//! then somebody was hungry. A piece runs in blocks, and between blocks looks (two loads) whether somebody is idle and
//! nothing of ours is left to take: then it splits what remains. So even bodies cost a few joins in all, and uneven ones
//! are split where the work turns out to be.

use std::ops::Range;

use super::join::{join_on, on_worker};
use crate::sched::worker::Worker;

/// Pieces per worker before anybody is hungry: enough that one slow worker delays the end by a fraction.
const PIECES_PER_WORKER: usize = 4;
/// Blocks per piece: how often a running piece looks up.
const BLOCKS_PER_PIECE: usize = 16;

/// How far to split.
#[derive(Clone, Copy)]
struct Splitter {
    /// Halvings' worth of pieces left.
    pieces: usize,
}

impl Splitter {
    fn new(worker: &Worker) -> Splitter {
        Splitter { pieces: worker.registry.regular_workers() * PIECES_PER_WORKER }
    }

    /// For one half. A stolen half starts over.
    fn half(self, worker: &Worker, migrated: bool) -> Splitter {
        let pieces = self.pieces / 2;
        if migrated { Splitter { pieces: pieces.max(Splitter::new(worker).pieces / 2) } } else { Splitter { pieces } }
    }
}

/// What a loop does with a piece, and with two pieces' results.
trait Loop: Sync {
    type Result: Send;
    fn block(&self, range: Range<usize>, so_far: Option<Self::Result>) -> Self::Result;
    fn combine(&self, left: Self::Result, right: Self::Result) -> Self::Result;
}

fn drive<L: Loop>(range: Range<usize>, splitter: Splitter, work: &L) -> L::Result {
    let worker = Worker::current().expect("loops run on workers");
    if splitter.pieces > 1 && range.len() > 1 {
        split(worker, range, splitter, work)
    } else {
        piece(worker, range, work)
    }
}

fn split<L: Loop>(worker: &Worker, range: Range<usize>, splitter: Splitter, work: &L) -> L::Result {
    let middle = range.start + range.len() / 2;
    let (left, right) = (range.start..middle, middle..range.end);
    let unstolen = splitter.half(worker, false);
    let (left, right) = join_on(
        worker,
        || drive(left, unstolen, work),
        |migrated| {
            let worker = Worker::current().expect("halves run on workers");
            drive(right, splitter.half(worker, migrated), work)
        },
    );
    work.combine(left, right)
}

/// Runs a piece block by block; splits the rest if somebody has nothing to do.
fn piece<L: Loop>(worker: &Worker, mut range: Range<usize>, work: &L) -> L::Result {
    let block = range.len().div_ceil(BLOCKS_PER_PIECE).max(1);
    let mut result = None;
    loop {
        let end = range.start + block.min(range.len());
        result = Some(work.block(range.start..end, result));
        range.start = end;
        if range.is_empty() {
            return result.expect("at least one block ran");
        }
        if range.len() > 1 && worker.is_wanted() {
            let rest = split(worker, range, Splitter { pieces: 2 }, work);
            let done = result.expect("at least one block ran");
            return work.combine(done, rest);
        }
    }
}

struct ForEach<F>(F);

impl<F: Fn(Range<usize>) + Sync> Loop for ForEach<F> {
    type Result = ();

    fn block(&self, range: Range<usize>, _: Option<()>) {
        (self.0)(range);
    }

    fn combine(&self, (): (), (): ()) {}
}

/// Calls `body` for every index of the range, in parallel, and returns when all are done.
///
/// The grain is automatic: a few pieces per worker, split further where somebody is idle.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// let sum = AtomicUsize::new(0);
/// numart_runtime::par_for(0..100, |i| { sum.fetch_add(i, Ordering::Relaxed); });
/// assert_eq!(sum.into_inner(), 4950);
/// ```
///
/// # Panics
/// With the first panic of a body; pieces that have started run on to their end or their own panic first.
pub fn par_for<F>(range: Range<usize>, body: F)
where
    F: Fn(usize) + Sync + Send,
{
    if range.is_empty() {
        return;
    }
    on_worker(|worker| drive(range, Splitter::new(worker), &ForEach(|range: Range<usize>| range.for_each(&body))));
}

/// Calls `body` for consecutive chunks that together make up the slice, in parallel. The runtime chooses their lengths,
/// from the whole slice down to one element.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// let sum = AtomicU64::new(0);
/// numart_runtime::par_chunks(&[1u64, 2, 3], |chunk| { sum.fetch_add(chunk.iter().sum(), Ordering::Relaxed); });
/// assert_eq!(sum.into_inner(), 6);
/// ```
///
/// # Panics
/// As [`par_for`].
pub fn par_chunks<T, F>(slice: &[T], body: F)
where
    T: Sync,
    F: Fn(&[T]) + Sync + Send,
{
    if slice.is_empty() {
        return;
    }
    on_worker(|worker| {
        drive(0..slice.len(), Splitter::new(worker), &ForEach(|range: Range<usize>| body(&slice[range])))
    });
}

/// As [`par_chunks`], with mutable chunks.
///
/// ```
/// let mut squares: Vec<u32> = (0..100).collect();
/// numart_runtime::par_chunks_mut(&mut squares, |chunk| chunk.iter_mut().for_each(|x| *x *= *x));
/// assert_eq!(squares[9], 81);
/// ```
///
/// # Panics
/// As [`par_for`].
pub fn par_chunks_mut<T, F>(slice: &mut [T], body: F)
where
    T: Send,
    F: Fn(&mut [T]) + Sync + Send,
{
    struct Whole<T>(*mut T, usize);
    // SAFETY: handed out in disjoint parts only, one per block, of elements that are `Send`.
    unsafe impl<T: Send> Sync for Whole<T> {}
    impl<T> Whole<T> {
        /// # Safety
        /// No other part in use overlaps the range.
        #[allow(clippy::mut_from_ref, reason = "disjoint parts of one exclusive borrow")]
        unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
            assert!(range.start <= range.end && range.end <= self.1);
            // SAFETY: in bounds; disjoint by the caller's promise; the borrow of `slice` outlives the loop.
            unsafe { std::slice::from_raw_parts_mut(self.0.add(range.start), range.len()) }
        }
    }
    if slice.is_empty() {
        return;
    }
    let whole = Whole(slice.as_mut_ptr(), slice.len());
    on_worker(|worker| {
        let whole = &whole;
        // SAFETY: `drive` splits the range into disjoint blocks and runs each once.
        let work = ForEach(|range: Range<usize>| body(unsafe { whole.part(range) }));
        drive(0..whole.1, Splitter::new(worker), &work);
    });
}

struct Reduce<'a, T, I, M, C> {
    identity: &'a I,
    map: &'a M,
    combine: &'a C,
    result: std::marker::PhantomData<fn() -> T>,
}

impl<T, I, M, C> Loop for Reduce<'_, T, I, M, C>
where
    T: Send,
    I: Fn() -> T + Sync,
    M: Fn(usize) -> T + Sync,
    C: Fn(T, T) -> T + Sync,
{
    type Result = T;

    fn block(&self, range: Range<usize>, so_far: Option<T>) -> T {
        let start = so_far.unwrap_or_else(self.identity);
        range.fold(start, |sum, i| (self.combine)(sum, (self.map)(i)))
    }

    fn combine(&self, left: T, right: T) -> T {
        (self.combine)(left, right)
    }
}

/// Maps every index and combines the results, in parallel.
///
/// `combine` must be associative, with `identity()` neutral; it need not be commutative: results are combined in the
/// order of their indices. How they are grouped is not specified, so floating-point sums may differ in the last digits
/// from run to run.
///
/// ```
/// let sum = numart_runtime::reduce(0..1000, || 0, |i| i * i, |a, b| a + b);
/// assert_eq!(sum, 332_833_500);
/// ```
///
/// # Panics
/// As [`par_for`].
pub fn reduce<T, I, M, C>(range: Range<usize>, identity: I, map: M, combine: C) -> T
where
    T: Send,
    I: Fn() -> T + Sync + Send,
    M: Fn(usize) -> T + Sync + Send,
    C: Fn(T, T) -> T + Sync + Send,
{
    if range.is_empty() {
        return identity();
    }
    let work = Reduce { identity: &identity, map: &map, combine: &combine, result: std::marker::PhantomData };
    on_worker(|worker| drive(range, Splitter::new(worker), &work))
}
