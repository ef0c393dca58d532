//! What a refused system call looks like to the caller.

use std::error::Error;
use std::fmt;

/// A system call that failed: which one, why, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysError {
    call: &'static str,
    /// `None` where this system has no such call at all.
    errno: Option<i32>,
}

/// What an error number means here. Named by us rather than taken from libc,
/// because the type must exist on systems that libc gives other constants.
/// The values are those of `asm-generic/errno-base.h` and `errno.h`; MIPS,
/// SPARC and Alpha number ENOSYS differently, so it comes from libc on Linux.
const EPERM: i32 = 1;
const ESRCH: i32 = 3;
const EINVAL: i32 = 22;
#[cfg(any(target_os = "linux", target_os = "android"))]
const ENOSYS: i32 = libc::ENOSYS;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const ENOSYS: i32 = 38;

impl SysError {
    /// The error the current thread's last system call left in `errno`.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn last(call: &'static str) -> Self {
        let errno = std::io::Error::last_os_error().raw_os_error();
        Self { call, errno }
    }

    /// An error with a number we choose.
    pub(crate) fn with_errno(call: &'static str, errno: i32) -> Self {
        let errno = Some(errno);
        Self { call, errno }
    }

    /// An argument that no kernel can accept, found before calling it.
    pub(crate) fn invalid(call: &'static str) -> Self {
        Self::with_errno(call, EINVAL)
    }

    /// This system has no such call.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(crate) fn unsupported(call: &'static str) -> Self {
        Self { call, errno: None }
    }

    /// The name of the system call, as in its manual page.
    pub fn call(&self) -> &'static str {
        self.call
    }

    /// The error number, or `None` where this system has no such call.
    pub fn errno(&self) -> Option<i32> {
        self.errno
    }

    /// Whether the kernel, or a filter in front of it, does not offer the call:
    /// trying again later cannot help.
    pub fn is_unsupported(&self) -> bool {
        matches!(self.errno, None | Some(ENOSYS))
    }

    /// What the error means and what to do.
    fn advice(&self) -> &'static str {
        match (self.call, self.errno) {
            (_, None) => "this operating system has no such call; numart goes on without it",
            (_, Some(EPERM)) => {
                "not permitted: usually a seccomp filter of a container or sandbox; \
                 allow the call in its profile, or go on without it"
            }
            (_, Some(ENOSYS)) => {
                "not implemented: an old kernel, or a seccomp filter that hides the call; \
                 allow the call in its profile, or go on without it"
            }
            ("sched_setaffinity", Some(EINVAL)) => {
                "none of the named CPUs is online and allowed by the cpuset of this process; \
                 name CPUs of `Topology::nodes` that are allowed"
            }
            ("membarrier", Some(EINVAL)) => {
                "the kernel does not know this command (before Linux 4.14), or it runs with nohz_full"
            }
            (_, Some(ESRCH)) => "the thread no longer exists",
            _ => {
                "an answer that the kernel itself does not give: perhaps a sandbox; allow the call there, or go on without it"
            }
        }
    }
}

impl fmt::Display for SysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            None => write!(f, "{}: {}", self.call, self.advice()),
            Some(n) => {
                let os = std::io::Error::from_raw_os_error(n);
                write!(f, "{}: {os}: {}", self.call, self.advice())
            }
        }
    }
}

impl Error for SysError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_calls_name_seccomp() {
        for errno in [EPERM, ENOSYS] {
            let text = SysError::with_errno("membarrier", errno).to_string();
            assert!(text.contains("membarrier"), "{text}");
            assert!(text.contains("seccomp"), "{text}");
        }
    }

    #[test]
    fn only_missing_calls_are_unsupported() {
        assert!(SysError::with_errno("membarrier", ENOSYS).is_unsupported());
        assert!(!SysError::with_errno("membarrier", EPERM).is_unsupported());
        assert!(!SysError::invalid("sched_setaffinity").is_unsupported());
    }
}
