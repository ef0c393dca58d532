//! The machine and its memory. Knows nothing of tasks.
