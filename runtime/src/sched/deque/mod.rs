//! The split deque: one ring, of which the older part is public (thieves) and the newer part private (the owner).
//!
//! ```text
//!        thieves take here              owner pushes and pops here
//!            |                                     |
//!   ---------v-------------------+-----------------v--------
//!    (gone)  top ...... public ..| split ... private ... tail
//!   -----------------------------+--------------------------
//! ```
//!
//! * A push or a pop of the private part is a handful of plain loads and stores: no atomic read-modify-write, no fence.
//! * The owner *publishes* by moving `split` up (see [`Owner::publish`]) and takes back by moving it down.
//! * A thief may *force* the split ([`SplitDeque::force`]) when the owner does not look: the THE protocol with an
//!   asymmetric fence. `README.md` beside this file is the page of prose: invariants, races by name, the proof.
//!
//! Why not a private ring in front of `crossbeam-deque`, as the design's sketch had it: jobs would be copied between
//! the two, a waiter could not look at a job's strand before it takes it, and loom could not see inside.
//! `docs/decisions/1-split-deque.md` has the measurements.

mod buffer;
#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use std::cell::{Cell, UnsafeCell};

use crossbeam_utils::CachePadded;

use self::buffer::{Buffer, Slots};
use super::job::{Job, JobHeader};
use super::strand::Strand;
use crate::sync::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence, heavy_fence, light_fence, spin_hint,
};

/// `hungry`: nothing is public; publish the oldest private job at the next push.
pub(crate) const NONE_PUBLIC: u32 = 1;
/// `hungry`: a thief looked here and went away with nothing: publish half of what is private.
pub(crate) const STARVING: u32 = 2;

/// Slots of a new ring. Doubles when full; 256 jobs of 16 bytes are one page.
#[cfg(not(loom))]
const FIRST_CAPACITY: usize = 256;
#[cfg(loom)]
const FIRST_CAPACITY: usize = 2;
/// Slots before there is an owner: none is used. The owner makes its ring itself, so that it lies on the owner's node.
const UNOWNED_CAPACITY: usize = 2;

/// What a thief got.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Steal {
    /// A job, now the thief's.
    Job(Job),
    /// Nothing public.
    Empty,
    /// Lost a race: something was there, try again.
    Retry,
    /// The oldest public job does not satisfy the filter.
    Unrelated,
}

/// The kernel refused the membarrier: nothing was forced, and nothing can be.
#[derive(Debug)]
pub(crate) struct NoBarrier;

/// The owner writes these on every push and pop; thieves read `tail` only to see whether anything is private.
struct OwnerLine {
    tail: AtomicUsize,
    buffer: AtomicPtr<Buffer>,
}

/// The border between the parts. Read by the owner on every push and pop, written rarely.
struct Border {
    /// Lower end of the private part: what the owner's pop compares with. Equal to `split` whenever `lock` is free.
    limit: AtomicUsize,
    /// Upper end of the public part: what thieves compare with.
    split: AtomicUsize,
    /// 0, [`NONE_PUBLIC`] or [`STARVING`]: makes the next push take its slow path.
    hungry: AtomicU32,
    /// Serialises everything that moves the border. Held for a few instructions by the owner, for one membarrier by
    /// a forcing thief, who only ever *tries* it.
    lock: AtomicBool,
}

/// The shared half. Any thread may steal and force; only the one [`Owner`] pushes, pops and publishes.
pub(crate) struct SplitDeque {
    owner: CachePadded<OwnerLine>,
    top: CachePadded<AtomicUsize>,
    border: CachePadded<Border>,
    /// Rings that grew out of use. Thieves may still read them, so they live as long as the deque (at most as much
    /// again as the ring in use). Touched by the owner only: invariant ONE-OWNER.
    retired: UnsafeCell<Vec<*mut Buffer>>,
}

// SAFETY: all shared state is atomic, except `retired`, which only the single `Owner` touches (ONE-OWNER).
unsafe impl Send for SplitDeque {}
// SAFETY: as above.
unsafe impl Sync for SplitDeque {}

