//! A hop: one place of the hot path that records into a histogram and is a USDT probe.

use crate::histogram::Histogram;
use crate::metric::{Metric, Unit};
use crate::snapshot::Snapshot;
use crate::timer::HopTimer;
use std::fmt;
use std::marker::PhantomData;

/// What [`hops!`](crate::hops) makes of one line of its table. Not implemented by hand.
pub trait Probe {
    /// The metric's name, such as `pty.read.size`.
    const NAME: &'static str;
    /// The probe's name, such as `pty__read__size`.
    const PROBE: &'static str;
    /// Unit of the value, and so of the probe's arg0.
    const UNIT: Unit;
    /// Fires the probe. Costs a `nop` while nobody is attached.
    fn fire(value: u64, id: u64, sequence: u64);
}

/// A histogram that is also a USDT probe, as [`hops!`](crate::hops) declares it.
pub struct Hop<P> {
    histogram: Histogram,
    probe: PhantomData<fn() -> P>,
}

impl<P: Probe> Hop<P> {
    /// For [`hops!`](crate::hops).
    #[doc(hidden)]
    #[allow(clippy::new_without_default, reason = "made by the macro, as a static")]
    pub const fn new() -> Self {
        Self {
            histogram: Histogram::new(),
            probe: PhantomData,
        }
    }

    /// What [`hop!`](crate::hop) expands to: records `value` and fires the probe.
    ///
    /// `id` is the pane's or stream's id, `sequence` a number that orders the events of that id;
    /// both reach only the probe.
    #[inline(always)]
    pub fn record(&self, value: u64, id: u64, sequence: u64) {
        self.histogram.record(value);
        P::fire(value, id, sequence);
    }

    /// Records the microseconds until the timer is dropped.
    #[inline(always)]
    pub fn timer(&self, id: u64, sequence: u64) -> HopTimer<'_, P> {
        HopTimer::start(self, id, sequence)
    }

    /// The histogram at this moment.
    pub fn snapshot(&self) -> Snapshot {
        self.histogram.snapshot()
    }

    /// The hop as a row of a metric table.
    pub const fn metric(&'static self) -> Metric {
        Metric::histogram(P::NAME, P::UNIT, &self.histogram)
    }
}

impl<P: Probe> fmt::Debug for Hop<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hop")
            .field("name", &P::NAME)
            .field("probe", &P::PROBE)
            .finish()
    }
}

/// An integer that a hop takes as value, id or sequence number: unsigned, so that the histogram and
/// the probe cannot disagree about a sign.
pub trait HopArg {
    /// The number as both the histogram and the probe see it.
    fn to_arg(self) -> u64;
}

macro_rules! hop_args {
    ($($unsigned:ty)*) => {$(
        impl HopArg for $unsigned {
            #[inline(always)]
            fn to_arg(self) -> u64 {
                self as u64
            }
        }
    )*};
}
hop_args!(u8 u16 u32 u64 usize);

/// Whether a metric's name and a probe's name are the same by the naming rule: a dot in the one is
/// two underscores in the other, everything else is equal.
#[doc(hidden)]
pub const fn names_agree(metric: &str, probe: &str) -> bool {
    let (metric, probe) = (metric.as_bytes(), probe.as_bytes());
    let (mut m, mut p) = (0, 0);
    while m < metric.len() {
        match metric[m] {
            b'.' => {
                if p + 1 >= probe.len() || probe[p] != b'_' || probe[p + 1] != b'_' {
                    return false;
                }
                p += 2;
            }
            // Two underscores in a metric's name could not be told from a dot.
            b'_' if m + 1 < metric.len() && metric[m + 1] == b'_' => return false,
            other => {
                if p >= probe.len() || probe[p] != other {
                    return false;
                }
                p += 1;
            }
        }
        m += 1;
    }
    p == probe.len()
}

/// Declares hops: statics of type [`Hop`], each with its metric's name, its [`Unit`] and its
/// probe's name.
///
/// Metric `pty.read.size` must be probe `pty__read__size`; anything else does not compile. The
/// provider is always `phux`. To DTrace the probe is `pty-read-size`.
///
/// ```
/// phux_perf::hops! {
///     /// Bytes that one read of a PTY returned.
///     pub static PTY_READ_SIZE: "pty.read.size", Bytes, pty__read__size;
///     /// Time a chunk waited for the pane's actor.
///     static PTY_QUEUE_WAIT: "pty.queue_wait", Micros, pty__queue_wait;
/// }
/// # fn main() {
/// let (pane, sequence) = (1_u32, 7_u64);
/// phux_perf::hop!(PTY_READ_SIZE, 4095_usize, pane, sequence);
/// phux_perf::hop!(PTY_QUEUE_WAIT, 14_u64);
/// # }
/// ```
///
/// ```compile_fail
/// phux_perf::hops! { static WRONG: "pty.read.size", Bytes, pty__read_size; }
/// ```
#[macro_export]
macro_rules! hops {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis static $hop:ident : $name:literal, $unit:ident, $probe:ident;
    )*) => {$(
        #[doc = concat!("Probe `phux:", stringify!($probe), "`; see the static of the same hop.")]
        #[allow(non_camel_case_types)]
        #[derive(Debug)]
        $visibility enum $probe {}

        impl $crate::Probe for $probe {
            const NAME: &'static str = $name;
            const PROBE: &'static str = stringify!($probe);
            const UNIT: $crate::Unit = $crate::Unit::$unit;

            #[inline(always)]
            fn fire(value: u64, id: u64, sequence: u64) {
                $crate::__fire!($probe, value, id, sequence);
            }
        }

        const _: () = assert!(
            $crate::__private::names_agree($name, stringify!($probe)),
            concat!("metric ", $name, " and probe ", stringify!($probe), " differ in name"),
        );

        $(#[$attribute])*
        $visibility static $hop: $crate::Hop<$probe> = $crate::Hop::new();
    )*};
}

