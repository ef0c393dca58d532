//! The answer: how often each word occurs, and what became of the files.

use crate::map::{WordMap, hash};
use std::io;
use std::ops::AddAssign;
use std::path::Path;

/// Maps in one [`Words`].
const SHARDS: usize = 64;

/// How often each word occurs.
pub struct Words {
    /// Words by their hash, so that threads rarely meet at one map.
    pub shards: Vec<WordMap>,
}

impl Words {
    /// No words.
    pub fn new() -> Words {
        Words { shards: (0..SHARDS).map(|_| WordMap::default()).collect() }
    }

    /// Counts a word once more.
    #[inline]
    pub fn add(&mut self, word: &[u8]) {
        let hash = hash(word);
        // The maps use the low bits.
        self.shards[(hash >> 32) as usize % SHARDS].add(hash, word, 1);
    }

    /// Number of different words.
    pub fn len(&self) -> usize {
        self.shards.iter().map(WordMap::len).sum()
    }

    /// The most frequent words with their counts, in alphabetical order where counts are equal.
    pub fn top(&self, n: usize) -> Vec<(&[u8], u64)> {
        let mut top: Vec<(&[u8], u64)> = Vec::new();
        for (_, word, count) in self.shards.iter().flat_map(WordMap::iter) {
            let at = top.partition_point(|&(other, more)| (count, other) < (more, word));
            if at < n {
                top.truncate(n - 1);
                top.insert(at, (word, count));
            }
        }
        top
    }

    /// Words that were not counted equally often, at most `n` of them, with both counts.
    pub fn differences(&self, other: &Words, n: usize) -> Vec<(String, u64, u64)> {
        let compare = |a: &'_ Words, b: &'_ Words, found: &mut Vec<(String, u64, u64)>, swap: bool| {
            for (a, b) in a.shards.iter().zip(&b.shards) {
                for (hash, word, count) in a.iter() {
                    let other = b.get(hash, word);
                    // Words that both have are found in the first direction already.
                    if other != count && !(swap && other > 0) && found.len() < n {
                        let (ours, theirs) = if swap { (other, count) } else { (count, other) };
                        found.push((String::from_utf8_lossy(word).into_owned(), ours, theirs));
                    }
                }
            }
        };
        let mut found = Vec::new();
        compare(self, other, &mut found, false);
        compare(other, self, &mut found, true);
        found
    }
}

/// What became of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Text files that were counted.
    pub texts: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their words.
    pub words: u64,
    /// Files that were skipped because of a NUL byte.
    pub binary: u64,
    /// Files and folders that could not be read.
    pub unreadable: u64,
    /// One of them, with the reason.
    pub example: Option<String>,
    /// Folders that were listed.
    pub folders: u64,
    /// Symbolic links, which were not followed.
    pub links: u64,
    /// Sockets, pipes and devices.
    pub special: u64,
}

impl Files {
    /// Counts a file or folder that could not be read.
    pub fn unreadable(&mut self, path: &Path, error: &io::Error) {
        self.unreadable += 1;
        self.example.get_or_insert_with(|| format!("{}: {error}", path.display()));
    }
}

impl AddAssign for Files {
    fn add_assign(&mut self, other: Files) {
        self.texts += other.texts;
        self.bytes += other.bytes;
        self.words += other.words;
        self.binary += other.binary;
        self.unreadable += other.unreadable;
        self.example = self.example.take().or(other.example);
        self.folders += other.folders;
        self.links += other.links;
        self.special += other.special;
    }
}

/// The answer.
pub struct Counted {
    /// How often each word occurs.
    pub words: Words,
    /// What became of the files.
    pub files: Files,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_is_ordered_by_count_and_then_by_word() {
        let mut words = Words::new();
        for word in ["b", "c", "a", "c", "d", "a", "b", "e", "e", "e"] {
            words.add(word.as_bytes());
        }
        let top = words.top(3);
        assert_eq!(top, [(&b"e"[..], 3), (&b"a"[..], 2), (&b"b"[..], 2)]);
        assert_eq!(words.top(9).len(), 5);
    }

    #[test]
    fn differences_are_found_in_both_directions() {
        let (mut ours, mut theirs) = (Words::new(), Words::new());
        for word in ["same", "ours", "more", "more"] {
            ours.add(word.as_bytes());
        }
        for word in ["same", "theirs", "more"] {
            theirs.add(word.as_bytes());
        }
        let mut found = ours.differences(&theirs, 9);
        found.sort();
        let expected = [("more", 2, 1), ("ours", 1, 0), ("theirs", 0, 1)];
        assert_eq!(found, expected.map(|(word, ours, theirs)| (word.to_owned(), ours, theirs)));
        assert_eq!(ours.differences(&theirs, 1).len(), 1);
    }
}
