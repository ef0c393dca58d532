//! A container's seccomp filter refuses the calls that place threads and memory.

mod common;

use common::{in_child, is_child, need_nodes, note, watchdog};
use numart::{Runtime, join, par_for};
use std::sync::atomic::{AtomicU64, Ordering};

/// Refuses these calls with EPERM from now on, for all threads that this one starts: what Docker's default profile does
/// with mbind, set_mempolicy and move_pages for a process without CAP_SYS_NICE.
fn deny(calls: &[libc::c_long]) {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    // The number of the call is the first word of what a filter sees.
    let mut program = vec![libc::sock_filter { code: LOAD, jt: 0, jf: 0, k: 0 }];
    for &call in calls {
        program.push(libc::sock_filter { code: EQUAL, jt: 0, jf: 1, k: call as u32 });
        program.push(libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: refuse });
    }
    program.push(libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW });
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the first call takes numbers only, the second reads `filter` and the program it points to.
    let installed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    assert!(installed, "seccomp: {}", std::io::Error::last_os_error());
}

fn fibonacci(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fibonacci(n - 1), || fibonacci(n - 2));
    a + b
}

/// The warnings that the machine itself has nothing to do with (a cpuset has some of its own).
fn warnings(runtime: &Runtime) -> Vec<String> {
    let of_machine = runtime.topology().warnings().to_vec();
    runtime.stats().warnings.into_iter().filter(|text| !of_machine.contains(text)).collect()
}

/// All kinds of work, with answers known.
fn right_results(runtime: &Runtime) {
    assert_eq!(runtime.install(|| fibonacci(18)), 2584);
    let sum = AtomicU64::new(0);
    runtime.install(|| par_for(0..10_000, |i| _ = sum.fetch_add(i as u64, Ordering::Relaxed)));
    assert_eq!(sum.into_inner(), 49_995_000);
    for node in runtime.nodes() {
        let affinity = runtime.affinity().on(node).unwrap().strict();
        let tasks: Vec<_> = (0..200).map(|i| affinity.spawn(move || i * 2)).collect();
        assert!(tasks.into_iter().enumerate().all(|(i, task)| task.join().unwrap() == i * 2));
    }
}

#[test]
fn everything_runs_where_placing_is_denied_and_each_call_is_named() {
    let test = "everything_runs_where_placing_is_denied_and_each_call_is_named";
    let Some(_) = need_nodes(2) else { return };
    if !is_child(test) {
        return in_child(test);
    }
    let _dog = watchdog(120);
    deny(&[libc::SYS_mbind, libc::SYS_set_mempolicy, libc::SYS_move_pages, libc::SYS_sched_setaffinity]);
    let runtime = Runtime::builder().workers_per_node(2).build().unwrap();
    right_results(&runtime);
    let warnings = crate::warnings(&runtime);
    // set_mempolicy and move_pages are not called by the runtime, so nobody misses them.
    for call in ["mbind", "sched_setaffinity"] {
        let naming: Vec<_> = warnings.iter().filter(|text| text.contains(&format!("{call}:"))).collect();
        assert!(!naming.is_empty(), "{call}: {warnings:?}");
        assert!(naming.iter().all(|text| text.contains("seccomp")), "{naming:?}");
    }
    note(&format!("{} warnings, the first: {}", warnings.len(), warnings[0]));
}

#[test]
fn each_denied_call_is_named_alone() {
    let test = "each_denied_call_is_named_alone";
    let Some(_) = need_nodes(2) else { return };
    if !is_child(test) {
        return in_child(test);
    }
    let _dog = watchdog(120);
    deny(&[libc::SYS_mbind]);
    let runtime = Runtime::builder().workers_per_node(2).build().unwrap();
    right_results(&runtime);
    let warnings = crate::warnings(&runtime);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("mbind:"), "{warnings:?}");
    drop(runtime);
    // A filter can only become stricter: now the workers are unbound too.
    deny(&[libc::SYS_sched_setaffinity]);
    let runtime = Runtime::builder().workers_per_node(2).build().unwrap();
    right_results(&runtime);
    let warnings = crate::warnings(&runtime);
    let unbound = warnings.iter().filter(|text| text.contains("sched_setaffinity:")).count();
    assert_eq!(unbound, runtime.nodes().len(), "{warnings:?}");
}

/// Without membarrier no split can be forced: every push is published instead.
#[test]
fn without_membarrier_it_says_so() {
    let test = "without_membarrier_it_says_so";
    let Some(_) = need_nodes(2) else { return };
    if !is_child(test) {
        return in_child(test);
    }
    let _dog = watchdog(120);
    deny(&[libc::SYS_membarrier]);
    let runtime = Runtime::builder().workers_per_node(2).build().unwrap();
    right_results(&runtime);
    let warnings = crate::warnings(&runtime);
    assert!(warnings.len() == 1 && warnings[0].contains("membarrier"), "{warnings:?}");
}
