//! The join, held against a model of a kernel: processes, their descriptor tables, open files.

use std::collections::BTreeMap;

use probe_ebpf::events;
use proptest::prelude::*;

use super::join::{Join, Joined};
use super::table::table;
use super::{Call, End};

fn bytes_of<T: Copy>(value: &T) -> Vec<u8> {
    // SAFETY: the bytes of a plain struct of integers that lives for the call.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
        .to_vec()
}

fn nr(name: &str) -> u32 {
    table().named(name).expect(name).nr
}

fn header(kind: u32, tid: u32, tgid: u32, ts: u64) -> events::ev_header {
    events::ev_header {
        ts,
        type_: kind,
        tid,
        tgid,
        cpu: 0,
    }
}

fn file_record(key: u64, names: &[u8]) -> Vec<u8> {
    let file = events::ev_file {
        h: header(events::EV_FILE, 1, 1, 1),
        file: key,
        mode: 0o100_644,
        names: u16::try_from(names.len()).expect("short"),
        ..events::ev_file::default()
    };
    [bytes_of(&file), names.to_vec()].concat()
}

fn strings_record(tid: u32, first: &[u8], second: &[u8]) -> Vec<u8> {
    let strings = events::ev_strings {
        h: header(events::EV_STRINGS, tid, tid, 1),
        len: [first.len(), second.len()].map(|n| u32::try_from(n).expect("short")),
    };
    [bytes_of(&strings), first.to_vec(), second.to_vec()].concat()
}

fn comm_record(tid: u32, comm: &[u8], process: &[u8]) -> Vec<u8> {
    let mut e = events::ev_comm {
        h: header(events::EV_COMM, tid, tid, 1),
        ..events::ev_comm::default()
    };
    for (to, from) in [(&mut e.comm, comm), (&mut e.process, process)] {
        for (to, byte) in to.iter_mut().zip(from) {
            *to = *byte as std::os::raw::c_char;
        }
    }
    bytes_of(&e)
}

fn call_record(tid: u32, name: &str, ret: i64, file: u64, fd: i32) -> events::ev_call {
    events::ev_call {
        h: header(events::EV_CALL, tid, tid, 100),
        start: 60,
        ret,
        file,
        fd,
        fd2: -1,
        nr: nr(name),
        wait_ns: 3,
        blocked_ns: 20,
        gap_from: 50,
        gap_off_ns: 4,
        ..events::ev_call::default()
    }
}

fn joined(join: &mut Join, e: &events::ev_call) -> Call {
    match join.take(&bytes_of(e)) {
        Joined::Call(call) => call,
        other => panic!("{other:?}"),
    }
}

/// What can happen to descriptors.
#[derive(Debug, Clone)]
enum Act {
    Open(u8),
    Dup(u8),
    Close(u8),
    Fork,
    /// Descriptors with an odd number are closed on the way.
    Exec,
    /// To the process before, as SCM_RIGHTS does it.
    Send(u8),
    Rename(u8),
    Read(u8),
}

fn act() -> impl Strategy<Value = (usize, Act)> {
    let act = prop_oneof![
        any::<u8>().prop_map(Act::Open),
        any::<u8>().prop_map(Act::Dup),
        any::<u8>().prop_map(Act::Close),
        Just(Act::Fork),
        Just(Act::Exec),
        any::<u8>().prop_map(Act::Send),
        any::<u8>().prop_map(Act::Rename),
        any::<u8>().prop_map(Act::Read),
    ];
    (0usize..4, act)
}

/// A model of the kernel: which open file each descriptor of each process is, and what the kernel
/// side of the recorder would tell.
#[derive(Default)]
struct Kernel {
    tables: Vec<BTreeMap<i32, usize>>,
    /// By open file: the path that it was opened by.
    opened: Vec<String>,
    /// Where a path's file is now.
    paths: BTreeMap<u8, String>,
    told: Vec<u64>,
    renames: usize,
}

impl Kernel {
    fn lowest(&self, process: usize) -> i32 {
        (3..)
            .find(|fd| !self.tables[process].contains_key(fd))
            .expect("a free one")
    }

    fn pick(&self, process: usize, nth: u8) -> Option<i32> {
        let open = &self.tables[process];
        let nth = usize::from(nth) % open.len().max(1);
        open.keys().nth(nth).copied()
    }

