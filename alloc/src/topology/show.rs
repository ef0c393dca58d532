//! Topologies for people (a table) and for [`Topology::parse`] (text).

use super::{Cpu, CpuSet, Node, NodeId, Source, Topology};
use std::fmt::{self, Write};

impl Topology {
    /// The text form that [`Topology::parse`] reads: record a machine with it,
    /// and run on it as mock nodes elsewhere.
    ///
    /// Nodes, online CPUs, memory, distances, cores and L3 groups survive the
    /// way there and back. What a process may use, the quota and CPUs without a
    /// node are not part of it.
    ///
    /// ```
    /// use numart_alloc::topology::Topology;
    ///
    /// let machine = Topology::this_machine()?;
    /// let mock = Topology::parse(&machine.to_text())?;
    /// assert_eq!(mock.nodes().len(), machine.nodes().len());
    /// assert!(mock.is_mock());
    /// # Ok::<(), numart_alloc::topology::TopologyError>(())
    /// ```
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for node in self.nodes() {
            text += &format!("node {}", node.id);
            if !node.cpus.is_empty() {
                text += &format!(" cpus {}", node.cpus);
            }
            if node.memory > 0 {
                text += &format!(" memory {}", exact_size(node.memory));
            }
            text.push('\n');
        }
        for core in self.groups(Cpu::smt_siblings) {
            // A CPU without a line is a core of its own.
            if core.len() > 1 {
                text += &format!("core {core}\n");
            }
        }
        let l3s = self.groups(Cpu::l3_siblings);
        // Without any line, each node is one group.
        if !l3s.iter().all(|l3| self.nodes().iter().any(|n| n.cpus == *l3)) {
            text.extend(l3s.iter().map(|l3| format!("l3 {l3}\n")));
        }
        text += "distances\n";
        for row in self.rows() {
            let row: Vec<String> = row.iter().map(u32::to_string).collect();
            text += &row.join(" ");
            text.push('\n');
        }
        text
    }

    /// The groups that CPUs of nodes form, each once, by their lowest CPU.
    fn groups(&self, of: fn(&Cpu) -> &CpuSet) -> Vec<CpuSet> {
        let in_node = |cpu: &Cpu| cpu.node.is_some();
        let mut seen = CpuSet::new();
        let mut groups = Vec::new();
        for cpu in self.cpus().iter().filter(|c| in_node(c)) {
            if seen.contains(cpu.id) {
                continue;
            }
            let members = of(cpu).iter().filter(|&c| self.cpu(c).is_some_and(in_node));
            let group: CpuSet = members.collect();
            seen.extend(group.iter());
            groups.push(group);
        }
        groups
    }

    fn rows(&self) -> impl Iterator<Item = &[u32]> {
        self.parts.distances.chunks(self.nodes().len())
    }

    fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allowed = self.cpus().iter().filter(|c| c.allowed).count();
        let compute = self.compute_nodes().count();
        let kind = if self.is_mock() { "mock" } else { "real" };
        let source = match self.source() {
            Source::Sysfs => "sysfs",
            Source::Hwloc => "hwloc",
            Source::Written => "a description",
            Source::Fallback => "the CPU count alone",
        };
        writeln!(
            f,
            "{kind} nodes from {source}: {} node{}, {compute} to compute on, {allowed} of {} CPUs allowed",
            self.nodes().len(),
            if self.nodes().len() == 1 { "" } else { "s" },
            self.cpus().len(),
        )
    }

    fn write_nodes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |set: &CpuSet| match set.is_empty() {
            true => "-".to_owned(),
            false => set.to_string(),
        };
        let width = |title: &str, of: fn(&Node) -> &CpuSet| {
            let widths = self.nodes().iter().map(|n| shown(of(n)).len());
            widths.max().unwrap_or(0).max(title.len())
        };
        let cpus = width("CPUs", Node::cpus);
        let allowed = width("allowed", Node::allowed_cpus);
        writeln!(f, "node  {:cpus$}  {:allowed$}  cores  L3s      memory", "CPUs", "allowed")?;
        for node in self.nodes() {
            let count = |of: fn(&Cpu) -> u32| {
                let mut groups: Vec<u32> = node.cpus.iter().filter_map(|c| self.cpu(c)).map(of).collect();
                groups.sort_unstable();
                groups.dedup();
                groups.len()
            };
            writeln!(
                f,
                "{:>4}  {:cpus$}  {:allowed$}  {:>5}  {:>3}  {:>10}{}",
                node.id,
                shown(node.cpus()),
                shown(node.allowed_cpus()),
                count(|c| c.core),
                count(|c| c.l3),
                about_size(node.memory),
                note(node),
            )?;
        }
        Ok(())
    }

    fn write_distances(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<NodeId> = self.nodes().iter().map(Node::id).collect();
        let widest = self.parts.distances.iter().copied().chain(ids.iter().map(|i| i.0));
        let width = widest.max().unwrap_or(0).to_string().len();
        write!(f, "distance")?;
        for id in &ids {
            write!(f, " {id:>width$}")?;
        }
        writeln!(f)?;
        for (id, row) in ids.iter().zip(self.rows()) {
            write!(f, "{id:>8}")?;
            for distance in row {
                write!(f, " {distance:>width$}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// A table: nodes, CPUs, cores and L3 groups, memory, distances, the CPU quota
/// and the warnings. It may change between versions; use [`Topology::to_text`]
/// for programs.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        self.write_nodes(f)?;
        if self.nodes().len() > 1 {
            self.write_distances(f)?;
        }
        match self.cpu_quota() {
            Some(quota) => write!(f, "CPU quota {quota:.2}")?,
            None => write!(f, "no CPU quota")?,
        }
        write!(f, ", {} workers by default", self.default_workers())?;
        for warning in self.warnings() {
            write!(f, "\nwarning: {warning}")?;
        }
        Ok(())
    }
}

fn note(node: &Node) -> &'static str {
    if node.is_memory_only() {
        "  memory-only"
    } else if node.allowed.is_empty() {
        "  excluded"
    } else if !node.memory_allowed {
        "  memory excluded"
    } else {
        ""
    }
}

const UNITS: [(u32, &str); 4] = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];

/// Bytes in the largest unit that loses nothing.
fn exact_size(bytes: u64) -> String {
    let exact = UNITS.iter().find(|(shift, _)| bytes.is_multiple_of(1 << shift));
    match exact {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// Bytes in a unit that is easy to read.
fn about_size(bytes: u64) -> String {
    let unit = UNITS.iter().find(|(shift, _)| bytes >> shift > 0);
    let mut text = String::new();
    let _ = match unit {
        Some((shift, unit)) => {
            let tenths = (u128::from(bytes) * 10) >> shift;
            write!(text, "{}.{} {unit}iB", tenths / 10, tenths % 10)
        }
        None if bytes == 0 => write!(text, "-"),
        None => write!(text, "{bytes} B"),
    };
    text
}
