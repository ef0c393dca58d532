//! What a guest looks like: nodes, CPUs, memory, distances, and the limits its program runs under.
//!
//! The text form is that of `docs/topology.md` with a few lines more:
//!
//! ```text
//! node 0 cpus 0-1 memory 512M
//! node 1 cpus 2-3               # a node without memory
//! node 2 memory 256M            # memory-only
//! distances
//! 10 20 40
//! 20 10 40
//! 40 40 10
//! offline 3                     # these CPUs are offline before the program starts
//! absent 2-3                    # these CPUs' sockets are empty: a node of nothing else never comes online
//! cpuset cpus 0-1 mems 0        # the program runs in a control group with these
//! quota 1.5                     # … and so many CPUs' worth of time
//! append numa_balancing=disable # more words for the kernel's command line
//! ```

use std::path::Path;

use crate::error::Error;

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// First and last CPU; `None` for a memory-only node.
    pub cpus: Option<(u32, u32)>,
    /// 0 for a node without memory.
    pub mib: u32,
}

impl Node {
    fn count(&self) -> u32 {
        self.cpus.map_or(0, |(first, last)| last - first + 1)
    }
}

/// A machine description.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    pub name: String,
    pub nodes: Vec<Node>,
    /// Row by row; empty: the firmware says nothing.
    pub distances: Vec<Vec<u32>>,
    pub offline: Vec<u32>,
    /// Of whole nodes without memory: the numbers of the others have a gap.
    pub absent: Vec<u32>,
    /// CPUs and memory nodes the program may use, as the kernel writes lists.
    pub cpuset: Option<(String, String)>,
    pub quota: Option<f64>,
    pub append: String,
}

impl Machine {
    /// Reads a description from a file, named after it.
    pub fn from_file(path: &Path) -> Result<Machine, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::file(path, &error))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Machine::parse(&name, &text).map_err(|why| Error::Description(format!("{}: {why}", path.display())))
    }

    /// Reads a description. The error names the line.
    pub fn parse(name: &str, text: &str) -> Result<Machine, String> {
        let mut machine = Machine { name: name.to_owned(), ..Machine::default() };
        let mut in_matrix = false;
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let Some(&first) = words.first() else { continue };
            let in_line = |why: String| format!("line {}: {why}", number + 1);
            if in_matrix && first.bytes().all(|byte| byte.is_ascii_digit()) {
                let row: Result<Vec<u32>, _> = words.iter().map(|word| word.parse()).collect();
                machine.distances.push(row.map_err(|_| in_line(format!("\"{line}\" is no row of distances")))?);
                continue;
            }
            in_matrix = false;
            let rest = line[first.len()..].trim();
            match first {
                "node" => machine.add_node(&words[1..]).map_err(in_line)?,
                "distances" => in_matrix = true,
                "offline" => machine.offline = list(rest).map_err(in_line)?,
                "absent" => machine.absent = list(rest).map_err(in_line)?,
                "cpuset" => match words[1..] {
                    ["cpus", cpus, "mems", mems] => machine.cpuset = Some((cpus.to_owned(), mems.to_owned())),
                    _ => return Err(in_line("expected `cpuset cpus LIST mems LIST`".to_owned())),
                },
                "quota" => {
                    let quota = rest.parse().ok().filter(|&quota: &f64| quota > 0.0);
                    machine.quota = Some(quota.ok_or_else(|| in_line(format!("\"{rest}\" is no number of CPUs")))?);
                }
                "append" => machine.append = rest.to_owned(),
                _ => return Err(in_line(format!("\"{first}\" is none of the words that may begin a line"))),
            }
        }
        machine.check()?;
        Ok(machine)
    }

    fn add_node(&mut self, words: &[&str]) -> Result<(), String> {
        let (&number, mut rest) = words.split_first().ok_or("a node has a number")?;
        if number.parse() != Ok(self.nodes.len()) {
            // QEMU refuses gaps ("numa: Node ID missing"); `absent` makes them.
            return Err(format!(
                "node {number}: QEMU wants nodes in order and without gaps, next is {}",
                self.nodes.len()
            ));
        }
        let mut node = Node { cpus: None, mib: 0 };
        while let [word, value, more @ ..] = rest {
            match *word {
                "cpus" => {
                    let cpus = list(value)?;
                    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
                    if (last - first) as usize + 1 != cpus.len() {
                        return Err(format!("\"{value}\": a node's CPUs are one range"));
                    }
                    node.cpus = Some((first, last));
                }
                "memory" => node.mib = mebibytes(value)?,
                _ => return Err(format!("\"{word}\": expected `cpus LIST` or `memory SIZE`")),
            }
            rest = more;
        }
        if !rest.is_empty() || node == (Node { cpus: None, mib: 0 }) {
            return Err("expected `node NUMBER [cpus LIST] [memory SIZE]`".to_owned());
        }
        self.nodes.push(node);
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let mut next = 0;
        for node in &self.nodes {
            if let Some((first, last)) = node.cpus {
                if first != next {
                    return Err(format!(
                        "CPU {next} is in no node, or in two: give each node the CPUs after the last one's"
                    ));
                }
                next = last + 1;
            }
        }
        if next == 0 {
            return Err("no node has a CPU".to_owned());
        }
        let count = self.nodes.len();
        if !self.distances.is_empty()
            && (self.distances.len() != count || self.distances.iter().any(|row| row.len() != count))
        {
            return Err(format!("the distances are not {count} rows of {count}"));
        }
        // The first CPU and node boot the machine.
        if self.nodes[0].cpus.is_none() || self.nodes[0].mib == 0 {
            return Err("node 0 needs CPUs and memory: the machine boots there".to_owned());
        }
        for node in &self.nodes {
            let gone = |cpu: &u32| self.absent.contains(cpu);
            let (first, last) = node.cpus.unwrap_or((0, 0));
            if (first..=last).any(|cpu| gone(&cpu)) && (node.mib > 0 || !(first..=last).all(|cpu| gone(&cpu))) {
                return Err(format!("absent: CPUs {first}-{last} are a node's; all of them, and no memory, or none"));
            }
        }
        if !self.absent.is_empty() && self.cpus_per_node().is_none() {
            return Err("absent: only where all nodes have as many CPUs".to_owned());
        }
        for cpu in self.offline.iter().chain(&self.absent) {
            if *cpu == 0 || *cpu >= next {
                return Err(format!("CPU {cpu} cannot be taken away: 1 to {} can", next - 1));
            }
        }
        Ok(())
    }

    /// CPUs of all nodes.
    pub fn cpus(&self) -> u32 {
        self.nodes.iter().map(Node::count).sum()
    }

    /// CPUs of each compute node, if all have as many.
    pub fn cpus_per_node(&self) -> Option<u32> {
        let mut counts = self.nodes.iter().map(Node::count).filter(|&count| count > 0);
        let first = counts.next()?;
        counts.all(|count| count == first).then_some(first)
    }

    /// Memory of all nodes.
    pub fn mib(&self) -> u32 {
        self.nodes.iter().map(|node| node.mib).sum()
    }
}

