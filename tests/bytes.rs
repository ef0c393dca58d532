//! How many heap bytes a pending task takes. Alone in its program: it counts what the allocator gives.

use std::alloc::{GlobalAlloc, Layout, System};
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

struct Counting;

static LARGEST: AtomicUsize = AtomicUsize::new(0);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::SeqCst);
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_minimal_future_takes_one_allocation_of_at_most_96_bytes() {
    let runtime = numart::Runtime::builder().workers(1).build().unwrap();
    // Twice over: lists and queues have grown by then.
    let warm: Vec<_> = (0..2_000).map(|_| runtime.spawn(pending::<()>())).collect();
    drop(warm);
    // Other threads allocate too, now and then: so the best of many.
    let mut best = (usize::MAX, usize::MAX);
    for _ in 0..500 {
        LARGEST.store(0, Ordering::SeqCst);
        ALLOCATIONS.store(0, Ordering::SeqCst);
        let mut task = runtime.spawn(pending::<()>());
        let (largest, count) = (LARGEST.load(Ordering::SeqCst), ALLOCATIONS.load(Ordering::SeqCst));
        best = best.min((largest, count));
        assert!(pin!(&mut task).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert_eq!(best.1, 1, "allocations");
    assert!(best.0 <= 96 && best.0 >= 64, "{} bytes", best.0);
    println!("{} bytes", best.0);
}
