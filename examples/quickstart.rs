//! Closures, fork-join, scopes, loops and affinities; then where it all ran.

use std::sync::atomic::{AtomicUsize, Ordering};

fn fibonacci(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = numart::join(|| fibonacci(n - 1), || fibonacci(n - 2));
    a + b
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A closure that runs on its own.
    let answer = numart::spawn(|| 6 * 7);
    println!("spawned closure:    {}", answer.join()?);

    // Fork-join: the two halves may run at the same time.
    println!("fibonacci(30):      {}", numart::install(|| fibonacci(30)));

    // A scope: jobs may borrow from the stack, and are done when it returns.
    let (mut evens, mut odds) = (0, 0);
    numart::scope(|s| {
        s.spawn(|_| evens = (0..100).filter(|i| i % 2 == 0).sum());
        s.spawn(|_| odds = (0..100).filter(|i| i % 2 == 1).sum());
    });
    println!("evens and odds:     {evens} + {odds} = {}", evens + odds);

    // A parallel loop with automatic grain.
    let multiples = AtomicUsize::new(0);
    numart::par_for(0..1_000_000, |i| {
        if i % 7 == 0 {
            multiples.fetch_add(1, Ordering::Relaxed);
        }
    });
    println!("multiples of seven: {}", multiples.into_inner());

    // An affinity for every node: its tasks run there.
    for node in numart::Handle::current().nodes() {
        let tenant = numart::Affinity::new().on(node)?.strict().named(format!("tenant {node}"));
        let jobs: Vec<_> = (0..100).map(|_| tenant.spawn(numart::current_node)).collect();
        let at_home = jobs.into_iter().filter_map(|job| job.join().ok().flatten()).filter(|&n| n == node).count();
        println!("tenant {node}:           {at_home} of 100 tasks ran on node {node}");
    }

    println!("\n{}\n{}", numart::Handle::current().topology(), numart::stats());
    Ok(())
}
