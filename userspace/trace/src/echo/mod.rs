//! One keystroke through every process that it passes: the causal chain, from kernel events alone.
//!
//! `model` is what a chain is; the rest makes chains from [`crate::source::Event`]s.

pub mod model;

pub use model::{Actor, BlockedOn, Chain, End, Link, LinkKind, Parts};