impl SplitDeque {
    pub(crate) fn new() -> Self {
        SplitDeque {
            owner: CachePadded::new(OwnerLine {
                tail: AtomicUsize::new(1),
                buffer: AtomicPtr::new(Buffer::alloc(UNOWNED_CAPACITY)),
            }),
            // Indices start at 1 so that `tail - 1` of an empty deque does not wrap.
            top: CachePadded::new(AtomicUsize::new(1)),
            border: CachePadded::new(Border {
                limit: AtomicUsize::new(1),
                split: AtomicUsize::new(1),
                hungry: AtomicU32::new(NONE_PUBLIC),
                lock: AtomicBool::new(false),
            }),
            retired: UnsafeCell::new(Vec::new()),
        }
    }

    /// The owner's handle.
    ///
    /// # Safety
    /// At most one `Owner` of a deque is alive at a time, and it stays on one thread: invariant ONE-OWNER.
    pub(crate) unsafe fn owner(&self) -> Owner<'_> {
        let mut buffer = self.owner.buffer.load(Ordering::Acquire);
        // SAFETY: ONE-OWNER: nobody else replaces or frees the buffer.
        if unsafe { (*buffer).capacity() } < FIRST_CAPACITY {
            // The first owner: nothing was ever pushed, so there is nothing to copy.
            let ring = Buffer::alloc(FIRST_CAPACITY);
            self.owner.buffer.store(ring, Ordering::Release);
            // SAFETY: ONE-OWNER.
            unsafe { (*self.retired.get()).push(std::mem::replace(&mut buffer, ring)) };
        }
        // SAFETY: as above.
        let (capacity, slots) = unsafe { ((*buffer).capacity(), (*buffer).slots()) };
        Owner {
            deque: self,
            buffer: Cell::new(buffer),
            slots: Cell::new(slots),
            room: Cell::new(self.top.load(Ordering::Acquire) + capacity),
        }
    }

    /// Takes the oldest public job if `wanted` says so. The filter sees the job's strand *before* the job is taken:
    /// see `strand.rs` for what it may do with it.
    pub(crate) fn steal_if(&self, wanted: impl FnOnce(*const Strand) -> bool) -> Steal {
        let top = self.top.load(Ordering::Acquire);
        // Orders the load of `top` before the load of `split`, against the owner's store of `split` and load of
        // `top` in `pop_slow` (race TAKE-BACK).
        #[cfg(not(numart_break = "steal_fence"))]
        fence(Ordering::SeqCst);
        let split = self.border.split.load(Ordering::Acquire);
        if (split.wrapping_sub(top) as isize) <= 0 {
            return Steal::Empty;
        }
        let buffer = self.owner.buffer.load(Ordering::Acquire);
        // SAFETY: buffers live as long as the deque. The words may be stale or torn if `top` has moved on; then the
        // exchange below fails and they are not used.
        let job = unsafe { (*buffer).read(top) };
        if !wanted(job.strand) {
            return Steal::Unrelated;
        }
        #[cfg(not(numart_break = "steal_exchange"))]
        if self.top.compare_exchange(top, top + 1, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return Steal::Retry;
        }
        #[cfg(numart_break = "steal_exchange")]
        self.top.store(top + 1, Ordering::SeqCst);
        // Read again: the owner may have taken back all but this one since. One of the two sees that nothing is left.
        #[cfg(not(numart_break = "last_look"))]
        fence(Ordering::SeqCst);
        #[cfg(not(numart_break = "last_look"))]
        let split = self.border.split.load(Ordering::Acquire);
        if (split.wrapping_sub(top + 1) as isize) <= 0 {
            // That was the last one: ask for the next at once.
            self.border.hungry.fetch_or(NONE_PUBLIC, Ordering::Relaxed);
        }
        Steal::Job(job)
    }

    /// Something is public.
    pub(crate) fn has_public(&self) -> bool {
        let top = self.top.load(Ordering::Acquire);
        let split = self.border.split.load(Ordering::Acquire);
        (split.wrapping_sub(top) as isize) > 0
    }

    /// The strand of the oldest public job, if there is one: a hint.
    pub(crate) fn oldest_public(&self) -> Option<*const Strand> {
        let top = self.top.load(Ordering::Acquire);
        let split = self.border.split.load(Ordering::Acquire);
        let buffer = self.owner.buffer.load(Ordering::Acquire);
        // SAFETY: buffers live as long as the deque.
        ((split.wrapping_sub(top) as isize) > 0).then(|| unsafe { (*buffer).read(top) }.strand)
    }

    /// Something is private, as far as another thread can tell.
    pub(crate) fn has_private(&self) -> bool {
        let split = self.border.split.load(Ordering::Relaxed);
        let tail = self.owner.tail.load(Ordering::Relaxed);
        (tail.wrapping_sub(split) as isize) > 0
    }

    /// Asks the owner to publish half of what is private at its next push or turn of a wait.
    pub(crate) fn raise_hungry(&self) {
        if self.border.hungry.load(Ordering::Relaxed) & STARVING == 0 {
            self.border.hungry.fetch_or(STARVING, Ordering::Relaxed);
        }
    }

    /// Makes half of the private jobs (the older ones) public without the owner's help. Returns how many.
    ///
    /// Costs one membarrier (2 to 13 us). Zero if nothing was private, another thread holds the lock, or the owner
    /// was quicker.
    pub(crate) fn force(&self) -> Result<usize, NoBarrier> {
        if !self.has_private() || !self.try_lock() {
            return Ok(0);
        }
        let split = self.border.split.load(Ordering::Relaxed);
        let tail = self.owner.tail.load(Ordering::Acquire);
        let private = tail.wrapping_sub(split) as isize;
        let mut forced = 0;
        if private > 0 {
            let want = split + (private as usize).div_ceil(2);
            // From here on a pop that reaches below `want` goes to its slow path and waits for the lock ...
            self.border.limit.store(want, Ordering::Relaxed);
            // ... if it loads `limit` after this barrier; if before, then its store of `tail` is visible after it.
            if !heavy_fence() {
                self.border.limit.store(split, Ordering::Relaxed);
                self.border.lock.store(false, Ordering::Release);
                return Err(NoBarrier);
            }
            let tail = self.owner.tail.load(Ordering::Acquire);
            #[cfg(not(numart_break = "force_recheck"))]
            let end = if (tail.wrapping_sub(want) as isize) >= 0 { want } else { tail.max(split) };
            #[cfg(numart_break = "force_recheck")]
            let end = {
                let _ = tail;
                want
            };
            // Thieves may take what lies below `end` only now: until the check it could have been the owner's.
            self.border.limit.store(end, Ordering::Relaxed);
            self.border.split.store(end, Ordering::Release);
            forced = end - split;
        }
        self.border.lock.store(false, Ordering::Release);
        Ok(forced)
    }

    /// An exchange that fails writes nothing, so the unlocking store is next in the lock's order and each spinner sees
    /// it. (A spinner that swaps could, on paper and in loom, read its own `true` for ever.)
    fn try_lock(&self) -> bool {
        self.border.lock.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn lock(&self) {
        let mut turns = 0u32;
        while !self.try_lock() {
            // A forcing thief holds it for one membarrier, or for a time slice if it was preempted there.
            turns += 1;
            if turns < 64 {
                spin_hint();
            } else {
                #[cfg(not(loom))]
                std::thread::yield_now();
                #[cfg(loom)]
                spin_hint();
            }
        }
    }

    fn unlock(&self) {
        self.border.lock.store(false, Ordering::Release);
    }

    fn move_border(&self, to: usize) {
        self.border.limit.store(to, Ordering::Relaxed);
        #[cfg(not(numart_break = "publish_release"))]
        self.border.split.store(to, Ordering::Release);
        #[cfg(numart_break = "publish_release")]
        self.border.split.store(to, Ordering::Relaxed);
    }
}

