//! Strands: who works below whose wait.
//!
//! A *strand* is what one worker does with one job it took from elsewhere (a root job, a stolen job) from its start to
//! its end, with all that it runs on top by plain calls. A scope has a record of its own, below the strand that opened
//! it. The records form a forest: `parent` is the strand (or scope) below which a strand's job was made.
//!
//! ```text
//!   root job R (strand 1)                 chain of a job made in strand 3:
//!     join(a, b) -> b stolen: strand 2      3 -> scope s -> 2 -> 1
//!        scope s (record)
//!          s.spawn(x) -> x stolen: strand 3
//! ```
//!
//! A waiter waits for one thing (a `join` half, a scope, a task): its *wait*, an address. A job lies below that wait if
//! some record on its chain runs (or is) that thing. That is the whole of the waiting rule's test: [`Strand::below`].
//!
//! Making a job costs nothing for this: its queue entry carries the pointer to the current record. A record is made
//! once per steal, per root job and per scope.
//!
//! # STRAND-STABLE
//! Records are atomics in slabs that are recycled but never freed. So a thief may follow the chain of a job that it has
//! only *seen* in a queue. What it read is meaningful if it then takes that very entry: from its read of the slot to
//! its exchange of `top` the entry stayed in the queue, so the job had not started, so every frame on its chain was
//! waiting for it and every record on the chain was in use and unchanged. If the exchange fails, the answer is thrown
//! away. Recycled records can link up in any way meanwhile, so the walk is bounded.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::sleep::Sleeper;

/// One record. See the module's page.
pub(crate) struct Strand {
    /// The address of what this strand's job will complete: equal to the waiter's [`WaitId`]. 0: nobody waits.
    wait: AtomicUsize,
    parent: AtomicPtr<Strand>,
    /// The sleep cell of the worker on whose stack this strand (or scope) lives; null for threads outside.
    worker: AtomicPtr<Sleeper>,
    /// Below a `strict` root: other nodes keep away.
    strict: AtomicBool,
}

/// The address of the thing a waiter waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WaitId(pub(crate) usize);

impl WaitId {
    /// Of a thing that nobody waits for.
    pub(crate) const NONE: WaitId = WaitId(0);

    pub(crate) fn of<T>(thing: *const T) -> WaitId {
        WaitId(thing.addr())
    }
}

/// Longest chain that is followed. Deeper ancestors are taken for strangers: less help for a waiter, never a wrong job.
/// A strand nests only through a steal or a scope, so real chains are short.
const MAX_WALK: usize = 256;

impl Strand {
    const fn new() -> Self {
        Strand {
            wait: AtomicUsize::new(0),
            parent: AtomicPtr::new(std::ptr::null_mut()),
            worker: AtomicPtr::new(std::ptr::null_mut()),
            strict: AtomicBool::new(false),
        }
    }

    /// Is a job made under `strand` below the wait? `strand` may be null (a root job: below nothing).
    pub(crate) fn below(mut strand: *const Strand, wait: WaitId) -> bool {
        for _ in 0..MAX_WALK {
            // SAFETY: STRAND-STABLE.
            let Some(record) = (unsafe { strand.as_ref() }) else { return false };
            if record.wait.load(Ordering::Relaxed) == wait.0 {
                return true;
            }
            strand = record.parent.load(Ordering::Relaxed);
        }
        false
    }

    /// Does `strand` lie below a strict root?
    pub(crate) fn is_strict(strand: *const Strand) -> bool {
        // SAFETY: STRAND-STABLE.
        unsafe { strand.as_ref() }.is_some_and(|record| record.strict.load(Ordering::Relaxed))
    }

    /// The workers on whose stacks the chain's records live, nearest first: those that may be waiting for `strand`.
    /// To be called from inside `strand` only, where the chain does not change.
    pub(crate) fn ancestors(strand: *const Strand) -> impl Iterator<Item = *const Sleeper> {
        let mut next = strand;
        (0..MAX_WALK).map_while(move |_| {
            // SAFETY: STRAND-STABLE.
            let record = unsafe { next.as_ref() }?;
            next = record.parent.load(Ordering::Relaxed);
            Some(record.worker.load(Ordering::Relaxed).cast_const())
        })
    }
}

