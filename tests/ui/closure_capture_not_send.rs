//! A closure that captures an `Rc`.
use std::rc::Rc;

fn main() {
    let local = Rc::new(1);
    _ = numart::spawn(move || println!("{local}"));
}
