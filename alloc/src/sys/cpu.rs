//! On which CPU is this thread?

use crate::topology::CpuId;

/// The CPU the calling thread runs on right now, or `None` if this system does
/// not say.
///
/// The answer may be out of date when it arrives, unless the thread is bound
/// to that one CPU. It costs some ten nanoseconds: on Linux it is a vDSO call
/// (or the thread's rseq area), not a switch to the kernel.
///
/// ```
/// if let Some(cpu) = numart_alloc::sys::current_cpu() {
///     println!("on CPU {cpu}");
/// }
/// ```
pub fn current_cpu() -> Option<CpuId> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        // SAFETY: sched_getcpu takes no arguments and writes to nothing of ours.
        let cpu = unsafe { libc::sched_getcpu() };
        u32::try_from(cpu).ok().map(CpuId)
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::sys;

    #[test]
    fn a_bound_thread_runs_on_its_cpu() {
        // A thread of its own, so that the test harness's thread stays unbound.
        std::thread::spawn(|| {
            let allowed = sys::current_thread_affinity().unwrap();
            let last = allowed.iter().last().unwrap();
            sys::set_current_thread_affinity(&[last].into_iter().collect()).unwrap();
            assert_eq!(current_cpu(), Some(last));
        })
        .join()
        .unwrap();
    }
}