/// Records in one slab: a page of 4 KiB holds 128.
const SLAB: usize = 128;

type Slab = &'static [Strand; SLAB];

/// Slabs that no thread uses at the moment. Never shrinks: STRAND-STABLE.
static FREE: Mutex<Vec<Slab>> = Mutex::new(Vec::new());

fn take_slab() -> Slab {
    if let Some(slab) = FREE.lock().pop() {
        return slab;
    }
    Box::leak(Box::new([const { Strand::new() }; SLAB]))
}

/// This thread's records in use: a stack, since strands and scopes nest.
struct Records {
    slabs: Vec<Slab>,
    used: usize,
}

impl Drop for Records {
    fn drop(&mut self) {
        FREE.lock().append(&mut self.slabs);
    }
}

thread_local! {
    static RECORDS: RefCell<Records> = const { RefCell::new(Records { slabs: Vec::new(), used: 0 }) };
}

/// A record in use, given back on drop. Not `Send`: it belongs to this thread's stack.
pub(crate) struct StrandGuard {
    record: &'static Strand,
    _not_send: std::marker::PhantomData<*mut ()>,
}

impl StrandGuard {
    /// Takes a record. `strict` is inherited from the parent or given by the root job.
    pub(crate) fn new(wait: WaitId, parent: *const Strand, worker: *const Sleeper, strict: bool) -> StrandGuard {
        let record = RECORDS.with(|records| {
            let mut records = records.borrow_mut();
            let index = records.used;
            if index / SLAB == records.slabs.len() {
                records.slabs.push(take_slab());
            }
            records.used += 1;
            &records.slabs[index / SLAB][index % SLAB]
        });
        record.wait.store(wait.0, Ordering::Relaxed);
        record.parent.store(parent.cast_mut(), Ordering::Relaxed);
        record.worker.store(worker.cast_mut(), Ordering::Relaxed);
        record.strict.store(strict || Strand::is_strict(parent), Ordering::Relaxed);
        StrandGuard { record, _not_send: std::marker::PhantomData }
    }

    /// Names what this record will complete, when that has its address only now. Before any job lies below it.
    pub(crate) fn set_wait(&self, wait: WaitId) {
        self.record.wait.store(wait.0, Ordering::Relaxed);
    }

    pub(crate) fn record(&self) -> *const Strand {
        self.record
    }
}

impl Drop for StrandGuard {
    fn drop(&mut self) {
        // A recycled record must not look like somebody's wait.
        self.record.wait.store(usize::MAX, Ordering::Relaxed);
        RECORDS.with(|records| records.borrow_mut().used -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_follows_the_chain_and_ends() {
        let thing = 0u8;
        let wait = WaitId::of(&thing);
        let root = StrandGuard::new(WaitId::NONE, std::ptr::null(), std::ptr::null(), false);
        let half = StrandGuard::new(wait, root.record(), std::ptr::null(), false);
        let deeper = StrandGuard::new(WaitId(7), half.record(), std::ptr::null(), false);
        assert!(Strand::below(deeper.record(), wait));
        assert!(Strand::below(half.record(), wait));
        assert!(!Strand::below(root.record(), wait));
        assert!(!Strand::below(std::ptr::null(), wait));
    }

    #[test]
    fn strict_is_inherited() {
        let root = StrandGuard::new(WaitId::NONE, std::ptr::null(), std::ptr::null(), true);
        let child = StrandGuard::new(WaitId::NONE, root.record(), std::ptr::null(), false);
        assert!(Strand::is_strict(child.record()));
        assert!(!Strand::is_strict(std::ptr::null()));
    }

    #[test]
    fn records_are_recycled_across_slabs() {
        let guards: Vec<_> =
            (0..300).map(|i| StrandGuard::new(WaitId(i), std::ptr::null(), std::ptr::null(), false)).collect();
        let first = guards[0].record();
        let mut guards = guards;
        while guards.pop().is_some() {}
        let again = StrandGuard::new(WaitId(1), std::ptr::null(), std::ptr::null(), false);
        assert_eq!(again.record(), first);
    }
}
