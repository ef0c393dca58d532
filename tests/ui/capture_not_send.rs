//! A future that holds an `Rc` over an await.
use std::rc::Rc;

fn main() {
    let local = Rc::new(1);
    _ = numart::spawn(async move {
        numart::yield_now().await;
        println!("{local}");
    });
}
