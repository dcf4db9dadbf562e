//! A small terminal multiplexer whose hot path carries always-on telemetry.

fn main() {}
