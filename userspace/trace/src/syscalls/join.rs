//! From the kernel's records to calls.
//!
//! The kernel pairs enter with exit, and names a file by a key that is the same for all descriptors
//! of one opening, so there is no descriptor table here that could drift from the kernel's: dup,
//! fork, exec, close-on-exec and SCM_RIGHTS are right because the kernel does them itself. What is
//! kept here is what keys stand for, and what threads are called.

use probe_ebpf::events;
use rustc_hash::FxHashMap;

use super::naming::{given_path, name_of};
use super::table::{Syscall, table};
use super::{Call, End, Name, Names};
use crate::source::raw;

/// Keys that are remembered: four times as many as the kernel side believes told, which tells one
/// again that it has forgotten itself.
const MOST_KEYS: usize = 1 << 18;
/// Threads that are remembered, the ended ones among them.
const MOST_THREADS: usize = 1 << 16;

/// What became of a record.
#[derive(Debug, PartialEq)]
pub enum Joined {
    /// A call.
    Call(Call),
    /// It says something about calls that come.
    Context,
    /// Not one of ours: for [`crate::source::Event::decode`].
    Other,
    /// Torn, or it contradicts itself.
    Undecodable,
}

/// Turns records into calls.
#[derive(Debug, Default)]
pub struct Join {
    names: Names,
    files: FxHashMap<u64, File>,
    threads: FxHashMap<u32, Thread>,
    text: String,
    unnamed: u64,
    tick: u64,
}

#[derive(Debug)]
struct File {
    name: Name,
    used: u64,
}

#[derive(Debug)]
struct Thread {
    comm: Name,
    process: Name,
    /// The paths that its next call was given.
    given: Vec<u8>,
    split: usize,
    used: u64,
}

impl Join {
    /// Takes one record of a ring.
    pub fn take(&mut self, record: &[u8]) -> Joined {
        let Some(header) = raw::read::<events::ev_header>(record) else {
            return Joined::Undecodable;
        };
        let done = match header.type_ {
            events::EV_CALL => match raw::read::<events::ev_call>(record) {
                Some(call) => return Joined::Call(self.call(&call)),
                None => None,
            },
            events::EV_FILE => self.file(record),
            events::EV_STRINGS => self.strings(record),
            events::EV_COMM => self.comm(record),
            _ => return Joined::Other,
        };
        match done {
            Some(()) => Joined::Context,
            None => Joined::Undecodable,
        }
    }

    /// A name as those of calls are.
    pub fn name(&mut self, text: &str) -> Name {
        self.names.get(text)
    }

    /// Calls whose file has no name here, because the record that told it was lost.
    pub fn unnamed(&self) -> u64 {
        self.unnamed
    }

    fn file(&mut self, record: &[u8]) -> Option<()> {
        let file: events::ev_file = raw::read(record)?;
        let names = record.get(size_of::<events::ev_file>()..)?;
        let names = names.get(..usize::from(file.names))?;
        name_of(&file, names, &mut self.text);
        let name = self.names.get(&self.text);
        if self.files.len() >= MOST_KEYS {
            let used: Vec<u64> = self.files.values().map(|f| f.used).collect();
            let old = median(used);
            self.files.retain(|_, f| f.used > old);
        }
        self.tick += 1;
        let used = self.tick;
        self.files.insert(file.file, File { name, used });
        Some(())
    }

    fn strings(&mut self, record: &[u8]) -> Option<()> {
        let s: events::ev_strings = raw::read(record)?;
        let bytes = record.get(size_of::<events::ev_strings>()..)?;
        let [first, second] = s.len.map(|n| n as usize);
        let bytes = bytes.get(..first.checked_add(second)?)?;
        let thread = self.thread(s.h.tid);
        thread.given.clear();
        thread.given.extend_from_slice(bytes);
        thread.split = first;
        Some(())
    }

    fn comm(&mut self, record: &[u8]) -> Option<()> {
        let e: events::ev_comm = raw::read(record)?;
        let comm = self.names.get(text(&bytes(&e.comm)));
        let process = self.names.get(text(&bytes(&e.process)));
        let thread = self.thread(e.h.tid);
        thread.comm = comm;
        thread.process = process;
        Some(())
    }

    fn thread(&mut self, tid: u32) -> &mut Thread {
        if self.threads.len() >= MOST_THREADS && !self.threads.contains_key(&tid) {
            let used: Vec<u64> = self.threads.values().map(|t| t.used).collect();
            let old = median(used);
            self.threads.retain(|_, t| t.used > old);
        }
        self.tick += 1;
        let (tick, names) = (self.tick, &mut self.names);
        let thread = self.threads.entry(tid).or_insert_with(|| Thread {
            comm: names.get(""),
            process: names.get(""),
            given: Vec::new(),
            split: 0,
            used: 0,
        });
        thread.used = tick;
        thread
    }

    fn name_of_key(&mut self, key: u64) -> Option<Name> {
        if key == 0 {
            return None;
        }
        match self.files.get_mut(&key) {
            Some(file) => {
                file.used = self.tick;
                Some(file.name.clone())
            }
            None => {
                self.unnamed += 1;
                None
            }
        }
    }

