//! Which source to ask.

use super::assemble::{Draft, DraftNode};
use super::limits::Limits;
use super::tree::{Tree, read_text};
use super::{CpuId, CpuSet, NodeId, Source, Topology, TopologyError, sysfs, text};
use crate::sys;
use std::path::Path;

const VARIABLE: &str = "NUMART_TOPOLOGY";

impl Topology {
    /// The topology the user asked for with `NUMART_TOPOLOGY`, or this machine.
    ///
    /// | value | meaning |
    /// |---|---|
    /// | not set | [`Topology::this_machine`] |
    /// | `4x2` | mock nodes: nodes x CPUs |
    /// | several lines | mock nodes, in the text form of [`Topology::parse`] |
    /// | path of a file | mock nodes: the file holds the text form |
    /// | path of a folder | mock nodes: the folder holds a recorded `sys` |
    /// | `sysfs`, `hwloc` | this machine, from that source |
    ///
    /// Cost: reading this machine takes one small file or more per CPU, a
    /// millisecond on small machines and some 100 ms on the largest.
    ///
    /// # Errors
    ///
    /// [`TopologyError::InVariable`] if the value cannot be used, else what the
    /// source says.
    ///
    /// ```no_run
    /// let topology = numart_alloc::topology::Topology::detect()?;
    /// for warning in topology.warnings() {
    ///     eprintln!("{warning}");
    /// }
    /// # Ok::<(), numart_alloc::topology::TopologyError>(())
    /// ```
    pub fn detect() -> Result<Topology, TopologyError> {
        match std::env::var_os(VARIABLE) {
            None => Self::this_machine(),
            Some(value) => {
                let value = value.to_string_lossy();
                Self::from_value(&value).map_err(|source| TopologyError::InVariable {
                    value: value.clone().into_owned(),
                    source: Box::new(source),
                })
            }
        }
    }

    fn from_value(value: &str) -> Result<Topology, TopologyError> {
        let value = value.trim();
        match value {
            "" => return Err(TopologyError::Empty),
            "sysfs" => return this_machine_sysfs(),
            "hwloc" => return this_machine_hwloc(),
            _ => {}
        }
        if text::is_shape(value) || value.contains('\n') || value.starts_with("node ") {
            return Self::parse(value);
        }
        let path = Path::new(value);
        if path.is_dir() {
            return Self::from_sysfs(path);
        }
        let bad = |why: String| TopologyError::File { path: path.to_owned(), why };
        // Opening a pipe waits for somebody to write into it.
        if path.metadata().is_ok_and(|there| !there.is_file()) {
            return Err(bad("it is neither a regular file nor a folder".into()));
        }
        let file = read_text(path).map_err(|e| bad(e.to_string()))?;
        Self::parse(&file).map_err(|source| TopologyError::InFile { path: path.to_owned(), source: Box::new(source) })
    }

    /// This machine and what this process may use of it, whatever
    /// `NUMART_TOPOLOGY` says.
    ///
    /// On Linux it is read from `/sys`. Elsewhere, and where `/sys` is missing,
    /// hwloc is asked if the feature is on; else the result is one node with the
    /// right CPU count, [`Source::Fallback`] and a warning.
    ///
    /// What the process may use is the affinity mask of the calling thread
    /// (which lies within the cpuset), `Mems_allowed_list`, and the CPU quota of
    /// its control groups.
    ///
    /// # Errors
    ///
    /// [`TopologyError::NothingAllowed`] if the mask leaves no CPU of any node.
    ///
    /// ```
    /// use numart_alloc::topology::Topology;
    ///
    /// let machine = Topology::this_machine()?;
    /// assert!(!machine.is_mock());
    /// println!("{} workers", machine.default_workers());
    /// # Ok::<(), numart_alloc::topology::TopologyError>(())
    /// ```
    pub fn this_machine() -> Result<Topology, TopologyError> {
        match this_machine_sysfs() {
            Err(TopologyError::NoTree { .. }) => {}
            result => return result,
        }
        #[cfg(feature = "hwloc")]
        if let Ok(topology) = Self::from_hwloc() {
            return Ok(topology);
        }
        fallback()
    }

    /// A machine whose `/sys` was recorded: `root` holds a folder `sys` and
    /// perhaps `proc`. Everything that is online is allowed, there is no quota,
    /// and the nodes are mock nodes.
    ///
    /// A malformed file in the tree costs a warning and a default.
    ///
    /// # Errors
    ///
    /// [`TopologyError::NoTree`] if the folder holds neither nodes nor CPUs,
    /// [`TopologyError::NoCpus`] if none is online.
    ///
    /// ```no_run
    /// # use numart_alloc::topology::Topology;
    /// let recorded = Topology::from_sysfs("tests/data/big-machine".as_ref())?;
    /// println!("{recorded}");
    /// # Ok::<(), numart_alloc::topology::TopologyError>(())
    /// ```
    pub fn from_sysfs(root: &Path) -> Result<Topology, TopologyError> {
        sysfs::read(&Tree::new(root), true)?.finish(Limits::default())
    }
}

