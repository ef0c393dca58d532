//! The model's fit to seed 0, and that nobody bent it to the policy afterwards.

use numart_sim::constants::{MODEL_A, MODEL_B, MODELS};
use numart_sim::fit::{TARGETS, figures, pinned_controller_load, worst_error};

#[test]
fn both_sets_give_seed_0_within_0_04() {
    for c in MODELS {
        println!("{}\n  figures {:.3?} wanted {TARGETS:?}", c.line(), figures(&c));
        // The issue asks for 0.04; both sets reached 0.02 when they were frozen.
        assert!(worst_error(&c) <= 0.02, "model {} is off by {:.4}", c.name, worst_error(&c));
    }
}

#[test]
fn the_sets_differ_in_what_seed_0_does_not_identify() {
    let (a, b) = (pinned_controller_load(&MODEL_A), pinned_controller_load(&MODEL_B));
    assert!(b - a > 0.1, "controller loads {a:.3} and {b:.3}");
    let shared = |c: numart_sim::constants::Constants| c.shared_lines / (c.shared_lines + c.private_lines);
    assert!(shared(MODEL_B) > 2.0 * shared(MODEL_A));
}

#[test]
fn the_constants_are_frozen() {
    // A change here invalidates every figure in docs/: refit, re-measure, and say why.
    assert_eq!(
        MODEL_A.line(),
        "model A: cpu 8.375 us; lines 188.2 private, 17.8 shared; latency 0.090/0.156/0.156/0.286 us; controller 117.0, \
         port 75.4, quad 115.3 lines/us; width 6.773 us; idle loss 0.068; sticky 0.097"
    );
    assert_eq!(
        MODEL_B.line(),
        "model B: cpu 2.387 us; lines 40.0 private, 15.6 shared; latency 0.090/0.206/0.206/0.514 us; controller 77.4, \
         port 234.3, quad 401.0 lines/us; width 2.031 us; idle loss 0.008; sticky 0.029"
    );
}
