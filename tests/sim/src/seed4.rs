//! Seed 4: four instances on four nodes, with small and with huge pages.

use crate::column::Column;
use crate::constants::Constants;
use crate::machine::Machine;
use crate::seed0::{Shape, Start};
use crate::world::World;

/// The machine: four nodes, all at one distance; 12 CPUs each (the mail does not say).
pub fn machine(c: &Constants) -> Machine {
    Machine::direct("4x12", 4, 12, c)
}

/// Four instances of 12 warehouses. Extents of 4 KiB come with 4 MiB per warehouse instead of 25, so that there are
/// 49,152 of them: what matters is that they are many and each is worth little.
pub fn shape(huge: bool, start: Start) -> Shape {
    let (mib, extent) = if huge { (25.0, (2 << 20) as f64) } else { (4.0, 4096.0) };
    Shape { instances: 4, warehouses: 12, bytes: mib * 1048576.0, start, extent }
}

/// Builds the world.
pub fn build(c: &Constants, huge: bool, start: Start, column: Column, seed: u64) -> World {
    crate::seed0::build(machine(c), c, shape(huge, start), column, seed)
}
