//! Pages: having some, and on which node the kernel should put them.

use std::ops::Range;

use super::SysError;
use crate::topology::NodeId;

/// Prefers a node for the pages of an address range, from the next page fault on; pages that are there already move.
/// Where the node is full the kernel takes others: a preference never fails an allocation.
///
/// The range is widened to whole pages. It costs one system call, and a copy of each page that moves.
///
/// # Errors
///
/// If a filter refuses the call, if the node has no memory or this process may not use it, if part of the range is not
/// mapped, and on systems without the call.
///
/// ```
/// use numart_alloc::{sys, topology::NodeId};
///
/// let pages = sys::Pages::new(1 << 20)?;
/// if let Err(error) = sys::prefer_node(pages.range(), NodeId(0)) {
///     println!("wherever the kernel likes, then: {error}");
/// }
/// # Ok::<(), sys::SysError>(())
/// ```
pub fn prefer_node(range: Range<usize>, node: NodeId) -> Result<(), SysError> {
    if range.is_empty() {
        return Ok(());
    }
    imp::prefer_node(range, node.0 as usize)
}

/// The addresses of the calling thread's stack, what lies unused of it included. `None` where the system does not say.
///
/// ```
/// let here = 0u8;
/// if let Some(stack) = numart_alloc::sys::current_stack() {
///     assert!(stack.contains(&(&raw const here as usize)));
/// }
/// ```
pub fn current_stack() -> Option<Range<usize>> {
    imp::current_stack()
}

/// Zeroed pages of our own, given back when dropped.
#[derive(Debug)]
pub struct Pages {
    first: *mut u8,
    bytes: usize,
}

// SAFETY: the pages belong to this value alone, and any thread may use or unmap them.
unsafe impl Send for Pages {}
// SAFETY: a shared reference gives out addresses only.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps at least so many bytes. Nothing is allocated until it is touched.
    ///
    /// # Errors
    ///
    /// If the system has no memory or no address space for them.
    pub fn new(bytes: usize) -> Result<Pages, SysError> {
        let bytes = bytes.max(1);
        Ok(Pages { first: imp::map(bytes)?, bytes })
    }

    /// The first byte. Aligned to a page.
    pub fn as_ptr(&self) -> *mut u8 {
        self.first
    }

    /// The addresses.
    pub fn range(&self) -> Range<usize> {
        let first = self.first as usize;
        first..first + self.bytes
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `first` and `bytes` are those of the mapping, which nobody uses any more.
        unsafe { imp::unmap(self.first, self.bytes) };
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod imp {
    use super::super::SysError;
    use std::ops::Range;

    /// `linux/mempolicy.h`; libc names them for some targets only.
    const MPOL_PREFERRED: libc::c_int = 1;
    const MPOL_MF_MOVE: libc::c_uint = 1 << 1;
    /// More nodes than any kernel is built for (`MAX_NUMNODES` is at most 1,024).
    const NODES: usize = 1024;
    const WORD_BITS: usize = libc::c_ulong::BITS as usize;

    fn page() -> usize {
        // SAFETY: sysconf takes a number and returns one.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
    }

    pub(super) fn prefer_node(range: Range<usize>, node: usize) -> Result<(), SysError> {
        if node >= NODES {
            return Err(SysError::invalid("mbind"));
        }
        let first = range.start & !(page() - 1);
        let mut mask = [0 as libc::c_ulong; NODES / WORD_BITS];
        mask[node / WORD_BITS] |= 1 << (node % WORD_BITS);
        // SAFETY: the kernel reads NODES bits of `mask` (it counts one more than it reads). The call changes where the
        // pages of the range lie, not what is in them, so it is harmless whoever owns them.
        let result = unsafe {
            let (mask, bits) = (mask.as_ptr(), NODES + 1);
            libc::syscall(libc::SYS_mbind, first, range.end - first, MPOL_PREFERRED, mask, bits, MPOL_MF_MOVE)
        };
        if result == 0 { Ok(()) } else { Err(SysError::last("mbind")) }
    }

    pub(super) fn current_stack() -> Option<Range<usize>> {
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
        let (mut first, mut bytes) = (std::ptr::null_mut(), 0);
        // SAFETY: `attributes` is initialised by the first call if that returns 0, read by the second, and freed by the
        // third; the others are out parameters of ours.
        let known = unsafe {
            libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) == 0 && {
                let known = libc::pthread_attr_getstack(attributes.as_ptr(), &mut first, &mut bytes) == 0;
                libc::pthread_attr_destroy(attributes.as_mut_ptr());
                known
            }
        };
        let first = first as usize;
        (known && bytes > 0).then(|| first..first + bytes)
    }

    pub(super) fn map(bytes: usize) -> Result<*mut u8, SysError> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping wherever there is room; nobody's memory is touched.
        let first = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        if first == libc::MAP_FAILED { Err(SysError::last("mmap")) } else { Ok(first.cast()) }
    }

    pub(super) unsafe fn unmap(first: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise. It cannot fail for a mapping that is there.
        unsafe { libc::munmap(first.cast(), bytes) };
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod imp {
    use super::super::SysError;
    use std::alloc::Layout;
    use std::ops::Range;

    pub(super) fn prefer_node(_: Range<usize>, _: usize) -> Result<(), SysError> {
        Err(SysError::unsupported("mbind"))
    }

    pub(super) fn current_stack() -> Option<Range<usize>> {
        None
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 4096).expect("a size that was allocated")
    }

    pub(super) fn map(bytes: usize) -> Result<*mut u8, SysError> {
        // SAFETY: the size is not zero (`Pages::new`).
        let first = unsafe { std::alloc::alloc_zeroed(layout(bytes)) };
        if first.is_null() { Err(SysError::with_errno("mmap", 12)) } else { Ok(first) }
    }

    pub(super) unsafe fn unmap(first: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise, and the layout of `map`.
        unsafe { std::alloc::dealloc(first, layout(bytes)) };
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn pages_are_zeroed_and_can_be_given_a_node() {
        let pages = Pages::new(10_000).unwrap();
        assert_eq!(pages.range().len(), 10_000);
        // SAFETY: inside the mapping.
        unsafe { assert_eq!(*pages.as_ptr().add(9_999), 0) };
        // Granted, or refused by a filter; the pages stay either way.
        if let Err(error) = prefer_node(pages.range(), NodeId(0)) {
            assert_eq!(error.call(), "mbind");
        }
        // SAFETY: inside the mapping.
        unsafe { pages.as_ptr().write(7) };
        assert!(prefer_node(0..0, NodeId(0)).is_ok());
        for nowhere in [1_023, 9_999] {
            let error = prefer_node(pages.range(), NodeId(nowhere)).unwrap_err();
            assert_eq!(error.call(), "mbind");
        }
    }

    #[test]
    fn a_thread_knows_its_stack() {
        let mut ends = std::thread::scope(|threads| {
            let ask = || {
                let here = 0u8;
                let stack = current_stack().unwrap();
                assert!(stack.contains(&(&raw const here as usize)));
                stack
            };
            [threads.spawn(ask).join().unwrap(), ask()]
        });
        ends.sort_by_key(|stack| stack.start);
        assert!(ends[0].end <= ends[1].start || ends[0].start == ends[1].start, "{ends:?}");
    }
}
