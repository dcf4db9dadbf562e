//! A system call, or an io_uring request, from its start to its end: the row that all consumers get.

use super::table::{Syscall, table};
use super::{Family, Name};

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It returned.
    Returned,
    /// The thread ended in it: exit, or killed. Its `ret` means nothing.
    NoReturn,
    /// It was still under way when recording ended. Its `ret` means nothing.
    UnderWay,
}

/// One call. Times are CLOCK_MONOTONIC and nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// When it began.
    pub start: u64,
    /// How long it took; of one under way: so far.
    pub dur: u64,
    /// Of that: the thread was ready and waited for a CPU. An io_uring request has no thread that waits: 0.
    pub wait_ns: u64,
    /// Of that: the thread slept.
    pub blocked_ns: u64,
    /// Since the end of the thread's recorded call before; 0 for its first.
    pub gap: u64,
    /// Of the gap: waited for a CPU or slept, so that it is no time of the program's own.
    pub gap_off_ns: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// CPU at its end.
    pub cpu: u32,
    /// Number in [`table`].
    pub nr: u32,
    /// Descriptor that it is about, of one that opens the new one; -1: none.
    pub fd: i32,
    /// Another descriptor: target of dup2, of epoll_ctl, of a copy; -1: none.
    pub fd2: i32,
    /// What it returned: a negative errno is an error.
    pub ret: i64,
    /// Bytes that it moved.
    pub bytes: u64,
    /// Address space that it asked for or gave back.
    pub address_space_bytes: u64,
    /// Sleep that was asked for; 0: none.
    pub requested_sleep_ns: u64,
    /// Timeout that was given; -1: none.
    pub timeout_ns: i64,
    /// Descriptors that were polled.
    pub nfds: u32,
    /// `EPOLL_CTL_*`; 0: not epoll_ctl.
    pub epoll_op: u8,
    /// Its event mask.
    pub epoll_events: u32,
    /// How it ended.
    pub end: End,
    /// `fd` is an index into the io_uring's own files.
    pub fixed: bool,
    /// File, or the ends of the socket or pipe; `None`: none, or not known.
    pub file: Option<Name>,
    /// Another one: the old name of a rename or link, the file behind `fd2`.
    pub file2: Option<Name>,
    /// The thread's name at the time.
    pub comm: Name,
    /// The process's: its leader's.
    pub process: Name,
}

/// Results from -4095 to -1 are errors; above and below are values, of mmap for one.
const MAX_ERRNO: i64 = 4095;

impl Call {
    /// What is called.
    pub fn syscall(&self) -> &'static Syscall {
        table().get(self.nr)
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.syscall().name
    }

    /// Its family.
    pub fn family(&self) -> Family {
        self.syscall().family
    }

    /// The positive errno of one that failed, else 0.
    pub fn errno(&self) -> u16 {
        if self.end == End::Returned && (-MAX_ERRNO..0).contains(&self.ret) {
            u16::try_from(-self.ret).unwrap_or(0)
        } else {
            0
        }
    }

    /// Of its duration: neither waiting for a CPU nor asleep.
    pub fn on_cpu_ns(&self) -> u64 {
        self.dur
            .saturating_sub(self.wait_ns)
            .saturating_sub(self.blocked_ns)
    }
}
