//! Ground truth for USDT: one probe name at many sites, each with a semaphore of its own; one
//! whose sites share a semaphore; and one without.
//!
//! The notes are written by hand, as `sys/sdt.h` writes them, so that this program does not rest
//! on the crate that traced programs use. A site with a semaphore fires only while that is
//! raised: a tracer that attaches to one site, or raises one semaphore, sees too little.

use std::arch::asm;
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use clap::Parser;
use phux_trace_tests::truth;
use serde::Serialize;

#[derive(Debug, Parser)]
struct Options {
    /// Hits of each site.
    #[arg(long, default_value_t = 10)]
    hits: u64,
}

/// One probe name; `arg0` of every hit is the number of its site.
#[derive(Debug, Serialize)]
struct Probe {
    name: &'static str,
    /// Hits that fired (the semaphore was raised, or there is none), by site.
    fired: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct Truth {
    /// Hits of each site, fired or not.
    hits: u64,
    probes: Vec<Probe>,
}

type Site = fn(u64) -> bool;

/// A one-instruction nop, and a version 3 SystemTap note that points at it.
macro_rules! fire {
    ($name:literal, $value:expr) => { fire!(@ $name, $value, "0",) };
    ($name:literal, $value:expr, $semaphore:ident) => {
        fire!(@ $name, $value, "{semaphore}", semaphore = sym $semaphore,)
    };
    (@ $name:literal, $value:expr, $address:literal, $($operand:tt)*) => {{
        // AT&T syntax is what the note's argument has on x86: `8@%rax`.
        #[cfg(target_arch = "x86_64")]
        fire!(@@ $name, $value, $address, $($operand)* options(att_syntax),);
        #[cfg(not(target_arch = "x86_64"))]
        fire!(@@ $name, $value, $address, $($operand)*);
    }};
    (@@ $name:literal, $value:expr, $address:literal, $($operand:tt)*) => {
        // SAFETY: a nop changes nothing, and the note goes to a section that is not loaded.
        unsafe {
            asm!(
                "990: nop",
                ".pushsection .note.stapsdt, \"\", \"note\"",
                ".balign 4",
                ".4byte 992f-991f, 994f-993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b",
                ".8byte _.stapsdt.base",
                concat!(".8byte ", $address),
                ".asciz \"phux\"",
                concat!(".asciz \"", $name, "\""),
                ".asciz \"8@{value}\"",
                "994: .balign 4",
                ".popsection",
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                value = in(reg) $value,
                options(nostack, preserves_flags),
                $($operand)*
            )
        }
    };
}

/// A site of `many__own`, with a semaphore that no other site has.
macro_rules! own {
    () => {{
        #[unsafe(link_section = ".probes")]
        static OWN: AtomicU16 = AtomicU16::new(0);
        let site: Site = |value| {
            let raised = OWN.load(Ordering::Relaxed) > 0;
            if raised {
                fire!("many__own", value, OWN);
            }
            raised
        };
        site
    }};
}

#[unsafe(link_section = ".probes")]
static SHARED: AtomicU16 = AtomicU16::new(0);

/// A site of `many__shared`.
macro_rules! shared {
    () => {{
        let site: Site = |value| {
            let raised = SHARED.load(Ordering::Relaxed) > 0;
            if raised {
                fire!("many__shared", value, SHARED);
            }
            raised
        };
        site
    }};
}

/// A site of `many__bare`.
macro_rules! bare {
    () => {{
        let site: Site = |value| {
            fire!("many__bare", value);
            true
        };
        site
    }};
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    let probes: [(&str, &[Site]); 3] = [
        (
            "many__own",
            &[
                own!(),
                own!(),
                own!(),
                own!(),
                own!(),
                own!(),
                own!(),
                own!(),
            ],
        ),
        (
            "many__shared",
            &[shared!(), shared!(), shared!(), shared!()],
        ),
        ("many__bare", &[bare!(), bare!(), bare!(), bare!()]),
    ];
    truth::ready()?;
    let probes = probes.map(|(name, sites)| Probe {
        name,
        fired: (0..)
            .zip(sites)
            .map(|(value, site)| hit(options.hits, value, *site))
            .collect(),
    });
    truth::done(&Truth {
        hits: options.hits,
        probes: probes.into(),
    })
}

fn hit(times: u64, value: u64, site: Site) -> u64 {
    (0..times).filter(|_| site(value)).count() as u64
}
