//! What the compiler says to those who spawn what cannot be spawned.

/// `TRYBUILD=overwrite cargo test --test ui` writes the messages anew; read them before you commit them.
#[test]
fn messages_name_what_is_wrong() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
