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

    fn warn_of_narrow_thread(
        &mut self,
        mask: Option<&CpuSet>,
        listed: Option<&CpuSet>,
        online: &CpuSet,
    ) {
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
