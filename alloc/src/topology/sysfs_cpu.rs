//! CPUs, cores and L3 groups from `/sys/devices/system/cpu`.
//!
//! See the kernel's `Documentation/admin-guide/cputopology.rst` and
//! `Documentation/ABI/testing/sysfs-devices-system-cpu`.

use super::assemble::Draft;
use super::tree::Tree;
use super::{CpuId, CpuSet};

/// The online CPUs; empty if the tree does not say.
pub(super) fn online(tree: &Tree, cpus: &str, warnings: &mut Vec<String>) -> CpuSet {
    if let Some(online) = tree.list(&format!("{cpus}/online")) {
        return online;
    }
    // Kernels before 2.6.26 have no such list, but a file for each CPU that can
    // be taken offline.
    let mut online = CpuSet::new();
    let mut unsure = CpuSet::new();
    for number in tree.numbered(cpus, "cpu") {
        let state = tree.read(&format!("{cpus}/cpu{number}/online"));
        match state.as_deref() {
            Some("0") => continue,
            Some("1") | None => {}
            Some(_) => _ = unsure.insert(CpuId(number)),
        }
        online.insert(CpuId(number));
    }
    if !unsure.is_empty() {
        warnings.push(format!(
            "whether CPUs {unsure} are online cannot be read (/{cpus}/cpuN/online): taking them as online"
        ));
    }
    online
}

/// Finds which CPUs share a core and which share an L3 cache. A CPU that an
/// earlier one named is not asked itself: that saves most of the files, which
/// on 1,024 CPUs are some ten thousand.
pub(super) fn groups(tree: &Tree, cpus: &str, draft: &mut Draft) {
    let mut in_core = CpuSet::new();
    let mut in_l3 = CpuSet::new();
    for cpu in draft.online.iter() {
        if !in_core.contains(cpu)
            && let Some(core) = core(tree, cpus, cpu)
        {
            in_core.extend(core.iter());
            draft.cores.push(core);
        }
        if !in_l3.contains(cpu)
            && let Some(l3) = l3(tree, cpus, cpu)
        {
            in_l3.extend(l3.iter());
            draft.l3s.push(l3);
        }
    }
}

/// The CPUs of the same core. `core_cpus` replaced `thread_siblings` in
/// Linux 5.2; both mean the same.
fn core(tree: &Tree, cpus: &str, cpu: CpuId) -> Option<CpuSet> {
    ["core_cpus", "thread_siblings"].iter().find_map(|name| {
        let mask = format!("{cpus}/cpu{cpu}/topology/{name}");
        let core = tree.list_or_mask(&format!("{mask}_list"), &mask)?;
        core.contains(cpu).then_some(core)
    })
}

/// The CPUs that share the L3 cache, or the highest cache below it.
fn l3(tree: &Tree, cpus: &str, cpu: CpuId) -> Option<CpuSet> {
    let folder = format!("{cpus}/cpu{cpu}/cache");
    let shown = tree.numbered(&folder, "index").into_iter();
    let mut caches: Vec<(u32, String)> = shown
        .filter_map(|index| {
            let cache = format!("{folder}/index{index}");
            let level = tree.read(&format!("{cache}/level"))?.parse().ok()?;
            Some((level, cache))
        })
        .filter(|&(level, _)| level <= 3)
        .collect();
    caches.sort_by_key(|&(level, _)| std::cmp::Reverse(level));
    caches.iter().find_map(|(_, cache)| {
        if tree.read(&format!("{cache}/type")).as_deref() == Some("Instruction") {
            return None;
        }
        let map = format!("{cache}/shared_cpu_map");
        let shared = tree.list_or_mask(&format!("{cache}/shared_cpu_list"), &map)?;
        shared.contains(cpu).then_some(shared)
    })
}
