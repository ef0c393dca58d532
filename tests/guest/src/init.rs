//! The guest's `init`: a shell script for busybox, made for each guest.

use crate::boot::{Guest, Program};
use crate::machine::Machine;

const HEAD: &str = r#"#!/bin/busybox sh
B=/bin/busybox
say() { $B echo "@@guest $*" >/dev/ttyS0; }
$B mount -t proc proc /proc
$B mount -t sysfs sys /sys
$B mount -t devtmpfs dev /dev
$B mkdir -p /dev/shm
$B mount -t tmpfs shm /dev/shm
$B mount -t tmpfs tmp /tmp
$B mount -t cgroup2 cgroup /sys/fs/cgroup
$B echo "+cpuset +cpu" >/sys/fs/cgroup/cgroup.subtree_control
$B ip link set lo up
$B stty -F /dev/ttyS1 raw -echo
$B stty -F /dev/ttyS2 raw -echo
export PATH=/bin:/usr/bin:/usr/sbin HOME=/root TERM=dumb RUST_BACKTRACE=1
say boot
"#;

/// A way to run one program and say how it ended.
const ONE: &str = r#"one() {
    say begin
    ( cd /tmp; "$@" ) </dev/null >/dev/ttyS1 2>/dev/ttyS2
    code=$?
    $B printf '\004@@guest end\004' >/dev/ttyS1
    $B printf '\004@@guest end\004' >/dev/ttyS2
    say "end $code"
}
"#;

/// The script.
pub fn script(guest: &Guest<'_>) -> String {
    let mut text = HEAD.to_owned();
    for (name, value) in &guest.environment {
        text += &format!("export {name}={}\n", quoted(value));
    }
    text += &limits(guest.machine);
    text += ONE;
    for program in &guest.programs {
        text += &line(program);
    }
    // `poweroff -f` asks no other init, there is none.
    text + "$B poweroff -f\n"
}

/// Takes CPUs away, and puts this shell, whose children the programs are, into a control group.
fn limits(machine: &Machine) -> String {
    let mut text = String::new();
    for cpu in &machine.offline {
        text += &format!("$B echo 0 >/sys/devices/system/cpu/cpu{cpu}/online\n");
    }
    if machine.cpuset.is_none() && machine.quota.is_none() {
        return text;
    }
    let group = "/sys/fs/cgroup/limited";
    text += &format!("$B mkdir {group}\n");
    if let Some((cpus, mems)) = &machine.cpuset {
        text += &format!("$B echo {cpus} >{group}/cpuset.cpus\n$B echo {mems} >{group}/cpuset.mems\n");
    }
    if let Some(quota) = machine.quota {
        text += &format!("$B echo {} 100000 >{group}/cpu.max\n", (quota * 100_000.0).round());
    }
    text + &format!("$B echo $$ >{group}/cgroup.procs\n")
}

fn line(program: &Program) -> String {
    let mut words = vec!["one".to_owned()];
    if !program.environment.is_empty() {
        words.push("$B env".to_owned());
        words.extend(program.environment.iter().map(|(name, value)| format!("{name}={}", quoted(value))));
    }
    words.push(match &program.file {
        Some(file) => quoted(&file.to_string_lossy()),
        None => "/bin/sh".to_owned(),
    });
    words.extend(program.arguments.iter().map(|argument| quoted(argument)));
    words.join(" ") + "\n"
}

/// For a shell, whatever is in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_word_means_anything_to_the_shell() {
        assert_eq!(quoted("a b$(c)'d"), r"'a b$(c)'\''d'");
    }
}
