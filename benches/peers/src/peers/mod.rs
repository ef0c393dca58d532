//! How each runtime runs the work, one file per runtime.
//!
//! To add a runtime, write a file with an `impl Peer` and put it into [`columns`].

use crate::work::Work;

mod chili;
#[cfg(feature = "forte")]
mod forte;
mod numart;
mod rayon;
mod serial;

/// One runtime with one setting: a column of the tables.
pub trait Peer {
    /// What the tables call it.
    fn name(&self) -> &str;

    /// Whether it has an operation for this work.
    fn can(&self, work: &Work) -> bool;

    /// Runs the work `times` times, one after the other, inside the runtime: entering it is paid once. Returns the sum of
    /// the tree or of the numbers, and 0 for work that has no result. Only called with work it [`can`](Peer::can) do.
    fn run(&self, work: &Work, times: u32, salt: u32) -> u64;
}

/// All columns that show something at this number of workers.
pub fn columns(workers: usize) -> Vec<Box<dyn Peer>> {
    let mut columns: Vec<Box<dyn Peer>> = vec![Box::new(serial::Serial)];
    for &pinning in numart::pinnings(workers) {
        columns.push(Box::new(numart::Numart::new(workers, pinning)));
    }
    columns.push(Box::new(rayon::Rayon::new(workers, rayon::Pinning::None)));
    if workers > 1 {
        columns.push(Box::new(rayon::Rayon::new(workers, rayon::Pinning::Cpu)));
    }
    columns.push(Box::new(chili::Chili::new(workers)));
    #[cfg(feature = "forte")]
    columns.extend(forte::Forte::new(workers).map(|forte| Box::new(forte) as Box<dyn Peer>));
    columns
}
