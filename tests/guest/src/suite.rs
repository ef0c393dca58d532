//! This project's tests on several machines: builds them once, boots each machine once, counts.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::accelerator::Accelerator;
use crate::boot::{self, Event, Guest, Program};
use crate::command_line::SuiteOptions;
use crate::error::Error;
use crate::machine::Machine;
use crate::qemu;
use crate::report::{Outcome, Report};

/// Programs of the host that go into the guest or start it, and their packages.
pub const NEEDED: [(&str, &str); 3] =
    [("qemu-system-x86_64", "qemu-system-x86"), ("busybox", "busybox-static"), ("numactl", "numactl")];

/// Reads the project's sources, which are not in the guest.
const NOT_IN_A_GUEST: &str = "layers";
/// The examples that are run, with their arguments. They check their own answers.
const EXAMPLES: [(&str, &[&str]); 2] = [("quickstart", &[]), ("wordcount", &["/data"])];
/// Several virtual CPUs share a real one, which is emulated: tests may take this much longer, and shrink their sizes.
const SLOWDOWN: &str = "10";

/// What cargo built.
struct Built {
    /// The tests that need nodes, on every machine once.
    guest_tests: Vec<Program>,
    /// The whole project's concurrent tests and examples, so many rounds.
    others: Vec<Program>,
}

/// All that happened.
#[derive(Default)]
struct Totals {
    passed: usize,
    failed: usize,
    skipped: usize,
    ignored: usize,
    /// Guest tests, by "program: test", that ran on a machine; and those that were only skipped, and why last.
    ran: BTreeSet<String>,
    skips: BTreeMap<String, String>,
}

pub fn run(options: SuiteOptions) -> Result<u8, Error> {
    for (program, package) in NEEDED {
        qemu::find_program(program, package)?;
    }
    let accelerator = Accelerator::choose()?;
    let built = build()?;
    let mut totals = Totals::default();
    let mut times = Vec::new();
    for machine in &options.machines {
        let begin = Instant::now();
        run_on(machine, accelerator, &built, &options, &mut totals)?;
        times.push((machine.name.clone(), begin.elapsed()));
    }
    println!();
    for (name, time) in &times {
        println!("guest: {name} took {:.0} s ({})", time.as_secs_f64(), accelerator.name());
    }
    Ok(close(&options, &mut totals))
}

/// The closing lines; the exit code.
fn close(options: &SuiteOptions, totals: &mut Totals) -> u8 {
    let never: Vec<_> = totals.skips.iter().filter(|(name, _)| !totals.ran.contains(*name)).collect();
    for (name, why) in &never {
        println!("guest: {name} ran on none of these machines: {why}");
    }
    if options.every_test {
        totals.failed += never.len();
    }
    println!("guest: {} guest tests, {} of them ran", totals.ran.len() + never.len(), totals.ran.len());
    println!("guest: {} passed, {} failed, {} skipped", totals.passed, totals.failed, totals.skipped + totals.ignored);
    // A run in which nothing ran has shown nothing.
    u8::from(totals.failed > 0 || totals.passed == 0)
}

