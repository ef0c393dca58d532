//! One guest, from its file system to its programs' exit codes.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, PipeReader, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::accelerator::Accelerator;
use crate::error::Error;
use crate::init;
use crate::initramfs::Initramfs;
use crate::libraries;
use crate::machine::Machine;
use crate::{kernel, qemu};

/// What the guest's `init` writes before what it has to say on the console.
const MARK: &str = "@@guest ";
/// What `init` writes to both of a program's streams when it has ended: they arrive by other pipes than the console.
pub const STREAM_END: &[u8] = b"\x04@@guest end\x04";
/// Lines of the console that an error shows.
const TAIL: usize = 20;

/// Something to run in the guest.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it is called in reports.
    pub name: String,
    /// The file on the host, packed under the same path; `None` for a command of the guest's own.
    pub file: Option<PathBuf>,
    pub arguments: Vec<String>,
    /// Variables for this one.
    pub environment: Vec<(String, String)>,
}

impl Program {
    pub fn file(file: &Path, arguments: &[&str]) -> Program {
        Program {
            name: file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            file: Some(file.to_owned()),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            environment: Vec::new(),
        }
    }

    /// Without the number that cargo puts behind a test's name.
    pub fn plain_name(&self) -> &str {
        self.name.rsplit_once('-').map_or(self.name.as_str(), |(name, _)| name)
    }

    /// A command line of the guest's shell.
    pub fn command(line: &str) -> Program {
        let arguments = vec!["-c".to_owned(), line.to_owned()];
        Program { name: line.to_owned(), file: None, arguments, environment: Vec::new() }
    }
}

/// A guest to be.
pub struct Guest<'a> {
    pub machine: &'a Machine,
    pub accelerator: Accelerator,
    /// One after the other.
    pub programs: Vec<Program>,
    pub environment: Vec<(String, String)>,
    /// Files or folders of the host, and where they go.
    pub folders: Vec<(PathBuf, String)>,
    /// For all of it, the boot included.
    pub limit: Duration,
}

/// What comes out of a guest while it runs.
pub enum Event<'a> {
    /// A piece of the standard output, or error, of the program.
    Out(&'a [u8]),
    Err(&'a [u8]),
    /// Its `init` begins, this long after the start.
    Booted(Duration),
    Begin,
    /// A program ended, with this code, after this time.
    End(usize, i32, Duration),
}

/// How a guest ended.
pub struct Ended {
    /// By program.
    pub codes: Vec<i32>,
}

enum Message {
    Out(Vec<u8>),
    Err(Vec<u8>),
    Console(String),
    /// A program's stream has ended.
    StreamEnd,
    Closed,
}

/// Boots the guest, hands on what comes out of it, and returns when it is gone.
pub fn run(guest: &Guest<'_>, on: &mut dyn FnMut(Event<'_>)) -> Result<Ended, Error> {
    let kernel = kernel::find()?;
    let archive = pack(guest)?;
    let (console, console_writer) = pipe()?;
    let begin = Instant::now();
    let mut qemu = Qemu(start(guest, &kernel, &archive, console_writer.as_raw_fd())?);
    // Ours would keep the console open after the guest's end.
    drop(console_writer);
    let (send, receive) = channel();
    pump(qemu.0.stdout.take().expect("piped"), send.clone(), Message::Out);
    pump(qemu.0.stderr.take().expect("piped"), send.clone(), Message::Err);
    read_lines(console, send);

    let mut streams = Streams { receive, console: VecDeque::new(), open: 3, ends: 0, until: begin + guest.limit };
    let mut tail: Vec<String> = Vec::new();
    let mut codes = Vec::new();
    let mut program_began = begin;
    while let Some(line) = streams.next_line(on) {
        match line.split_once(MARK).map(|(_, said)| said.trim()) {
            Some("boot") => on(Event::Booted(begin.elapsed())),
            Some("begin") => {
                program_began = Instant::now();
                on(Event::Begin);
            }
            Some(said) if said.starts_with("end ") => {
                let took = program_began.elapsed();
                streams.finish_program(on);
                let code = said[4..].trim().parse().unwrap_or(-1);
                on(Event::End(codes.len(), code, took));
                codes.push(code);
            }
            _ => {
                tail.push(line);
                if tail.len() > TAIL {
                    tail.remove(0);
                }
            }
        }
    }
    if streams.open > 0 {
        return Err(Error::TimeLimit { seconds: guest.limit.as_secs(), console: tail.join("\n") });
    }
    if codes.len() < guest.programs.len() {
        return Err(Error::NoStatus { console: tail.join("\n") });
    }
    Ok(Ended { codes })
}

