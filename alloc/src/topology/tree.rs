//! Reading the small text files of `/sys` and `/proc`, or of a recorded copy.

use super::CpuSet;
use super::list;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A folder that holds `sys` and perhaps `proc`: `/`, or a recorded copy.
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(super) fn new(root: &Path) -> Self {
        let root = root.to_owned();
        Self { root }
    }

    /// The file system path of a path in the tree, with or without a leading
    /// slash.
    pub(super) fn path(&self, rel: &str) -> PathBuf {
        self.root.join(rel.trim_start_matches('/'))
    }

    /// The text of a file, `None` if there is none that can be read. Which of
    /// the two never matters: either way the reader goes on without it.
    pub(super) fn read(&self, rel: &str) -> Option<String> {
        read_text(&self.path(rel)).ok()
    }

    /// The set in a list file. `None` if it is missing, empty or malformed.
    pub(super) fn list(&self, rel: &str) -> Option<CpuSet> {
        let text = self.read(rel)?;
        (!text.is_empty()).then(|| CpuSet::parse_list(&text).ok())?
    }

    /// The set in a list file or, failing that, in a mask file (all that
    /// kernels before 2.6.29 show).
    pub(super) fn list_or_mask(&self, list: &str, mask: &str) -> Option<CpuSet> {
        self.list(list).or_else(|| CpuSet::parse_mask(&self.read(mask)?).ok())
    }

    /// The numbers N of all entries `{prefix}N` of a folder, ascending.
    pub(super) fn numbered(&self, folder: &str, prefix: &str) -> Vec<u32> {
        let Ok(entries) = std::fs::read_dir(self.path(folder)) else {
            return Vec::new();
        };
        let mut numbers: Vec<u32> = entries
            .filter_map(|e| list::number(e.ok()?.file_name().to_str()?.strip_prefix(prefix)?))
            .filter(|&n| n < list::MAX_NUMBER)
            .collect();
        numbers.sort_unstable();
        // "cpu1" and "cpu01" would be two entries of one number.
        numbers.dedup();
        numbers
    }
}

/// Reads a text file without its trailing blanks. Some recorded trees pad their
/// files with NUL bytes, and no file read here is near the limit of 1 MiB.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    const MOST: u64 = 1 << 20;
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.trim_matches(['\0', ' ', '\n', '\t', '\r']).to_owned())
}
