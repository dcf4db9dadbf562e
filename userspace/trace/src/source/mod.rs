//! Where the data comes from: the rings, the iterators and the maps of the loaded kernel side.
//!
//! aya drains and reads, pulling: what is not pulled in time ends in a counted
//! drop in the kernel, never in memory that grows here.

pub mod decode;
mod held;
pub mod live;
pub(crate) mod raw;

pub use decode::Event;
pub use live::{Live, SourceError};
