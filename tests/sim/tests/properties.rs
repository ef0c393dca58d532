//! Properties of plans, on random machines and histories. `NUMART_CASES=100000` runs the number the project asks for;
//! the default is a subset of it that takes seconds.

use numart_runtime::balance::policy::{
    Config, NodeSet, Plan, Snapshot, State, plan, predicted_time,
};
use numart_sim::scene::Scene;
use proptest::prelude::*;

fn cases() -> u32 {
    std::env::var("NUMART_CASES")
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(500)
}

/// Passes within which nothing may go back to where it came from on unchanged input.
const NO_RETURN: usize = 20;

/// Times an extent may go back within [`NO_RETURN`] passes all the same, in a whole run. Known and open: a big extent's copy
/// that pays only after a long stay can tip a group's home set, and small ones that were spread the pass before follow the
/// group back. No affinity may ever.
const RETURNS: u32 = 1;

fn machine_rules(snapshot: &Snapshot, answer: &Plan) -> Result<(), TestCaseError> {
    let task_node = |i: usize| snapshot.nodes[i].takes_tasks();
    let mut homes: Vec<NodeSet> = snapshot.affinities.iter().map(|a| a.home).collect();
    answer.apply_homes(&mut homes);
    for (affinity, home) in snapshot.affinities.iter().zip(&homes) {
        if *home == affinity.home {
            continue;
        }
        let held = affinity
            .pinned
            .or(affinity.running_long.then_some(affinity.home));
        prop_assert!(
            held.is_none_or(|pin| home.is_subset(pin)),
            "pin overridden: {affinity:?} -> {home:?}"
        );
        prop_assert!(
            !home.is_empty() && home.iter().all(task_node),
            "home on a node that takes no tasks"
        );
    }
    for m in &answer.extents {
        let extent = snapshot.extents.iter().find(|e| e.slot == m.slot).unwrap();
        prop_assert!(extent.movable && m.from == extent.node && m.from != m.to);
        prop_assert!(
            snapshot.nodes[usize::from(m.to)].takes_memory(),
            "memory sent to node {}",
            m.to
        );
    }
    let (before, after) = answer.predicted;
    prop_assert!(before.is_finite() && after.is_finite());
    prop_assert!(
        after <= before * (1.0 + 1e-9) + 1e-9,
        "predicted time rose from {before} to {after}"
    );
    prop_assert!(
        answer.next_pass >= Config::default().min_pass
            && answer.next_pass <= Config::default().max_pass
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_keep_the_rules_and_come_to_rest(nodes in prop_oneof![8 => 1usize..=8, 1 => 9usize..=64], actors in 0usize..=40, extents in 0usize..=60, seed: u64) {
        let mut scene = Scene::random(nodes, actors, extents, seed);
        let mut state = State::new(Config { seed, ..Config::default() });
        let mut homes: Vec<Vec<NodeSet>> = Vec::new();
        let mut places: Vec<Vec<usize>> = Vec::new();
        let mut returns = vec![0u32; extents];
        let mut quiet = 0;
        for pass in 0..150 {
            let snapshot = scene.window(1.0);
            let mut twin = state.clone();
            let answer = plan(&mut state, &snapshot);
            prop_assert_eq!(&answer, &plan(&mut twin, &snapshot), "the same input gave another plan");
            machine_rules(&snapshot, &answer)?;
            if pass > 0 {
                // What the plan reports is what the public function counts.
                let mut after: Vec<NodeSet> = snapshot.affinities.iter().map(|a| a.home).collect();
                answer.apply_homes(&mut after);
                let counted = predicted_time(&state, &snapshot, &after);
                prop_assert!((counted - answer.predicted.1).abs() <= 1e-6 * counted.abs() + 1e-9, "{counted} against {:?}", answer.predicted);
            }
            scene.apply(&answer);
            let now: Vec<NodeSet> = scene.actors.iter().map(|a| a.affinity.home).collect();
            let at: Vec<usize> = scene.memory.iter().map(|m| m.node).collect();
            // Statistics need a few windows to be those of a constant input.
            if pass > 12 {
                let since = homes.len().saturating_sub(NO_RETURN).max(12);
                for old in since..homes.len() {
                    for a in 0..now.len() {
                        let left = homes[old..].iter().any(|h| h[a] != now[a]);
                        prop_assert!(!(left && homes[old][a] == now[a]), "affinity {a} went back in pass {pass}");
                    }
                }
                for e in 0..at.len() {
                    let back = (since..places.len()).any(|old| {
                        places[old][e] == at[e] && places[old..].iter().any(|p| p[e] != at[e])
                    });
                    let moved = places.last().is_some_and(|p| p[e] != at[e]);
                    returns[e] += u32::from(back && moved);
                    prop_assert!(returns[e] <= RETURNS, "extent {e} went back {} times by pass {pass}", returns[e]);
                }
            }
            homes.push(now);
            places.push(at);
            // Extents that cannot be moved are tried again for ever; everything else must rest.
            let stuck_only = answer.extents.iter().all(|m| scene.memory[m.slot as usize].stuck);
            quiet = if answer.moves.is_empty() && answer.swaps.is_empty() && stuck_only { quiet + 1 } else { 0 };
            if quiet >= 12 && pass > 24 {
                return Ok(());
            }
        }
        prop_assert!(false, "no fixed point after 150 passes");
    }

    #[test]
    fn odd_input_is_survived(nodes in 1usize..=64, actors in 0usize..=20, extents in 0usize..=20, seed: u64, jumps in proptest::collection::vec((any::<u64>(), any::<u64>()), 1..8)) {
        let mut scene = Scene::random(nodes, actors, extents, seed);
        let mut state = State::new(Config { seed, ..Config::default() });
        for (time, count) in jumps {
            // The clock jumps both ways, counters come near overflow or are all zero.
            let mut snapshot = scene.window(0.5);
            snapshot.now_ns = time;
            let extreme = [count, 0, u64::MAX, u64::MAX / 2][(count % 4) as usize];
            snapshot.touches.iter_mut().for_each(|t| t.bytes = extreme);
            snapshot.affinities.iter_mut().for_each(|a| { a.cpu_ns = extreme; a.wait_ns = extreme });
            snapshot.extents.iter_mut().for_each(|e| (e.touched, e.owner_bytes, e.top_bytes) = (extreme, extreme, extreme));
            let answer = plan(&mut state, &snapshot);
            machine_rules(&snapshot, &answer)?;
        }
    }
}
