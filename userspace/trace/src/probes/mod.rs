//! Into the kernel and out of it: feature trials, load, attach, detach.

pub mod load;
mod log;
mod percpu;
pub mod trial;

pub use load::{HopProbe, LoadError, Options, Probes};
