//! A closure that wants an argument.
fn main() {
    _ = numart::spawn(|i: u32| i + 1);
}
