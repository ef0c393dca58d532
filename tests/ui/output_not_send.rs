//! A future whose output is an `Rc`.
use std::rc::Rc;

fn main() {
    _ = numart::spawn(async { Rc::new(1) });
}
