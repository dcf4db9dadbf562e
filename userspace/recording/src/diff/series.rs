//! The series of a recording, and samples of them in bounded memory.

use serde::Serialize;

use super::estimate::{self, Estimate};
use crate::store::RunId;
use crate::{Dataset, Echo, EchoLink, Error, Flush, Hop, Name, PtyIo, Record, Slice, Syscall};

/// A series with more values than this is sampled.
const MOST: usize = 65_536;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Length of an echo, ns.
    Echo,
    /// Length of a link of echoes, ns.
    EchoLink,
    /// Wait for a CPU by thread name, ns.
    RunQueue,
    /// Wait of flush work for a kworker, ns.
    FlushWait,
    /// Read or write of a PTY, ns.
    Pty,
    /// Value of a hop, in its unit.
    Hop,
    /// Duration of a syscall, ns.
    Syscall,
}

impl Kind {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Echo => "echo",
            Kind::EchoLink => "echo link",
            Kind::RunQueue => "run queue",
            Kind::FlushWait => "flush wait",
            Kind::Pty => "pty",
            Kind::Hop => "hop",
            Kind::Syscall => "syscall",
        }
    }
}

pub(super) type Key = (Kind, Name);

/// Values of one series: all of them, or from [`MOST`] on a fair sample (Vitter's algorithm R).
#[derive(Debug, Default)]
pub(super) struct Sample {
    values: Vec<u64>,
    count: u64,
    sorted: bool,
    state: u64,
}

impl Sample {
    pub(super) fn add(&mut self, value: u64) {
        self.count += 1;
        self.sorted = false;
        if self.values.len() < MOST {
            self.values.push(value);
            return;
        }
        // A fixed seed: the same recording gives the same answer. (Steele & Vigna's SplitMix64.)
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let place = (z ^ (z >> 31)) % self.count;
        if let Some(old) = self.values.get_mut(place as usize) {
            *old = value;
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn percentile(&mut self, percentile: f64) -> Estimate {
        if !self.sorted {
            self.values.sort_unstable();
            self.sorted = true;
        }
        estimate::percentile(&self.values, percentile, self.count)
    }
}

/// Hands out each value of each series.
pub(super) fn gather(
    dataset: &Dataset,
    run: RunId,
    mut each: impl FnMut(Key, u64),
) -> Result<(), Error> {
    rows(dataset, run, |r: Syscall| {
        // A request of io_uring is no call that a thread waits in.
        let name = if r.io_uring {
            format!("io_uring {}", r.name).into()
        } else {
            r.name
        };
        each((Kind::Syscall, name), r.dur);
    })?;
    rows(dataset, run, |r: Slice| {
        if let Some(wait) = r.wait_ns() {
            each((Kind::RunQueue, r.comm), wait);
        }
    })?;
    rows(dataset, run, |r: PtyIo| {
        // A read lasts as long as nobody types: not a figure to compare.
        if r.write && r.ret > 0 {
            let end = if r.master {
                "master write"
            } else {
                "slave write"
            };
            each((Kind::Pty, Name::fixed(end)), r.dur);
        }
    })?;
    rows(dataset, run, |r: Flush| {
        if let Some(wait) = r.wait_ns() {
            let towards = if r.to_master { "output" } else { "input" };
            each((Kind::FlushWait, Name::fixed(towards)), wait);
        }
    })?;
    rows(dataset, run, |r: Hop| each((Kind::Hop, r.name), r.arg0))?;
    rows(dataset, run, |r: Echo| {
        if &*r.end == "echoed" {
            each((Kind::Echo, Name::fixed("echo")), r.dur);
        }
    })?;
    rows(dataset, run, |r: EchoLink| {
        each((Kind::EchoLink, r.name), r.dur)
    })
}

fn rows<T: Record>(dataset: &Dataset, run: RunId, mut each: impl FnMut(T)) -> Result<(), Error> {
    for row in dataset.rows::<T>(run)? {
        each(row?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_many_values_is_fair() {
        let mut sample = Sample::default();
        for i in 0..1_000_000 {
            sample.add(i);
        }
        assert_eq!((sample.values.len(), sample.count()), (MOST, 1_000_000));
        for p in [1.0, 50.0, 99.0] {
            let e = sample.percentile(p);
            let truth = (p * 10_000.0) as u64;
            assert!(
                e.low <= truth && e.high.is_some_and(|h| h >= truth),
                "p{p}: {e:?}"
            );
        }
    }
}
