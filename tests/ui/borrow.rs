//! A future that borrows from the frame that spawns it.
fn main() {
    let local = String::from("here");
    _ = numart::spawn(async { println!("{}", &local) });
}
