//! The profiler for terminals that lag: which hop, which thread, and who had the CPU instead.

pub mod attach;
pub mod cli;
pub mod commands;
pub mod daemon;
pub mod doctor;
pub mod echo;
pub mod escape;
pub mod fuzz;
pub mod privileges;
pub mod probes;
pub mod record;
pub mod recording;
pub mod report;
pub mod say;
pub mod sched_class;
pub mod source;
pub mod stats;
pub mod syscalls;
pub mod target;
mod tui;