fn run_on(
    machine: &Machine,
    accelerator: Accelerator,
    built: &Built,
    options: &SuiteOptions,
    totals: &mut Totals,
) -> Result<(), Error> {
    let mut programs = built.guest_tests.clone();
    for _ in 0..options.rounds {
        programs.extend(built.others.iter().cloned());
    }
    programs.retain(|program| options.only.as_ref().is_none_or(|text| program.name.contains(text.as_str())));
    let root = root();
    let numactl = qemu::find_program("numactl", "numactl")?;
    let guest = Guest {
        machine,
        accelerator,
        programs: programs.clone(),
        environment: vec![
            ("NUMART_GUEST".to_owned(), machine.name.clone()),
            ("NUMART_TEST_SLOWDOWN".to_owned(), SLOWDOWN.to_owned()),
        ],
        folders: vec![
            (numactl, "/usr/bin/numactl".to_owned()),
            (root.join("docs"), "/data/docs".to_owned()),
            (root.join("runtime/src"), "/data/runtime".to_owned()),
        ],
        limit: options.limit,
    };
    println!("\n== {}: {} nodes, {} CPUs", machine.name, machine.nodes.len(), machine.cpus());
    let mut report = Report::default();
    // What a program prints, shown when it has failed.
    let mut held: Vec<u8> = Vec::new();
    let ended = boot::run(&guest, &mut |event| match event {
        Event::Out(bytes) => {
            report.out(bytes);
            held.extend_from_slice(bytes);
        }
        Event::Err(bytes) => {
            report.err(bytes);
            held.extend_from_slice(bytes);
        }
        Event::Booted(after) => println!("   up after {:.1} s", after.as_secs_f64()),
        Event::Begin => {}
        Event::End(index, code, time) => {
            let done = std::mem::take(&mut report);
            let needs_nodes = built.guest_tests.iter().any(|test| test.file == programs[index].file);
            end_program(&programs[index], needs_nodes, code, time, &done, totals);
            if code != 0 {
                show(&held);
            }
            held.clear();
        }
    });
    match ended {
        Ok(_) => Ok(()),
        Err(error @ (Error::TimeLimit { .. } | Error::NoStatus { .. })) => {
            // The other machines still have something to say.
            show(&held);
            println!("{}: {error}", machine.name);
            totals.failed += 1;
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Counts one program's tests, and says what came of it.
fn end_program(program: &Program, needs_nodes: bool, code: i32, time: Duration, report: &Report, totals: &mut Totals) {
    let outcomes = report.outcomes();
    let name = program.plain_name();
    let count = |wanted: fn(&Outcome) -> bool| outcomes.values().filter(|outcome| wanted(outcome)).count();
    let (mut passed, mut failed) = (count(|o| *o == Outcome::Passed), count(|o| *o == Outcome::Failed));
    let (skipped, ignored) = (count(|o| matches!(o, Outcome::Skipped(_))), count(|o| *o == Outcome::Ignored));
    if outcomes.is_empty() && code == 0 {
        // No test harness: the program as a whole.
        passed = 1;
    } else if code != 0 && failed == 0 {
        // It ended before the harness could say so.
        failed = 1;
    }
    totals.passed += passed;
    totals.failed += failed;
    totals.skipped += skipped;
    totals.ignored += ignored;
    let rest = if ignored > 0 { format!(", {ignored} ignored") } else { String::new() };
    println!("   {name:<20} {passed:>3} passed, {failed} failed, {skipped} skipped{rest}; {:.1} s", time.as_secs_f64());
    for note in report.notes() {
        println!("      {note}");
    }
    for (test, outcome) in &outcomes {
        match outcome {
            Outcome::Skipped(why) => println!("      skipped: {test}: {why}"),
            Outcome::Failed => println!("      FAILED: {test}"),
            Outcome::Passed | Outcome::Ignored => {}
        }
        if needs_nodes {
            let full = format!("{name}: {test}");
            match outcome {
                Outcome::Skipped(why) => _ = totals.skips.insert(full, why.clone()),
                Outcome::Passed | Outcome::Failed => _ = totals.ran.insert(full),
                Outcome::Ignored => {}
            }
        }
    }
}

fn show(bytes: &[u8]) {
    let _ = std::io::stdout().write_all(bytes);
    println!();
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("tests/guest").to_owned()
}

/// Builds all that goes into a guest.
fn build() -> Result<Built, Error> {
    let hwloc: &[&str] = if cfg!(feature = "hwloc") { &["--features", "hwloc"] } else { &[] };
    // One after the other: asked for together, the feature would make cargo build the whole project's tests once more.
    let mut tests = cargo(&[&["test", "--no-run", "-p", "numart-guest", "--tests"], hwloc].concat())?;
    tests.extend(cargo(&["test", "--no-run", "-p", "numart", "--tests"])?);
    let examples = cargo(&["build", "-p", "numart", "--examples"])?;
    let folder = root().join("tests/guest");
    let mut built = Built { guest_tests: Vec::new(), others: Vec::new() };
    for artifact in tests.iter().filter(|artifact| artifact.kind == "test" && artifact.name != NOT_IN_A_GUEST) {
        // One thread at a time: they take CPUs offline and count what others would disturb.
        let program = Program::file(&artifact.executable, &["--test-threads=1"]);
        if artifact.source.starts_with(&folder) { &mut built.guest_tests } else { &mut built.others }.push(program);
    }
    for (name, arguments) in EXAMPLES {
        let artifact = examples.iter().find(|artifact| artifact.name == name && artifact.kind == "example");
        let file = artifact.ok_or_else(|| Error::Program(format!("cargo built no example {name}")))?;
        built.others.push(Program::file(&file.executable, arguments));
    }
    Ok(built)
}

/// Something that cargo built and that can be run.
struct Artifact {
    name: String,
    kind: String,
    source: PathBuf,
    executable: PathBuf,
}

fn cargo(arguments: &[&str]) -> Result<Vec<Artifact>, Error> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out = Command::new(program)
        .args(arguments)
        .args(["--release", "--message-format=json-render-diagnostics"])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Error::system("starting cargo", &error))?;
    if !out.status.success() {
        return Err(Error::Program(format!("cargo {} failed", arguments.join(" "))));
    }
    let text = String::from_utf8_lossy(&out.stdout);
    let mut found: Vec<Artifact> = text.lines().filter_map(artifact).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// One line of cargo's: `None` unless it names something to run.
fn artifact(line: &str) -> Option<Artifact> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let target = &message["target"];
    Some(Artifact {
        name: target["name"].as_str()?.to_owned(),
        kind: target["kind"][0].as_str()?.to_owned(),
        source: target["src_path"].as_str()?.into(),
        executable: message["executable"].as_str()?.into(),
    })
}