    /// The key of an open file, told if it was not: addresses come again, with other bits of the name.
    fn key(&mut self, file: usize, out: &mut Vec<Vec<u8>>) -> u64 {
        let key = (file as u64 % 5 + 1) << 8 | (file as u64) << 48;
        if !self.told.contains(&key) {
            self.told.push(key);
            let mut names: Vec<&str> = self.opened[file].split('/').skip(1).collect();
            names.reverse();
            let bytes: Vec<u8> = names
                .iter()
                .flat_map(|n| [n.as_bytes(), &[0]].concat())
                .collect();
            out.push(file_record(key, &bytes));
        }
        key
    }
}

proptest! {
    #[test]
    fn every_call_is_on_the_file_that_the_kernel_means(acts in prop::collection::vec(act(), 1..120)) {
        let mut kernel = Kernel { tables: vec![BTreeMap::new()], ..Kernel::default() };
        let mut join = Join::default();
        for (process, act) in acts {
            let process = process % kernel.tables.len();
            let tid = process as u32 + 10;
            let mut out = Vec::new();
            // A call, and the path that it is about.
            let mut call = None;
            match act {
                Act::Open(name) => {
                    let path = kernel.paths.entry(name % 6).or_insert_with(|| format!("/d/f{}", name % 6));
                    kernel.opened.push(path.clone());
                    let (file, fd) = (kernel.opened.len() - 1, kernel.lowest(process));
                    kernel.tables[process].insert(fd, file);
                    call = Some((call_record(tid, "openat", fd.into(), kernel.key(file, &mut out), -100), file, fd));
                }
                Act::Dup(nth) => if let Some(fd) = kernel.pick(process, nth) {
                    let (file, new) = (kernel.tables[process][&fd], kernel.lowest(process));
                    kernel.tables[process].insert(new, file);
                    call = Some((call_record(tid, "dup", new.into(), kernel.key(file, &mut out), fd), file, new));
                },
                Act::Close(nth) => if let Some(fd) = kernel.pick(process, nth) {
                    let file = kernel.tables[process][&fd];
                    call = Some((call_record(tid, "close", 0, kernel.key(file, &mut out), fd), file, fd));
                    kernel.tables[process].remove(&fd);
                },
                Act::Read(nth) => if let Some(fd) = kernel.pick(process, nth) {
                    let file = kernel.tables[process][&fd];
                    call = Some((call_record(tid, "read", 7, kernel.key(file, &mut out), fd), file, fd));
                },
                Act::Fork => if kernel.tables.len() < 4 {
                    let copy = kernel.tables[process].clone();
                    kernel.tables.push(copy);
                },
                Act::Exec => kernel.tables[process].retain(|fd, _| fd % 2 == 0),
                Act::Send(nth) => if let Some(fd) = kernel.pick(process, nth) {
                    let (file, to) = (kernel.tables[process][&fd], process.saturating_sub(1));
                    let new = kernel.lowest(to);
                    kernel.tables[to].insert(new, file);
                },
                Act::Rename(name) => {
                    kernel.renames += 1;
                    let renamed = format!("/d/renamed{}", kernel.renames);
                    kernel.paths.insert(name % 6, renamed);
                }
            }
            for record in out {
                prop_assert_eq!(join.take(&record), Joined::Context);
            }
            if let Some((record, file, fd)) = call {
                let call = joined(&mut join, &record);
                prop_assert_eq!(call.file.as_deref(), Some(kernel.opened[file].as_str()));
                prop_assert_eq!((call.fd, call.pid), (fd, tid));
            }
        }
        prop_assert_eq!(join.unnamed(), 0);
    }

    #[test]
    fn any_bytes_are_a_record_or_not(mut bytes in prop::collection::vec(any::<u8>(), 0..400), kind in 0u32..40) {
        if bytes.len() >= 12 {
            bytes[8..12].copy_from_slice(&kind.to_ne_bytes());
        }
        let mut join = Join::default();
        let _ = join.take(&bytes);
        let _ = join.take(&bytes);
    }
}

