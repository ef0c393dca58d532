//! The ring: a power of two of slots, each a job in two relaxed atomics.

use crate::sched::job::{Job, JobHeader};
use crate::sched::strand::Strand;
use crate::sync::{AtomicPtr, Ordering};

struct Slot {
    header: AtomicPtr<JobHeader>,
    strand: AtomicPtr<Strand>,
}

/// A ring's slots and mask, copied out of it.
#[derive(Clone, Copy)]
pub(super) struct Slots {
    first: *const Slot,
    mask: usize,
}

impl Slots {
    /// # Safety
    /// The ring is alive, and slot `index` is the caller's to write.
    #[inline(always)]
    pub(super) unsafe fn write(self, index: usize, job: Job) {
        // SAFETY: `index & mask` is below the number of slots, and the ring is alive.
        let slot = unsafe { &*self.first.add(index & self.mask) };
        slot.header.store(job.header.cast_mut(), Ordering::Relaxed);
        slot.strand.store(job.strand.cast_mut(), Ordering::Relaxed);
    }
}

impl Slots {
    /// # Safety
    /// The ring is alive.
    #[inline(always)]
    pub(super) unsafe fn header(self, index: usize) -> *const JobHeader {
        // SAFETY: as in `write`.
        unsafe { &*self.first.add(index & self.mask) }.header.load(Ordering::Relaxed)
    }
}

/// Reads may race with writes of a later lap; the words are then thrown away (the reader's exchange of `top` fails).
pub(super) struct Buffer {
    slots: Box<[Slot]>,
    mask: usize,
}

impl Buffer {
    /// `capacity` is a power of two. Freed with [`Buffer::free`].
    pub(super) fn alloc(capacity: usize) -> *mut Buffer {
        debug_assert!(capacity.is_power_of_two());
        let slots = (0..capacity)
            .map(|_| Slot {
                header: AtomicPtr::new(std::ptr::null_mut()),
                strand: AtomicPtr::new(std::ptr::null_mut()),
            })
            .collect();
        Box::into_raw(Box::new(Buffer { slots, mask: capacity - 1 }))
    }

    /// # Safety
    /// `buffer` came from [`Buffer::alloc`], is freed once, and nobody reads it any more.
    pub(super) unsafe fn free(buffer: *mut Buffer) {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(buffer) });
    }

    pub(super) fn slots(&self) -> Slots {
        Slots { first: self.slots.as_ptr(), mask: self.mask }
    }

    pub(super) fn capacity(&self) -> usize {
        self.mask + 1
    }

    #[inline(always)]
    fn slot(&self, index: usize) -> &Slot {
        // SAFETY: `index & mask` is below the power of two `capacity`, the length of `slots`.
        unsafe { self.slots.get_unchecked(index & self.mask) }
    }

    pub(super) fn write(&self, index: usize, job: Job) {
        // SAFETY: our own slots; the caller is the owner, who alone writes.
        unsafe { self.slots().write(index, job) };
    }

    #[inline(always)]
    pub(super) fn read(&self, index: usize) -> Job {
        let slot = self.slot(index);
        Job { header: slot.header.load(Ordering::Relaxed), strand: slot.strand.load(Ordering::Relaxed) }
    }
}
