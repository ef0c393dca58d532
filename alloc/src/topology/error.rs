//! What can be wrong with a topology, and what to do about it.

use super::{CpuId, CpuSet, NodeId};
use std::error::Error;
use std::fmt;
use std::path::PathBuf;

/// Why there is no topology. Every message names the thing that is wrong and
/// the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyError {
    /// The text holds nothing but blanks and comments.
    Empty,
    /// A list of CPUs or nodes cannot be read.
    List {
        /// The whole list.
        list: String,
        /// The item that is wrong.
        item: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A line of the text form cannot be read.
    Syntax {
        /// The line, counted from 1.
        line: usize,
        /// What stands there.
        found: String,
        /// What could stand there.
        expected: &'static str,
    },
    /// A list in a line of the text form cannot be read.
    InLine {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong.
        source: Box<TopologyError>,
    },
    /// Two lines describe the same node.
    DuplicateNode {
        /// The second line, counted from 1.
        line: usize,
        /// The node.
        node: NodeId,
    },
    /// Two nodes name the same CPU.
    CpuInTwoNodes {
        /// The second line, counted from 1.
        line: usize,
        /// The CPU.
        cpu: CpuId,
        /// The node that had it first.
        first: NodeId,
        /// The node that names it again.
        second: NodeId,
    },
    /// Two `core` lines or two `l3` lines name the same CPU.
    CpuInTwoGroups {
        /// The second line, counted from 1.
        line: usize,
        /// `core` or `l3`.
        kind: &'static str,
        /// The CPU.
        cpu: CpuId,
    },
    /// A `core` or `l3` line names a CPU that belongs to no node.
    CpuWithoutNode {
        /// The line, counted from 1.
        line: usize,
        /// The CPU.
        cpu: CpuId,
    },
    /// There is no node at all.
    NoNodes,
    /// No node has a CPU: nothing could run.
    NoCpus,
    /// More nodes or CPUs than numart, or any kernel, can hold.
    TooMany {
        /// `nodes` or `CPUs`.
        what: &'static str,
        /// How many were asked for.
        found: u64,
        /// How many there may be.
        limit: u32,
    },
    /// The distance matrix does not have one row for each node.
    MatrixRows {
        /// How many rows there are.
        rows: usize,
        /// How many nodes there are.
        nodes: usize,
    },
    /// A row of the distance matrix does not have one column for each node.
    MatrixColumns {
        /// The line, counted from 1.
        line: usize,
        /// How many columns there are.
        columns: usize,
        /// How many nodes there are.
        nodes: usize,
    },
    /// A distance below 10.
    DistanceTooSmall {
        /// The line, counted from 1.
        line: usize,
        /// The node the row stands for.
        from: NodeId,
        /// The node the column stands for.
        to: NodeId,
        /// The distance.
        distance: u32,
    },
    /// The affinity mask and the cpuset leave this process no CPU of any node.
    NothingAllowed {
        /// The CPUs the process may use.
        allowed: CpuSet,
        /// The CPUs of the nodes.
        cpus: CpuSet,
    },
    /// The folder holds no recorded tree.
    NoTree {
        /// The folder that should be there.
        path: PathBuf,
    },
    /// A file cannot be read.
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// The text in a file is wrong.
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        source: Box<TopologyError>,
    },
    /// The value of `NUMART_TOPOLOGY` is wrong.
    InVariable {
        /// The value.
        value: String,
        /// What is wrong with it.
        source: Box<TopologyError>,
    },
    /// hwloc was asked for and this program is built without it.
    HwlocNotBuilt,
    /// hwloc failed.
    Hwloc {
        /// What it says.
        why: String,
    },
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use TopologyError::*;
        match self {
            Empty => write!(
                f,
                "the topology text is empty: write nodes x CPUs, as in \"4x2\", or one `node` line for each node"
            ),
            List { list, item, why } => write!(
                f,
                "\"{}\" in the list \"{}\" {why}: write numbers and ranges, as in \"0-3,8\"",
                short(item),
                short(list)
            ),
            Syntax { line, found, expected } => {
                write!(f, "line {line}: found \"{}\", expected {expected}", short(found))
            }
            InLine { line, source } => write!(f, "line {line}: {source}"),
            DuplicateNode { line, node } => write!(
                f,
                "line {line}: node {node} is described twice: join the two lines, or number one of them differently"
            ),
            CpuInTwoNodes { line, cpu, first, second } => write!(
                f,
                "line {line}: CPU {cpu} is in node {first} and again in node {second}: a CPU belongs to one node, take it out of the other"
            ),
            CpuInTwoGroups { line, kind, cpu } => {
                write!(f, "line {line}: CPU {cpu} is in two `{kind}` lines: take it out of one of them")
            }
            CpuWithoutNode { line, cpu } => {
                write!(f, "line {line}: CPU {cpu} is in no node: name it in the `cpus` of a `node` line above")
            }
            NoNodes => write!(f, "the topology has no node: write at least one, as in \"node 0 cpus 0-3\""),
            NoCpus => {
                write!(f, "no node has a CPU, so nothing could run: give one node CPUs, as in \"node 0 cpus 0-3\"")
            }
            TooMany { what, found, limit } => {
                write!(f, "{found} {what} are too many: at most {limit} can be described")
            }
            MatrixRows { rows, nodes } => write!(
                f,
                "the distance matrix has {rows} rows for {nodes} nodes: write one row for each node, in the order of the `node` lines"
            ),
            MatrixColumns { line, columns, nodes } => write!(
                f,
                "line {line}: the distance matrix is not square, {columns} columns for {nodes} nodes: write one column for each node"
            ),
            DistanceTooSmall { line, from, to, distance } => write!(
                f,
                "line {line}: the distance from node {from} to node {to} is {distance}: 10 is local, and nothing is nearer"
            ),
            NothingAllowed { allowed, cpus } => write!(
                f,
                "this process may run on CPUs {allowed} only, but the nodes have CPUs {cpus}: widen the affinity mask (taskset) or the cpuset (cpuset.cpus, docker --cpuset-cpus)"
            ),
            NoTree { path } => {
                write!(f, "{} is missing: name the folder that holds the recorded `sys`", path.display())
            }
            File { path, why } => write!(
                f,
                "{} cannot be read: {why}: name a readable file with a topology text, or write nodes x CPUs, as in \"4x2\"",
                path.display()
            ),
            InFile { path, source } => write!(f, "{}: {source}", path.display()),
            InVariable { value, source } => write!(
                f,
                "NUMART_TOPOLOGY=\"{}\": {source}; or unset NUMART_TOPOLOGY to use this machine as it is",
                short(value)
            ),
            HwlocNotBuilt => write!(
                f,
                "this program is built without hwloc: build it with the feature `hwloc`, or leave the choice to numart"
            ),
            Hwloc { why } => write!(f, "hwloc failed: {why}: unset the HWLOC_ variables, or use the sysfs source"),
        }
    }
}

impl Error for TopologyError {
    // The sources are part of the messages above, so that one line says it all;
    // naming them here again would print them twice.
}

/// The start of a text that may be a whole file, for use in a message.
fn short(text: &str) -> String {
    const MOST: usize = 60;
    let mut short: String = text.chars().take(MOST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
