//! What this process may use of the machine.

use super::tree::Tree;
use super::{CpuSet, NodeId, cgroup, list};
use std::collections::BTreeSet;

/// `None` means no limit. The default is a machine all to oneself.
#[derive(Default)]
pub(super) struct Limits {
    pub(super) cpus: Option<CpuSet>,
    pub(super) mems: Option<BTreeSet<NodeId>>,
    pub(super) quota: Option<f64>,
    pub(super) warnings: Vec<String>,
}

impl Limits {
    /// The limits of this process.
    ///
    /// `mask` is the affinity of the calling thread, if the kernel gave it. It
    /// is what threads started from here inherit, and it lies within the
    /// cpuset, so it decides; `Cpus_allowed_list` describes the main thread and
    /// stands in only where the mask was refused.
    pub(super) fn of_process(tree: &Tree, mask: Option<CpuSet>, online: &CpuSet) -> Self {
        let mut limits = Self::default();
        let status = tree.read("proc/self/status").unwrap_or_default();
        let listed = field(&status, "Cpus_allowed_list").and_then(|l| CpuSet::parse_list(l).ok());
        limits.warn_of_narrow_thread(mask.as_ref(), listed.as_ref(), online);
        limits.cpus = mask.or(listed);
        if limits.cpus.is_none() {
            limits.warnings.push(
                "neither the affinity mask nor Cpus_allowed_list in /proc/self/status can be \
                 read: taking all online CPUs as allowed; name the CPUs yourself if that is wrong"
                    .to_owned(),
            );
        }
        limits.mems = field(&status, "Mems_allowed_list").and_then(node_set);
        limits.quota = cgroup::quota(tree, &mut limits.warnings);
        limits
    }

    fn warn_of_narrow_thread(&mut self, mask: Option<&CpuSet>, listed: Option<&CpuSet>, online: &CpuSet) {
        let (Some(mask), Some(listed)) = (mask, listed) else {
            return;
        };
        // The list names offline CPUs too, the mask never does.
        let unused = listed.intersection(online).difference(mask);
        if !unused.is_empty() {
            self.warnings.push(format!(
                "the calling thread is bound to CPUs {mask}, so CPUs {unused} of this process \
                 stay unused: start the runtime from an unbound thread to use them"
            ));
        }
    }
}

/// The value of a line `name:  value` of `/proc/self/status`.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| {
        let value = line.strip_prefix(name)?.strip_prefix(':')?.trim();
        (!value.is_empty()).then_some(value)
    })
}

