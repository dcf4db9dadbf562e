//! The profiler for terminals that lag: which hop, which thread, and who had the CPU instead.

pub mod cli;
pub mod commands;
pub mod report;
pub mod target;
