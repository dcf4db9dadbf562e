//! Helpers of the whole-program tests.
//!
//! The programs under `src/bin/` are the ground truth: each does a known amount of work and says
//! at its end what it really did ([`truth`] is how they talk). The other modules run them, and the
//! programs under test, so that nothing outlives a test: no process, no socket, no BPF program.

pub mod attach;
pub mod bins;
pub mod bpf;
pub mod bpftrace;
pub mod calls;
pub mod classes;
pub mod daemon;
pub mod dtrace;
pub mod echoes;
pub mod fuzz;
pub mod interference;
pub mod machine;
pub mod muxers;
pub mod nobody;
pub mod notes;
pub mod procfs;
pub mod protobuf;
pub mod ptys;
pub mod report;
pub mod running;
pub mod session;
pub mod terminal;
pub mod truth;
pub mod untouched;
pub mod wait;

pub use bins::{bin, example};
pub use machine::{exclusive, need_root, need_tool};
pub use running::Running;
pub use wait::wait_for;
