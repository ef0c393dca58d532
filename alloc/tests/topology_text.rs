//! The written description: what it gives, and what bad input gets.

use numart_alloc::topology::{CpuId, NodeId, Source, Topology, TopologyError};
use proptest::prelude::*;

const EXAMPLE: &str = "
    # A machine with a far memory-only node
    node 0 cpus 0-3 memory 16G
    node 33 cpus 4-7
    node 8 memory 64G          # memory-only
    core 0,1
    l3 0-1
    l3 4-7
    distances
    10 20 40
    21 10 41
    42 43 10
";

#[test]
fn a_shape_gives_mock_nodes() {
    let mock = Topology::parse(" 4x2\n").unwrap();
    assert!(mock.is_mock());
    assert_eq!(mock.source(), Source::Written);
    let nodes: Vec<(u32, String)> = mock.nodes().iter().map(|n| (n.id().0, n.cpus().to_string())).collect();
    let expected = [(0, "0-1"), (1, "2-3"), (2, "4-5"), (3, "6-7")];
    assert_eq!(nodes, expected.map(|(id, cpus)| (id, cpus.to_owned())));
    assert_eq!(mock.default_workers(), 8);
    assert_eq!(mock.cpu_quota(), None);
    assert_eq!(mock.distance(NodeId(0), NodeId(0)), Some(10));
    assert_eq!(mock.distance(NodeId(0), NodeId(3)), Some(20));
    assert!(mock.nodes().iter().all(|n| n.memory_allowed()));
    assert_eq!(mock.warnings(), [""; 0]);
}

#[test]
fn the_largest_machines_can_be_described() {
    let mock = Topology::parse("64x16").unwrap();
    assert_eq!(mock.cpus().len(), 1024);
    assert_eq!(mock.node_of_cpu(CpuId(1023)), Some(NodeId(63)));
    assert_eq!(Topology::parse("1024x16").unwrap().cpus().len(), 16384);
}

#[test]
fn rows_stand_in_the_order_of_the_node_lines() {
    let mock = Topology::parse(EXAMPLE).unwrap();
    let ids: Vec<u32> = mock.nodes().iter().map(|n| n.id().0).collect();
    assert_eq!(ids, [0, 8, 33], "nodes are sorted, rows are not");
    let distance = |a, b| mock.distance(NodeId(a), NodeId(b)).unwrap();
    assert_eq!((distance(0, 33), distance(33, 0)), (20, 21), "asymmetric");
    assert_eq!((distance(0, 8), distance(8, 33)), (40, 43));
}

#[test]
fn cores_and_l3_groups_can_be_written() {
    let mock = Topology::parse(EXAMPLE).unwrap();
    let siblings = |cpu| mock.cpu(CpuId(cpu)).unwrap().smt_siblings().to_string();
    assert_eq!((siblings(0), siblings(2)), ("0-1".into(), "2".into()));
    let l3 = |cpu| mock.cpu(CpuId(cpu)).unwrap().l3_siblings().to_string();
    // CPUs 2 and 3 have no line: the rest of their node.
    assert_eq!((l3(0), l3(2), l3(5)), ("0-1".into(), "2-3".into(), "4-7".into()));
    assert_eq!(mock.node(NodeId(8)).unwrap().memory(), 64 << 30);
    assert!(mock.node(NodeId(8)).unwrap().is_memory_only());
}

#[test]
fn the_table_shows_what_there_is() {
    let table = Topology::parse(EXAMPLE).unwrap().to_string();
    let expected = "\
mock nodes from a description: 3 nodes, 2 to compute on, 8 of 8 CPUs allowed
node  CPUs  allowed  cores  L3s      memory
   0  0-3   0-3          3    2    16.0 GiB
   8  -     -            0    0    64.0 GiB  memory-only
  33  4-7   4-7          4    1           -
distance  0  8 33
       0 10 40 20
       8 42 10 43
      33 21 41 10
no CPU quota, 8 workers by default";
    assert_eq!(table, expected);
}

