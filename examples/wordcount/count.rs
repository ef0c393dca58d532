//! Counting the words of files, on many threads, in bounded memory.
//!
//! Each thread that counts takes a [`Local`] out of a shelf: a buffer for one part of one file, and a small map. When the
//! small map has [`LOCAL_WORDS`] words, they go into the common maps. So memory holds each different word once, and a few
//! megabytes for each thread, whatever the size of the files.

use crate::map::{WordMap, hash};
use crate::walk::{Found, InOrder, Parallel, walk};
use crate::words::{AFTER, BEFORE, words};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A file longer than this is counted in parts of this size, on as many threads as there are.
const PART: usize = 1 << 20;
/// How a file is read when it is counted front to back. Not a divisor of [`PART`]: the check cuts the texts elsewhere.
const WINDOW: usize = 300_000;
/// A file with a NUL byte in so many first bytes is binary.
const LOOKED_AT: usize = 8 << 10;
/// Different words a thread counts by itself: as many as its cache holds.
const LOCAL_WORDS: usize = 16 << 10;
/// The maps are split by the hash, so that threads rarely meet at one.
const SHARDS: usize = 64;

/// How often each word occurs.
pub struct Words {
    shards: Vec<WordMap>,
}

impl Words {
    fn new() -> Words {
        Words {
            shards: (0..SHARDS).map(|_| WordMap::default()).collect(),
        }
    }

    #[inline]
    fn add(&mut self, word: &[u8]) {
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
        let compare =
            |a: &'_ Words, b: &'_ Words, found: &mut Vec<(String, u64, u64)>, swap: bool| {
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
    fn unreadable(&mut self, path: &Path, error: &io::Error) {
        self.unreadable += 1;
        self.example
            .get_or_insert_with(|| format!("{}: {error}", path.display()));
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
    pub words: Words,
    pub files: Files,
}

/// What one thread needs while it counts one part.
struct Local {
    words: Words,
    files: Files,
    buffer: Vec<u8>,
}

impl Local {
    fn new(buffer: usize) -> Local {
        Local {
            words: Words::new(),
            files: Files::default(),
            buffer: vec![0; buffer],
        }
    }
}

/// Counts all text files below the paths on a runtime.
pub fn count(pool: &impl Parallel, paths: &[PathBuf]) -> Counted {
    let shelf = Shelf::new();
    walk(pool, paths, &|found| {
        let Found::File(path) = found else {
            return shelf.with_local(|local| not_a_file(&mut local.files, found));
        };
        let parts = shelf.with_local(|local| {
            count_first_part(path, local).unwrap_or_else(|error| {
                local.files.unreadable(path, &error);
                Vec::new()
            })
        });
        // No `Local` is taken while this waits for the other parts: the thread may count something else meanwhile.
        pool.for_each(&parts, |&part| {
            shelf.with_local(|local| {
                if let Err(error) = count_part(path, part, local) {
                    local.files.unreadable(path, &error);
                }
            });
        });
    });
    shelf.finish()
}

/// Counts the same by plain loops: one file after the other, each read from its beginning to its end.
pub fn count_plainly(paths: &[PathBuf]) -> Counted {
    // A walk may come from many threads, for all its type says; this one does not.
    let local = Mutex::new(Local::new(WINDOW));
    walk(&InOrder, paths, &|found| {
        let mut local = local.lock().expect("one thread");
        match found {
            Found::File(path) => {
                if let Err(error) = count_whole(path, &mut local) {
                    local.files.unreadable(path, &error);
                }
            }
            other => not_a_file(&mut local.files, other),
        }
    });
    let Local { words, files, .. } = local.into_inner().expect("one thread");
    Counted { words, files }
}

fn not_a_file(files: &mut Files, found: Found<'_>) {
    match found {
        Found::File(_) => {}
        Found::Folder => files.folders += 1,
        Found::Link => files.links += 1,
        Found::Special => files.special += 1,
        Found::Unreadable(path, error) => files.unreadable(path, &error),
    }
}

/// The `Local`s that nobody uses right now, and the common maps.
struct Shelf {
    locals: Mutex<Vec<Local>>,
    shards: Vec<Mutex<WordMap>>,
}

impl Shelf {
    fn new() -> Shelf {
        let shards = Words::new().shards.into_iter().map(Mutex::new).collect();
        Shelf {
            locals: Mutex::new(Vec::new()),
            shards,
        }
    }

    /// There are never more `Local`s than threads that are in here at one time. `count` must not wait for other tasks.
    fn with_local<R>(&self, count: impl FnOnce(&mut Local) -> R) -> R {
        let shelved = self.locals.lock().expect("no holder panics").pop();
        let mut local = shelved.unwrap_or_else(|| Local::new(BEFORE + PART + AFTER));
        let result = count(&mut local);
        if local.words.len() >= LOCAL_WORDS {
            self.empty(&mut local);
        }
        self.locals.lock().expect("no holder panics").push(local);
        result
    }

    /// Puts the words of a `Local` into the common maps.
    fn empty(&self, local: &mut Local) {
        for (ours, common) in local.words.shards.iter_mut().zip(&self.shards) {
            let mut common = common.lock().expect("no holder panics");
            for (hash, word, count) in ours.iter() {
                common.add(hash, word, count);
            }
            drop(common);
            ours.clear();
        }
    }

    fn finish(self) -> Counted {
        let mut files = Files::default();
        for mut local in std::mem::take(&mut *self.locals.lock().expect("no holder panics")) {
            self.empty(&mut local);
            files += local.files;
        }
        let shards = self
            .shards
            .into_iter()
            .map(|shard| shard.into_inner().expect("no holder panics"))
            .collect();
        Counted {
            words: Words { shards },
            files,
        }
    }
}

/// Bytes of a file, from the first up to the last.
type Part = (u64, u64);

/// Counts a file, or the first part of a long one, and returns the other parts.
fn count_first_part(path: &Path, local: &mut Local) -> io::Result<Vec<Part>> {
    let mut file = File::open(path)?;
    let read = fill(&mut file, &mut local.buffer[..PART + AFTER])?;
    if is_binary(&local.buffer[..read]) {
        local.files.binary += 1;
        return Ok(Vec::new());
    }
    local.files.texts += 1;
    if read < PART + AFTER {
        count_words(local, read, 0, read);
        return Ok(Vec::new());
    }
    let size = file.metadata()?.len();
    count_words(local, read, 0, PART);
    let starts = (PART as u64..size).step_by(PART);
    Ok(starts
        .map(|start| (start, size.min(start + PART as u64)))
        .collect())
}

/// Counts a part that is not the first.
fn count_part(path: &Path, (start, end): Part, local: &mut Local) -> io::Result<()> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start - BEFORE as u64))?;
    let part = BEFORE..BEFORE + (end - start) as usize;
    let read = fill(&mut file, &mut local.buffer[..part.end + AFTER])?;
    // A file may have become shorter meanwhile.
    count_words(local, read, part.start.min(read), part.end.min(read));
    Ok(())
}