/// Records a value into a hop's histogram and fires its probe: `hop!(HOP, value, id, sequence)`.
///
/// The value is in the hop's unit; `id` is the pane's or stream's id, `sequence` orders the events
/// of that id. Both may be left out, and are 0 then. Each argument is evaluated once, and is any
/// unsigned integer. They are the probe's arg0, arg1 and arg2.
#[macro_export]
macro_rules! hop {
    ($hop:expr, $value:expr $(,)?) => {
        $crate::hop!($hop, $value, 0_u64, 0_u64)
    };
    ($hop:expr, $value:expr, $id:expr $(,)?) => {
        $crate::hop!($hop, $value, $id, 0_u64)
    };
    ($hop:expr, $value:expr, $id:expr, $sequence:expr $(,)?) => {
        $hop.record(
            $crate::HopArg::to_arg($value),
            $crate::HopArg::to_arg($id),
            $crate::HopArg::to_arg($sequence),
        )
    };
}

// The features and the target are those of this crate and not of the one that expands the macro,
// so there is one definition for each case instead of a `cfg` inside of one.

/// SDT note: a one-byte `nop`, and where the arguments are. No semaphore: the arguments are in
/// registers anyway.
#[cfg(all(
    not(feature = "disabled"),
    any(target_os = "linux", target_os = "android")
))]
#[doc(hidden)]
#[macro_export]
macro_rules! __fire {
    ($probe:ident, $value:expr, $id:expr, $sequence:expr) => {
        $crate::__private::probe::probe!(phux, $probe, $value, $id, $sequence)
    };
}

/// DTrace. The `usdt` crate wants a provider's definition beside the probe; DTrace joins the
/// providers of one name. It turns `__` into `-` itself.
#[cfg(all(
    not(feature = "disabled"),
    any(target_os = "macos", target_os = "illumos", target_os = "freebsd")
))]
#[doc(hidden)]
#[macro_export]
macro_rules! __fire {
    ($probe:ident, $value:expr, $id:expr, $sequence:expr) => {{
        #[$crate::__private::usdt::provider(provider = "phux")]
        mod phux_hop {
            fn $probe(value: u64, id: u64, sequence: u64) {}
        }
        phux_hop::$probe!(|| ($value, $id, $sequence))
    }};
}

/// No probe.
#[cfg(any(
    feature = "disabled",
    not(any(
        target_os = "linux",
        target_os = "android",
        target_os = "macos",
        target_os = "illumos",
        target_os = "freebsd"
    ))
))]
#[doc(hidden)]
#[macro_export]
macro_rules! __fire {
    ($probe:ident, $value:expr, $id:expr, $sequence:expr) => {{
        let _ = ($value, $id, $sequence);
    }};
}

/// Makes the probes known to DTrace where that is done at run time (illumos, FreeBSD). A program
/// with hops calls it once at its start; elsewhere it does nothing.
///
/// # Errors
/// DTrace's helper device cannot be opened or refuses the probes. The program runs on all the same,
/// and its probes are not visible.
pub fn register_probes() -> std::io::Result<()> {
    #[cfg(all(
        not(feature = "disabled"),
        any(target_os = "macos", target_os = "illumos", target_os = "freebsd")
    ))]
    usdt::register_probes().map_err(std::io::Error::other)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_naming_rule() {
        for (metric, probe) in [
            ("pty.read.size", "pty__read__size"),
            ("pty.queue_wait", "pty__queue_wait"),
            ("vt_apply", "vt_apply"),
        ] {
            assert!(names_agree(metric, probe), "{metric} is {probe}");
        }
        for (metric, probe) in [
            ("pty.read.size", "pty__read_size"),
            ("pty.read.size", "pty__read__sizes"),
            ("pty.read.sizes", "pty__read__size"),
            ("pty.read", "pty_read"),
            ("pty__read", "pty__read"),
            ("pty.", "pty_"),
            ("pty-read", "pty__read"),
            ("", "pty"),
        ] {
            assert!(!names_agree(metric, probe), "{metric} is not {probe}");
        }
    }
}
