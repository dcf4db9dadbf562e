//! The live kernel as a source.

use std::collections::BTreeMap;
use std::io;
use std::sync::LazyLock;
use std::task::Poll;

use aya::maps::{HashMap, Map, MapData, MapError, PerCpuArray, RingBuf};
use phux_perf::Snapshot;
use probe_ebpf::events;
use thiserror::Error;
use tokio::io::unix::AsyncFd;

use super::event::Event;
use super::held::{Held, SETTLED_NS};
use super::raw::{self, Pod};
use crate::probes::{LoadError, Probes};
use crate::stats::{FlushStat, Holder, IoKey, IoStat, KernelState, PtyId, Side, ThreadStat, hist};
use crate::syscalls::stats::Figures;

/// Records that are taken from a ring before others have their turn.
const SHARE: usize = 1 << 16;

/// Why something could not be read from the kernel.
#[derive(Debug, Error)]
pub enum SourceError {
    /// A map could not be opened or read.
    #[error("a BPF map could not be read")]
    Map(#[from] MapError),
    /// A descriptor could not be had.
    #[error("a BPF descriptor could not be had")]
    Io(#[from] io::Error),
    /// An iterator did not run.
    #[error(transparent)]
    Iterator(#[from] LoadError),
}

/// Rings and maps of the loaded programs. Made inside a tokio runtime.
pub struct Live {
    rings: Vec<AsyncFd<RingBuf<MapData>>>,
    io: HashMap<MapData, Pod<events::io_key>, Pod<events::io_stats>>,
    flush: HashMap<MapData, Pod<events::flush_key>, Pod<events::flush_stats>>,
    hops: HashMap<MapData, Pod<events::hop_key>, Pod<events::hist>>,
    losses: PerCpuArray<MapData, u64>,
    call_sums: Option<HashMap<MapData, Pod<events::call_key>, Pod<events::call_sums>>>,
    /// Records that could not be decoded.
    undecodable: u64,
    held: Held,
}

/// System calls of one process and number that the kernel has summed up.
#[derive(Debug, Clone)]
pub struct CallSums {
    /// Process.
    pub pid: u32,
    /// Its name, at the last of them.
    pub process: String,
    /// Number of the call.
    pub nr: u32,
    /// Their sums.
    pub figures: Figures,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live")
            .field("rings", &self.rings.len())
            .finish_non_exhaustive()
    }
}

impl Live {
    /// Opens what the loaded programs write to.
    pub fn open(probes: &Probes) -> Result<Live, SourceError> {
        let mut rings = Vec::new();
        for fd in probes.ring_fds()? {
            let ring = RingBuf::try_from(Map::RingBuf(MapData::from_fd(fd)?))?;
            // SAFETY: a RingBuf keeps one descriptor, open and the same, for as long as it lives.
            let ring = unsafe { AsyncFd::register(ring) };
            rings.push(ring.map_err(io::Error::from)?);
        }
        let fds = probes.map_fds()?;
        Ok(Live {
            rings,
            io: Map::HashMap(MapData::from_fd(fds.pty_io)?).try_into()?,
            flush: Map::HashMap(MapData::from_fd(fds.pty_flush)?).try_into()?,
            hops: Map::HashMap(MapData::from_fd(fds.hop_stats)?).try_into()?,
            losses: Map::PerCpuArray(MapData::from_fd(fds.losses)?).try_into()?,
            call_sums: None,
            undecodable: 0,
            held: Held::default(),
        })
    }

    /// Waits until the kernel says that a ring fills up. Besides, [`Live::drain`] is to be called by a timer.
    pub async fn filling(&self) {
        std::future::poll_fn(|cx| {
            for ring in &self.rings {
                // An error here would come again at once; the timer drains all the same.
                if let Poll::Ready(Ok(mut guard)) = ring.poll_read_ready(cx) {
                    guard.clear_ready();
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        })
        .await;
    }

    /// Takes what is in the rings: what is told of system calls is given to `calls`, in an order that
    /// is right for them; the rest comes back in the order of time, and whether there is more.
    pub fn drain(&mut self, mut calls: impl FnMut(&[u8])) -> (Vec<Event>, bool) {
        let began = monotonic_ns();
        let (mut events, mut more) = (Vec::new(), false);
        let only_one = self.rings.len() == 1;
        for ring in &mut self.rings {
            let mut left = SHARE;
            while left > 0
                && let Some(record) = ring.get_mut().next()
            {
                left -= 1;
                match Event::decode(&record) {
                    Some(event) => events.push(event),
                    None if !tells_of_calls(&record) => self.undecodable += 1,
                    None if only_one => calls(&record),
                    None => self.held.push(&record),
                }
            }
            more |= left == 0;
        }
        self.held.give(began.saturating_sub(SETTLED_NS), calls);
        events.sort_by_key(Event::ts);
        (events, more)
    }

    /// Records so far that found no room in their ring.
    pub fn lost_events(&self) -> Result<u64, SourceError> {
        let by_cpu = self.losses.get(&events::LOSS_RING_FULL, 0)?;
        Ok(by_cpu.iter().sum())
    }

    /// Opens what is there only when system calls are recorded.
    pub fn open_calls(&mut self, probes: &Probes) -> Result<(), SourceError> {
        let fd = probes.call_sums_fd()?;
        self.call_sums = Some(Map::HashMap(MapData::from_fd(fd)?).try_into()?);
        Ok(())
    }

    /// Gives the records in the rings as they are, in an order in which what is told about a file
    /// or a thread comes before the call that needs it. Not more than a share at a time: whether
    /// there was more. At the `end` nothing is held back for what another ring may still have.
    pub fn records(&mut self, end: bool, mut take: impl FnMut(&[u8])) -> bool {
        let began = monotonic_ns();
        if let [ring] = self.rings.as_mut_slice() {
            // One ring has them in that order already.
            for _ in 0..SHARE {
                match ring.get_mut().next() {
                    Some(record) => take(&record),
                    None => return false,
                }
            }
            return true;
        }
        let mut more = false;
        for ring in &mut self.rings {
            let mut left = SHARE;
            while left > 0 {
                match ring.get_mut().next() {
                    Some(record) => self.held.push(&record),
                    None => break,
                }
                left -= 1;
            }
            more |= left == 0;
        }
        let settled = if end {
            u64::MAX
        } else {
            began.saturating_sub(SETTLED_NS)
        };
        self.held.give(settled, take);
        more
    }

    /// What the kernel has summed up of system calls.
    pub fn call_sums(&self) -> Vec<CallSums> {
        let Some(map) = &self.call_sums else {
            return Vec::new();
        };
        entries(map.iter())
            .map(|(key, sums)| {
                let figures = Figures {
                    duration: hist(&sums.duration),
                    errors: sums.errors,
                    bytes: sums.bytes,
                    wait_ns: sums.wait_ns,
                    blocked_ns: sums.blocked_ns,
                };
                CallSums {
                    pid: key.tgid,
                    process: crate::stats::comm(&sums.process),
                    nr: key.nr,
                    figures,
                }
            })
            .collect()
    }

    /// Losses so far, by `events::LOSS_*`.
    pub fn losses(&self) -> Result<BTreeMap<u32, u64>, SourceError> {
        let count = |class: u32| Ok((class, self.losses.get(&class, 0)?.iter().sum()));
        (0..events::LOSS_MAX).map(count).collect()
    }

    /// The values of each hop so far, by process and hop id.
    pub fn hops(&self) -> BTreeMap<(u32, u32), Snapshot> {
        let entries = entries(self.hops.iter());
        entries
            .map(|(key, value)| ((key.tgid, key.hop), hist(&value)))
            .collect()
    }

    /// What the kernel has summed up so far, of the threads that live. Ended ones come through [`Live::drain`].
    pub fn state(&self, probes: &Probes) -> Result<KernelState, SourceError> {
        let mut state = KernelState {
            at_ns: monotonic_ns(),
            ..KernelState::default()
        };
        for stats in raw::read_all::<events::thread_stats>(&probes.dump_threads()?) {
            let thread = ThreadStat::from(&stats);
            state.threads.insert(thread.key(), thread);
        }
        for (key, value) in entries(self.io.iter()) {
            let Some(side) = Side::from_raw(u32::from(key.side)) else {
                continue;
            };
            let write = u32::from(key.op) == events::IO_WRITE;
            state.io.insert(
                IoKey {
                    pty: key.pty.into(),
                    side,
                    write,
                },
                IoStat::from(&value),
            );
        }
        for (key, value) in entries(self.flush.iter()) {
            let Some(side) = Side::from_raw(key.side) else {
                continue;
            };
            state
                .flush
                .insert((PtyId::from(key.pty), side), FlushStat::from(&value));
        }
        state.hops = self.hops();
        state.losses = self.losses()?;
        state.undecodable = self.undecodable;
        state.missed = probes.missed();
        Ok(state)
    }
}

fn tells_of_calls(record: &[u8]) -> bool {
    let kinds = [
        events::EV_CALL,
        events::EV_FILE,
        events::EV_STRINGS,
        events::EV_COMM,
    ];
    raw::read::<events::ev_header>(record).is_some_and(|h| kinds.contains(&h.type_))
}

/// Entries that vanish while the map is walked are left out.
fn entries<K: raw::Record, V: raw::Record>(
    iter: impl Iterator<Item = Result<(Pod<K>, Pod<V>), MapError>>,
) -> impl Iterator<Item = (K, V)> {
    iter.filter_map(Result::ok).map(|(k, v)| (k.0, v.0))
}

/// The holders in what [`Probes::seed`] or [`Probes::holders`] returned.
pub fn holders(bytes: &[u8]) -> Vec<Holder> {
    let mut seen = BTreeMap::new();
    for h in raw::read_all::<events::pty_holder>(bytes) {
        let Some(side) = Side::from_raw(h.side) else {
            continue;
        };
        let holder = Holder {
            pty: h.pty.into(),
            side,
            pid: h.tgid,
            relation: h.relation,
            name: crate::stats::comm(&h.comm),
        };
        // One process often holds the same end three times: stdin, stdout, stderr.
        seen.insert((holder.pty, side, holder.pid), holder);
    }
    seen.into_values().collect()
}

/// CLOCK_MONOTONIC of the host, ns: the clock of all times that the kernel side gives. In a time
/// namespace ours is set off from it.
pub fn monotonic_ns() -> u64 {
    static OFFSET_NS: LazyLock<i128> = LazyLock::new(|| {
        std::fs::read_to_string("/proc/self/timens_offsets")
            .ok()
            .and_then(|text| monotonic_offset(&text))
            .unwrap_or(0)
    });
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let ours = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
    u64::try_from(ours - *OFFSET_NS).unwrap_or(0)
}

/// The offset of CLOCK_MONOTONIC, ns, in `/proc/PID/timens_offsets`: clock, seconds and nanoseconds a line.
fn monotonic_offset(text: &str) -> Option<i128> {
    let words = text.lines().find_map(|l| l.strip_prefix("monotonic"))?;
    let mut numbers = words.split_ascii_whitespace().map(str::parse::<i64>);
    let (seconds, ns) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(i128::from(seconds) * 1_000_000_000 + i128::from(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_time_namespace() {
        let text = "monotonic      -50         7\nboottime           3         0\n";
        assert_eq!(monotonic_offset(text), Some(-49_999_999_993));
        for odd in ["", "monotonic", "monotonic 1", "monotonic x 0"] {
            assert_eq!(monotonic_offset(odd), None, "{odd}");
        }
    }
}