/// Counts a file from its beginning to its end.
fn count_whole(path: &Path, local: &mut Local) -> io::Result<()> {
    let mut file = File::open(path)?;
    let (mut start, mut kept) = (0, 0);
    loop {
        let filled = kept + fill(&mut file, &mut local.buffer[kept..])?;
        if start == 0 {
            if is_binary(&local.buffer[..filled]) {
                local.files.binary += 1;
                return Ok(());
            }
            local.files.texts += 1;
        }
        if filled < local.buffer.len() {
            count_words(local, filled, start, filled);
            return Ok(());
        }
        let end = filled - AFTER;
        count_words(local, filled, start, end);
        local.buffer.copy_within(end - BEFORE..filled, 0);
        (start, kept) = (BEFORE, BEFORE + AFTER);
    }
}

/// Counts the words that begin between `start` and `end` in the first `filled` bytes of the buffer.
fn count_words(local: &mut Local, filled: usize, start: usize, end: usize) {
    let Local {
        words: map,
        files,
        buffer,
    } = local;
    let mut found = 0;
    words(&buffer[..filled], start..end, |word| {
        map.add(word);
        found += 1;
    });
    files.words += found;
    files.bytes += (end - start) as u64;
}

fn is_binary(beginning: &[u8]) -> bool {
    beginning[..beginning.len().min(LOOKED_AT)].contains(&0)
}

