//! Table `syscalls`.

use super::Name;
use super::table::record;

record! {
    /// One call: its enter and its exit, or one io_uring request from submission to completion.
    Syscall in syscalls, columns SyscallColumns {
        /// How long, ns, waits included.
        dur: u64 = Delta,
        /// Since the end of this thread's call before, ns; 0 for its first.
        gap: u64 = Delta,
        /// Thread.
        tid: u32 = Dictionary,
        /// Process.
        pid: u32 = Dictionary,
        /// The thread's name at the time.
        comm: Name = Dictionary,
        /// The call, as the kernel's table of syscalls has it.
        name: Name = Dictionary,
        /// Its family: `fs`, `network`, `polling`, `memory`, `ipc`, `process`, `signals`, `time`,
        /// `sched`, `security`, `aio`, `misc`.
        family: Name = Dictionary,
        /// An io_uring request and no call of the thread's own.
        io_uring: bool = Plain,
        /// CPU at the exit.
        cpu: u16 = Dictionary,
        /// Descriptor that it is about; −1: none.
        fd: i32 = Dictionary,
        /// `returned`; `no_return`: the thread ended in it; `under_way`: recording ended first. Of
        /// the latter two `ret` is 0 and means nothing.
        outcome: Name = Dictionary,
        /// What it returned.
        ret: i64 = Amount,
        /// Positive errno where it failed, else 0.
        errno: u16 = Dictionary,
        /// Bytes that it moved.
        bytes: u64 = Amount,
        /// Of `dur`: the thread was ready and waited for a CPU, ns.
        runq_ns: u64 = Amount,
        /// Of `dur`: the thread slept, ns.
        blocked_ns: u64 = Amount,
        /// File, or the ends of the socket or pipe; empty: none, or not known.
        path: Name = Text,
        /// The second path of a rename or link.
        old_path: Name = Text,
        /// Address space that it asked for or gave back (mmap, brk, munmap …).
        address_space_bytes: u64 = Delta,
        /// Sleep that was asked for, ns.
        requested_sleep_ns: u64 = Delta,
        /// Timeout that was given, ns; −1: none.
        timeout_ns: i64 = Delta,
        /// Descriptors that were polled.
        nfds: u32 = Delta,
        /// `EPOLL_CTL_*`; 0: not epoll_ctl.
        epoll_op: u8 = Delta,
        /// What epoll_ctl was about; −1: nothing.
        epoll_target_fd: i32 = Dictionary,
        /// Its event mask.
        epoll_events: u32 = Delta,
    }
}

impl Syscall {
    /// When it ended.
    pub fn end(&self) -> u64 {
        self.ts.saturating_add(self.dur)
    }

    /// Of `dur`: neither waiting for a CPU nor asleep.
    pub fn on_cpu_ns(&self) -> u64 {
        self.dur
            .saturating_sub(self.runq_ns)
            .saturating_sub(self.blocked_ns)
    }
}
