//! The written description.

use super::assemble::{Draft, DraftNode};
use super::limits::Limits;
use super::list::{self, MAX_NUMBER};
use super::{CpuId, CpuSet, LOCAL_DISTANCE, NodeId, Source, Topology, TopologyError};

/// The kernel's own limit: `MAX_NUMNODES` with `NODES_SHIFT` 10.
const MAX_NODES: u32 = 1024;

const KEYWORDS: &str = "a shape such as \"4x2\", or a line that starts with \
                        `node`, `core`, `l3` or `distances`";

impl Topology {
    /// Reads a written description. Its nodes are mock nodes: all of their CPUs
    /// are allowed, nothing can be bound to them, and there is no quota.
    ///
    /// The text is either a shape, nodes x CPUs for each, such as `4x2`; or it
    /// consists of lines:
    ///
    /// ```text
    /// text      = shape | { line }
    /// shape     = NUMBER "x" NUMBER
    /// line      = node | core | l3 | distances | blank
    /// node      = "node" NUMBER [ "cpus" LIST ] [ "memory" SIZE ]
    /// core      = "core" LIST           these CPUs share a core
    /// l3        = "l3" LIST             these CPUs share an L3 cache
    /// distances = "distances" newline, then one row for each node:
    /// row       = NUMBER { NUMBER }     one column for each node
    /// LIST      = "0-3,8"               numbers and ranges, no blanks
    /// SIZE      = NUMBER [ "K" | "M" | "G" | "T" ]     bytes, powers of 1024
    /// ```
    ///
    /// - `#` starts a comment; blank lines mean nothing.
    /// - Rows and columns stand in the order of the `node` lines. Distances
    ///   are in SLIT units, at least 10 (local). The matrix need not be
    ///   symmetric. `distances` comes last. Without it every other node is at
    ///   20.
    /// - A node without `cpus` is a memory-only node; without `memory` it has 0
    ///   bytes, which means unknown.
    /// - CPUs without a `core` line are a core each. CPUs without an `l3` line
    ///   share an L3 cache with the others of their node that have none.
    /// - Numbers go to 16,383, nodes to 1,024 in number.
    ///
    /// # Errors
    ///
    /// A [`TopologyError`] that names the line: an empty text, no node or no
    /// CPU, a node described twice, a CPU in two nodes, a matrix that is not
    /// square, a distance below 10, or a line that fits no rule.
    ///
    /// ```
    /// use numart_alloc::topology::{NodeId, Topology};
    ///
    /// let mock = Topology::parse("4x2")?;
    /// assert_eq!(mock.nodes().len(), 4);
    ///
    /// let mock = Topology::parse(
    ///     "node 0 cpus 0-3 memory 16G
    ///      node 33 cpus 4-7
    ///      node 8 memory 64G          # memory-only
    ///      distances
    ///      10 20 40
    ///      20 10 40
    ///      40 40 10",
    /// )?;
    /// assert!(mock.node(NodeId(8)).unwrap().is_memory_only());
    /// assert_eq!(mock.distance(NodeId(33), NodeId(8)), Some(40));
    /// # Ok::<(), numart_alloc::topology::TopologyError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Topology, TopologyError> {
        if let Some((nodes, cpus)) = shape(text) {
            return grid(nodes, cpus);
        }
        let mut reader = Reader::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                reader.line(i + 1, line)?;
            }
        }
        reader.finish()
    }
}

/// Whether the text is a shape such as `4x2`.
pub(super) fn is_shape(text: &str) -> bool {
    shape(text).is_some()
}

fn shape(text: &str) -> Option<(u32, u32)> {
    let (nodes, cpus) = text.split_once(['x', 'X'])?;
    Some((list::number(nodes)?, list::number(cpus)?))
}

fn grid(nodes: u32, cpus: u32) -> Result<Topology, TopologyError> {
    let all = u64::from(nodes) * u64::from(cpus);
    if all > u64::from(MAX_NUMBER) {
        return Err(TopologyError::TooMany { what: "CPUs", found: all, limit: MAX_NUMBER });
    }
    let mut draft = Draft::new(Source::Written, true);
    for node in 0..nodes {
        room_for_node(&draft)?;
        let cpus = (node * cpus..(node + 1) * cpus).map(CpuId).collect();
        let memory = 0;
        draft.nodes.insert(NodeId(node), DraftNode { cpus, memory });
    }
    draft.finish(Limits::default())
}

fn room_for_node(draft: &Draft) -> Result<(), TopologyError> {
    if draft.nodes.len() < MAX_NODES as usize {
        return Ok(());
    }
    Err(TopologyError::TooMany { what: "nodes", found: draft.nodes.len() as u64 + 1, limit: MAX_NODES })
}

/// What has been read so far.
struct Reader {
    draft: Draft,
    /// In the order of the lines, which is that of the matrix.
    order: Vec<NodeId>,
    /// `Some` once `distances` has been read: the number of rows.
    rows: Option<usize>,
    /// `core` and `l3` lines, checked when all nodes are known.
    grouped: Vec<(usize, CpuSet)>,
}

impl Reader {
    fn new() -> Self {
        Self { draft: Draft::new(Source::Written, true), order: Vec::new(), rows: None, grouped: Vec::new() }
    }

