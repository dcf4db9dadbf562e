//! A used-up quota behind waits of threads, where no echo tells how long each was throttled.

use super::felt::Waits;
use super::{Finding, Subject};
use crate::report::model::{CgroupLevel, CulpritKind};

/// The cgroup whose used-up quota a thread waited for, its own or one above. Two things together say
/// so: for most of the wait nobody had the CPU instead, which no waiting for a CPU explains, and the
/// group was throttled for at least half as long.
pub(super) fn used_up<'a>(f: &Finding<'a>) -> Option<&'a CgroupLevel> {
    let Subject::Threads(worst, _) = &f.who else {
        return None;
    };
    let waited = Waits::of_thread(worst).total();
    let idle = worst.ran_instead.iter();
    let idle: u64 = idle
        .filter(|c| c.kind == CulpritKind::Idle)
        .fold(0, |s, c| s.saturating_add(c.ns));
    let levels = worst.placement.as_ref()?.levels.iter();
    let most = levels
        .filter(|l| l.quota_us.is_some())
        .max_by_key(|l| l.throttled_ns)?;
    let half = |ns: u64| waited > 0 && ns.saturating_mul(2) >= waited;
    (half(idle) && half(most.throttled_ns?)).then_some(most)
}