    fn call(&mut self, e: &events::ev_call) -> Call {
        let syscall = table().get(e.nr);
        let end = if e.flags & events::CALL_UNFINISHED != 0 {
            End::UnderWay
        } else if e.flags & events::CALL_NO_RETURN != 0 {
            End::NoReturn
        } else {
            End::Returned
        };
        let succeeded = end == End::Returned && e.ret >= 0;
        let thread = self.thread(e.h.tid);
        let (comm, process) = (thread.comm.clone(), thread.process.clone());
        let (mut file, mut file2) = (self.name_of_key(e.file), self.name_of_key(e.file2));
        let told = succeeded && (syscall.opens() || syscall.execs());
        if syscall.has_path() && !told {
            (file, file2) = self.given(e.h.tid, syscall, file, file2);
        }
        let fd = match () {
            () if syscall.opens() => {
                if succeeded {
                    i32::try_from(e.ret).unwrap_or(-1)
                } else if syscall.has_path() {
                    -1
                } else {
                    e.fd
                }
            }
            // What it is given is a directory, and a path in it.
            () if syscall.has_path() => -1,
            () => e.fd,
        };
        let arg = |index: Option<usize>| index.and_then(|i| e.args.get(i)).copied();
        Call {
            start: e.start,
            dur: e.h.ts.saturating_sub(e.start),
            wait_ns: e.wait_ns,
            blocked_ns: e.blocked_ns,
            gap: match e.gap_from {
                0 => 0,
                from => e.start.saturating_sub(from),
            },
            gap_off_ns: e.gap_off_ns,
            pid: e.h.tgid,
            tid: e.h.tid,
            cpu: e.h.cpu,
            nr: e.nr,
            fd,
            fd2: e.fd2,
            ret: e.ret,
            bytes: if succeeded && syscall.moves_bytes() {
                e.ret.unsigned_abs()
            } else {
                0
            },
            address_space_bytes: arg(syscall.space).unwrap_or(0),
            requested_sleep_ns: if syscall.sleep { e.extra } else { 0 },
            timeout_ns: timeout(e, syscall),
            nfds: arg(syscall.nfds).map_or(0, |n| u32::try_from(n).unwrap_or(u32::MAX)),
            epoll_op: match syscall.epoll {
                true => u8::try_from(e.args[1]).unwrap_or(0),
                false => 0,
            },
            epoll_events: match syscall.epoll {
                true => u32::try_from(e.extra).unwrap_or(0),
                false => 0,
            },
            end,
            fixed: e.flags & events::CALL_FIXED != 0,
            file,
            file2,
            comm,
            process,
        }
    }

    /// The paths that the call was given; of two the new name first.
    fn given(
        &mut self,
        tid: u32,
        syscall: &Syscall,
        base: Option<Name>,
        base2: Option<Name>,
    ) -> (Option<Name>, Option<Name>) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return (base, base2);
        };
        if thread.given.is_empty() {
            // One that was killed in it, or is under way: not told yet.
            return (None, None);
        }
        let (first, second) = thread.given.split_at(thread.split.min(thread.given.len()));
        let start = if syscall.verbatim {
            None
        } else {
            base.as_deref()
        };
        given_path(start, first, &mut self.text);
        let first = self.names.get(&self.text);
        let names = if syscall.has_two_paths() {
            given_path(base2.as_deref(), second, &mut self.text);
            (Some(self.names.get(&self.text)), Some(first))
        } else {
            (Some(first), base2)
        };
        thread.given.clear();
        names
    }
}

fn timeout(e: &events::ev_call, syscall: &Syscall) -> i64 {
    if syscall.timeout {
        // Without a pointer there is no timeout.
        let arg = (syscall.shape >> events::SHAPE_EXTRA) & 7;
        let given = e.args.get(arg as usize).is_none_or(|p| *p != 0);
        return if given && e.extra != 0 {
            i64::try_from(e.extra).unwrap_or(i64::MAX)
        } else if given && arg < events::CALL_ARGS {
            0
        } else {
            -1
        };
    }
    let ms = syscall.milliseconds.and_then(|i| e.args.get(i));
    // An int of C: the upper half of the register means nothing.
    #[allow(clippy::cast_possible_truncation)]
    ms.map_or(-1, |ms| match *ms as i32 {
        ms if ms < 0 => -1,
        ms => i64::from(ms) * 1_000_000,
    })
}

fn median(mut of: Vec<u64>) -> u64 {
    let middle = of.len() / 2;
    match of.is_empty() {
        true => 0,
        false => *of.select_nth_unstable(middle).1,
    }
}

#[allow(clippy::cast_sign_loss, clippy::unnecessary_cast)]
fn bytes(comm: &[std::os::raw::c_char; events::COMM_LEN as usize]) -> [u8; 16] {
    comm.map(|c| c as u8)
}

/// A name of the kernel's: up to 16 bytes of anything, ended by a zero. What is no UTF-8 ends it too.
fn text(bytes: &[u8; 16]) -> &str {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(16);
    let bytes = bytes.get(..end).unwrap_or_default();
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => std::str::from_utf8(bytes.get(..e.valid_up_to()).unwrap_or_default())
            .unwrap_or_default(),
    }
}
