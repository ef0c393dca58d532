//! Fork-join overheads of all runtimes in one interleaved run. `forkjoin --help` lists the options.

use numart_peers::bounce::Bouncer;
use numart_peers::peers::columns;
use numart_peers::sample::{Bench, Sample};
use numart_peers::work::{Node, Work, spins_for};
use numart_peers::{cpu, table};
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const HELP: &str = "\
forkjoin [OPTION…]

Runs the same work on every runtime by turns and prints markdown tables: the median time of one node, job or element, and
its ratio to the serial program and to rayon, apart for samples taken while the two CPUs were near and far.

--bench LIST      which work, comma-separated: tree-1k tree-8m spawn-empty spawn-1us store sum skewed (all)
--workers LIST    numbers of workers, comma-separated (1,2)
--only LIST       only these columns, comma-separated beginnings of their names, beside serial and rayon (all)
--rounds N        samples of each column (15)
--ms N            least length of a sample in milliseconds (5)
--threshold NS    a round trip of a cache line shorter than this is near (200)
--save FILE       append the samples to this file
--load FILE       measure nothing: print the tables of all samples in this file
--watch SECONDS   measure nothing but round trips for so long, and print how often each length was seen
";

const BENCHES: [&str; 7] = ["tree-1k", "tree-8m", "spawn-empty", "spawn-1us", "store", "sum", "skewed"];

struct Options {
    benches: Vec<String>,
    workers: Vec<usize>,
    only: Option<Vec<String>>,
    rounds: usize,
    at_least: Duration,
    threshold: f64,
    save: Option<String>,
    load: Option<String>,
    watch: Option<u64>,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("forkjoin: {message}; --help lists the options");
            return ExitCode::from(2);
        }
    };
    if let Some(seconds) = options.watch {
        return watch(Duration::from_secs(seconds));
    }
    match run(&options) {
        Ok(samples) => {
            println!("{}", table::summary(&samples, options.threshold));
            print!("{}", table::markdown(&samples, options.threshold));
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("forkjoin: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<Vec<Sample>, String> {
    if let Some(file) = &options.load {
        let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))?;
        return text
            .lines()
            .map(|line| Sample::from_line(line).ok_or(format!("{file}: not a sample: {line}")))
            .collect();
    }
    let samples = measure(options);
    if let Some(file) = &options.save {
        let lines: String = samples.iter().map(|sample| sample.to_line() + "\n").collect();
        std::fs::File::options()
            .append(true)
            .create(true)
            .open(file)
            .and_then(|mut open| open.write_all(lines.as_bytes()))
            .map_err(|error| format!("cannot write {file}: {error}"))?;
    }
    Ok(samples)
}

fn measure(options: &Options) -> Vec<Sample> {
    let bouncer = Bouncer::new();
    match &bouncer {
        Some(bouncer) => eprintln!("bouncing between CPUs {:?} of {:?}", bouncer.cpus(), cpu::allowed()),
        None => eprintln!("fewer than two CPUs: no sample can be called near or far"),
    }
    let mut samples = Vec::new();
    for &workers in &options.workers {
        let mut columns = columns(workers);
        if let Some(only) = &options.only {
            columns.retain(|column| {
                let name = column.name();
                ["serial", "rayon"].contains(&name) || only.iter().any(|only| name.starts_with(only.as_str()))
            });
        }
        for name in &options.benches {
            // The first column is the serial one.
            let bench = Bench::new(name, work(name), &*columns[0]);
            samples.extend(bench.measure(workers, &columns, options.rounds, options.at_least, bouncer.as_ref()));
        }
    }
    samples
}

/// Shows which lengths the round trips have on this machine, to choose a threshold between them.
fn watch(time: Duration) -> ExitCode {
    const BIN: usize = 20;
    let Some(bouncer) = Bouncer::new() else {
        eprintln!("forkjoin: fewer than two CPUs: nothing to watch");
        return ExitCode::FAILURE;
    };
    let mut bins = [0_u32; 30];
    let begin = Instant::now();
    while begin.elapsed() < time {
        let bin = bouncer.measure() as usize / BIN;
        bins[bin.min(bins.len() - 1)] += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("| ns | round trips |\n|--:|--:|");
    for (bin, count) in bins.iter().enumerate().filter(|(_, count)| **count > 0) {
        println!("| from {} | {count} |", bin * BIN);
    }
    ExitCode::SUCCESS
}

fn work(name: &str) -> Work {
    const JOBS: u32 = 10_000;
    match name {
        "tree-1k" => Work::Tree(Node::tree(10)),
        "tree-8m" => Work::Tree(Node::tree(23)),
        "spawn-empty" => Work::Spawn { jobs: JOBS, spins: 0 },
        "spawn-1us" => {
            let spins = spins_for(Duration::from_micros(1));
            eprintln!("spawn-1us: a job spins {spins} times");
            Work::Spawn { jobs: JOBS, spins }
        }
        "store" => Work::Store(Work::cells(10_000_000)),
        "sum" => Work::Sum(10_000_000),
        "skewed" => Work::Skewed(Work::cells(20_000)),
        _ => unreachable!("`parse` lets only names in BENCHES through"),
    }
}

/// `None` if help was asked for.
fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options {
        benches: BENCHES.map(str::to_owned).to_vec(),
        workers: vec![1, 2],
        only: None,
        rounds: 15,
        at_least: Duration::from_millis(5),
        threshold: 200.0,
        save: None,
        load: None,
        watch: None,
    };
    while let Some(option) = args.next() {
        if option == "--help" || option == "-h" {
            return Ok(None);
        }
        let value = args.next().ok_or(format!("{option} needs a value"))?;
        let number = || value.parse::<usize>().map_err(|_| format!("{option}: {value} is not a number"));
        let list = || value.split(',').map(str::to_owned).collect::<Vec<_>>();
        match option.as_str() {
            "--bench" => options.benches = list(),
            "--workers" => {
                let numbers = value.split(',').map(|item| item.parse().ok().filter(|&n: &usize| n > 0));
                options.workers =
                    numbers.collect::<Option<_>>().ok_or(format!("--workers: {value}: a list of counts"))?;
            }
            "--only" => options.only = Some(list()),
            "--rounds" => options.rounds = number()?,
            "--ms" => options.at_least = Duration::from_millis(number()? as u64),
            "--threshold" => options.threshold = number()? as f64,
            "--save" => options.save = Some(value),
            "--watch" => options.watch = Some(number()? as u64),
            "--load" => options.load = Some(value),
            _ => return Err(format!("unknown option {option}")),
        }
    }
    match options.benches.iter().find(|name| !BENCHES.contains(&name.as_str())) {
        Some(name) => Err(format!("--bench: there is no {name}, only {}", BENCHES.join(" "))),
        None => Ok(Some(options)),
    }
}
