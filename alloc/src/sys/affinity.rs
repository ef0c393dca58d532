//! Which CPUs a thread may run on.

use super::SysError;
use crate::topology::CpuSet;

/// Binds the calling thread to a set of CPUs; it moves there at once.
///
/// CPUs of the set that are offline or outside the process's cpuset are
/// ignored by the kernel, as long as one usable CPU remains. Threads started
/// later by this thread inherit the set.
///
/// Cost: one system call, and a move if the thread ran elsewhere.
///
/// # Errors
///
/// If the set is empty or holds no usable CPU, if a filter refuses the call,
/// and on systems without it. The thread stays as it was.
///
/// ```
/// use numart_alloc::{sys, topology::Topology};
///
/// let machine = Topology::this_machine()?;
/// let node = machine.compute_nodes().next().unwrap();
/// if let Err(e) = sys::set_current_thread_affinity(node.allowed_cpus()) {
///     println!("going on unbound: {e}");
/// }
/// # Ok::<(), numart_alloc::topology::TopologyError>(())
/// ```
pub fn set_current_thread_affinity(cpus: &CpuSet) -> Result<(), SysError> {
    if cpus.is_empty() {
        return Err(SysError::invalid("sched_setaffinity"));
    }
    imp::set(0, cpus)
}

/// The kernel's number of a thread of this process, to be handed to
/// [`set_thread_affinity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(i32);

/// The calling thread's number; `None` on systems without it.
///
/// ```
/// let here = numart_alloc::sys::current_thread_id();
/// assert_eq!(here, numart_alloc::sys::current_thread_id());
/// ```
pub fn current_thread_id() -> Option<ThreadId> {
    imp::thread_id().map(ThreadId)
}

/// Binds another thread of this process to a set of CPUs. A thread that sleeps
/// wakes up within the set.
///
/// Cost: one system call (0.6 us here). The caller must know that the thread
/// is alive: the kernel gives the number of one that has ended to a new one.
///
/// # Errors
///
/// As [`set_current_thread_affinity`]; and if there is no such thread.
///
/// ```
/// use numart_alloc::sys;
///
/// if let (Some(me), Ok(cpus)) = (sys::current_thread_id(), sys::current_thread_affinity()) {
///     sys::set_thread_affinity(me, &cpus)?;
/// }
/// # Ok::<(), sys::SysError>(())
/// ```
pub fn set_thread_affinity(thread: ThreadId, cpus: &CpuSet) -> Result<(), SysError> {
    if cpus.is_empty() {
        return Err(SysError::invalid("sched_setaffinity"));
    }
    imp::set(thread.0, cpus)
}

/// The CPUs the calling thread may run on: its own mask within the cpuset of
/// the process.
///
/// Cost: one system call, a few on machines of more than 1,024 CPUs.
///
/// # Errors
///
/// If a filter refuses the call, and on systems without it.
///
/// ```
/// match numart_alloc::sys::current_thread_affinity() {
///     Ok(cpus) => println!("may run on CPUs {cpus}"),
///     Err(e) => println!("{e}"),
/// }
/// ```
pub fn current_thread_affinity() -> Result<CpuSet, SysError> {
    imp::get(0)
}