fn mebibytes(text: &str) -> Result<u32, String> {
    let bad = || format!("\"{text}\" is no size: write 512M or 1G");
    let (number, unit) = text.split_at(text.len().saturating_sub(1));
    let number: u32 = number.parse().map_err(|_| bad())?;
    match unit {
        "M" => Some(number),
        "G" => number.checked_mul(1024),
        _ => None,
    }
    .filter(|&mib| mib > 0)
    .ok_or_else(bad)
}

/// A kernel list, `0-3,8`: not empty.
fn list(text: &str) -> Result<Vec<u32>, String> {
    let bad = || format!("\"{text}\" is no list: write numbers and ranges, as in 0-3,8");
    let mut numbers = Vec::new();
    for item in text.split(',') {
        let (from, to) = item.split_once('-').unwrap_or((item, item));
        let (from, to): (u32, u32) = (from.parse().map_err(|_| bad())?, to.parse().map_err(|_| bad())?);
        if to < from || to > 1023 {
            return Err(bad());
        }
        numbers.extend(from..=to);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read() {
        let text = "node 0 cpus 0-1 memory 512M # boots\nnode 1 cpus 2-3\nnode 2 memory 1G\ndistances\n10 20 40\n20 10 40\n\
                    40 40 10\noffline 1\nabsent 2-3\ncpuset cpus 0-1 mems 0,2\nquota 1.5\nappend a=b c\n";
        let machine = Machine::parse("m", text).unwrap();
        assert_eq!((machine.cpus(), machine.cpus_per_node(), machine.mib()), (4, Some(2), 1536));
        assert_eq!(machine.nodes[2], Node { cpus: None, mib: 1024 });
        assert_eq!(machine.distances[2], [40, 40, 10]);
        assert_eq!((machine.offline, machine.absent), (vec![1], vec![2, 3]));
        assert_eq!(machine.cpuset, Some(("0-1".to_owned(), "0,2".to_owned())));
        assert_eq!((machine.quota, machine.append.as_str()), (Some(1.5), "a=b c"));
    }

    #[test]
    fn mistakes_name_the_line() {
        for (text, word) in [
            ("", "no node"),
            ("node 1 cpus 0 memory 1G", "line 1"),
            ("node 0 cpus 0 memory 1X", "512M"),
            ("node 0 cpus 0-1 memory 1G\nnode 1 cpus 3", "CPU 2"),
            ("node 0 cpus 0,2 memory 1G", "one range"),
            ("node 0 memory 1G\nnode 1 cpus 0 memory 1G", "boots"),
            ("node 0 cpus 0 memory 1G\ndistances\n10 20", "1 rows of 1"),
            ("node 0 cpus 0 memory 1G\noffline 0", "CPU 0"),
            ("node 0 cpus 0 memory 1G\nnode 1 cpus 1 memory 1G\nabsent 1", "no memory"),
            ("node 0 cpus 0 memory 1G\nquota none", "line 2"),
            ("node 0 cpus 0 memory 1G\ncpuset 0", "line 2"),
            ("node 0 cpus 0 memory 1G\nsockets 3", "sockets"),
        ] {
            let why = Machine::parse("m", text).unwrap_err();
            assert!(why.contains(word), "{text:?}: {why}");
        }
    }

    #[test]
    fn the_machines_of_the_suite_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines");
        let machines =
            std::fs::read_dir(folder).unwrap().map(|entry| Machine::from_file(&entry.unwrap().path()).unwrap());
        assert!(machines.filter(|machine| machine.nodes.len() > 1).count() >= 8);
    }
}
