use numart_sim::column::Column;
use numart_sim::constants::*;
use numart_sim::machine::Machine;
use numart_sim::seed0::*;
fn main() {
    let c = MODEL_B;
    let shape = Shape::of(3, 400.0, Start::FirstNode);
    let mut w = build(Machine::eight_by_ten(&c), &c, shape, Column::Numart, 0);
    for k in 1..60 {
        w.run(k as f64 * 0.5);
        println!(
            "{:.1} local {:.3} migrated {:.2} GB queue {} passes {} moves {}",
            w.now,
            w.local_share(),
            w.migrated / 1e9,
            w.queue.len(),
            w.passes,
            w.moves
        );
    }
}
