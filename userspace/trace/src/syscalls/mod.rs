//! System calls, as the recorder sees them: one way from the kernel's records to rows and figures.
//!
//! The kernel tells a call when it has ended, enter and exit in one record ([`join`] makes a
//! [`Call`] of it), and what a file is called once ([`naming`]). [`fanout`] hands rows to whoever
//! wants them, in one pass; [`stats`] is always the first of those. [`view`] is what of it goes to a
//! live view.

pub mod call;
pub mod family;
pub mod fanout;
pub mod join;
#[cfg(test)]
mod join_tests;
pub mod name;
pub mod naming;
pub mod stats;
pub mod table;
pub mod uring;
pub mod view;

pub use call::{Call, End};
pub use family::Family;
pub use fanout::{Consumer, Pipeline};
pub use join::Join;
pub use name::{Name, Names};
pub use stats::Stats;