impl Drop for SplitDeque {
    fn drop(&mut self) {
        let current = self.owner.buffer.load(Ordering::Relaxed);
        // SAFETY: `&mut self`: no owner and no thief is left; each buffer came from `Buffer::alloc` and is in
        // exactly one of the two places.
        unsafe {
            Buffer::free(current);
            for old in (*self.retired.get()).drain(..) {
                Buffer::free(old);
            }
        }
    }
}

/// Where a job went, and whether somebody asked for one.
#[derive(Clone, Copy)]
pub(crate) struct Pushed {
    pub(crate) index: usize,
    /// See [`Owner::hungry`].
    pub(crate) hungry: bool,
}

/// The owner's half: not `Send`, one per deque.
pub(crate) struct Owner<'a> {
    deque: &'a SplitDeque,
    /// The ring in use, and where its slots are: one load less on every push.
    buffer: Cell<*mut Buffer>,
    slots: Cell<Slots>,
    /// The first index that may not fit: `top` when last looked at, plus the capacity.
    room: Cell<usize>,
}

impl<'a> Owner<'a> {
    /// Appends a job and returns its index. The caller looks at [`Owner::hungry`] afterwards.
    #[inline]
    pub(crate) fn push(&self, job: Job) -> Pushed {
        let deque = self.deque;
        let tail = deque.owner.tail.load(Ordering::Relaxed);
        if tail == self.room.get() {
            self.make_room(tail);
        }
        // SAFETY: ONE-OWNER: the cached slots are the current ring's; slot `tail` is free, since `tail < room`.
        unsafe { self.slots.get().write(tail, job) };
        deque.owner.tail.store(tail + 1, Ordering::Release);
        Pushed { index: tail, hungry: deque.border.hungry.load(Ordering::Relaxed) != 0 }
    }

