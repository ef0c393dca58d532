//! The example `wordcount` on rayon: everything but this file is the example's own.

#[path = "../../../../examples/wordcount/answer.rs"]
mod answer;
#[path = "../../../../examples/wordcount/count.rs"]
mod count;
#[path = "../../../../examples/wordcount/map.rs"]
mod map;
#[path = "../../../../examples/wordcount/program.rs"]
mod program;
#[path = "../../../../examples/wordcount/walk.rs"]
mod walk;
#[path = "../../../../examples/wordcount/words.rs"]
mod words;

use rayon::prelude::*;
use std::process::ExitCode;

/// The current rayon pool.
struct Rayon;

impl walk::Parallel for Rayon {
    fn for_each<T: Sync>(&self, items: &[T], body: impl Fn(&T) + Sync + Send) {
        items.par_iter().for_each(body);
    }
}

fn main() -> ExitCode {
    let options = match program::options() {
        Ok(options) => options,
        Err(code) => return code,
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(options.workers.unwrap_or(0))
        // What a numart worker has: the walk recurses.
        .stack_size(16 << 20)
        .build();
    match pool {
        Ok(pool) => pool.install(|| program::run(&options, &Rayon, String::new)),
        Err(error) => program::usage(&format!("cannot start rayon: {error}")),
    }
}
