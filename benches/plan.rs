//! Time of one pass of the policy over 64 nodes, 10,000 affinities and 1,000,000 extents: `cargo bench --bench plan`. The goal is
//! 50 ms. Prints every pass and the median, for affinities that are alone and for a thousand groups of ten.

use numart_sim::size::{Kinship, scene, time_passes};

fn main() {
    for kinship in [Kinship::Alone, Kinship::Groups] {
        let passes = time_passes(&mut scene(kinship), 12);
        let ms: Vec<f64> = passes.iter().map(|(took, _)| took.as_secs_f64() * 1e3).collect();
        let moved: usize = passes.iter().map(|(_, moved)| moved).sum();
        let (median, worst) = (numart_sim::stats::median(&ms), numart_sim::stats::max(&ms));
        println!("{kinship:?}: median {median:.1} ms, worst {worst:.1} ms; {moved} extents moved; passes {ms:.1?}");
    }
}