    fn line(&mut self, number: usize, line: &str) -> Result<(), TopologyError> {
        if self.rows.is_some() {
            return self.row(number, line);
        }
        let mut words = line.split_whitespace();
        match words.next() {
            Some("node") => self.node(number, words),
            Some("core") => {
                let set = group(number, "core", words, &self.draft.cores)?;
                self.grouped.push((number, set.clone()));
                self.draft.cores.push(set);
                Ok(())
            }
            Some("l3") => {
                let set = group(number, "l3", words, &self.draft.l3s)?;
                self.grouped.push((number, set.clone()));
                self.draft.l3s.push(set);
                Ok(())
            }
            Some("distances") => {
                self.rows = Some(0);
                end(number, words)
            }
            _ => Err(syntax(number, line, KEYWORDS)),
        }
    }

    fn node<'a>(&mut self, line: usize, mut words: impl Iterator<Item = &'a str>) -> Result<(), TopologyError> {
        const NUMBER: &str = "the number of the node, up to 16383";
        let word = words.next().unwrap_or_default();
        let id =
            list::number(word).filter(|&n| n < MAX_NUMBER).map(NodeId).ok_or_else(|| syntax(line, word, NUMBER))?;
        if self.draft.nodes.contains_key(&id) {
            return Err(TopologyError::DuplicateNode { line, node: id });
        }
        room_for_node(&self.draft)?;
        let (mut cpus, mut memory) = (None, None);
        while let Some(word) = words.next() {
            let value = words.next().unwrap_or_default();
            match word {
                "cpus" if cpus.is_none() => cpus = Some(cpu_list(line, value)?),
                "memory" if memory.is_none() => memory = Some(size(line, value)?),
                _ => {
                    const OPTIONS: &str = "`cpus` with a list or `memory` with a size, each once";
                    return Err(syntax(line, word, OPTIONS));
                }
            }
        }
        let cpus = cpus.unwrap_or_default();
        for (&first, node) in &self.draft.nodes {
            if let Some(cpu) = node.cpus.intersection(&cpus).first() {
                return Err(TopologyError::CpuInTwoNodes { line, cpu, first, second: id });
            }
        }
        let memory = memory.unwrap_or(0);
        self.draft.nodes.insert(id, DraftNode { cpus, memory });
        self.order.push(id);
        Ok(())
    }

    fn row(&mut self, line: usize, text: &str) -> Result<(), TopologyError> {
        const DISTANCES: &str = "distances only: numbers joined by blanks";
        let distances: Option<Vec<u32>> = text.split_whitespace().map(list::number).collect();
        let distances = distances.ok_or_else(|| syntax(line, text, DISTANCES))?;
        let nodes = self.order.len();
        if distances.len() != nodes {
            return Err(TopologyError::MatrixColumns { line, columns: distances.len(), nodes });
        }
        let row = self.rows.unwrap_or(0);
        self.rows = Some(row + 1);
        // Surplus rows are counted, for the error at the end.
        let Some(&from) = self.order.get(row) else {
            return Ok(());
        };
        for (&to, distance) in self.order.iter().zip(distances) {
            if distance < LOCAL_DISTANCE {
                return Err(TopologyError::DistanceTooSmall { line, from, to, distance });
            }
            self.draft.distances.insert((from, to), distance);
        }
        Ok(())
    }

    fn finish(self) -> Result<Topology, TopologyError> {
        let nodes = self.order.len();
        if nodes == 0 && self.rows.is_none() && self.grouped.is_empty() {
            return Err(TopologyError::Empty);
        }
        if let Some(rows) = self.rows
            && rows != nodes
        {
            return Err(TopologyError::MatrixRows { rows, nodes });
        }
        let known = self.draft.nodes.values().fold(CpuSet::new(), |all, n| all.union(&n.cpus));
        for (line, set) in self.grouped {
            if let Some(cpu) = set.difference(&known).first() {
                return Err(TopologyError::CpuWithoutNode { line, cpu });
            }
        }
        self.draft.finish(Limits::default())
    }
}

/// The list of a `core` or `l3` line.
fn group<'a>(
    line: usize,
    kind: &'static str,
    mut words: impl Iterator<Item = &'a str>,
    others: &[CpuSet],
) -> Result<CpuSet, TopologyError> {
    let set = cpu_list(line, words.next().unwrap_or_default())?;
    end(line, words)?;
    for other in others {
        if let Some(cpu) = other.intersection(&set).first() {
            return Err(TopologyError::CpuInTwoGroups { line, kind, cpu });
        }
    }
    Ok(set)
}

fn cpu_list(line: usize, word: &str) -> Result<CpuSet, TopologyError> {
    if word.is_empty() {
        return Err(syntax(line, "", "a list of CPUs, as in \"0-3,8\""));
    }
    CpuSet::parse_list(word).map_err(|source| TopologyError::InLine { line, source: Box::new(source) })
}

fn size(line: usize, word: &str) -> Result<u64, TopologyError> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &word[digits.len()..] {
        "" => Some(0),
        "K" => Some(10),
        "M" => Some(20),
        "G" => Some(30),
        "T" => Some(40),
        _ => None,
    };
    let only_digits = digits.bytes().all(|b| b.is_ascii_digit());
    let number: Option<u64> = digits.parse().ok().filter(|_| only_digits);
    number
        .zip(shift)
        .and_then(|(n, shift)| n.checked_mul(1 << shift))
        .ok_or_else(|| syntax(line, word, "a size in bytes, as in \"64G\" (K, M, G or T)"))
}

fn end<'a>(line: usize, mut rest: impl Iterator<Item = &'a str>) -> Result<(), TopologyError> {
    match rest.next() {
        None => Ok(()),
        Some(word) => Err(syntax(line, word, "the end of the line")),
    }
}

fn syntax(line: usize, found: &str, expected: &'static str) -> TopologyError {
    TopologyError::Syntax { line, found: found.to_owned(), expected }
}