/// Reads until the buffer is full or the file ends, and returns how much that was.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::tests::Folder;

    /// One thread for each item, all at once.
    struct Threads;

    impl Parallel for Threads {
        fn for_each<T: Sync>(&self, items: &[T], body: impl Fn(&T) + Sync + Send) {
            std::thread::scope(|scope| {
                for item in items {
                    let body = &body;
                    scope.spawn(move || body(item));
                }
            });
        }
    }

    fn both(paths: &[PathBuf]) -> Counted {
        let (counted, plain) = (count(&Threads, paths), count_plainly(paths));
        assert_eq!(counted.words.differences(&plain.words, 3), []);
        assert_eq!(counted.words.len(), plain.words.len());
        let (mut files, mut plain) = (counted.files.clone(), plain.files);
        // Which one is the example depends on the order.
        assert_eq!(
            files.example.take().is_some(),
            plain.example.take().is_some()
        );
        assert_eq!(files, plain);
        counted
    }

    #[test]
    fn binary_and_unreadable_files_are_skipped_and_counted() {
        let folder = Folder::new();
        folder.file("a.txt", "one two two");
        folder.file("sub/b.txt", "Two\n\nthree");
        folder.file("empty", "");
        folder.file("invalid", b"two\xff\xfetwo");
        folder.file("image", b"\x89PNG\0two");
        let mut late = vec![b' '; LOOKED_AT];
        late.extend(b"\0two");
        folder.file("late", &late);
        let locked = folder.file("locked", "secret");
        let mut expected = Files {
            texts: 5,
            words: 8,
            binary: 1,
            folders: 2,
            ..Files::default()
        };
        expected.bytes = 11 + 10 + 8 + late.len() as u64;
        lock(&locked);
        // The superuser may read everything.
        if File::open(&locked).is_err() {
            expected.unreadable = 1;
        } else {
            (expected.texts, expected.words, expected.bytes) = (6, 9, expected.bytes + 6);
        }
        let mut counted = both(std::slice::from_ref(&folder.0));
        assert_eq!(
            counted.files.example.take().is_some(),
            expected.unreadable > 0
        );
        assert_eq!(counted.files, expected);
        assert_eq!(counted.words.top(1), [(&b"two"[..], 6)]);
    }

    fn lock(path: &Path) {
        let mut permissions = std::fs::metadata(path).unwrap().permissions();
        #[cfg(unix)]
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0);
        #[cfg(not(unix))]
        permissions.set_readonly(true);
        std::fs::set_permissions(path, permissions).unwrap();
    }

    /// Opens, but its first byte cannot be read: an error that even the superuser gets.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_opens_and_cannot_be_read_is_counted() {
        let folder = Folder::new();
        let paths = [
            "/proc/self/mem".into(),
            folder.file("a", "word"),
            folder.0.join("absent"),
        ];
        let counted = both(&paths);
        assert_eq!(
            (
                counted.files.texts,
                counted.files.unreadable,
                counted.files.binary
            ),
            (1, 2, 0)
        );
        assert!(counted.files.example.is_some());
    }

    #[test]
    fn a_long_file_is_counted_in_parts_and_gives_the_same() {
        let folder = Folder::new();
        for (name, size) in [
            ("short", PART + AFTER - 1),
            ("exact", PART + AFTER),
            ("long", 3 * PART + 17),
        ] {
            let mut text = String::new();
            let mut i = 0_u64;
            while text.len() < size {
                i += 1;
                text += ["naïve ", "É", "word", "—", "x", " "][(i * i % 1_000_003 % 6) as usize];
                text += &(i % 1000).to_string();
            }
            let mut text = text.into_bytes();
            text.truncate(size);
            let path = folder.file(name, &text);
            let counted = both(&[path]);
            assert_eq!((counted.files.texts, counted.files.bytes), (1, size as u64));
            assert!(counted.files.words > 50_000 && counted.words.len() > 1000);
        }
    }

    #[test]
    fn a_file_of_one_endless_word_has_one_word() {
        let folder = Folder::new();
        let path = folder.file("base64", vec![b'x'; 2 * PART + 5]);
        let counted = both(&[path]);
        assert_eq!(
            counted.words.top(2),
            [(&[b'x'; crate::words::LONGEST][..], 1)]
        );
    }

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
        assert_eq!(
            found,
            expected.map(|(word, ours, theirs)| (word.to_owned(), ours, theirs))
        );
        assert_eq!(ours.differences(&theirs, 1).len(), 1);
    }
}
