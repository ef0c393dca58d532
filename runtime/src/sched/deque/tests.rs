//! The deque alone, on real threads.
