//! Counts the words of all text files below some folders: `cargo run --release --example wordcount -- PATH…`
//!
//! How a program like this uses numart is all in this file: one parallel loop, called from within itself (a loop over the
//! entries of a folder, in which an entry is a folder again), and the table that says where the work ran. The rest:
//!
//! - `program`: the command line and what is printed.
//! - `walk`: finding the files.
//! - `count`: counting them. What one thread needs for that is taken from a shelf, so there is no more of it than threads.
//! - `words`, `map`, `answer`: what a word is, a map of words, the answer.

mod answer;
mod count;
mod map;
mod program;
mod walk;
mod words;

use std::process::ExitCode;

/// The runtime we are in.
struct Numart;

impl walk::Parallel for Numart {
    fn for_each<T: Sync>(&self, items: &[T], body: impl Fn(&T) + Sync + Send) {
        numart::par_for(0..items.len(), |i| body(&items[i]));
    }
}

fn main() -> ExitCode {
    let options = match program::options() {
        Ok(options) => options,
        Err(code) => return code,
    };
    let mut builder = numart::Runtime::builder();
    if let Some(workers) = options.workers {
        builder = builder.workers(workers);
    }
    match builder.build_global() {
        Ok(runtime) => runtime.install(|| program::run(&options, &Numart, || format!("\n{}\n", numart::stats()))),
        Err(error) => program::usage(&format!("cannot start numart: {error}")),
    }
}
