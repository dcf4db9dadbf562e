//! System calls as rows, and back.

use std::collections::HashMap;

use phux_recording::{Name, Syscall};

use crate::syscalls::table::table;
use crate::syscalls::{Call, End, Names};

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

/// Makes calls of rows again. What rows do not tell is as if nothing had been: of a gap how much was off
/// CPU, the second descriptor of others than epoll_ctl.
#[derive(Debug, Default)]
pub struct Reader {
    names: Names,
    /// By name, and whether it is a request.
    numbers: HashMap<(String, bool), u32>,
    /// The last name of each process's leader.
    leaders: HashMap<u32, crate::syscalls::Name>,
}

impl Reader {
    /// The call of a row.
    pub fn call(&mut self, row: &Syscall) -> Call {
        let comm = self.names.get(&row.comm);
        if row.tid == row.pid {
            self.leaders.insert(row.pid, comm.clone());
        }
        let names = &mut self.names;
        let mut path = |text: &str| (!text.is_empty()).then(|| names.get(text));
        Call {
            start: row.ts,
            dur: row.dur,
            wait_ns: row.runq_ns,
            blocked_ns: row.blocked_ns,
            gap: row.gap,
            gap_off_ns: 0,
            pid: row.pid,
            tid: row.tid,
            cpu: row.cpu.into(),
            nr: number(&mut self.numbers, &row.name, row.io_uring),
            fd: row.fd,
            fd2: row.epoll_target_fd,
            ret: row.ret,
            bytes: row.bytes,
            address_space_bytes: row.address_space_bytes,
            requested_sleep_ns: row.requested_sleep_ns,
            timeout_ns: row.timeout_ns,
            nfds: row.nfds,
            epoll_op: row.epoll_op,
            epoll_events: row.epoll_events,
            end: match &*row.outcome {
                "no_return" => End::NoReturn,
                "under_way" => End::UnderWay,
                _ => End::Returned,
            },
            fixed: false,
            file: path(&row.path),
            file2: path(&row.old_path),
            process: match self.leaders.get(&row.pid) {
                Some(name) => name.clone(),
                None => comm.clone(),
            },
            comm,
        }
    }
}

/// Names are few, rows are many.
fn number(known: &mut HashMap<(String, bool), u32>, name: &str, request: bool) -> u32 {
    if let Some(nr) = known.get(&(name.to_owned(), request)) {
        return *nr;
    }
    let nr = table().recorded(name, request).nr;
    known.insert((name.to_owned(), request), nr);
    nr
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls::stats::tests::call;

    #[test]
    fn a_call_comes_back_from_its_row() {
        let (mut names, mut reader) = (Names::default(), Reader::default());
        for (nr, ret, end) in [
            (0, 17, End::Returned),
            (257, -2, End::Returned),
            (231, 0, End::NoReturn),
            (7, 0, End::UnderWay),
            (probe_ebpf::events::CALL_URING + 22, 5, End::Returned),
        ] {
            let mut made = call(7, Some(names.get("/tmp/a")), nr, 5000, 400);
            (made.ret, made.end, made.gap, made.fd) = (ret, end, 33, 4);
            made.file2 = Some(names.get("/tmp/b"));
            (made.timeout_ns, made.nfds, made.cpu) = (100, 2, 1);
            let back = reader.call(&row(&made));
            let text = |n: &Option<crate::syscalls::Name>| n.as_deref().map(str::to_owned);
            assert_eq!(text(&back.file), text(&made.file));
            assert_eq!(text(&back.file2), text(&made.file2));
            assert_eq!(&*back.comm, &*made.comm);
            assert_eq!(&*back.process, &*made.process);
            // Names of two tables are never equal.
            let same_names = Call {
                file: made.file.clone(),
                file2: made.file2.clone(),
                comm: made.comm.clone(),
                process: made.process.clone(),
                ..back
            };
            assert_eq!(same_names, made);
        }
    }
}