    /// Takes back the job pushed at `index` if it is the newest and still private: the end of a `join` that nobody
    /// helped with. No atomic read-modify-write, no fence.
    #[inline]
    pub(crate) fn pop_at(&self, index: usize, header: *const JobHeader) -> bool {
        let deque = self.deque;
        let line = &deque.owner;
        // The job may have been popped and run already (`yield_now` runs anything), and another, of an outer scope, may
        // lie in its place.
        // SAFETY: ONE-OWNER: the cached slots are the current ring's.
        if line.tail.load(Ordering::Relaxed) != index + 1 || unsafe { self.slots.get().header(index) } != header {
            return false;
        }
        line.tail.store(index, Ordering::Release);
        light_fence();
        if index >= deque.border.limit.load(Ordering::Relaxed) {
            return true;
        }
        // Undo: `pop` decides under the lock.
        line.tail.store(index + 1, Ordering::Release);
        false
    }

    /// Takes the newest job, private or public.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Job> {
        let line = &self.deque.owner;
        let last = line.tail.load(Ordering::Relaxed) - 1;
        line.tail.store(last, Ordering::Release);
        light_fence();
        if last >= self.deque.border.limit.load(Ordering::Relaxed) {
            // SAFETY: the slot is private and full.
            return Some(unsafe { (*self.buffer.get()).read(last) });
        }
        line.tail.store(last + 1, Ordering::Release);
        self.pop_slow()
    }

    #[cold]
    fn pop_slow(&self) -> Option<Job> {
        let deque = self.deque;
        let tail = deque.owner.tail.load(Ordering::Relaxed);
        if deque.top.load(Ordering::Relaxed) == tail {
            // Empty: `top` never passes what was pushed, so only a push of our own could change that.
            return None;
        }
        deque.lock();
        let job = self.take_newest(tail);
        deque.unlock();
        job
    }

    /// With the lock held.
    fn take_newest(&self, tail: usize) -> Option<Job> {
        let deque = self.deque;
        let line = &deque.owner;
        // SAFETY: reads of slots below `tail` by the owner; whether the job is ours is decided before it is used.
        let read = |index| unsafe { (*self.buffer.get()).read(index) };
        let split = deque.border.split.load(Ordering::Relaxed);
        if tail > split {
            // A forced split withdrew, or was smaller than it looked: the newest is private after all.
            line.tail.store(tail - 1, Ordering::Release);
            return Some(read(tail - 1));
        }
        // Nothing private: take back the newer half of what is public, so that a run of pops costs log n locks.
        let mut back = (split - deque.top.load(Ordering::Relaxed)).div_ceil(2);
        while back > 0 {
            let to = split - back;
            deque.move_border(to);
            #[cfg(not(numart_break = "take_back_fence"))]
            fence(Ordering::SeqCst);
            let top = deque.top.load(Ordering::Acquire);
            if top < to {
                // No thief that saw the old border can take anything from `to` on (race TAKE-BACK).
                line.tail.store(split - 1, Ordering::Release);
                return Some(read(split - 1));
            }
            if back == 1 {
                // The last public job: whoever moves `top` has it.
                #[cfg(not(numart_break = "last_exchange"))]
                let won =
                    top == to && deque.top.compare_exchange(to, to + 1, Ordering::SeqCst, Ordering::Relaxed).is_ok();
                #[cfg(numart_break = "last_exchange")]
                let won = top == to && {
                    deque.top.store(to + 1, Ordering::SeqCst);
                    true
                };
                deque.move_border(split);
                deque.border.hungry.fetch_or(NONE_PUBLIC, Ordering::Relaxed);
                return won.then(|| read(split - 1));
            }
            // Thieves came too close. Give it back and try with less.
            deque.move_border(split);
            back = (split - top).min(back) / 2;
            back = back.max(1);
        }
        None
    }

    /// What thieves asked for since the last [`Owner::publish`]: looked at on every push and turn of a wait, not by
    /// [`Owner::pop_at`].
    #[inline(always)]
    pub(crate) fn hungry(&self) -> u32 {
        self.deque.border.hungry.load(Ordering::Relaxed)
    }

    /// Makes the `count` oldest private jobs public. Returns how many became so. The caller then wakes a thief by
    /// the sleep protocol, which has the fence that this needs.
    #[cold]
    pub(crate) fn publish(&self, count: usize) -> usize {
        let deque = self.deque;
        let tail = deque.owner.tail.load(Ordering::Relaxed);
        if tail == deque.border.split.load(Ordering::Relaxed) {
            return 0;
        }
        #[cfg(not(numart_break = "border_lock"))]
        deque.lock();
        let split = deque.border.split.load(Ordering::Relaxed);
        let moved = count.min(tail.wrapping_sub(split));
        deque.border.hungry.store(0, Ordering::Relaxed);
        deque.move_border(split + moved);
        #[cfg(not(numart_break = "border_lock"))]
        deque.unlock();
        moved
    }

    /// Index of the next push.
    #[inline]
    pub(crate) fn tail(&self) -> usize {
        self.deque.owner.tail.load(Ordering::Relaxed)
    }

    /// Jobs, public and private.
    pub(crate) fn len(&self) -> usize {
        self.tail().saturating_sub(self.deque.top.load(Ordering::Relaxed))
    }

    /// Makes the next push take its slow path.
    pub(crate) fn keep_hungry(&self, why: u32) {
        self.deque.border.hungry.fetch_or(why, Ordering::Relaxed);
    }

    /// Private jobs.
    pub(crate) fn private_len(&self) -> usize {
        let tail = self.deque.owner.tail.load(Ordering::Relaxed);
        tail.saturating_sub(self.deque.border.split.load(Ordering::Relaxed))
    }

    /// The ring looked full: find out whether thieves made room, else double it.
    #[cold]
    fn make_room(&self, tail: usize) {
        let deque = self.deque;
        let old = self.buffer.get();
        // SAFETY: ONE-OWNER.
        let capacity = unsafe { (*old).capacity() };
        let top = deque.top.load(Ordering::Acquire);
        // Less than half full: carry on in place. (Acquire above: a thief that moved `top` has read its slot.)
        if tail - top <= capacity / 2 {
            self.room.set(top + capacity);
            return;
        }
        let new = Buffer::alloc(capacity * 2);
        for index in top..tail {
            // SAFETY: both rings are big enough for `top..tail`, and nobody else writes either.
            unsafe { (*new).write(index, (*old).read(index)) };
        }
        // Release: a thief that loads the new ring sees the copied jobs. One that still has the old ring reads the
        // same jobs there, since nobody writes it any more.
        #[cfg(not(numart_break = "grow_release"))]
        deque.owner.buffer.store(new, Ordering::Release);
        #[cfg(numart_break = "grow_release")]
        deque.owner.buffer.store(new, Ordering::Relaxed);
        self.buffer.set(new);
        // SAFETY: just made.
        self.slots.set(unsafe { (*new).slots() });
        self.room.set(top + capacity * 2);
        // SAFETY: ONE-OWNER.
        unsafe { (*deque.retired.get()).push(old) };
    }
}
