//! The records of the baseline's operation, as the kernel side would write them.

use phux_trace::syscalls::table::table;
use probe_ebpf::events;

const THREADS: u32 = 10;
const PATHS: u64 = 64;
/// The nine kinds; `newstat` is what the kernel calls `stat`.
const KINDS: [&str; 9] = [
    "open",
    "read",
    "sync",
    "stat",
    "rename",
    "fcntl",
    "dup3",
    "open_by_handle_at",
    "close",
];

pub(crate) struct Input {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Input {
    pub(crate) fn new(pairs: usize) -> Input {
        let mut input = Input {
            bytes: Vec::new(),
            ends: Vec::new(),
        };
        for i in 0..THREADS {
            input.comm(i);
        }
        // Names of files that were opened before.
        for path in 0..PATHS {
            input.file(0, path, 0);
        }
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut ts = 1_000_000_000;
        for nth in 0..pairs {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            ts += 500 + random % 1500;
            let thread = (random >> 8) as u32 % THREADS;
            let kind = KINDS.get(nth % KINDS.len()).copied().unwrap_or("read");
            input.call(thread, kind, random >> 16, ts);
        }
        input
    }

    pub(crate) fn records(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn each(&self, mut take: impl FnMut(&[u8])) {
        let mut from = 0;
        for to in &self.ends {
            take(self.bytes.get(from..*to).unwrap_or_default());
            from = *to;
        }
    }

    fn push<T: Copy>(&mut self, head: &T, tail: &[u8]) {
        // SAFETY: the bytes of a plain struct of integers that lives for the call.
        let head = unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(head).cast::<u8>(), size_of::<T>())
        };
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(tail);
        self.ends.push(self.bytes.len());
    }

    fn header(kind: u32, thread: u32, ts: u64) -> events::ev_header {
        events::ev_header {
            ts,
            type_: kind,
            tid: 2000 + thread,
            tgid: 1000 + thread,
            cpu: thread % 2,
        }
    }

    fn comm(&mut self, thread: u32) {
        let mut e = events::ev_comm {
            h: Input::header(events::EV_COMM, thread, 1),
            ..events::ev_comm::default()
        };
        for (to, byte) in e.comm.iter_mut().zip(format!("worker-{thread}").bytes()) {
            *to = byte as std::os::raw::c_char;
        }
        e.process = e.comm;
        self.push(&e, &[]);
    }

    fn key(path: u64) -> u64 {
        0x8880_0000_0000 + path * 256 + (path << 48)
    }

    /// An opening whose name is told.
    fn file(&mut self, thread: u32, path: u64, ts: u64) {
        let names = format!("file-{path:04}.dat\0data\0service\0lib\0var\0");
        let e = events::ev_file {
            h: Input::header(events::EV_FILE, thread, ts),
            file: Input::key(path),
            mode: 0o100_644,
            names: names.len() as u16,
            ..events::ev_file::default()
        };
        self.push(&e, names.as_bytes());
    }

    fn strings(&mut self, thread: u32, first: &str, second: &str, ts: u64) {
        let len = |s: &str| if s.is_empty() { 0 } else { s.len() as u32 + 1 };
        let e = events::ev_strings {
            h: Input::header(events::EV_STRINGS, thread, ts),
            len: [len(first), len(second)],
        };
        let mut bytes = first.as_bytes().to_vec();
        bytes.push(0);
        if !second.is_empty() {
            bytes.extend_from_slice(second.as_bytes());
            bytes.push(0);
        }
        self.push(&e, &bytes);
    }

    fn call(&mut self, thread: u32, kind: &str, random: u64, ts: u64) {
        let path = random % PATHS;
        let dur = 300 + random % 4000;
        let mut e = events::ev_call {
            h: Input::header(events::EV_CALL, thread, ts),
            start: ts - dur,
            file: Input::key(path),
            fd: 3 + path as i32,
            fd2: -1,
            nr: table().named(kind).map_or(0, |c| c.nr),
            gap_from: ts - dur - 200,
            ..events::ev_call::default()
        };
        let name = format!("/var/lib/service/data/file-{path:04}.dat");
        match kind {
            // As if each had a name that was never told before.
            "open" | "open_by_handle_at" => {
                self.file(thread, path, ts);
                e.ret = 3 + path as i64;
                e.fd = -1;
            }
            "read" => e.ret = (random % 4096) as i64,
            "stat" => {
                self.strings(thread, &name, "", ts);
                (e.file, e.fd) = (0, -1);
            }
            "rename" => {
                self.strings(thread, &name, &format!("{name}.new"), ts);
                (e.file, e.fd) = (0, -1);
            }
            "sync" => (e.file, e.fd) = (0, -1),
            "dup3" => {
                e.fd2 = 100 + path as i32;
                e.ret = i64::from(e.fd2);
            }
            _ => (),
        }
        self.push(&e, &[]);
    }
}
