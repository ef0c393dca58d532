//! hwloc and sysfs describe the same machines in the same way.
#![cfg(feature = "hwloc")]

mod recorded;

use numart_alloc::topology::{Source, Topology};
use recorded::{TREES, unpack};
use std::path::Path;
use std::process::Command;

#[test]
fn both_sources_agree_on_this_machine() {
    let sysfs = Topology::this_machine().unwrap();
    let hwloc = Topology::from_hwloc().unwrap();
    assert_eq!(hwloc.source(), Source::Hwloc);
    assert!(!hwloc.is_mock());
    assert_eq!(steady(&hwloc.to_text()), steady(&sysfs.to_text()));
    assert_eq!(hwloc.cpu_quota(), sysfs.cpu_quota());
    assert_eq!(hwloc.default_workers(), sysfs.default_workers());
    for (a, b) in hwloc.nodes().iter().zip(sysfs.nodes()) {
        assert_eq!(a.allowed_cpus(), b.allowed_cpus());
        assert_eq!(a.memory_allowed(), b.memory_allowed());
    }
}

/// The text without memory sizes: a virtual machine's may change between two
/// readings. The recorded trees compare them.
fn steady(text: &str) -> Vec<&str> {
    text.lines().map(|l| l.split(" memory").next().unwrap()).collect()
}

/// hwloc takes the root of a recorded tree from its environment only. Changing
/// our own would race with the other tests, so a child process reads the tree.
fn read_with_hwloc(root: &Path) -> Result<String, String> {
    run_child(&[
        ("HWLOC_FSROOT", root.to_str().unwrap()),
        ("HWLOC_THISSYSTEM", "0"),
        // Else hwloc asks the CPUs it runs on and mixes in their caches.
        ("HWLOC_COMPONENTS", "-x86"),
        // hwloc would hide them; the kernel and the sysfs reader show them.
        ("HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES", "1"),
    ])
}

fn run_child(variables: &[(&str, &str)]) -> Result<String, String> {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_reads_a_recorded_tree", "--ignored", "--nocapture"])
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let out = String::from_utf8(child.stdout).unwrap();
    match out.split_once("BEGIN\n").and_then(|(_, rest)| rest.split_once("END\n")) {
        Some((text, _)) if child.status.success() => Ok(text.to_owned()),
        _ => Err(format!("{out}{}", String::from_utf8_lossy(&child.stderr))),
    }
}

#[test]
#[ignore = "runs as a child of the other tests"]
fn child_reads_a_recorded_tree() {
    let topology = Topology::from_hwloc().unwrap();
    assert!(topology.is_mock(), "a recorded tree is not this machine");
    print!("\nBEGIN\n{}END\n", topology.to_text());
}

/// The lines in which the sources differ, and why.
fn explained(tree: &str, line: &str) -> bool {
    match tree {
        // AMD "Bulldozer": two cores share a front end, an FPU and an L2. The
        // kernel calls them thread siblings, and so do we: two workers there do
        // slow each other. hwloc counts two cores, since each has a core id.
        "64amd64-4s2n4ca2co" => line.starts_with("core "),
        _ => false,
    }
}

#[test]
fn both_sources_agree_on_the_recorded_trees() {
    for tree in TREES {
        let (_folder, root) = unpack(tree);
        let sysfs = Topology::from_sysfs(&root).unwrap().to_text();
        let hwloc = read_with_hwloc(&root).unwrap_or_else(|e| panic!("{tree}: {e}"));
        let unexplained = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !explained(tree, line));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(unexplained(&hwloc), unexplained(&sysfs), "{tree}");
    }
}

#[test]
fn a_machine_that_hwloc_makes_up_has_mock_nodes() {
    let text = run_child(&[("HWLOC_SYNTHETIC", "numa:4 core:2 pu:2")]).unwrap();
    let nodes = text.lines().filter(|line| line.starts_with("node "));
    let cpus: Vec<&str> = nodes.filter_map(|n| n.split(' ').nth(3)).collect();
    assert_eq!(cpus, ["0-3", "4-7", "8-11", "12-15"]);
    assert!(text.contains("core 14-15\n"), "{text}");
}

#[test]
fn hwloc_hides_gpu_memory_unless_asked() {
    let (_folder, root) = unpack("nvidiagpunumanodes");
    let text =
        run_child(&[("HWLOC_FSROOT", root.to_str().unwrap()), ("HWLOC_THISSYSTEM", "0"), ("HWLOC_COMPONENTS", "-x86")]);
    let text = text.unwrap();
    let nodes = text.lines().filter(|line| line.starts_with("node "));
    assert_eq!(nodes.count(), 2, "{text}");
}
