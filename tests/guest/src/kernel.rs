//! The guest's kernel: that of the distribution's `linux-image` package, downloaded once and unpacked without installing it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;

/// A kernel image of the user's own, instead of a downloaded one.
const VARIABLE: &str = "NUMART_GUEST_KERNEL";
/// Packages that stand for "the current kernel": Debian's, Ubuntu's.
const META_PACKAGES: [&str; 2] = ["linux-image-amd64", "linux-image-generic"];

/// The folder for what is kept between runs.
pub fn cache() -> Result<PathBuf, Error> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let folder = base.unwrap_or_else(std::env::temp_dir).join("numart-guest");
    std::fs::create_dir_all(&folder).map_err(|error| Error::file(&folder, &error))?;
    Ok(folder)
}

/// The kernel to boot.
pub fn find() -> Result<PathBuf, Error> {
    if let Some(path) = std::env::var_os(VARIABLE) {
        let path = PathBuf::from(path);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(Error::Description(format!("{VARIABLE}={} is no file", path.display())))
        };
    }
    let folder = cache()?;
    for name in ["vmlinux", "vmlinuz"] {
        if folder.join(name).is_file() {
            return Ok(folder.join(name));
        }
    }
    download(&folder)
}

fn missing(what: &str) -> Error {
    Error::Missing {
        what: what.to_owned(),
        remedy: format!("apt-get update    # or name a kernel image: {VARIABLE}=/boot/vmlinuz-…"),
    }
}

fn download(cache: &Path) -> Result<PathBuf, Error> {
    let package = META_PACKAGES
        .iter()
        .find_map(|meta| image_package(meta))
        .ok_or_else(|| missing(&format!("a package list with {}", META_PACKAGES.join(" or "))))?;
    eprintln!("guest: fetching {package}, once");
    let folder = Scratch::new(cache)?;
    let out = Command::new("apt-get")
        // Root's apt drops its rights for a download, and then cannot write into root's folder.
        .args(["-qq", "-o", "APT::Sandbox::User=root", "download", &package])
        .current_dir(&folder.0)
        .output()
        .map_err(|_| missing("apt-get"))?;
    if !out.status.success() {
        let why = String::from_utf8_lossy(&out.stderr).trim().to_owned();
        return Err(missing(&format!("{package} (apt-get download: {why})")));
    }
    let boot = unpack(&folder.0)?;
    let image = only(&boot, "vmlinuz-")?;
    let name = match elf_inside(&image, &boot.join("vmlinux")) {
        Some(()) => "vmlinux",
        None => "vmlinuz",
    };
    let from = if name == "vmlinux" { boot.join(name) } else { image };
    let to = cache.join(name);
    // Renamed in one step: another runner sees it whole or not at all.
    std::fs::rename(&from, &to).map_err(|error| Error::file(&to, &error))?;
    Ok(to)
}

/// The image package that a meta package stands for.
fn image_package(meta: &str) -> Option<String> {
    let out = Command::new("apt-cache").args(["depends", meta]).output().ok()?;
    String::from_utf8_lossy(&out.stdout).lines().find_map(|line| {
        let name = line.trim().strip_prefix("Depends: ")?;
        name.starts_with("linux-image-").then(|| name.to_owned())
    })
}

/// Unpacks `/boot` of the package in `folder`.
fn unpack(folder: &Path) -> Result<PathBuf, Error> {
    let package = only(folder, "linux-image-")?;
    let failed = |what: &str| Error::Program(format!("{what} cannot unpack {}", package.display()));
    let mut reader = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(&package)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|_| failed("dpkg-deb"))?;
    let tar = reader.stdout.take().expect("piped");
    let unpacked =
        Command::new("tar").arg("-C").arg(folder).args(["-x", "--wildcards", "./boot/*"]).stdin(tar).status();
    let read = reader.wait();
    if !unpacked.is_ok_and(|status| status.success()) || !read.is_ok_and(|status| status.success()) {
        return Err(failed("dpkg-deb and tar"));
    }
    Ok(folder.join("boot"))
}

/// The one file of a folder whose name begins so.
fn only(folder: &Path, prefix: &str) -> Result<PathBuf, Error> {
    let entries = std::fs::read_dir(folder).map_err(|error| Error::file(folder, &error))?;
    let mut found =
        entries.filter_map(Result::ok).filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    found
        .next()
        .map(|entry| entry.path())
        .ok_or_else(|| Error::Program(format!("no {prefix}* in {}", folder.display())))
}

/// Writes the ELF kernel that a compressed image holds. QEMU boots it directly, which saves the emulated CPU its
/// decompression: seconds at every boot. `None` if it cannot be had; then the image itself boots.
fn elf_inside(image: &Path, to: &Path) -> Option<()> {
    let bytes = std::fs::read(image).ok()?;
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
    // Of the boot protocol: setup_sects, payload_offset, payload_length (Documentation/arch/x86/boot.rst).
    let sectors = usize::from(*bytes.get(0x1f1)?);
    let start = (if sectors == 0 { 4 } else { sectors } + 1) * 512 + word(0x248)?;
    let payload = bytes.get(start..start + word(0x24c)?)?;
    let program = match payload {
        [0xfd, b'7', b'z', ..] => "xz",
        [0x1f, 0x8b, ..] => "gzip",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd",
        _ => return None,
    };
    let packed = to.with_extension("packed");
    std::fs::write(&packed, payload).ok()?;
    let out = std::fs::File::create(to).ok()?;
    // The payload ends with the kernel's size, which some of them call trailing garbage: the result decides.
    let _ = Command::new(program)
        .arg("-dcq")
        .stdin(std::fs::File::open(&packed).ok()?)
        .stdout(out)
        .stderr(Stdio::null())
        .status()
        .ok()?;
    let head = std::fs::read(to).ok()?;
    (head.len() > 1 << 20 && head.starts_with(b"\x7fELF")).then_some(())
}

/// A folder that goes when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(inside: &Path) -> Result<Scratch, Error> {
        let path = inside.join(format!("download-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| Error::file(&path, &error))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
