//! Counting the words of files, on many threads, in bounded memory.
//!
//! Each thread that counts takes a [`Local`] out of a shelf: a buffer for one part of one file, and a small map. When the
//! small map has [`LOCAL_WORDS`] words, they go into the common maps. So memory holds each different word once, and a few
//! megabytes for each thread, whatever the size of the files.

use crate::answer::{Counted, Files, Words};
use crate::map::WordMap;
use crate::walk::{Found, InOrder, Parallel, walk};
use crate::words::{AFTER, BEFORE, words};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
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

/// What one thread needs while it counts one part.
struct Local {
    words: Words,
    files: Files,
    buffer: Vec<u8>,
}

impl Local {
    fn new(buffer: usize) -> Local {
        Local { words: Words::new(), files: Files::default(), buffer: vec![0; buffer] }
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
        Shelf { locals: Mutex::new(Vec::new()), shards }
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
        let shards = self.shards.into_iter().map(|shard| shard.into_inner().expect("no holder panics")).collect();
        Counted { words: Words { shards }, files }
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
    Ok(starts.map(|start| (start, size.min(start + PART as u64))).collect())
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
    let Local { words: map, files, buffer } = local;
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
        assert_eq!(files.example.take().is_some(), plain.example.take().is_some());
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
        let mut expected = Files { texts: 5, words: 8, binary: 1, folders: 2, ..Files::default() };
        expected.bytes = 11 + 10 + 8 + late.len() as u64;
        lock(&locked);
        // The superuser may read everything.
        if File::open(&locked).is_err() {
            expected.unreadable = 1;
        } else {
            (expected.texts, expected.words, expected.bytes) = (6, 9, expected.bytes + 6);
        }
        let mut counted = both(std::slice::from_ref(&folder.0));
        assert_eq!(counted.files.example.take().is_some(), expected.unreadable > 0);
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
        let paths = ["/proc/self/mem".into(), folder.file("a", "word"), folder.0.join("absent")];
        let counted = both(&paths);
        assert_eq!((counted.files.texts, counted.files.unreadable, counted.files.binary), (1, 2, 0));
        assert!(counted.files.example.is_some());
    }

    #[test]
    fn a_long_file_is_counted_in_parts_and_gives_the_same() {
        let folder = Folder::new();
        for (name, size) in [("short", PART + AFTER - 1), ("exact", PART + AFTER), ("long", 3 * PART + 17)] {
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
        assert_eq!(counted.words.top(2), [(&[b'x'; crate::words::LONGEST][..], 1)]);
    }
}
