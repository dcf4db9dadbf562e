//! Time asleep: by what a thread sleeps in, and where on the way.

use super::Scene;
use crate::echo::{LinkKind, Role};
use crate::report::model::{Cause, Echoes, EndKind, LinkRow, Relation, Sleep, SleepKind};

/// They sleep until the other end takes something.
const WRITES: [&str; 6] = ["write", "writev", "sendto", "sendmsg", "sendmmsg", "splice"];
/// They sleep until something happens, whatever it is.
const POLLS: [&str; 6] = [
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
];
/// They sleep until a disk has what was written, and no page fault makes them.
const SYNCS: [&str; 6] = [
    "fsync",
    "fdatasync",
    "sync",
    "syncfs",
    "msync",
    "sync_file_range",
];

/// What a PTY holds for a reader who comes now and then, bytes: the line discipline's buffer
/// (`N_TTY_BUF_SIZE`). More is in the buffers before it, and that is a queue.
const HELD: u64 = 4096;

pub(super) fn cause(scene: &Scene<'_>, link: &LinkRow, sleep: Option<&Sleep>) -> Cause {
    if is_fault(scene, link, sleep) {
        return Cause::MajorFaults;
    }
    if sleep.is_some_and(waits_for_flush) {
        return Cause::FlushWorker;
    }
    // A write to a disk sleeps uninterruptibly, one to a terminal or socket does not.
    let call = |names: &[&str]| {
        sleep.is_some_and(|s| {
            let name = s.syscall.as_deref();
            s.what == SleepKind::Syscall && name.is_some_and(|n| names.contains(&n))
        })
    };
    match (link.link, scene.role(link)) {
        // Its input queue is full: the program does not read.
        (LinkKind::MasterWrite | LinkKind::ServerInput, _) if call(&WRITES) => Cause::SlowChild,
        // The terminal's buffer is full: the multiplexer does not read.
        (LinkKind::ChildWrite | LinkKind::ClientSend, _) if call(&WRITES) => busy(scene),
        (LinkKind::ServerOutput, _) if call(&WRITES) => Cause::ClientNotReading,
        // Waiting for a chance to write looks like waiting for anything: writes that were refused tell it.
        (LinkKind::ServerOutput, _) if call(&POLLS) && refused(scene) => Cause::ClientNotReading,
        (LinkKind::ClientWrite, _) if call(&WRITES) || call(&POLLS) => Cause::ClientNotReading,
        // It still writes what came before.
        (LinkKind::ClientReceive, _) if call(&WRITES) || scene.end == EndKind::Undelivered => {
            Cause::ClientNotReading
        }
        (_, Role::Server) => Cause::ServerBlocked,
        (_, Role::Child) => Cause::SlowChild,
        (_, Role::Client) => Cause::SlowClient,
        (_, Role::FlushWorker) => Cause::SlowEcho,
    }
}

/// Whether it waits until the kernel's flush worker is through with a PTY: asking whether one can be
/// read waits for the work that is queued (`n_tty_poll`), uninterruptibly, and no poll waits for a disk.
pub(super) fn waits_for_flush(sleep: &Sleep) -> bool {
    let polls = sleep.syscall.as_deref().is_some_and(|n| POLLS.contains(&n));
    sleep.what == SleepKind::Disk && polls
}

fn busy(scene: &Scene<'_>) -> Cause {
    scene
        .flood
        .as_ref()
        .map_or(Cause::ServerBusy, |f| f.cause())
}

/// A page that had to be read. The kernel's copying to and from a program faults within its system
/// call: then the faults that were counted tell it, at least one in two echoes.
fn is_fault(scene: &Scene<'_>, link: &LinkRow, sleep: Option<&Sleep>) -> bool {
    let Some(sleep) = sleep else { return false };
    let syncs = sleep.syscall.as_deref().is_some_and(|n| SYNCS.contains(&n));
    match sleep.what {
        SleepKind::PageFault => true,
        SleepKind::Disk if !syncs => link.major_faults.saturating_mul(2) >= scene.group.kept,
        _ => false,
    }
}

/// Whether a client's terminal or socket has refused to take more.
fn refused(scene: &Scene<'_>) -> bool {
    scene.echoes.ends.undelivered > 0 || terminal_refused(scene, scene.echoes)
}

/// A terminal that a client, or the target for it, writes to as its slave, and which gave EAGAIN or
/// has not read what it took. (Who waits until a terminal is writable gets no EAGAIN.)
pub(super) fn terminal_refused(scene: &Scene<'_>, echoes: &Echoes) -> bool {
    let panes = |p: &crate::report::model::PtyRow| {
        let mut inputs = echoes.panes.iter();
        inputs.any(|e| e.index == Some(p.index) && e.devpts == p.devpts)
    };
    let targets: Vec<u32> = scene
        .report
        .target
        .processes
        .iter()
        .filter(|p| p.relation == Relation::Target)
        .map(|p| p.pid)
        .collect();
    scene.report.ptys.iter().any(|p| {
        let own = p.slave.iter().any(|e| targets.contains(&e.pid));
        // Of a reader who is not known no read is seen.
        let seen = !p.master.is_empty();
        let unread = p
            .slave_writes
            .size
            .sum
            .saturating_sub(p.master_reads.size.sum);
        own && !panes(p) && (p.slave_writes.empty > 0 || seen && unread > HELD)
    })
}