/// The CPUs another thread of this process may run on. The caller must know
/// that it is alive, as for [`set_thread_affinity`].
///
/// # Errors
///
/// As [`current_thread_affinity`]; and if there is no such thread.
pub fn thread_affinity(thread: ThreadId) -> Result<CpuSet, SysError> {
    imp::get(thread.0)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod imp {
    use super::super::SysError;
    use crate::topology::{CpuId, CpuSet};

    /// The kernel's mask is an array of unsigned longs, bit 0 first.
    type Word = libc::c_ulong;
    const WORD_BITS: usize = Word::BITS as usize;

    /// Where glibc's fixed `cpu_set_t` ends; most kernels are built for fewer.
    const FIRST_BITS: usize = 1024;
    /// Beyond any kernel: `NR_CPUS` is at most 8,192 on x86 (`MAXSMP`).
    const MOST_BITS: usize = 1 << 20;

    pub(super) fn thread_id() -> Option<i32> {
        // SAFETY: gettid takes nothing and always succeeds.
        i32::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).ok()
    }

    pub(super) fn set(thread: i32, cpus: &CpuSet) -> Result<(), SysError> {
        let highest = cpus.iter().last().map_or(0, |c| c.0 as usize);
        if highest >= MOST_BITS {
            return Err(SysError::invalid("sched_setaffinity"));
        }
        // Whole 64-bit units: the kernel rejects sizes that are no multiple of
        // its own word, which may be wider than ours (32-bit process).
        let mut mask = vec![0 as Word; (highest / 64 + 1) * (64 / WORD_BITS)];
        for cpu in cpus.iter() {
            let bit = cpu.0 as usize;
            mask[bit / WORD_BITS] |= 1 << (bit % WORD_BITS);
        }
        // SAFETY: the pointer and the size in bytes describe `mask`, which
        // outlives the call; the kernel reads at most that many bytes. Thread
        // id 0 is the calling thread; any other is only a number to it.
        let r = unsafe { libc::sched_setaffinity(thread, size_of_val(&mask[..]), mask.as_ptr().cast()) };
        if r == 0 { Ok(()) } else { Err(SysError::last("sched_setaffinity")) }
    }

    pub(super) fn get(thread: i32) -> Result<CpuSet, SysError> {
        get_from(thread, FIRST_BITS)
    }

    /// Starts with a mask of `bits` and doubles it while the kernel finds it
    /// too small, which it says with EINVAL.
    pub(super) fn get_from(thread: i32, mut bits: usize) -> Result<CpuSet, SysError> {
        loop {
            let mut mask = vec![0 as Word; bits.next_multiple_of(64) / WORD_BITS];
            // SAFETY: the pointer and the size in bytes describe `mask`, which
            // nobody else sees during the call; the kernel writes at most that
            // many bytes. Thread id 0 is the calling thread; any other is
            // only a number to the kernel.
            let r = unsafe { libc::sched_getaffinity(thread, size_of_val(&mask[..]), mask.as_mut_ptr().cast()) };
            if r == 0 {
                return Ok(bits_of(&mask));
            }
            let error = SysError::last("sched_getaffinity");
            if error.errno() != Some(libc::EINVAL) || bits >= MOST_BITS {
                return Err(error);
            }
            bits *= 2;
        }
    }

    fn bits_of(mask: &[Word]) -> CpuSet {
        let set = |bit: &usize| mask[bit / WORD_BITS] >> (bit % WORD_BITS) & 1 == 1;
        (0..mask.len() * WORD_BITS).filter(set).map(|bit| CpuId(bit as u32)).collect()
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod imp {
    use super::super::SysError;
    use crate::topology::CpuSet;

    pub(super) fn thread_id() -> Option<i32> {
        None
    }

    pub(super) fn set(_: i32, _: &CpuSet) -> Result<(), SysError> {
        Err(SysError::unsupported("sched_setaffinity"))
    }

    pub(super) fn get(_: i32) -> Result<CpuSet, SysError> {
        Err(SysError::unsupported("sched_getaffinity"))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::topology::CpuId;

    #[test]
    fn binding_is_what_the_kernel_answers() {
        std::thread::spawn(|| {
            let all = current_thread_affinity().unwrap();
            for cpu in all.iter() {
                let one: CpuSet = [cpu].into_iter().collect();
                set_current_thread_affinity(&one).unwrap();
                assert_eq!(current_thread_affinity().unwrap(), one);
            }
            set_current_thread_affinity(&all).unwrap();
            assert_eq!(current_thread_affinity().unwrap(), all);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn impossible_sets_are_errors_and_change_nothing() {
        std::thread::spawn(|| {
            let before = current_thread_affinity().unwrap();
            assert!(set_current_thread_affinity(&CpuSet::new()).is_err());
            // Beyond any CPU of this machine, and beyond any kernel.
            for far in [5_000, 100_000_000] {
                let set: CpuSet = [CpuId(far)].into_iter().collect();
                let error = set_current_thread_affinity(&set).unwrap_err();
                assert!(error.to_string().contains("online and allowed"), "{error}");
            }
            assert_eq!(current_thread_affinity().unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_mask_that_is_too_small_grows() {
        // Whatever the kernel is built for, growing must end at the same set.
        assert_eq!(imp::get_from(0, 1), current_thread_affinity());
        assert_eq!(imp::get_from(0, 8192), current_thread_affinity());
    }
}
