//! One keystroke through every process that it passes: the causal chain, from kernel events alone.
//!
//! `model` is what a chain is; the rest makes chains from [`crate::source::Event`]s.

pub mod model;
pub mod rows;
pub mod summary;
#[cfg(test)]
pub(crate) mod synthetic;
pub mod syscalls;

pub use model::{Actor, BlockedOn, Chain, End, Link, LinkKind, Parts, Role};
pub use rows::Names;
pub use summary::Summary;
