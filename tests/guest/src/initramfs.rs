//! The guest's file system: a cpio archive (format "newc", uncompressed, since the guest's CPU is emulated) in a memfd, so
//! that nothing is left on disk whatever ends the runner.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::FromRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::error::Error;

const FOLDER: u32 = 0o040_755;
const LINK: u32 = 0o120_777;
const FILE: u32 = 0o100_000;
const CHARACTER_DEVICE: u32 = 0o020_600;

pub struct Initramfs {
    out: BufWriter<File>,
    written: u64,
    inode: u32,
    /// Paths that are in it, without leading slash.
    seen: HashSet<String>,
}

impl Initramfs {
    pub fn new() -> Result<Initramfs, Error> {
        let file = memfd().map_err(|error| Error::system("memfd_create", &error))?;
        Ok(Initramfs { out: BufWriter::new(file), written: 0, inode: 1, seen: HashSet::new() })
    }

    /// A file of the host, with its permissions. Once: a second one of the same path is left out.
    pub fn add_file(&mut self, from: &Path, to: &str) -> Result<(), Error> {
        let failed = |error| Error::file(from, &error);
        let data = std::fs::read(from).map_err(failed)?;
        let mode = std::fs::metadata(from).map_err(failed)?.permissions().mode() & 0o777;
        self.add_data(to, &data, mode)
    }

    /// A folder of the host with all that is in it; links and special files are left out.
    pub fn add_folder(&mut self, from: &Path, to: &str) -> Result<(), Error> {
        let failed = |error| Error::file(from, &error);
        self.add_empty_folder(to)?;
        let mut entries: Vec<_> = std::fs::read_dir(from).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let kind = entry.file_type().map_err(failed)?;
            let to = format!("{to}/{}", entry.file_name().to_string_lossy());
            if kind.is_dir() {
                self.add_folder(&entry.path(), &to)?;
            } else if kind.is_file() {
                self.add_file(&entry.path(), &to)?;
            }
        }
        Ok(())
    }

    pub fn add_empty_folder(&mut self, path: &str) -> Result<(), Error> {
        self.add_parents(&format!("{path}/x"))
    }

    pub fn add_data(&mut self, path: &str, data: &[u8], mode: u32) -> Result<(), Error> {
        self.add(path, FILE | mode, data, (0, 0))
    }

    pub fn add_link(&mut self, path: &str, target: &str) -> Result<(), Error> {
        self.add(path, LINK, target.as_bytes(), (0, 0))
    }

    pub fn add_device(&mut self, path: &str, major: u32, minor: u32) -> Result<(), Error> {
        self.add(path, CHARACTER_DEVICE, &[], (major, minor))
    }

    fn add(&mut self, path: &str, mode: u32, data: &[u8], device: (u32, u32)) -> Result<(), Error> {
        let path = path.trim_matches('/');
        if !self.seen.insert(path.to_owned()) {
            return Ok(());
        }
        self.add_parents(path)?;
        self.entry(path, mode, data, device).map_err(|error| Error::system("writing the initramfs", &error))
    }

    fn add_parents(&mut self, path: &str) -> Result<(), Error> {
        let path = path.trim_matches('/');
        for (at, _) in path.match_indices('/') {
            if self.seen.insert(path[..at].to_owned()) {
                self.entry(&path[..at], FOLDER, &[], (0, 0))
                    .map_err(|error| Error::system("writing the initramfs", &error))?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, name: &str, mode: u32, data: &[u8], device: (u32, u32)) -> io::Result<()> {
        let inode = self.inode;
        self.inode += 1;
        let size = u32::try_from(data.len()).map_err(|_| io::Error::other(format!("{name} is larger than 4 GiB")))?;
        let mut header = String::from("070701");
        // Inode, mode, owner, group, links, time, size, device (2), device it is (2), length of the name, checksum.
        let name_size = name.len() as u32 + 1;
        for field in [inode, mode, 0, 0, 1, 0, size, 0, 0, device.0, device.1, name_size, 0] {
            header += &format!("{field:08x}");
        }
        self.put(header.as_bytes())?;
        self.put(name.as_bytes())?;
        self.put(&[0])?;
        self.pad(4)?;
        self.put(data)?;
        self.pad(4)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn pad(&mut self, to: u64) -> io::Result<()> {
        let rest = (to - self.written % to) % to;
        self.put(&vec![0; rest as usize])
    }

    /// The finished archive.
    pub fn finish(mut self) -> Result<File, Error> {
        let written = self.entry("TRAILER!!!", 0, &[], (0, 0)).and_then(|()| self.pad(512));
        let file = written.and_then(|()| self.out.into_inner().map_err(|error| error.into_error()));
        file.map_err(|error| Error::system("writing the initramfs", &error))
    }
}

/// An anonymous file in memory: gone with the last process that has it open.
pub fn memfd() -> io::Result<File> {
    // SAFETY: the name is a C string; the call touches nothing else of ours.
    let fd = unsafe { libc::memfd_create(c"numart-guest".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { File::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};

    #[test]
    fn entries_are_aligned_and_named_once() {
        let mut archive = Initramfs::new().unwrap();
        archive.add_data("/a/b/one", b"12345", 0o644).unwrap();
        archive.add_data("a/b/one", b"other", 0o644).unwrap();
        archive.add_link("a/two", "one").unwrap();
        let mut file = archive.finish().unwrap();
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() % 512, 0);
        let text = String::from_utf8_lossy(&bytes);
        let starts: Vec<usize> = text.match_indices("070701").map(|(at, _)| at).collect();
        assert_eq!(starts.len(), 5, "two folders, a file, a link, the end");
        assert!(starts.iter().all(|start| start % 4 == 0));
        assert!(text.contains("12345") && !text.contains("other"));
    }
}
