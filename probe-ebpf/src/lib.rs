//! The kernel side of phux-trace: eBPF programs, the events that they emit, and their Rust twin.
