//! Draws a scenario: `cargo run --release -p numart-sim --bin picture -- SCENARIO [COLUMN] [A|B] [SEED] > run.svg`.
//!
//! Scenarios: `I`, `II`, `III`, `IV` (seed 0 at 400 MiB, all memory on the instances' first nodes), `converge` (seed 3),
//! `pages` (seed 4). Columns: their names in the tables, with dashes for spaces; `numart` if left out.

use numart_sim::column::Column;
use numart_sim::constants::{MODEL_A, MODEL_B};
use numart_sim::machine::Machine;
use numart_sim::picture::svg;
use numart_sim::record::Record;
use numart_sim::seed0::{self, Shape, Start};
use numart_sim::{seed3, seed4};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |i: usize, default: &str| args.get(i).cloned().unwrap_or_else(|| default.to_string());
    let (scenario, wanted) = (arg(0, "II"), arg(1, "numart"));
    let c = if arg(2, "A") == "B" { MODEL_B } else { MODEL_A };
    let seed: u64 = arg(3, "1").parse().unwrap_or(1);
    let Some(column) = Column::ALL.into_iter().find(|x| x.name().replace(' ', "-") == wanted) else {
        eprintln!("no column {wanted}; there are: {}", Column::ALL.map(|x| x.name().replace(' ', "-")).join(", "));
        std::process::exit(2);
    };
    let eight = |i| seed0::build(Machine::eight_by_ten(&c), &c, Shape::of(i, 400.0, Start::FirstNode), column, seed);
    let mut world = match scenario.as_str() {
        "I" => eight(0),
        "II" => eight(1),
        "III" => eight(2),
        "IV" => eight(3),
        "converge" => seed3::build(Machine::direct("4x20", 4, 20, &c), &c, (8, 20, 1000.0, true), column, seed),
        "pages" => seed4::build(&c, true, Start::Uniform, column, seed),
        other => {
            eprintln!("no scenario {other}; there are: I, II, III, IV, converge, pages");
            std::process::exit(2);
        }
    };
    world.record = Some(Record::new(0.05));
    let seconds = if scenario == "converge" || scenario == "pages" { 10.0 } else { 30.0 };
    world.run(seconds);
    let title = format!("{scenario}, {}, model {}, seed {seed}", column.name(), c.name);
    let nodes = world.machine.nodes();
    if let Some(record) = &world.record {
        print!("{}", svg(&title, record, nodes));
    }
}
