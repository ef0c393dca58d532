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
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::sleep::Sleeper;

/// One record. See the module's page.
pub(crate) struct Strand {
    /// The address of what this strand's job will complete: equal to the waiter's [`WaitId`]. 0: nobody waits.
    wait: AtomicUsize,
    parent: AtomicPtr<Strand>,
    /// The sleep cell of the worker on whose stack this strand (or scope) lives; null for threads outside.
    worker: AtomicPtr<Sleeper>,
    /// `STRICT` and the others. Written by its own thread only.
    flags: AtomicU8,
}

/// Below a `strict` root: other nodes keep away. Inherited.
const STRICT: u8 = 1;
/// Below a future's poll: a thread must not be blocked there. Inherited.
const IN_POLL: u8 = 1 << 1;
/// This very record's job polls a future.
const POLLS: u8 = 1 << 2;
/// Run by a main loop, not on top of another strand: when it ends, its worker looks for the next job at once.
const OUTERMOST: u8 = 1 << 3;
const INHERITED: u8 = STRICT | IN_POLL;

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
            flags: AtomicU8::new(0),
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

    /// As [`Strand::below`], however long the chain. Only from inside `strand`, where the chain is real and ends.
    pub(crate) fn below_from_inside(mut strand: *const Strand, wait: WaitId) -> bool {
        // SAFETY: STRAND-STABLE.
        while let Some(record) = unsafe { strand.as_ref() } {
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
        unsafe { strand.as_ref() }.is_some_and(|record| record.flags.load(Ordering::Relaxed) & STRICT != 0)
    }

    /// Does `strand` lie in or below a future's poll?
    pub(crate) fn is_in_poll(strand: *const Strand) -> bool {
        // SAFETY: STRAND-STABLE.
        unsafe { strand.as_ref() }.is_some_and(|record| record.flags.load(Ordering::Relaxed) & IN_POLL != 0)
    }

    /// Does `strand` itself poll a future, for a main loop?
    pub(crate) fn is_outermost_poll(strand: *const Strand) -> bool {
        const BOTH: u8 = POLLS | OUTERMOST;
        // SAFETY: STRAND-STABLE.
        unsafe { strand.as_ref() }.is_some_and(|record| record.flags.load(Ordering::Relaxed) & BOTH == BOTH)
    }

    /// As [`Strand::begin_poll`], of a future that a closure blocks on: not one that a main loop would come back to.
    pub(crate) fn begin_block_on(strand: *const Strand) -> PollMark {
        Strand::mark(strand, IN_POLL)
    }

    /// From here on `strand` polls a future; the returned value undoes it. From inside `strand` only, which may be null.
    pub(crate) fn begin_poll(strand: *const Strand) -> PollMark {
        Strand::mark(strand, POLLS | IN_POLL)
    }

    fn mark(strand: *const Strand, with: u8) -> PollMark {
        // SAFETY: STRAND-STABLE.
        let record = unsafe { strand.as_ref() };
        let before = record.map_or(0, |record| {
            let flags = record.flags.load(Ordering::Relaxed);
            record.flags.store(flags | with, Ordering::Relaxed);
            flags
        });
        PollMark { record, before }
    }

    /// The workers on whose stacks the chain's records live, nearest first: those that may be waiting for `strand`.
    /// To be called from inside `strand` only, where the chain does not change.
    pub(crate) fn ancestors(strand: *const Strand) -> impl Iterator<Item = *const Sleeper> {
        let mut next = strand;
        std::iter::from_fn(move || {
            // SAFETY: STRAND-STABLE.
            let record = unsafe { next.as_ref() }?;
            next = record.parent.load(Ordering::Relaxed);
            Some(record.worker.load(Ordering::Relaxed).cast_const())
        })
    }
}

/// A strand polls a future, until this is dropped.
pub(crate) struct PollMark {
    record: Option<&'static Strand>,
    before: u8,
}

impl Drop for PollMark {
    fn drop(&mut self) {
        if let Some(record) = self.record {
            record.flags.store(self.before, Ordering::Relaxed);
        }
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
    /// A slab for this record alone: the thread is ending and its own records are gone (a call from the destructor of
    /// a thread-local).
    lone: Option<Slab>,
    _not_send: std::marker::PhantomData<*mut ()>,
}

impl StrandGuard {
    /// Takes a record. `strict` is inherited from the parent or given by the root job.
    pub(crate) fn new(wait: WaitId, parent: *const Strand, worker: *const Sleeper, strict: bool) -> StrandGuard {
        let from_thread = RECORDS.try_with(|records| {
            let mut records = records.borrow_mut();
            let index = records.used;
            if index / SLAB == records.slabs.len() {
                records.slabs.push(take_slab());
            }
            records.used += 1;
            &records.slabs[index / SLAB][index % SLAB]
        });
        let (record, lone) = match from_thread {
            Ok(record) => (record, None),
            Err(_) => {
                let slab = take_slab();
                (&slab[0], Some(slab))
            }
        };
        record.wait.store(wait.0, Ordering::Relaxed);
        record.parent.store(parent.cast_mut(), Ordering::Relaxed);
        record.worker.store(worker.cast_mut(), Ordering::Relaxed);
        // SAFETY: STRAND-STABLE.
        let inherited = unsafe { parent.as_ref() }.map_or(0, |parent| parent.flags.load(Ordering::Relaxed) & INHERITED);
        record.flags.store(inherited | if strict { STRICT } else { 0 }, Ordering::Relaxed);
        StrandGuard { record, lone, _not_send: std::marker::PhantomData }
    }

    /// It is run by a main loop.
    pub(crate) fn set_outermost(&self) {
        let flags = self.record.flags.load(Ordering::Relaxed);
        self.record.flags.store(flags | OUTERMOST, Ordering::Relaxed);
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
        match self.lone {
            Some(slab) => FREE.lock().push(slab),
            // A record taken from the thread's stack is given back before the thread's locals go.
            None => _ = RECORDS.try_with(|records| records.borrow_mut().used -= 1),
        }
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