fn node_set(text: &str) -> Option<BTreeSet<NodeId>> {
    let mut nodes = BTreeSet::new();
    list::ranges(text, |from, to| nodes.extend((from..=to).map(NodeId))).ok()?;
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeTree;
    use super::super::{CpuId, Topology, TopologyError, sysfs};
    use super::*;

    fn list(text: &str) -> CpuSet {
        CpuSet::parse_list(text).unwrap()
    }

    fn status(cpus: &str, mems: &str) -> String {
        format!("Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{mems}\n")
    }

    /// As `this_machine` does it, on a fake machine.
    fn read(tree: &FakeTree, mask: Option<&str>) -> Result<Topology, TopologyError> {
        let draft = sysfs::read(&tree.tree(), false)?;
        let limits = Limits::of_process(&tree.tree(), mask.map(list), &draft.online);
        draft.finish(limits)
    }

    #[test]
    fn a_mask_that_excludes_a_node_leaves_it_listed_and_says_so() {
        let tree = FakeTree::machine(&[(0, "0-3"), (1, "4-7"), (2, "")]);
        tree.file("proc/self/status", &status("0-2", "0-2"));
        let topology = read(&tree, Some("0-2")).unwrap();
        assert_eq!(topology.nodes().len(), 3);
        let compute: Vec<NodeId> = topology.compute_nodes().map(|n| n.id()).collect();
        assert_eq!(compute, [NodeId(0)]);
        let excluded = topology.node(NodeId(1)).unwrap();
        assert_eq!(excluded.cpus(), &list("4-7"));
        assert!(excluded.allowed_cpus().is_empty());
        assert!(!excluded.is_memory_only(), "excluded is not memory-only");
        assert!(!topology.cpu(CpuId(3)).unwrap().allowed);
        assert_eq!(topology.default_workers(), 3);
        let [warning] = topology.warnings() else {
            panic!("{:?}", topology.warnings());
        };
        assert!(warning.starts_with("node 1 (CPUs 4-7) is excluded"), "{warning}");
        assert!(topology.to_string().contains("excluded"));
    }

    #[test]
    fn a_mask_that_excludes_everything_is_an_error() {
        let tree = FakeTree::machine(&[(0, "0-3")]);
        let error = read(&tree, Some("8-9")).unwrap_err();
        let expected = TopologyError::NothingAllowed { allowed: list("8-9"), cpus: list("0-3") };
        assert_eq!(error, expected);
        assert!(error.to_string().contains("taskset"), "{error}");
    }

    #[test]
    fn the_status_file_stands_in_for_a_refused_mask() {
        let tree = FakeTree::machine(&[(0, "0-3"), (1, "4-7")]);
        tree.file("proc/self/status", &status("2-5", "0-1"));
        let topology = read(&tree, None).unwrap();
        assert_eq!(topology.default_workers(), 4);
        assert_eq!(topology.warnings(), [""; 0]);
    }

    #[test]
    fn without_mask_and_status_everything_is_allowed_and_it_says_so() {
        let tree = FakeTree::machine(&[(0, "0-3")]);
        for text in ["", "Cpus_allowed_list:\tbanana\nMems_allowed_list:\tx-y\n"] {
            tree.file("proc/self/status", text);
            let topology = read(&tree, None).unwrap();
            assert_eq!(topology.default_workers(), 4);
            assert!(topology.node(NodeId(0)).unwrap().memory_allowed());
            assert_eq!(topology.warnings().len(), 1, "{:?}", topology.warnings());
        }
    }

    #[test]
    fn memory_can_be_excluded_on_its_own() {
        let tree = FakeTree::machine(&[(0, "0-3"), (33, "4-7")]);
        tree.file("proc/self/status", &status("0-7", "33"));
        let topology = read(&tree, Some("0-7")).unwrap();
        assert!(!topology.node(NodeId(0)).unwrap().memory_allowed());
        assert!(topology.node(NodeId(33)).unwrap().memory_allowed());
        assert_eq!(topology.compute_nodes().count(), 2);
        let [warning] = topology.warnings() else {
            panic!("{:?}", topology.warnings());
        };
        assert!(warning.contains("memory of node 0"), "{warning}");
    }

    #[test]
    fn a_bound_thread_in_a_wider_process_is_named() {
        let tree = FakeTree::machine(&[(0, "0-3")]);
        // The list names CPUs that could come online; only 0-3 are.
        tree.file("proc/self/status", &status("0-63", "0"));
        let topology = read(&tree, Some("1")).unwrap();
        assert_eq!(topology.default_workers(), 1);
        let [warning] = topology.warnings() else {
            panic!("{:?}", topology.warnings());
        };
        assert!(warning.contains("CPUs 0,2-3 of this process"), "{warning}");
    }

    #[test]
    fn workers_follow_the_quota_rounded_up() {
        for (max, workers) in [("150000", 2), ("200000", 2), ("1000", 1), ("99900000", 4), ("max", 4)] {
            let tree = FakeTree::machine(&[(0, "0-1"), (1, "2-3")]);
            tree.file("proc/self/cgroup", "0::/a");
            tree.file("proc/self/mountinfo", "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
            tree.file("sys/fs/cgroup/a/cpu.max", &format!("{max} 100000"));
            let topology = read(&tree, Some("0-3")).unwrap();
            assert_eq!(topology.default_workers(), workers, "{max}");
        }
    }
}
