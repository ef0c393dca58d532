//! Trees that tests write themselves.

use super::tree::Tree;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that stands for `/`, deleted at the end of the test.
pub(super) struct FakeTree(PathBuf);

impl FakeTree {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("numart-fake-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A machine whose nodes have these CPUs, every one 1 GiB, all alike far.
    pub(super) fn machine(nodes: &[(u32, &str)]) -> Self {
        let tree = Self::new();
        let cpus: Vec<&str> = nodes.iter().map(|n| n.1).filter(|c| !c.is_empty()).collect();
        tree.file("sys/devices/system/cpu/online", &cpus.join(","));
        for (i, (id, cpus)) in nodes.iter().enumerate() {
            let row: Vec<&str> = (0..nodes.len()).map(|j| if i == j { "10" } else { "30" }).collect();
            tree.node(*id, "cpulist", cpus);
            tree.node(*id, "distance", &row.join(" "));
            tree.node(*id, "meminfo", &format!("Node {id} MemTotal:  1048576 kB\n"));
        }
        tree
    }

    pub(super) fn node(&self, id: u32, file: &str, text: &str) {
        self.file(&format!("sys/devices/system/node/node{id}/{file}"), text);
    }

    pub(super) fn cpu(&self, id: u32, file: &str, text: &str) {
        self.file(&format!("sys/devices/system/cpu/cpu{id}/{file}"), text);
    }

    /// Writes a file, and the folders above it.
    pub(super) fn file(&self, rel: &str, text: &str) {
        let path = self.0.join(rel);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(super) fn remove(&self, rel: &str) {
        std::fs::remove_file(self.0.join(rel)).unwrap();
    }

    pub(super) fn root(&self) -> &Path {
        &self.0
    }

    pub(super) fn tree(&self) -> Tree {
        Tree::new(&self.0)
    }
}

impl Drop for FakeTree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