#[test]
fn paths_start_where_the_call_said_and_the_new_name_comes_first() {
    let mut join = Join::default();
    join.take(&file_record(0x10, b"cwd\0"));
    join.take(&file_record(0x20, b"other\0"));
    join.take(&strings_record(9, b"old\0", b"new\0"));
    let mut rename = call_record(9, "renameat2", 0, 0x10, -100);
    rename.file2 = 0x20;
    let call = joined(&mut join, &rename);
    assert_eq!(call.file.as_deref(), Some("/other/new"));
    assert_eq!(call.file2.as_deref(), Some("/cwd/old"));
    // What was given belongs to that call alone.
    let killed = events::ev_call {
        flags: events::CALL_NO_RETURN,
        ..call_record(9, "unlink", 0, 0x10, -1)
    };
    let call = joined(&mut join, &killed);
    assert_eq!(
        (call.file.as_deref(), call.end, call.errno()),
        (None, End::NoReturn, 0)
    );
    join.take(&strings_record(9, b"target\0", b"name\0"));
    let mut symlink = call_record(9, "symlink", 0, 0x10, -1);
    symlink.file2 = 0x10;
    let call = joined(&mut join, &symlink);
    assert_eq!(call.file.as_deref(), Some("/cwd/name"));
    assert_eq!(call.file2.as_deref(), Some("target"));
    // One that failed to open is told by what it was given; one that opened by what it opened.
    join.take(&strings_record(9, b"./missing\0", b""));
    let call = joined(&mut join, &call_record(9, "openat", -2, 0x10, -100));
    assert_eq!(call.file.as_deref(), Some("/cwd/missing"));
    assert_eq!((call.fd, call.errno(), call.bytes), (-1, 2, 0));
}

#[test]
fn names_follow_the_thread_and_times_are_what_they_were() {
    let mut join = Join::default();
    join.take(&comm_record(9, b"worker\0", b"server\0"));
    let call = joined(&mut join, &call_record(9, "read", 5, 0, 3));
    assert_eq!((&*call.comm, &*call.process), ("worker", "server"));
    assert_eq!(
        (call.dur, call.wait_ns, call.blocked_ns, call.on_cpu_ns()),
        (40, 3, 20, 17)
    );
    assert_eq!((call.gap, call.gap_off_ns, call.bytes), (10, 4, 5));
    join.take(&comm_record(9, b"renamed-to-15-b", b"server\0"));
    let call = joined(&mut join, &call_record(9, "read", -11, 0, 3));
    assert_eq!(&*call.comm, "renamed-to-15-b");
    assert_eq!((call.errno(), call.bytes), (11, 0));
    let stranger = joined(&mut join, &call_record(77, "read", 0, 0xbad, 3));
    assert_eq!((&*stranger.comm, stranger.file), ("", None));
    assert_eq!(join.unnamed(), 1, "a name that never came is counted");
}

#[test]
fn arguments_are_what_the_call_means_by_them() {
    let mut join = Join::default();
    let mut poll = call_record(9, "poll", 0, 0, -1);
    poll.args = [0x1000, 3, 250, 0];
    let call = joined(&mut join, &poll);
    assert_eq!((call.nfds, call.timeout_ns), (3, 250_000_000));
    poll.args[2] = u64::from(u32::MAX);
    assert_eq!(joined(&mut join, &poll).timeout_ns, -1, "-1 is for ever");
    let mut ctl = call_record(9, "epoll_ctl", 0, 0, 4);
    (ctl.args, ctl.extra, ctl.fd2) = ([4, 1, 7, 0x1000], 5, 7);
    let call = joined(&mut join, &ctl);
    assert_eq!((call.epoll_op, call.epoll_events, call.fd2), (1, 5, 7));
    let mut sleep = call_record(9, "nanosleep", 0, 0, -1);
    sleep.extra = 1_000_000;
    assert_eq!(joined(&mut join, &sleep).requested_sleep_ns, 1_000_000);
    let mut ppoll = call_record(9, "ppoll", 0, 0, -1);
    ppoll.args = [0x1000, 1, 0, 0];
    assert_eq!(
        joined(&mut join, &ppoll).timeout_ns,
        -1,
        "no pointer, no timeout"
    );
    let mut map = call_record(9, "mmap", 0x7f00_0000_0000, 0, -1);
    map.args[1] = 4096;
    let call = joined(&mut join, &map);
    assert_eq!(
        (call.address_space_bytes, call.errno(), call.fd),
        (4096, 0, -1)
    );
}
