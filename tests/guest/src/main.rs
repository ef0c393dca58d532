//! Boots a machine of many nodes in QEMU and runs programs in it. `docs/testing-numa.md` is its manual.
//!
//! - `machine`: what a guest looks like, from a text file.
//! - `kernel`: the distribution's kernel, downloaded and unpacked, not installed.
//! - `libraries`, `initramfs`, `init`: the guest's file system.
//! - `accelerator`: KVM, if a trial shows that it runs a guest, or emulation.
//! - `qemu`, `boot`: one guest from start to exit codes.
//! - `suite`, `report`: this project's tests on several machines, counted.

mod accelerator;
mod boot;
mod command_line;
mod error;
mod init;
mod initramfs;
mod kernel;
mod libraries;
mod machine;
mod qemu;
mod report;
mod suite;

use std::io::Write;
use std::process::ExitCode;

use accelerator::Accelerator;
use boot::{Event, Guest};
use command_line::{Order, RunOptions};
use error::Error;

fn main() -> ExitCode {
    let order = match command_line::parse(std::env::args().skip(1).collect()) {
        Ok(order) => order,
        Err(why) => {
            eprintln!("guest: {why}\n\n{}", command_line::HELP);
            return ExitCode::from(2);
        }
    };
    let done = match order {
        Order::Help => {
            print!("{}", command_line::HELP);
            Ok(0)
        }
        Order::Machines => list_machines(),
        Order::Check => check(),
        Order::Run(options) => run(*options),
        Order::Suite(options) => suite::run(options),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("guest: {error}");
            ExitCode::from(error.code())
        }
    }
}

fn list_machines() -> Result<u8, Error> {
    for machine in command_line::all_machines()? {
        let nodes = machine.nodes.len();
        println!("{:<12} {nodes} nodes, {} CPUs, {} MiB", machine.name, machine.cpus(), machine.mib());
    }
    Ok(0)
}

/// Everything that the runner needs from outside, before a long build ends in an error.
fn check() -> Result<u8, Error> {
    for (program, package) in suite::NEEDED {
        println!("{program}: {}", qemu::find_program(program, package)?.display());
    }
    println!("kernel: {}", kernel::find()?.display());
    println!("accelerator: {}", Accelerator::choose()?.name());
    Ok(0)
}

fn run(options: RunOptions) -> Result<u8, Error> {
    let guest = Guest {
        machine: &options.machine,
        accelerator: Accelerator::choose()?,
        programs: vec![options.program],
        environment: options.environment,
        folders: options.files,
        limit: options.limit,
    };
    let ended = boot::run(&guest, &mut |event| match event {
        // Whoever reads us may be gone, as in `… | head`; the exit code still counts.
        Event::Out(bytes) => _ = std::io::stdout().write_all(bytes).and_then(|()| std::io::stdout().flush()),
        Event::Err(bytes) => _ = std::io::stderr().write_all(bytes),
        Event::Booted(_) | Event::Begin | Event::End(..) => {}
    })?;
    Ok(u8::try_from(ended.codes[0]).unwrap_or(1))
}
