//! Prints every table of seeds 0 to 4 under both model sets: `cargo bench --bench seeds`. Names of tables (`seed0`, `churn`,
//! `seed4`, `seed3`, `seed1`, `seed2`) and of a model (`A`, `B`) after `--` print only those. `NUMART_SEEDS` sets the runs per
//! cell (default 20).

fn main() {
    let seeds = std::env::var("NUMART_SEEDS").ok().and_then(|v| v.parse().ok()).unwrap_or(20);
    // Cargo itself passes `--bench`.
    let which: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    numart_sim::tables::print_all(&which, seeds);
}