#[test]
fn the_machine_of_this_test_survives_as_text() {
    let text = Topology::this_machine().unwrap().to_text();
    assert_eq!(Topology::parse(&text).unwrap().to_text(), text);
}

/// Each bad text, its error, and what the message must name.
#[test]
fn bad_texts_are_typed_errors_that_name_the_thing() {
    use TopologyError as E;
    type Check = fn(&TopologyError) -> bool;
    let cases: &[(&str, Check, &str)] = &[
        ("", |e| matches!(e, E::Empty), "4x2"),
        (" \n # nothing\n", |e| matches!(e, E::Empty), "node"),
        ("0x2", |e| matches!(e, E::NoNodes), "node 0 cpus"),
        ("2x0", |e| matches!(e, E::NoCpus), "node 0 cpus"),
        ("node 1 memory 4G", |e| matches!(e, E::NoCpus), "CPU"),
        ("2000x1", |e| matches!(e, E::TooMany { what: "nodes", .. }), "1024"),
        ("64x16383", |e| matches!(e, E::TooMany { what: "CPUs", .. }), "16384"),
        ("4294967295x4294967295", |e| matches!(e, E::TooMany { .. }), "16384"),
        ("4x", |e| matches!(e, E::Syntax { line: 1, .. }), "4x2"),
        ("-4x2", |e| matches!(e, E::Syntax { .. }), "-4x2"),
        ("banana", |e| matches!(e, E::Syntax { .. }), "banana"),
        ("node", |e| matches!(e, E::Syntax { .. }), "number of the node"),
        ("node -1 cpus 0", |e| matches!(e, E::Syntax { .. }), "-1"),
        ("node 16384 cpus 0", |e| matches!(e, E::Syntax { .. }), "16383"),
        ("node 0 cpus", |e| matches!(e, E::Syntax { .. }), "list of CPUs"),
        ("node 0 cpus 0 cpus 1", |e| matches!(e, E::Syntax { .. }), "once"),
        ("node 0 cpus 0 memory 5X", |e| matches!(e, E::Syntax { .. }), "5X"),
        ("node 0 cpus 0 memory G", |e| matches!(e, E::Syntax { .. }), "64G"),
        ("node 0 cpus 0 memory 99999999999T", |e| matches!(e, E::Syntax { .. }), "size"),
        ("node 0 cpus 0 colour red", |e| matches!(e, E::Syntax { .. }), "colour"),
        ("node 0 cpus 3-1", |e| matches!(e, E::InLine { line: 1, .. }), "backwards"),
        ("\nnode 0 cpus 0-4294967295", |e| matches!(e, E::InLine { line: 2, .. }), "16383"),
        ("node 0 cpus 0\nnode 0 cpus 1", |e| matches!(e, E::DuplicateNode { line: 2, node: NodeId(0) }), "node 0"),
        (
            "node 0 cpus 0-3\nnode 7 cpus 3-5",
            |e| matches!(e, E::CpuInTwoNodes { line: 2, cpu: CpuId(3), first: NodeId(0), second: NodeId(7) }),
            "CPU 3",
        ),
        (
            "node 0 cpus 0-3\ncore 0-1\ncore 1-2",
            |e| matches!(e, E::CpuInTwoGroups { line: 3, kind: "core", cpu: CpuId(1) }),
            "CPU 1",
        ),
        ("node 0 cpus 0-3\nl3 0-4", |e| matches!(e, E::CpuWithoutNode { line: 2, cpu: CpuId(4) }), "CPU 4"),
        ("l3 0", |e| matches!(e, E::CpuWithoutNode { .. }), "CPU 0"),
        (
            "node 0 cpus 0\nnode 1 cpus 1\ndistances\n10 20\n20",
            |e| matches!(e, E::MatrixColumns { line: 5, columns: 1, nodes: 2 }),
            "square",
        ),
        (
            "node 0 cpus 0\nnode 1 cpus 1\ndistances\n10 20",
            |e| matches!(e, E::MatrixRows { rows: 1, nodes: 2 }),
            "1 rows for 2 nodes",
        ),
        (
            "node 0 cpus 0\ndistances\n10\n10",
            |e| matches!(e, E::MatrixRows { rows: 2, nodes: 1 }),
            "2 rows for 1 nodes",
        ),
        ("node 0 cpus 0\ndistances", |e| matches!(e, E::MatrixRows { rows: 0, .. }), "0 rows"),
        ("distances", |e| matches!(e, E::NoNodes), "no node"),
        (
            "node 0 cpus 0\nnode 1 cpus 1\ndistances\n10 20\n9 10",
            |e| matches!(e, E::DistanceTooSmall { from: NodeId(1), to: NodeId(0), distance: 9, .. }),
            "10 is local",
        ),
        ("node 0 cpus 0\ndistances\n0", |e| matches!(e, E::DistanceTooSmall { .. }), "node 0"),
        ("node 0 cpus 0\ndistances\n10\nnode 1 cpus 1", |e| matches!(e, E::Syntax { line: 4, .. }), "distances only"),
    ];
    for (text, check, named) in cases {
        let error = Topology::parse(text).expect_err(text);
        assert!(check(&error), "{text:?}: {error:?}");
        assert!(error.to_string().contains(named), "{text:?}: {error}");
    }
}

