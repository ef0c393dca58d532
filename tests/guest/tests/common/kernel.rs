//! What the kernel says, read here and not by numart: numart is what is tested.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The machine by `/sys/devices/system/node`.
#[derive(Debug)]
pub struct Machine {
    pub nodes: BTreeMap<u32, Node>,
    /// What this process may use.
    pub allowed: BTreeSet<u32>,
    pub allowed_memory: BTreeSet<u32>,
}

#[derive(Debug)]
pub struct Node {
    pub cpus: BTreeSet<u32>,
    pub bytes: u64,
    pub distances: Vec<u32>,
}

impl Machine {
    pub fn read() -> Machine {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field of the status");
            list(line.trim())
        };
        let online = list(&text("/sys/devices/system/cpu/online"));
        let allowed = field("Cpus_allowed_list:").intersection(&online).copied().collect();
        let ids = list(&text("/sys/devices/system/node/online"));
        let nodes = ids.iter().map(|&id| (id, Node::read(id))).collect();
        Machine { nodes, allowed, allowed_memory: field("Mems_allowed_list:") }
    }

    /// Nodes with CPUs that we may use, and these.
    pub fn compute_nodes(&self) -> BTreeMap<u32, BTreeSet<u32>> {
        let of = |node: &Node| node.cpus.intersection(&self.allowed).copied().collect::<BTreeSet<u32>>();
        self.nodes.iter().map(|(&id, node)| (id, of(node))).filter(|(_, cpus)| !cpus.is_empty()).collect()
    }

    pub fn memory_only(&self) -> Vec<u32> {
        self.nodes.iter().filter(|(_, node)| node.cpus.is_empty()).map(|(&id, _)| id).collect()
    }

    pub fn node_of(&self, cpu: u32) -> Option<u32> {
        self.nodes.iter().find(|(_, node)| node.cpus.contains(&cpu)).map(|(&id, _)| id)
    }

    pub fn distance(&self, from: u32, to: u32) -> u32 {
        let column = self.nodes.keys().position(|&id| id == to).unwrap();
        self.nodes[&from].distances[column]
    }
}

impl Node {
    fn read(id: u32) -> Node {
        let folder = format!("/sys/devices/system/node/node{id}");
        let info = text(&format!("{folder}/meminfo"));
        // "Node 0 MemTotal:  340780 kB"
        let total = info.lines().find(|line| line.contains("MemTotal:")).unwrap();
        let kib: u64 = total.split_ascii_whitespace().nth(3).unwrap().parse().unwrap();
        let distances = text(&format!("{folder}/distance"));
        Node {
            cpus: list(&text(&format!("{folder}/cpulist"))),
            bytes: kib * 1024,
            distances: distances.split_ascii_whitespace().map(|word| word.parse().unwrap()).collect(),
        }
    }
}

pub fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}")).trim().to_owned()
}

/// The kernel's list form.
pub fn list(text: &str) -> BTreeSet<u32> {
    text.split(',')
        .filter(|item| !item.is_empty())
        .flat_map(|item| {
            let (from, to) = item.split_once('-').unwrap_or((item, item));
            from.parse::<u32>().unwrap()..=to.parse().unwrap()
        })
        .collect()
}

/// The CPU and the node on which this thread runs at this moment, in one system call.
pub fn here() -> (u32, u32) {
    let (mut cpu, mut node) = (0u32, 0u32);
    // SAFETY: getcpu writes two words, ours; the third argument is unused since Linux 2.6.24.
    let result = unsafe { libc::syscall(libc::SYS_getcpu, &raw mut cpu, &raw mut node, 0usize) };
    assert_eq!(result, 0);
    (cpu, node)
}

/// The mask of a thread (0: this one).
pub fn affinity_of(thread: i32) -> BTreeSet<u32> {
    let mut mask = [0u64; 16];
    // SAFETY: the kernel writes at most the given size into `mask`.
    let size = unsafe { libc::syscall(libc::SYS_sched_getaffinity, thread, size_of_val(&mask), mask.as_mut_ptr()) };
    assert!(size > 0, "sched_getaffinity: {}", std::io::Error::last_os_error());
    (0..1024).filter(|cpu| mask[cpu / 64] >> (cpu % 64) & 1 == 1).map(|cpu| cpu as u32).collect()
}

/// Threads of this process whose name begins so: thread number, name, CPU it ran on last.
pub fn threads(prefix: &str) -> Vec<(i32, String, u32)> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().filter_map(|entry| {
        let path = entry.ok()?.path();
        let stat = fs::read_to_string(path.join("stat")).ok()?;
        // "tid (name) state …": the 39th field is the processor.
        let (head, rest) = stat.rsplit_once(") ")?;
        let (number, name) = head.split_once(" (")?;
        let cpu = rest.split(' ').nth(36)?.parse().ok()?;
        Some((number.parse().ok()?, name.to_owned(), cpu))
    });
    tasks.filter(|(_, name, _)| name.starts_with(prefix)).collect()
}

/// On which node each page from `address` on lies; `Err` with the kernel's error number if it lies nowhere.
pub fn nodes_of_pages(address: usize, bytes: usize) -> Vec<(usize, Result<u32, i32>)> {
    const PAGE: usize = 4096;
    let first = address & !(PAGE - 1);
    let pages: Vec<usize> = (first..address + bytes).step_by(PAGE).collect();
    let mut status = vec![0i32; pages.len()];
    // SAFETY: without target nodes the call only reads `pages` and writes `status`, which are of the given length.
    let result = unsafe {
        let none = std::ptr::null::<i32>();
        libc::syscall(libc::SYS_move_pages, 0, pages.len(), pages.as_ptr(), none, status.as_mut_ptr(), 0)
    };
    assert_eq!(result, 0, "move_pages: {}", std::io::Error::last_os_error());
    let node = |status: i32| u32::try_from(status).map_err(|_| -status);
    pages.into_iter().zip(status.into_iter().map(node)).collect()
}
