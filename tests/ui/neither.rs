//! Neither a closure nor a future.
fn main() {
    _ = numart::spawn(6 * 7);
}
