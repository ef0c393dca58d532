//! Where memory lies, by the kernel's word.

mod common;

use std::collections::BTreeMap;

use common::kernel::{here, nodes_of_pages, text};
use common::{need, need_nodes, note, watchdog};
use numart::{Runtime, topology::Topology};

/// The resident pages of the calling thread's stack, by node.
fn stack_pages() -> BTreeMap<u32, usize> {
    let stack = numart_alloc::sys::current_stack().expect("Linux says where a stack is");
    let mut pages = BTreeMap::new();
    for (_, node) in nodes_of_pages(stack.start, stack.len()) {
        // An error is a page that nobody has touched.
        if let Ok(node) = node {
            *pages.entry(node).or_default() += 1;
        }
    }
    pages
}

/// Calls itself so deep that `kib` of stack are touched.
fn deep(kib: usize) -> u8 {
    let frame = std::hint::black_box([kib as u8; 1024]);
    if kib == 0 { frame[0] } else { deep(kib - 1) ^ frame[kib % 1024] }
}

#[test]
fn workers_stacks_lie_on_their_own_nodes() {
    let Some(machine) = need_nodes(2) else { return };
    let _dog = watchdog(120);
    let runtime = Runtime::builder().workers_per_node(2).build().unwrap();
    let stacks = runtime.broadcast(|_| {
        std::hint::black_box(deep(200));
        (here().1, stack_pages())
    });
    assert_eq!(stacks.len(), runtime.num_workers());
    let mut total = 0;
    for (node, pages) in stacks {
        let sum: usize = pages.values().sum();
        assert!(sum >= 50, "200 KiB were touched: {pages:?}");
        total += sum;
        if machine.nodes[&node].bytes > 0 && machine.allowed_memory.contains(&node) {
            assert_eq!(pages.keys().collect::<Vec<_>>(), [&node], "stack of a worker of node {node}: {pages:?}");
        } else {
            // A node without memory: the kernel takes a near one.
            assert!(!pages.contains_key(&node), "{pages:?}");
        }
    }
    note(&format!("{total} pages of {} stacks, all on their nodes", runtime.num_workers()));
}

/// A mapping with a policy, by `/proc/self/numa_maps`: preferred node, and pages by node.
fn preferred_mappings() -> Vec<(u32, bool, BTreeMap<u32, usize>)> {
    let maps = text("/proc/self/numa_maps");
    maps.lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let node = words.next()?.strip_prefix("prefer:")?.parse().ok()?;
            let pages: BTreeMap<u32, usize> = words
                .filter_map(|word| {
                    let (node, pages) = word.strip_prefix('N')?.split_once('=')?;
                    Some((node.parse().ok()?, pages.parse().ok()?))
                })
                .collect();
            Some((node, line.contains("stack"), pages))
        })
        .collect()
}

/// What others see of a worker (its queue's border, its counters) was made by this thread, on this thread's node.
#[test]
fn workers_slots_lie_on_their_own_nodes() {
    let Some(machine) = need_nodes(2) else { return };
    let _dog = watchdog(120);
    let runtime = Runtime::builder().workers_per_node(2).build().unwrap();
    runtime.broadcast(|_| ());
    let (mut pages, mut nodes) = (0, BTreeMap::<u32, usize>::new());
    for (node, _, by_node) in preferred_mappings() {
        let sum: usize = by_node.values().sum();
        assert_eq!(by_node.get(&node).copied().unwrap_or(0), sum, "preferred on node {node}: {by_node:?}");
        pages += sum;
        *nodes.entry(node).or_default() += sum;
    }
    let with_memory = |node: u32| machine.nodes[&node].bytes > 0 && machine.allowed_memory.contains(&node);
    for node in runtime.nodes().iter().map(|node| node.0).filter(|&node| with_memory(node)) {
        // A page for each slot, spares included, and the stacks.
        assert!(nodes.get(&node).is_some_and(|&pages| pages >= 4), "node {node}: {nodes:?}");
    }
    note(&format!("{pages} pages of slots and stacks, all on their nodes"));
}

/// What a worker allocates comes from its own thread's part of the heap, first touched by it.
#[test]
fn what_a_worker_allocates_is_mostly_near() {
    let Some(machine) = need_nodes(2) else { return };
    let _dog = watchdog(120);
    let runtime = Runtime::builder().workers_per_node(2).build().unwrap();
    let found = runtime.broadcast(|_| {
        let kept: Vec<Box<[u8; 8192]>> = (0..64).map(|i| Box::new([i; 8192])).collect();
        let node = here().1;
        let pages = kept.iter().flat_map(|piece| nodes_of_pages(&raw const **piece as usize, 4096));
        let near = pages.filter(|(_, at)| *at == Ok(node)).count();
        (node, near)
    });
    for (node, near) in &found {
        note(&format!("a worker of node {node}: {near} of some 128 heap pages on its node"));
    }
    let with_memory = |node: u32| machine.nodes[&node].bytes > 0 && machine.allowed_memory.contains(&node);
    // The rest are pages that another thread's arena had touched before: glibc hands arenas on.
    assert!(found.iter().all(|(node, near)| *near >= 64 || !with_memory(*node)), "{found:?}");
}

/// Nothing asks for a memory-only node, so nothing of ours is there.
#[test]
fn a_memory_only_node_holds_no_page_of_ours() {
    let Some(machine) = need("no memory-only node", |machine| !machine.memory_only().is_empty()) else { return };
    let _dog = watchdog(120);
    let runtime = Runtime::new().unwrap();
    runtime.broadcast(|_| _ = std::hint::black_box(deep(200)));
    let kept = runtime.broadcast(|_| vec![1u8; 1 << 20]);
    assert_eq!(kept.len(), runtime.num_workers());
    let maps = text("/proc/self/numa_maps");
    for id in machine.memory_only() {
        // Files (the program, its libraries) are where they were first read; what is anonymous is ours.
        let there: Vec<&str> = maps
            .lines()
            .filter(|line| line.contains(" anon=") && !line.contains("file="))
            .filter(|line| line.split(' ').any(|word| word.starts_with(&format!("N{id}="))))
            .collect();
        assert!(there.is_empty(), "on node {id}: {there:?}");
        assert!(Topology::this_machine().unwrap().node(numart::NodeId(id)).unwrap().is_memory_only());
    }
}
