//! The atomics that the recording path uses.
//!
//! `tests/loom.rs` compiles `histogram.rs` a second time under a `sync` module of its own, in which
//! loom's atomics stand; so `histogram.rs` must name its atomics only through this module.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
