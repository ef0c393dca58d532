//! scratch
use numart_runtime::balance::policy::*;
use numart_sim::scene::Scene;
fn main() {
    let a: Vec<u64> = std::env::args()
        .skip(1)
        .map(|a| a.parse().unwrap())
        .collect();
    let mut scene = Scene::random(a[0] as usize, a[1] as usize, a[2] as usize, a[3]);
    let mut state = State::new(Config {
        seed: a[3],
        ..Config::default()
    });
    println!(
        "{:?}",
        scene
            .nodes
            .iter()
            .map(|n| (n.cpus, n.capacity, n.allowed, n.memory_free))
            .collect::<Vec<_>>()
    );
    for pass in 0..a[4] {
        let s = scene.window(1.0);
        let p = plan(&mut state, &s);
        if !p.is_quiet() {
            println!(
                "pass {pass} predicted {:?} weights {:?}",
                p.predicted, p.weights
            );
            for m in &p.moves {
                println!(
                    "   move {} {:?}->{:?} {:?}",
                    m.affinity,
                    m.from.iter().collect::<Vec<_>>(),
                    m.to.iter().collect::<Vec<_>>(),
                    m.reason.kind
                );
            }
            for m in &p.swaps {
                println!("   swap {m:?}");
            }
            for m in &p.extents {
                let e = &s.extents[m.slot as usize];
                println!(
                    "   ext {} {}->{} {:?} gain {} users {:?} group {:?}",
                    m.slot,
                    m.from,
                    m.to,
                    m.reason,
                    m.gain_s,
                    scene.memory[m.slot as usize].users,
                    s.affinities
                        .get(e.owner as usize)
                        .map(|a| (a.group, a.home.iter().collect::<Vec<_>>()))
                );
            }
        }
        scene.apply(&p);
    }
}
