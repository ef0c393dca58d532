//! The command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::boot::Program;
use crate::error::Error;
use crate::machine::Machine;

pub const HELP: &str = "\
cargo run --release -p numart-guest -- COMMAND

  run [OPTIONS] -- PROGRAM [ARGUMENT…]   run one program in a guest; its output and its exit code are ours
      --machine M      a machine of `machines`, or a file that describes one (default: 4x2)
      --limit SECONDS  kill the guest after so long (default: 600); exit code 124
      --env NAME=VALUE a variable for the program
      --file FROM[:TO] pack this file or folder too
  suite [OPTIONS] [MACHINE…]             this project's tests on these machines (default: all of them)
      --rounds N       run the programs and stress tests of the whole project so often (default: 1)
      --only TEXT      only test programs with this in their name
      --limit SECONDS  for each machine (default: 1800)
      --every-test     fail if a test was skipped on all the machines
  machines                               list the machines
  check                                  say what is missing, download the kernel, try KVM

Variables: NUMART_GUEST_ACCEL=kvm|tcg decides without a trial; NUMART_GUEST_KERNEL=FILE boots another kernel.
";

pub enum Order {
    Help,
    Machines,
    Check,
    Run(Box<RunOptions>),
    Suite(SuiteOptions),
}

pub struct RunOptions {
    pub machine: Machine,
    pub limit: Duration,
    pub environment: Vec<(String, String)>,
    pub files: Vec<(PathBuf, String)>,
    pub program: Program,
}

pub struct SuiteOptions {
    pub machines: Vec<Machine>,
    pub rounds: usize,
    pub only: Option<String>,
    pub limit: Duration,
    pub every_test: bool,
}

pub fn parse(mut words: Vec<String>) -> Result<Order, String> {
    if words.is_empty() || words.iter().take_while(|word| *word != "--").any(|word| word == "--help" || word == "-h") {
        return Ok(Order::Help);
    }
    match words.remove(0).as_str() {
        "machines" => Ok(Order::Machines),
        "check" => Ok(Order::Check),
        "run" => parse_run(words).map(|run| Order::Run(Box::new(run))),
        "suite" => parse_suite(words).map(Order::Suite),
        other => Err(format!("\"{other}\" is no command")),
    }
}

fn parse_run(words: Vec<String>) -> Result<RunOptions, String> {
    let (mut machine, mut limit) = ("4x2".to_owned(), Duration::from_secs(600));
    let (mut environment, mut files) = (Vec::new(), Vec::new());
    let mut words = words.into_iter();
    loop {
        let word = words.next().ok_or("`--` and a program are missing")?;
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--" => break,
            "--machine" => machine = value()?,
            "--limit" => limit = seconds(&value()?)?,
            "--env" => {
                let value = value()?;
                let (name, value) = value.split_once('=').ok_or(format!("--env {value}: write NAME=VALUE"))?;
                environment.push((name.to_owned(), value.to_owned()));
            }
            "--file" => {
                let value = value()?;
                let (from, to) = value.split_once(':').unwrap_or((&value, ""));
                let path = std::path::absolute(from).map_err(|error| format!("{from}: {error}"))?;
                let to = if to.is_empty() { path.to_string_lossy().into_owned() } else { to.to_owned() };
                files.push((path, to));
            }
            other => return Err(format!("\"{other}\" is no option of `run`")),
        }
    }
    let program = words.next().ok_or("a program is missing after `--`")?;
    let path = std::path::absolute(&program).map_err(|error| format!("{program}: {error}"))?;
    let arguments: Vec<String> = words.collect();
    let mut program = Program::file(&path, &[]);
    program.arguments = arguments;
    let machine = find_machine(&machine).map_err(|error| error.to_string())?;
    Ok(RunOptions { machine, limit, environment, files, program })
}

fn parse_suite(words: Vec<String>) -> Result<SuiteOptions, String> {
    let mut options = SuiteOptions {
        machines: Vec::new(),
        rounds: 1,
        only: None,
        limit: Duration::from_secs(1800),
        every_test: false,
    };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--rounds" => {
                let value = value()?;
                options.rounds = value.parse().map_err(|_| format!("--rounds {value}: not a number"))?;
            }
            "--only" => options.only = Some(value()?),
            "--limit" => options.limit = seconds(&value()?)?,
            "--every-test" => options.every_test = true,
            option if option.starts_with('-') => return Err(format!("\"{option}\" is no option of `suite`")),
            name => options.machines.push(find_machine(name).map_err(|error| error.to_string())?),
        }
    }
    if options.machines.is_empty() {
        options.machines = all_machines().map_err(|error| error.to_string())?;
    }
    Ok(options)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().ok().filter(|&number: &u64| number > 0);
    number.map(Duration::from_secs).ok_or(format!("\"{text}\" is no number of seconds"))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("machines")
}

/// The machines of the suite, by name.
pub fn all_machines() -> Result<Vec<Machine>, Error> {
    let folder = folder();
    let entries = std::fs::read_dir(&folder).map_err(|error| Error::file(&folder, &error))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    files.iter().map(|file| Machine::from_file(file)).collect()
}

fn find_machine(name: &str) -> Result<Machine, Error> {
    let ours = folder().join(format!("{name}.txt"));
    if ours.is_file() {
        return Machine::from_file(&ours);
    }
    if Path::new(name).is_file() {
        return Machine::from_file(Path::new(name));
    }
    Err(Error::Description(format!("\"{name}\" is neither a machine of the suite nor a file; `machines` lists those")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_program_keeps_its_own_options() {
        let line = "run --machine 2x2 --limit 5 --env A=b=c --file /etc/hosts:/h -- /bin/x --help --machine 9";
        let Ok(Order::Run(run)) = parse(words(line)) else { panic!("{line}") };
        assert_eq!((run.machine.name.as_str(), run.limit), ("2x2", Duration::from_secs(5)));
        assert_eq!(run.environment, [("A".to_owned(), "b=c".to_owned())]);
        assert_eq!(run.files, [("/etc/hosts".into(), "/h".to_owned())]);
        assert_eq!(run.program.arguments, ["--help", "--machine", "9"]);
    }

    #[test]
    fn mistakes_are_named() {
        for (line, word) in [
            ("boot", "boot"),
            ("run --machine 2x2", "program"),
            ("run --", "program"),
            ("run --limit 0 -- x", "seconds"),
            ("run --machine 77x3 -- x", "77x3"),
            ("suite --often 3", "--often"),
            ("suite --rounds many", "many"),
            ("run --env A -- x", "NAME=VALUE"),
        ] {
            match parse(words(line)) {
                Err(why) => assert!(why.contains(word), "{line}: {why}"),
                Ok(_) => panic!("{line}"),
            }
        }
    }
}
