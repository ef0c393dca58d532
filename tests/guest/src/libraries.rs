//! Which shared libraries a program needs, and a copy of it without debug information.

use std::io::{Read, Seek};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::initramfs::{Initramfs, memfd};

/// Adds a program under its own path, with the libraries and the loader it names.
pub fn add_program(archive: &mut Initramfs, program: &Path, to: &str) -> Result<(), Error> {
    match stripped(program) {
        Some(bytes) => archive.add_data(to, &bytes, 0o755)?,
        None => archive.add_file(program, to)?,
    }
    for library in of(program)? {
        archive.add_file(&library, &library.to_string_lossy())?;
    }
    Ok(())
}

/// The libraries `ldd` names: none for a static program.
pub fn of(program: &Path) -> Result<Vec<PathBuf>, Error> {
    let out = Command::new("ldd")
        .arg(program)
        .output()
        .map_err(|_| Error::Missing { what: "ldd".to_owned(), remedy: "apt-get install libc-bin".to_owned() })?;
    let mut found = Vec::new();
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        if line.contains("not found") {
            return Err(Error::Program(format!("{}: {}", program.display(), line.trim())));
        }
        // `libc.so.6 => /lib/…/libc.so.6 (0x…)`, `/lib64/ld-linux-x86-64.so.2 (0x…)`, `linux-vdso.so.1 (0x…)`.
        let path = line.split_once("=>").map_or(line, |(_, path)| path).split(" (0x").next().unwrap_or_default().trim();
        if path.starts_with('/') {
            found.push(path.into());
        }
    }
    Ok(found)
}

/// Debug information makes a Rust test ten times as large, and the guest's memory is small. Without `strip` (binutils) the
/// program goes in as it is.
fn stripped(program: &Path) -> Option<Vec<u8>> {
    let mut copy = memfd().ok()?;
    // A path, since `strip` opens its output by name; a memfd, since it must be able to seek and nothing may stay behind.
    let path = format!("/proc/{}/fd/{}", std::process::id(), copy.as_raw_fd());
    let out = Command::new("strip").args(["--strip-debug", "-o", &path]).arg(program).output().ok()?;
    let mut bytes = Vec::new();
    copy.rewind().ok()?;
    copy.read_to_end(&mut bytes).ok()?;
    (out.status.success() && bytes.starts_with(b"\x7fELF")).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_needs_the_c_library_and_a_loader() {
        let found = of(&std::env::current_exe().unwrap()).unwrap();
        for name in ["libc.so", "ld-linux"] {
            assert!(found.iter().any(|path| path.to_string_lossy().contains(name)), "{name}: {found:?}");
        }
    }
}
