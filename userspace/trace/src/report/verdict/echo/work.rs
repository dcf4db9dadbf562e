//! Time on a CPU: by whose step it is.

use super::{Scene, sleep};
use crate::echo::{LinkKind, Role};
use crate::report::model::{Cause, EndKind, LinkRow};

/// What a major fault takes of a CPU at least, besides the sleep: to ask the disk, and to switch away
/// and back, ns. Measured: 28 µs in a guest with a virtio disk; less where no hypervisor is asked.
const MAJOR_FAULT_NS: u64 = 20_000;

pub(super) fn cause(scene: &Scene<'_>, link: &LinkRow) -> Cause {
    // Of a fast disk the program sees more work than sleep.
    let faults = link.major_faults.saturating_mul(MAJOR_FAULT_NS);
    if faults.saturating_mul(2) >= link.parts.on_cpu_ns.saturating_mul(scene.group.kept)
        && faults > 0
    {
        return Cause::MajorFaults;
    }
    // What it does while a terminal refuses the answer is not what keeps it.
    if link.link == LinkKind::ServerOutput
        && scene.end == EndKind::Undelivered
        && sleep::terminal_refused(scene, scene.echoes)
    {
        return Cause::ClientNotReading;
    }
    let flood = scene.flood.as_ref();
    match scene.role(link) {
        Role::Server => flood.map_or(Cause::ServerBusy, |f| f.cause()),
        Role::Child => Cause::SlowChild,
        Role::Client => Cause::SlowClient,
        Role::FlushWorker => flood.map_or(Cause::SlowEcho, |f| f.cause()),
    }
}
