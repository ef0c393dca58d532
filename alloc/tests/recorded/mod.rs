//! The recorded trees in `tests/data`, unpacked into a folder of their own.
//!
//! They come from hwloc's test suite (`tests/hwloc/linux`), as does their
//! licence, `tests/data/LICENSE.hwloc`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Every recorded tree.
pub const TREES: [&str; 9] = [
    "128ia64-17n4s2c",
    "16amd64-8n2c",
    "48amd64-4pa2n6c-sparse",
    "64amd64-4s2n4ca2co",
    "8em64t-2s2ca2c",
    "96em64t-4no4pa3ca2co",
    "fakeheteromemtiers",
    "nvidiagpunumanodes",
    "offline-cpu0-node0",
];

/// The folder `tests/data`.
pub fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// A folder that is deleted when the test ends, passed or failed.
pub struct Folder(PathBuf);

impl Folder {
    /// A new, empty folder.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("numart-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Unpacks a tree. The root is below the folder; the archive names it, not
/// always as itself.
pub fn unpack(tree: &str) -> (Folder, PathBuf) {
    let folder = Folder::new();
    let archive = fs::File::open(data().join(format!("{tree}.tar.bz2"))).unwrap();
    tar::Archive::new(bzip2::read::BzDecoder::new(archive)).unpack(&folder.0).unwrap();
    let mut roots = fs::read_dir(&folder.0).unwrap();
    let root = roots.next().unwrap().unwrap().path();
    assert!(roots.next().is_none(), "{tree} has one root");
    (folder, root)
}
