//! The command line and what is printed, the same whichever runtime counts.

use crate::answer::Counted;
use crate::count::{count, count_plainly};
use crate::walk::Parallel;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const HELP: &str = "\
wordcount [--workers N] [--no-check] [PATH…]

Counts the words of every text file below the paths (default: the current folder), and checks the answer against a plain
sequential count. A word is a longest run of letters and digits. A file with a NUL byte in its first 8 KiB is binary and is
skipped. Symbolic links are not followed, except the paths themselves.

--workers N   so many threads count (default: as many as the runtime thinks right)
--no-check    no sequential count: saves its time
";

/// What the user asked for.
pub struct Options {
    /// Threads, if the user named a number.
    pub workers: Option<usize>,
    paths: Vec<PathBuf>,
    check: bool,
}

/// The options, or how the program ends without any.
pub fn options() -> Result<Options, ExitCode> {
    match parse(std::env::args_os().skip(1)) {
        Ok(Some(options)) => Ok(options),
        Ok(None) => {
            print(HELP);
            Err(ExitCode::SUCCESS)
        }
        Err(message) => Err(usage(&message)),
    }
}

/// Ends the program with a message about how it was called.
pub fn usage(message: &str) -> ExitCode {
    eprintln!("wordcount: {message}");
    ExitCode::from(2)
}

/// `None` if help was asked for.
fn parse(mut args: impl Iterator<Item = std::ffi::OsString>) -> Result<Option<Options>, String> {
    let mut options = Options { workers: None, paths: Vec::new(), check: true };
    let mut only_paths = false;
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("--") if !only_paths => only_paths = true,
            Some("--help" | "-h") if !only_paths => return Ok(None),
            Some("--no-check") if !only_paths => options.check = false,
            Some("--workers") if !only_paths => {
                let value = args.next().ok_or("--workers needs a number")?;
                let number = value.to_str().and_then(|value| value.parse().ok()).filter(|&n: &usize| n > 0);
                options.workers = Some(number.ok_or(format!("--workers {value:?}: not a number above 0"))?);
            }
            Some(option) if !only_paths && option.starts_with('-') => {
                return Err(format!("unknown option {option}; --help lists the options"));
            }
            _ => options.paths.push(arg.into()),
        }
    }
    if options.paths.is_empty() {
        options.paths.push(".".into());
    }
    for path in &options.paths {
        std::fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(Some(options))
}

/// Counts on `pool`, prints the answer and checks it. `about_the_run` is printed between the two.
pub fn run(options: &Options, pool: &impl Parallel, about_the_run: impl FnOnce() -> String) -> ExitCode {
    let begin = Instant::now();
    let counted = count(pool, &options.paths);
    let took = begin.elapsed();
    print(&report(&counted, took));
    print(&about_the_run());
    let mut code = ExitCode::SUCCESS;
    if options.check {
        let begin = Instant::now();
        let plain = count_plainly(&options.paths);
        let (text, equal) = verdict(&counted, &plain, took, begin.elapsed());
        print(&text);
        if !equal {
            code = ExitCode::FAILURE;
        }
    }
    if let Some(peak) = peak_memory() {
        print(&format!("peak memory   {} MB\n", peak / 1_000_000));
    }
    code
}

fn report(counted: &Counted, took: Duration) -> String {
    let files = &counted.files;
    let seconds = took.as_secs_f64();
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        writeln!(text, "{}", format!("{name:<13} {value}").trim_end()).expect("writing to a string cannot fail");
    };
    line("text files", format!("{} in {} folders, {:.1} MB", files.texts, files.folders, files.bytes as f64 / 1e6));
    line("words", format!("{}, {} different", files.words, counted.words.len()));
    line(
        "skipped",
        format!(
            "{} binary, {} unreadable, {} symbolic links, {} special",
            files.binary, files.unreadable, files.links, files.special
        ),
    );
    if let Some(example) = &files.example {
        line("unreadable", format!("for example {example}"));
    }
    line(
        "time",
        format!(
            "{seconds:.3} s, {:.0} MB/s, {:.0} files/s",
            files.bytes as f64 / 1e6 / seconds,
            files.texts as f64 / seconds
        ),
    );
    line("most frequent", String::new());
    for (word, count) in counted.words.top(10) {
        line("", format!("{count:>11}  {}", String::from_utf8_lossy(word)));
    }
    text
}

/// What the check says, and whether both answers are equal.
fn verdict(counted: &Counted, plain: &Counted, took: Duration, took_plain: Duration) -> (String, bool) {
    let differences = counted.words.differences(&plain.words, 5);
    let totals =
        |counted: &Counted| (counted.files.texts, counted.files.bytes, counted.files.words, counted.words.len());
    if differences.is_empty() && totals(counted) == totals(plain) {
        let times = took_plain.as_secs_f64() / took.as_secs_f64();
        let seconds = took_plain.as_secs_f64();
        return (
            format!("check         equal; the sequential count took {seconds:.3} s, {times:.2} times as long\n"),
            true,
        );
    }
    let mut text = String::from("check         NOT EQUAL: this is a bug, unless the files changed meanwhile\n");
    for (word, ours, theirs) in differences {
        text += &format!("              {word}: {ours}, sequential {theirs}\n");
    }
    let (ours, theirs) = (totals(counted), totals(plain));
    text += &format!("              files, bytes, words, different: {ours:?}, sequential {theirs:?}\n");
    (text, false)
}

/// The most memory this process ever used, in bytes, where the system says so.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Prints, and does not care if nobody reads it any more, as in `wordcount | head`.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
