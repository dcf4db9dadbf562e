//! Where the data comes from: the rings, the iterators and the maps of the loaded kernel side.
//!
//! aya drains and reads, pulling: what is not pulled in time ends in a counted
//! drop in the kernel, never in memory that grows here.

mod decode;
pub mod event;
pub(crate) mod held;
pub mod live;
pub(crate) mod raw;

pub use event::Event;
pub use live::{Live, SourceError};