#[test]
fn messages_stay_short_on_long_input() {
    let error = Topology::parse(&"é".repeat(100_000)).unwrap_err();
    assert!(error.to_string().len() < 500);
}

/// Texts that are nearly right, which reach further than noise does.
fn nearly_right() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "node|cpus|memory|core|l3|distances|#",
        "[0-9]{1,3}(-[0-9]{1,3})?(,[0-9]{1,3})?",
        "[0-9]{1,20}[KMGT]?",
        "[0-9]{1,4}[xX][0-9]{1,4}",
        Just("\n".to_owned()),
        "\\PC{1,4}",
    ];
    prop::collection::vec(word, 0..40).prop_map(|words| words.join(" "))
}

/// CPU count and memory in MiB of each node.
type Nodes = Vec<(u32, (usize, Option<u64>))>;

/// A topology as a text, with the nodes in any order.
fn right() -> impl Strategy<Value = String> {
    let node = (0..5usize, prop::option::of(1..5000u64));
    let nodes = prop::collection::btree_map(0..200u32, node, 1..12);
    let shuffled = nodes.prop_map(Nodes::from_iter).prop_shuffle();
    (shuffled, any::<u64>()).prop_map(|(nodes, seed)| write(&nodes, seed))
}

fn write(nodes: &Nodes, seed: u64) -> String {
    let mut text = String::new();
    let mut next = 0;
    for (id, (cpus, memory)) in nodes {
        text += &format!("node {id}");
        if *cpus > 0 {
            // Gaps between the nodes' CPUs.
            text += &format!(" cpus {next}-{}", next + cpus - 1);
            next += cpus + 2;
        }
        if let Some(memory) = memory {
            text += &format!(" memory {memory}M");
        }
        text.push('\n');
    }
    text += "distances\n";
    for i in 0..nodes.len() as u64 {
        for j in 0..nodes.len() as u64 {
            let distance = if i == j { 10 } else { 10 + (seed ^ (i * 31 + j)) % 200 };
            text += &format!("{distance} ");
        }
        text.push('\n');
    }
    text
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}|(?s).{0,200}") {
        let _ = Topology::parse(&text);
    }

    #[test]
    fn no_nearly_right_text_panics(text in nearly_right()) {
        match Topology::parse(&text) {
            Ok(topology) => prop_assert!(topology.compute_nodes().next().is_some()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn texts_survive_the_way_there_and_back(text in right()) {
        match Topology::parse(&text) {
            Err(TopologyError::NoCpus) => {}
            Err(error) => prop_assert!(false, "{}\n{}", error, text),
            Ok(topology) => {
                let again = Topology::parse(&topology.to_text()).unwrap();
                prop_assert_eq!(&again, &topology);
                // The table never fails either.
                prop_assert!(topology.to_string().contains("mock nodes"));
            }
        }
    }
}
