//! Into the kernel and out of it: feature trials, load, attach, detach.

pub mod blocked;
pub mod calls;
pub mod load;
mod log;
pub(crate) mod percpu;
pub mod system;
pub mod trial;

pub use calls::CallOptions;
pub use load::{HopProbe, LoadError, Options, Probes};