fn this_machine_sysfs() -> Result<Topology, TopologyError> {
    if !cfg!(any(target_os = "linux", target_os = "android")) {
        // Another system may well have a folder of that name.
        let path = "/sys/devices/system".into();
        return Err(TopologyError::NoTree { path });
    }
    let tree = Tree::new(Path::new("/"));
    let draft = sysfs::read(&tree, false)?;
    let limits = process_limits(&tree, &draft.online);
    draft.finish(limits)
}

/// The limits of this process on this machine.
pub(super) fn process_limits(tree: &Tree, online: &CpuSet) -> Limits {
    match sys::current_thread_affinity() {
        Ok(mask) => Limits::of_process(tree, Some(mask), online),
        Err(error) => {
            let mut limits = Limits::of_process(tree, None, online);
            limits.warnings.push(error.to_string());
            limits
        }
    }
}

#[cfg(feature = "hwloc")]
fn this_machine_hwloc() -> Result<Topology, TopologyError> {
    Topology::from_hwloc()
}

#[cfg(not(feature = "hwloc"))]
fn this_machine_hwloc() -> Result<Topology, TopologyError> {
    Err(TopologyError::HwlocNotBuilt)
}

/// One node with the right CPU count.
fn fallback() -> Result<Topology, TopologyError> {
    // The mask has the right numbers where it can be read; the count from the
    // standard library already takes quotas into account.
    let cpus = sys::current_thread_affinity().unwrap_or_else(|_| {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        (0..count as u32).map(CpuId).collect()
    });
    let mut draft = Draft::new(Source::Fallback, false);
    draft.warnings.push(format!(
        "the nodes of this machine cannot be read (no /sys/devices/system): going on with one node of {} CPUs; \
         describe the machine in {VARIABLE} to see more",
        cpus.len()
    ));
    draft.online = cpus.clone();
    let memory = 0;
    draft.nodes.insert(NodeId(0), DraftNode { cpus, memory });
    let tree = Tree::new(Path::new("/"));
    let limits = if cfg!(any(target_os = "linux", target_os = "android")) {
        process_limits(&tree, &draft.online)
    } else {
        Limits::default()
    };
    draft.finish(limits)
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeTree;
    use super::*;

    #[test]
    fn a_value_is_a_shape_a_text_a_file_or_a_folder() {
        let tree = FakeTree::machine(&[(0, "0-3"), (7, "4-7")]);
        tree.file("mine.txt", "node 3 cpus 0-1\nnode 4 cpus 2\n");
        let file = tree.root().join("mine.txt").display().to_string();
        let folder = tree.root().display().to_string();
        for (value, source, nodes) in [
            (" 4x2 ", Source::Written, 4),
            ("node 0 cpus 0-3", Source::Written, 1),
            ("# mine\nnode 0 cpus 0\nnode 1 cpus 1", Source::Written, 2),
            (&file, Source::Written, 2),
            (&folder, Source::Sysfs, 2),
        ] {
            let topology = Topology::from_value(value).unwrap();
            assert!(topology.is_mock(), "{value}");
            assert_eq!((topology.source(), topology.nodes().len()), (source, nodes));
        }
    }

    #[test]
    fn bad_values_are_typed_errors() {
        let tree = FakeTree::new();
        tree.file("bad.txt", "node 0 cpus 0\nnode 0 cpus 1\n");
        let value = |name: &str| tree.root().join(name).display().to_string();
        let error = |value: &str| Topology::from_value(value).unwrap_err();
        assert_eq!(error("  "), TopologyError::Empty);
        assert_eq!(error("0x4"), TopologyError::NoNodes);
        assert!(matches!(error("4xtwo"), TopologyError::File { .. }));
        let missing = error(&value("missing.txt"));
        assert!(missing.to_string().contains("missing.txt"), "{missing}");
        let bad = error(&value("bad.txt"));
        assert!(matches!(bad, TopologyError::InFile { .. }));
        assert!(bad.to_string().contains("line 2: node 0"), "{bad}");
        assert!(matches!(error(&value("")), TopologyError::NoTree { .. }));
    }

    #[cfg(all(not(feature = "hwloc"), target_os = "linux"))]
    #[test]
    fn a_source_can_be_asked_for_by_name() {
        let hwloc = Topology::from_value("hwloc").unwrap_err();
        assert_eq!(hwloc, TopologyError::HwlocNotBuilt);
        let sysfs = Topology::from_value("sysfs").unwrap();
        assert_eq!((sysfs.source(), sysfs.is_mock()), (Source::Sysfs, false));
    }

    #[test]
    fn without_sysfs_there_is_one_node_with_the_right_cpu_count() {
        let topology = fallback().unwrap();
        assert_eq!(topology.source(), Source::Fallback);
        assert!(!topology.is_mock());
        let [node] = topology.nodes() else {
            panic!("{topology}");
        };
        let count = std::thread::available_parallelism().unwrap().get();
        // The count takes quotas into account, the mask does not.
        assert!(node.cpus().len() >= count);
        assert_eq!(topology.default_workers(), count);
        assert!(topology.warnings()[0].contains("one node"));
    }
}
