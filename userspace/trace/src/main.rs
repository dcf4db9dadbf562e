//! The phux-trace command.

fn main() {}
