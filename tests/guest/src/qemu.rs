//! QEMU's arguments for a machine.

use std::os::fd::RawFd;
use std::path::PathBuf;

use crate::accelerator::Accelerator;
use crate::error::Error;
use crate::machine::Machine;

/// A program of the host's, or the package that brings it.
pub fn find_program(name: &str, package: &str) -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| Error::Missing {
        what: name.to_owned(),
        remedy: format!("apt-get update && apt-get install --no-install-recommends {package}"),
    })
}

/// Quiet, no mitigations (the guest is ours and slow enough), no random layout (a fault's address says something), nobody
/// waits for a calibration that an emulated clock makes worthless, and a panic ends the guest.
const KERNEL_WORDS: &str = "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off nokaslr audit=0 no_timer_check \
                            lpj=4000000 tsc=reliable random.trust_cpu=on";

/// The machine itself.
pub fn arguments(machine: &Machine, accelerator: Accelerator) -> Vec<String> {
    let mut arguments: Vec<String> = Vec::new();
    let mut add = |words: &[&str]| arguments.extend(words.iter().map(|&word| word.to_owned()));
    add(&["-M", "q35", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    match accelerator {
        // 5-level page tables cost the emulated walks and nothing here needs them.
        Accelerator::Tcg => add(&["-accel", "tcg,thread=multi", "-cpu", "max,la57=off"]),
        Accelerator::Kvm => add(&["-accel", "kvm", "-cpu", "host"]),
    }
    let cpus = machine.cpus();
    // A node is a socket, so that an L3 cache belongs to one node; uneven nodes get a socket per CPU.
    let cores = machine.cpus_per_node().unwrap_or(1);
    let shape = format!("sockets={},cores={cores},threads=1", cpus / cores);
    if machine.absent.is_empty() {
        add(&["-smp", &format!("{cpus},{shape}")]);
    } else {
        // The first node's CPUs boot; the others are plugged in one by one, those of empty sockets left out. The firmware's
        // tables name the empty sockets' node, so the kernel gives it a number, and never brings it online.
        add(&["-smp", &format!("{cores},maxcpus={cpus},{shape}")]);
        let kind = match accelerator {
            Accelerator::Tcg => "max-x86_64-cpu",
            Accelerator::Kvm => "host-x86_64-cpu",
        };
        for cpu in (cores..cpus).filter(|cpu| !machine.absent.contains(cpu)) {
            let (socket, core) = (cpu / cores, cpu % cores);
            add(&["-device", &format!("{kind},socket-id={socket},core-id={core},thread-id=0")]);
        }
    }
    add(&["-m", &format!("{}M", machine.mib())]);
    for (number, node) in machine.nodes.iter().enumerate() {
        let mut text = format!("node,nodeid={number}");
        if let Some((first, last)) = node.cpus {
            text += &format!(",cpus={first}-{last}");
        }
        if node.mib > 0 {
            add(&["-object", &format!("memory-backend-ram,id=m{number},size={}M", node.mib)]);
            text += &format!(",memdev=m{number}");
        }
        add(&["-numa", &text]);
    }
    for (from, row) in machine.distances.iter().enumerate() {
        for (to, distance) in row.iter().enumerate().filter(|&(to, _)| to != from) {
            add(&["-numa", &format!("dist,src={from},dst={to},val={distance}")]);
        }
    }
    add(&["-append", format!("{KERNEL_WORDS} {}", machine.append).trim()]);
    arguments
}

/// Three serial lines: the console (kernel and `init`), and the program's standard output and error, each a stream of
/// its own so that no kernel message gets into them.
pub fn serial_lines(console: RawFd) -> Vec<String> {
    [
        ("console", format!("file,id=console,path=/proc/self/fd/{console},append=on")),
        ("out", "file,id=out,path=/proc/self/fd/1,append=on".to_owned()),
        ("err", "file,id=err,path=/proc/self/fd/2,append=on".to_owned()),
    ]
    .into_iter()
    .flat_map(|(name, device)| ["-chardev".to_owned(), device, "-serial".to_owned(), format!("chardev:{name}")])
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_without_cpus_or_memory_are_passed_as_such() {
        let text =
            "node 0 cpus 0-1 memory 1G\nnode 1 cpus 2-3\nnode 2 memory 256M\ndistances\n10 20 30\n20 10 40\n30 40 10";
        let all = arguments(&Machine::parse("m", text).unwrap(), Accelerator::Tcg).join(" ");
        for part in [
            "-smp 4,sockets=2,cores=2,threads=1 -m 1280M",
            "-numa node,nodeid=0,cpus=0-1,memdev=m0",
            "-numa node,nodeid=1,cpus=2-3 ",
            "-object memory-backend-ram,id=m2,size=256M -numa node,nodeid=2,memdev=m2",
            "-numa dist,src=1,dst=2,val=40",
        ] {
            assert!(all.contains(part), "{part} in {all}");
        }
        assert!(!all.contains("src=1,dst=1"));
    }

    #[test]
    fn absent_cpus_are_possible_and_not_plugged_in() {
        let text = "node 0 cpus 0-1 memory 1G\nnode 1 cpus 2-3\nnode 2 cpus 4-5 memory 1G\nabsent 2-3";
        let all = arguments(&Machine::parse("m", text).unwrap(), Accelerator::Tcg).join(" ");
        assert!(all.contains("-smp 2,maxcpus=6,sockets=3,cores=2,threads=1"), "{all}");
        assert_eq!(all.matches("-device max-x86_64-cpu,socket-id=2").count(), 2, "{all}");
        assert!(!all.contains("socket-id=1"), "{all}");
    }
}
