//! Rules that no figure of the seeds hangs on, each by itself: thieves are not followed until they stay, homes of several
//! nodes, copies of read-mostly data.

use numart_runtime::balance::policy::{Config, NodeSet, Plan, ReadMostly, ReplicaStep, State, plan};
use numart_sim::scene::{Actor, Memory, Scene};

const MIB: f64 = 1048576.0;

fn pass(scene: &mut Scene, state: &mut State) -> Plan {
    let answer = plan(state, &scene.window(0.5));
    scene.apply(&answer);
    answer
}

/// An affinity that the user fixed to node 0, with memory there.
fn fixed_to_node_0() -> Scene {
    let mut scene = Scene::direct(2, 4);
    scene.actors.push(Actor::new(1, 0, 1.0).pinned());
    (0..50).for_each(|_| scene.memory.push(Memory::new(0, vec![(0, 20.0 * MIB)])));
    scene
}

#[test]
fn memory_follows_a_thief_only_when_it_has_stayed() {
    let mut scene = fixed_to_node_0();
    let mut state = State::new(Config::default());
    (0..6).for_each(|_| drop(pass(&mut scene, &mut state)));
    // Everything it does is done on node 1 from now on.
    scene.actors[0].away = Some((1, 1.0));
    let moved: Vec<usize> = (0..4).map(|_| pass(&mut scene, &mut state).extents.len()).collect();
    assert_eq!(moved[..2], [0, 0], "two windows away are a thief's");
    assert!(moved[2..].iter().sum::<usize>() > 0, "three are a new home in all but name: {moved:?}");
}

#[test]
fn memory_does_not_follow_thieves_that_go_again() {
    let mut scene = fixed_to_node_0();
    let mut state = State::new(Config::default());
    for round in 0..40 {
        // Two windows away, two at home, over and over.
        scene.actors[0].away = (round % 4 < 2).then_some((1, 1.0));
        assert!(pass(&mut scene, &mut state).extents.is_empty(), "round {round}");
    }
}

#[test]
fn an_affinity_of_more_than_a_node_gets_several_close_ones_and_shrinks_again() {
    let mut scene = Scene::backplane(4, 4);
    scene.actors.push(Actor::new(1, 2, 7.0));
    (0..40).for_each(|e| scene.memory.push(Memory::new(2 + e % 2, vec![(0, 20.0 * MIB)])));
    let mut state = State::new(Config::default());
    let plans: Vec<Plan> = (0..20).map(|_| pass(&mut scene, &mut state)).collect();
    assert_eq!(scene.actors[0].affinity.home, NodeSet::of(&[2, 3]), "the pair, not across the backplane");
    assert!(plans[10..].iter().all(|p| p.extents.is_empty()), "memory within a wide home stays where it is");
    scene.actors[0].cpus = 1.0;
    (0..40).for_each(|_| drop(pass(&mut scene, &mut state)));
    let home = scene.actors[0].affinity.home;
    assert!(home.len() == 1 && home.is_subset(NodeSet::of(&[2, 3])), "one node holds it again: {home:?}");
    // And nothing at all is something too.
    scene.actors[0].cpus = 0.0;
    scene.memory.clear();
    (0..40).for_each(|_| drop(pass(&mut scene, &mut state)));
    assert_eq!(scene.actors[0].affinity.home, home, "who does nothing moves nowhere");
}

#[test]
fn memory_outside_a_wide_home_comes_in() {
    let mut scene = Scene::backplane(4, 4);
    scene.actors.push(Actor::new(1, 2, 7.0));
    scene.actors[0].affinity.home = NodeSet::of(&[2, 3]);
    (0..40).for_each(|_| scene.memory.push(Memory::new(2, vec![(0, 20.0 * MIB)])));
    scene.memory[7].node = 0;
    let mut state = State::new(Config::default());
    (0..20).for_each(|_| drop(pass(&mut scene, &mut state)));
    assert!(scene.memory.iter().all(|m| m.node >= 2), "the stray extent is inside");
}

/// Four nodes that read a region, in MiB per second; what is planned about it in the last of `passes`.
fn replicas(region: &ReadMostly, reads: [f64; 4], free: u64, passes: usize) -> Vec<ReplicaStep> {
    let mut scene = Scene::direct(4, 4);
    scene.actors.push(Actor::new(1, 0, 1.0));
    scene.nodes[3].memory_free = free;
    let mut state = State::new(Config::default());
    let mut last = Vec::new();
    for _ in 0..passes {
        let mut snapshot = scene.window(0.5);
        let reads = reads.iter().enumerate().map(|(node, mib)| (node as u8, (mib * MIB / 2.0) as u64)).collect();
        snapshot.read_mostly.push(ReadMostly { reads, ..region.clone() });
        last = plan(&mut state, &snapshot).replicas;
    }
    last
}

fn region(copies: NodeSet, replicated: bool, written: u64) -> ReadMostly {
    ReadMostly { id: 9, bytes: 64 << 20, copies, replicated, reads: Vec::new(), written }
}

fn added(steps: &[ReplicaStep]) -> Vec<u8> {
    steps.iter().filter_map(|s| if let ReplicaStep::Add { node, .. } = s { Some(*node) } else { None }).collect()
}

#[test]
fn read_mostly_data_is_recommended_for_copies_and_copied_where_it_is_read() {
    let (one, much, room) = (NodeSet::single(0), [500.0; 4], 60 << 30);
    let steps = replicas(&region(one, false, 0), much, room, 6);
    assert!(
        matches!(steps[..], [ReplicaStep::Recommend { id: 9, nodes, gain }] if nodes == NodeSet::first(4) && gain > 0.0),
        "{steps:?}"
    );
    assert_eq!(added(&replicas(&region(one, true, 0), much, room, 6)), [1, 2, 3]);
    // Not where nobody reads, not where it does not fit, and not after one window.
    assert_eq!(added(&replicas(&region(one, true, 0), [500.0, 500.0, 0.0, 500.0], 1 << 20, 6)), [1]);
    assert!(replicas(&region(one, true, 0), much, room, 1).is_empty());
    // Nor if it is written: a tenth of what is read.
    let written = (2000.0 * 0.1 * MIB / 2.0) as u64;
    assert!(replicas(&region(one, true, written), much, room, 6).is_empty());
    assert!(replicas(&region(one, false, written), much, room, 6).is_empty());
}

#[test]
fn copies_nobody_reads_are_dropped_but_never_the_last() {
    let (all, room) = (NodeSet::first(4), 60 << 30);
    let drops = |steps: Vec<ReplicaStep>| -> Vec<u8> {
        steps.iter().filter_map(|s| if let ReplicaStep::Drop { node, .. } = s { Some(*node) } else { None }).collect()
    };
    assert_eq!(drops(replicas(&region(all, true, 0), [500.0, 500.0, 0.0, 500.0], room, 6)), [2]);
    assert_eq!(drops(replicas(&region(all, true, 0), [500.0; 4], room, 6)), []);
    // Written as much as a tenth of what is read: one copy is left, the most read.
    let written = (2100.0 * 0.1 * MIB / 2.0) as u64;
    let left = drops(replicas(&region(all, true, written), [500.0, 600.0, 500.0, 500.0], room, 6));
    assert_eq!(left, [0, 2, 3]);
}
