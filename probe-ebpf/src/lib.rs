//! The kernel side of phux-trace: eBPF programs, the events that they emit, and their Rust twin.
//!
//! The programs are C with CO-RE under `src/bpf`, one file a concern. Nothing here
//! knows who reads the events; what they mean stands in `events.h`.

/// A module of code that the build script generated, which our lints do not concern.
macro_rules! generated {
    ($(#[$doc:meta])* $visible:vis $name:ident, $file:literal) => {
        $(#[$doc])*
        #[allow(
            missing_docs,
            dead_code,
            non_camel_case_types,
            non_upper_case_globals,
            unreachable_pub,
            clippy::all,
            clippy::undocumented_unsafe_blocks,
            clippy::unwrap_used
        )]
        $visible mod $name {
            include!(concat!(env!("OUT_DIR"), "/", $file));
        }
    };
}

generated!(
    /// All programs and maps, made by libbpf-cargo from `probe.bpf.c`.
    probe, "probe.skel.rs"
);
generated!(
    /// One program for each thing that a kernel can refuse, from `trial.bpf.c`.
    trial, "trial.skel.rs"
);
generated!(
    /// Parts of the kernel side that tests run by themselves, from `selftest.bpf.c`.
    selftest, "selftest.skel.rs"
);
generated!(
    /// The events as the kernel writes them: generated from `events.h`.
    pub events, "events.rs"
);

pub use probe::{OpenProbeSkel, ProbeSkel, ProbeSkelBuilder};
pub use selftest::{SelftestSkel, SelftestSkelBuilder};
pub use trial::{OpenTrialSkel, TrialSkel, TrialSkelBuilder};
