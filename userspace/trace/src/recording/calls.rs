//! System calls as rows.

use phux_recording::{Name, Syscall};

use crate::syscalls::{Call, End};

/// Names shared with the pipeline are taken as they are; others would be copied for each call.
fn name(name: Option<&crate::syscalls::Name>) -> Name {
    name.map_or_else(Name::default, |n| Name::from(n.text().clone()))
}

/// The row of a call. Of one that did not return `ret` is 0.
pub fn row(call: &Call) -> Syscall {
    let returned = call.end == End::Returned;
    let request = call.name().strip_prefix("io_uring:");
    let epoll = call.epoll_op != 0;
    Syscall {
        ts: call.start,
        dur: call.dur,
        gap: call.gap,
        tid: call.tid,
        pid: call.pid,
        comm: name(Some(&call.comm)),
        name: Name::fixed(request.unwrap_or(call.name())),
        family: Name::fixed(call.family().name()),
        io_uring: request.is_some(),
        cpu: u16::try_from(call.cpu).unwrap_or(u16::MAX),
        fd: call.fd,
        outcome: Name::fixed(match call.end {
            End::Returned => "returned",
            End::NoReturn => "no_return",
            End::UnderWay => "under_way",
        }),
        ret: if returned { call.ret } else { 0 },
        errno: call.errno(),
        bytes: call.bytes,
        runq_ns: call.wait_ns,
        blocked_ns: call.blocked_ns,
        path: name(call.file.as_ref()),
        old_path: name(call.file2.as_ref()),
        address_space_bytes: call.address_space_bytes,
        requested_sleep_ns: call.requested_sleep_ns,
        timeout_ns: call.timeout_ns,
        nfds: call.nfds,
        epoll_op: call.epoll_op,
        epoll_target_fd: if epoll { call.fd2 } else { -1 },
        epoll_events: call.epoll_events,
        ..Syscall::default()
    }
}
