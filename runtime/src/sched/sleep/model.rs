//! Loom models of this protocol.