/// What comes by the three serial lines.
struct Streams {
    receive: Receiver<Message>,
    /// Lines of the console that came while something else was waited for.
    console: VecDeque<String>,
    /// Pipes that are not closed.
    open: usize,
    /// Ends of programs' streams that have come.
    ends: usize,
    until: Instant,
}

impl Streams {
    /// The next line of the console; the other streams are handed on meanwhile. `None` at the guest's end (`open` is 0
    /// then) or at its time limit.
    fn next_line(&mut self, on: &mut dyn FnMut(Event<'_>)) -> Option<String> {
        while self.console.is_empty() {
            let left = self.until.saturating_duration_since(Instant::now());
            if self.open == 0 || !self.take_one(left, on) {
                return None;
            }
        }
        self.console.pop_front()
    }

    /// Hands on what the program that has ended wrote.
    fn finish_program(&mut self, on: &mut dyn FnMut(Event<'_>)) {
        while self.open > 0 && self.ends < 2 {
            if !self.take_one(self.until.saturating_duration_since(Instant::now()), on) {
                break;
            }
        }
        self.ends = 0;
    }

    fn take_one(&mut self, wait: Duration, on: &mut dyn FnMut(Event<'_>)) -> bool {
        match self.receive.recv_timeout(wait) {
            Ok(Message::Out(bytes)) => on(Event::Out(&bytes)),
            Ok(Message::Err(bytes)) => on(Event::Err(&bytes)),
            Ok(Message::Console(line)) => self.console.push_back(line),
            Ok(Message::StreamEnd) => self.ends += 1,
            Ok(Message::Closed) => self.open -= 1,
            Err(_) => return false,
        }
        true
    }
}

fn pack(guest: &Guest<'_>) -> Result<File, Error> {
    let mut archive = Initramfs::new()?;
    archive.add_device("dev/console", 5, 1)?;
    archive.add_device("dev/null", 1, 3)?;
    for folder in ["proc", "sys", "tmp", "root", "run", "usr/bin", "data"] {
        archive.add_empty_folder(folder)?;
    }
    let busybox = qemu::find_program("busybox", "busybox-static")?;
    if !libraries::of(&busybox)?.is_empty() {
        let remedy = "apt-get install --no-install-recommends busybox-static".to_owned();
        return Err(Error::Missing { what: "a statically linked busybox".to_owned(), remedy });
    }
    archive.add_file(&busybox, "bin/busybox")?;
    archive.add_link("bin/sh", "busybox")?;
    archive.add_data("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", 0o644)?;
    for (from, to) in &guest.folders {
        if from.is_dir() {
            archive.add_folder(from, to)?;
        } else if std::fs::read(from).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF")) {
            libraries::add_program(&mut archive, from, to)?;
        } else {
            archive.add_file(from, to)?;
        }
    }
    for file in guest.programs.iter().filter_map(|program| program.file.as_ref()) {
        if !file.is_file() {
            return Err(Error::Missing {
                what: file.display().to_string(),
                remedy: "cargo test --no-run    # prints where it puts the test binaries".to_owned(),
            });
        }
        libraries::add_program(&mut archive, file, &file.to_string_lossy())?;
    }
    archive.add_data("init", init::script(guest).as_bytes(), 0o755)?;
    archive.finish()
}

/// A guest's QEMU: killed when dropped.
struct Qemu(Child);

impl Drop for Qemu {
    fn drop(&mut self) {
        // Already gone after a power-off: then both do nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(guest: &Guest<'_>, kernel: &Path, archive: &File, console: RawFd) -> Result<Child, Error> {
    let program = qemu::find_program("qemu-system-x86_64", "qemu-system-x86")?;
    let initrd = archive.as_raw_fd();
    let mut command = Command::new(program);
    command
        .args(qemu::arguments(guest.machine, guest.accelerator))
        .arg("-kernel")
        .arg(kernel)
        .args(["-initrd", &format!("/proc/self/fd/{initrd}")])
        .args(qemu::serial_lines(console))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let parent = std::process::id() as libc::pid_t;
    // SAFETY: the closure runs between fork and exec and only makes system calls, which take no memory of ours.
    unsafe {
        command.pre_exec(move || {
            for fd in [initrd, console] {
                if libc::fcntl(fd, libc::F_SETFD, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            // Whatever ends the runner ends the guest, SIGKILL included.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // It may have ended before that.
            if libc::getppid() == parent { Ok(()) } else { Err(std::io::Error::other("the runner is gone")) }
        });
    }
    command.spawn().map_err(|error| Error::system("starting qemu-system-x86_64", &error))
}

fn pipe() -> Result<(PipeReader, std::io::PipeWriter), Error> {
    std::io::pipe().map_err(|error| Error::system("pipe", &error))
}

/// Sends what can be read, until it ends, and the programs' ends in it.
fn pump(mut from: impl Read + Send + 'static, to: Sender<Message>, wrap: fn(Vec<u8>) -> Message) {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        let mut held = Vec::new();
        while let Ok(read) = from.read(&mut buffer) {
            if read == 0 {
                break;
            }
            held.extend_from_slice(&buffer[..read]);
            for message in cut(&mut held, wrap) {
                if to.send(message).is_err() {
                    return;
                }
            }
        }
        let _ = to.send(wrap(held));
        let _ = to.send(Message::Closed);
    });
}

/// What of `held` can be handed on. What may be the beginning of an end stays.
fn cut(held: &mut Vec<u8>, wrap: fn(Vec<u8>) -> Message) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Some(at) = held.windows(STREAM_END.len()).position(|window| window == STREAM_END) {
        let rest = held.split_off(at + STREAM_END.len());
        held.truncate(at);
        messages.push(wrap(std::mem::replace(held, rest)));
        messages.push(Message::StreamEnd);
    }
    let longest = held.len().min(STREAM_END.len() - 1);
    let kept = (0..=longest).rev().find(|&length| held.ends_with(&STREAM_END[..length])).unwrap_or(0);
    let rest = held.split_off(held.len() - kept);
    let ready = std::mem::replace(held, rest);
    if !ready.is_empty() {
        messages.push(wrap(ready));
    }
    messages
}

fn read_lines(console: PipeReader, to: Sender<Message>) {
    std::thread::spawn(move || {
        let mut console = BufReader::new(console);
        let mut line = Vec::new();
        while console.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            line.clear();
            if to.send(Message::Console(text)).is_err() {
                return;
            }
        }
        let _ = to.send(Message::Closed);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_stream_is_found_wherever_it_is_cut() {
        let whole = [b"one".as_slice(), STREAM_END, b"\x04two", STREAM_END].concat();
        for at in 0..whole.len() {
            let mut held = Vec::new();
            let (mut text, mut ends) = (Vec::new(), Vec::new());
            for part in [&whole[..at], &whole[at..]] {
                held.extend_from_slice(part);
                for message in cut(&mut held, Message::Out) {
                    match message {
                        Message::Out(bytes) => text.extend(bytes),
                        Message::StreamEnd => ends.push(text.len()),
                        _ => unreachable!("cut makes no others"),
                    }
                }
            }
            assert_eq!(
                (text.as_slice(), ends.as_slice()),
                (b"one\x04two".as_slice(), [3, 7].as_slice()),
                "cut at {at}"
            );
            assert!(held.is_empty());
        }
    }
}
