//! The kernel side of phux-trace: eBPF programs, the events that they emit, and their Rust twin.
//!
//! The programs are C with CO-RE under `src/bpf`, one file a concern. Nothing here
//! knows who reads the events; what they mean stands in `events.h`.

/// All programs and maps, made by libbpf-cargo from `probe.bpf.c`.
#[allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod probe {
    include!(concat!(env!("OUT_DIR"), "/probe.skel.rs"));
}

/// One program for each thing that a kernel can refuse, from `trial.bpf.c`.
#[allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod trial {
    include!(concat!(env!("OUT_DIR"), "/trial.skel.rs"));
}

/// Parts of the kernel side that tests run by themselves, from `selftest.bpf.c`.
#[allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod selftest {
    include!(concat!(env!("OUT_DIR"), "/selftest.skel.rs"));
}

/// The events as the kernel writes them: generated from `events.h`.
#[allow(
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    unreachable_pub,
    clippy::all
)]
pub mod events {
    include!(concat!(env!("OUT_DIR"), "/events.rs"));
}

pub use probe::{ProbeSkel, ProbeSkelBuilder};
pub use selftest::{SelftestSkel, SelftestSkelBuilder};
pub use trial::{OpenTrialSkel, TrialSkel, TrialSkelBuilder};
