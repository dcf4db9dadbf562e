//! What the kernel has summed up, in Rust's terms: by thread, PTY and hop; bounded however long it runs.

mod blame;
mod pty;
mod state;
mod thread;

pub use blame::{Blame, Culprit, Wakers};
pub use pty::{FlushStat, Holder, IoKey, IoStat, PtyId, Side};
pub(crate) use state::MAX_ENDED;
pub use state::{Ended, KernelState, SumKey};
pub use thread::{Phase, SchedClass, ThreadKey, ThreadStat};

use phux_perf::Snapshot;
use probe_ebpf::events;

/// A kernel histogram as the snapshot that the process itself would give.
pub fn hist(h: &events::hist) -> Snapshot {
    let buckets: Vec<(usize, u64)> = h
        .buckets
        .iter()
        .enumerate()
        .filter(|(_, n)| **n != 0)
        .map(|(i, n)| (i, u64::from(*n)))
        .collect();
    // A histogram that is written to meanwhile is read as far as its buckets have got. Those
    // wrap at 32 bits; the count does not.
    let in_buckets = buckets.iter().map(|(_, n)| n).sum();
    let count = if h.count <= u64::from(u32::MAX) {
        in_buckets
    } else {
        h.count
    };
    let min = if h.count == 0 { 0 } else { !h.inv_min };
    Snapshot::from_parts(count, h.sum, min, h.max, &buckets)
}

/// A name as the kernel keeps it: up to 16 bytes of anything, ended by a zero.
pub fn comm(bytes: &[std::os::raw::c_char]) -> String {
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast)]
    let bytes: Vec<u8> = bytes
        .iter()
        .take_while(|b| **b != 0)
        .map(|b| *b as u8)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
