//! A memory barrier on all threads of this process at once.
//!
//! The expensive half of an asymmetric fence: one side runs [`barrier`] (2 to
//! 13 us measured), the other side needs a compiler fence only, which is free.
//! The kernel interrupts every CPU that runs a thread of this process and has
//! it execute a full barrier; a thread that does not run passes one when it is
//! scheduled.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod imp {
    use super::super::SysError;

    /// `MEMBARRIER_CMD_*` of `linux/membarrier.h`, since Linux 4.14. Ours,
    /// because libc does not name them for every Linux target.
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn membarrier(command: libc::c_int) -> Result<(), SysError> {
        // SAFETY: membarrier(command, flags, cpu_id) takes three integers and
        // touches no memory of ours; an unknown command is refused with EINVAL.
        let r = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
        if r == 0 { Ok(()) } else { Err(SysError::last("membarrier")) }
    }

    pub(super) fn register() -> Result<(), SysError> {
        membarrier(REGISTER_PRIVATE_EXPEDITED)?;
        // A filter may allow one command and refuse the other: find out now.
        membarrier(PRIVATE_EXPEDITED)
    }

    pub(super) fn barrier() -> Result<(), SysError> {
        membarrier(PRIVATE_EXPEDITED)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod imp {
    use super::super::SysError;

    pub(super) fn register() -> Result<(), SysError> {
        Err(SysError::unsupported("membarrier"))
    }

    pub(super) fn barrier() -> Result<(), SysError> {
        Err(SysError::unsupported("membarrier"))
    }
}

use super::SysError;

/// Announces to the kernel that this process will use [`barrier`]. May be
/// called any number of times, from any thread.
///
/// # Errors
///
/// If the kernel (Linux before 4.14), the system or a seccomp filter refuses.
/// The caller must then use real fences on both sides.
///
/// ```
/// use numart_alloc::sys::membarrier;
///
/// match membarrier::register() {
///     Ok(()) => membarrier::barrier()?,
///     Err(e) => println!("using full fences instead: {e}"),
/// }
/// # Ok::<(), numart_alloc::sys::SysError>(())
/// ```
pub fn register() -> Result<(), SysError> {
    imp::register()
}

/// Runs a full memory barrier on every running thread of this process before
/// it returns. On the calling thread it is a full barrier as well.
///
/// Cost: one system call and an interrupt to each CPU that runs this process.
///
/// # Errors
///
/// If [`register`] never succeeded, or if a seccomp filter that the process
/// installed afterwards refuses the call. Then no order holds, and the caller
/// must undo what relied on it.
pub fn barrier() -> Result<(), SysError> {
    imp::barrier()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn barrier_works_from_many_threads_once_registered() {
        if let Err(e) = super::register() {
            println!("skipped: {e}");
            return;
        }
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..100).for_each(|_| super::barrier().unwrap()));
            }
        });
    }
}
