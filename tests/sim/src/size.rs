//! The size the policy promises to plan for in 50 ms: 64 nodes, 10,000 affinities, 1,000,000 extents.

use crate::scene::{Actor, Memory, Scene};
use numart_runtime::balance::policy::{Config, State, plan};
use std::time::{Duration, Instant};

const NODES: usize = 64;
const AFFINITIES: usize = 10_000;
const EXTENTS: usize = 1_000_000;

/// How the affinities of a big scene belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinship {
    /// Nobody shares anything.
    Alone,
    /// A thousand groups of ten, a tenth of the extents shared within them.
    Groups,
}

/// The big scene. Everybody has two of a hundred extents elsewhere: 40 GB to be copied, so that no pass finds nothing to do.
pub fn scene(kinship: Kinship) -> Scene {
    let mut scene = Scene::direct(NODES, 64);
    // Ten neighbours make a group, and a group has one home.
    let home = |owner: usize| owner / 10 % NODES;
    for id in 0..AFFINITIES {
        let mut actor = Actor::new(id as u64, home(id), 0.3);
        if kinship == Kinship::Groups {
            actor = actor.group((id / 10) as u64);
        }
        scene.actors.push(actor);
    }
    for e in 0..EXTENTS {
        let owner = e % AFFINITIES;
        let node = if e / AFFINITIES % 50 == 7 { (home(owner) + 1) % NODES } else { home(owner) };
        let users = if kinship == Kinship::Groups && (e / AFFINITIES).is_multiple_of(10) {
            (0..10).map(|k| (owner / 10 * 10 + k, 1e5)).collect()
        } else {
            vec![(owner, 1e6)]
        };
        scene.memory.push(Memory::new(node, users));
    }
    scene
}

/// Plans `passes` times, half a second apart, applying each plan; how long each took, and the extents it moved.
pub fn time_passes(scene: &mut Scene, passes: usize) -> Vec<(Duration, usize)> {
    let mut state = State::new(Config::default());
    (0..passes)
        .map(|_| {
            let snapshot = scene.window(0.5);
            let start = Instant::now();
            let answer = plan(&mut state, &snapshot);
            let took = start.elapsed();
            scene.apply(&answer);
            (took, answer.extents.len())
        })
        .collect()
}
