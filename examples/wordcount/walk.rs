//! Finding the files below some paths, on any runtime.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The one thing a runtime must be able to do for this program.
pub trait Parallel: Sync {
    /// Calls `body` for every item, on many threads at once if it likes, and returns when all calls have returned. A body
    /// may call this again.
    fn for_each<T: Sync>(&self, items: &[T], body: impl Fn(&T) + Sync + Send);
}

/// One item after the other, on the calling thread.
pub struct InOrder;

impl Parallel for InOrder {
    fn for_each<T: Sync>(&self, items: &[T], body: impl Fn(&T) + Sync + Send) {
        items.iter().for_each(body);
    }
}

/// What a walk comes across.
#[derive(Debug)]
pub enum Found<'a> {
    /// A regular file.
    File(&'a Path),
    /// A folder, whose entries come next.
    Folder,
    /// A symbolic link, which is not followed: what it names is counted where it is, and a walk cannot go in circles.
    Link,
    /// A socket, a pipe or a device.
    Special,
    /// A folder that cannot be listed, or an entry that cannot be looked at.
    Unreadable(&'a Path, io::Error),
}

/// Folders within folders, at most: a walk recurses, and a stack ends.
const DEEPEST: usize = 512;

struct Entry {
    path: PathBuf,
    kind: io::Result<fs::FileType>,
}

/// Visits all that is below the paths, which are followed if they are symbolic links. Visits may come from many threads at once
/// and in any order, but a folder comes before what is in it.
pub fn walk(pool: &impl Parallel, paths: &[PathBuf], visit: &(impl Fn(Found<'_>) + Sync)) {
    let entries: Vec<Entry> = paths
        .iter()
        .map(|path| Entry { kind: fs::metadata(path).map(|meta| meta.file_type()), path: path.clone() })
        .collect();
    walk_entries(pool, &entries, DEEPEST, visit);
}

fn walk_entries(pool: &impl Parallel, entries: &[Entry], depth: usize, visit: &(impl Fn(Found<'_>) + Sync)) {
    pool.for_each(entries, |Entry { path, kind }| match kind {
        Ok(kind) if kind.is_file() => visit(Found::File(path)),
        Ok(kind) if kind.is_symlink() => visit(Found::Link),
        Ok(kind) if kind.is_dir() => match list(path, depth) {
            Ok(entries) => {
                visit(Found::Folder);
                walk_entries(pool, &entries, depth - 1, visit);
            }
            Err(error) => visit(Found::Unreadable(path, error)),
        },
        Ok(_) => visit(Found::Special),
        Err(error) => visit(Found::Unreadable(path, io::Error::new(error.kind(), error.to_string()))),
    });
}

fn list(folder: &Path, depth: usize) -> io::Result<Vec<Entry>> {
    if depth == 0 {
        return Err(io::Error::other(format!("more than {DEEPEST} folders deep")));
    }
    fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| Entry { path: entry.path(), kind: entry.file_type() }))
        .collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A new folder that is removed again.
    pub struct Folder(pub PathBuf);

    impl Folder {
        pub fn new() -> Folder {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let name = format!("wordcount-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).unwrap();
            Folder(path)
        }

        pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn found(paths: &[PathBuf]) -> Vec<String> {
        let found = Mutex::new(Vec::new());
        walk(&InOrder, paths, &|item| {
            let text = match item {
                Found::File(path) => path.file_name().unwrap().to_str().unwrap().to_owned(),
                Found::Unreadable(_, error) => error.to_string(),
                other => format!("{other:?}"),
            };
            found.lock().unwrap().push(text);
        });
        let mut found = found.into_inner().unwrap();
        found.sort();
        found
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed_unless_the_user_names_them() {
        use std::os::unix::fs::symlink;
        let folder = Folder::new();
        folder.file("a/b/deep", "");
        folder.file("top", "");
        symlink("..", folder.0.join("a/circle")).unwrap();
        symlink("top", folder.0.join("to-file")).unwrap();
        symlink("nowhere", folder.0.join("dangling")).unwrap();
        let expected = ["Folder", "Folder", "Folder", "Link", "Link", "Link", "deep", "top"];
        assert_eq!(found(std::slice::from_ref(&folder.0)), expected);
        assert_eq!(found(&[folder.0.join("a/circle")]), expected);
        assert_eq!(found(&[folder.0.join("to-file")]), ["to-file"]);
    }

    #[cfg(unix)]
    #[test]
    fn what_is_neither_file_nor_folder_is_told_apart() {
        let folder = Folder::new();
        let _socket = std::os::unix::net::UnixListener::bind(folder.0.join("socket")).unwrap();
        assert_eq!(found(std::slice::from_ref(&folder.0)), ["Folder", "Special"]);
    }

    #[test]
    fn a_path_that_is_not_there_is_unreadable() {
        let folder = Folder::new();
        assert_eq!(found(&[folder.0.join("absent")]).len(), 1);
        assert!(found(&[folder.0.join("absent")])[0].contains("os error 2"));
    }

    #[test]
    fn a_folder_that_is_too_deep_is_unreadable() {
        let folder = Folder::new();
        // One letter and a slash each: below the limit for a path.
        let deep = vec!["d"; DEEPEST + 1].join("/");
        folder.file(&format!("{deep}/file"), "");
        let found = found(std::slice::from_ref(&folder.0));
        assert_eq!(found.len(), DEEPEST + 1);
        assert_eq!(found[DEEPEST], "more than 512 folders deep");
    }
}
