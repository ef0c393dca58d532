//! Prints every table of seeds 0 to 4 under both model sets: `cargo bench --bench seeds`.
//! `NUMART_SEEDS` sets the runs per cell (default 20).

fn main() {
    let seeds = std::env::var("NUMART_SEEDS")
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(20);
    numart_sim::tables::print_all(seeds);
}
