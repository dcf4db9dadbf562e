//! Tables `pty`, `flush`, `sockets`, `hops`, `echoes`, `echo_links`. Sizes and times only: no byte of content.

use super::Name;
use super::table::record;

record! {
    /// A read or write on a PTY.
    PtyIo in pty, columns PtyIoColumns {
        /// How long, ns, blocking included.
        dur: u64 = Delta,
        /// Process.
        pid: u32 = Dictionary,
        /// Thread.
        tid: u32 = Dictionary,
        /// CPU at its end.
        cpu: u32 = Delta,
        /// Device of the devpts instance.
        devpts: u32 = Dictionary,
        /// The number in `/dev/pts/N`.
        pty: u32 = Dictionary,
        /// At the master's end, else at the slave's.
        master: bool = Plain,
        /// A write, else a read.
        write: bool = Plain,
        /// Bytes, or a negative errno.
        ret: i64 = Delta,
    }
}

impl PtyIo {
    /// When it ended.
    pub fn end(&self) -> u64 {
        self.ts.saturating_add(self.dur)
    }
}

record! {
    /// Flush work of a PTY: `ts` is when a kworker began.
    Flush in flush, columns FlushColumns {
        /// How long the kworker took, ns.
        dur: u64 = Delta,
        /// When it was queued; 0: before tracing began.
        queued: u64 = Delta,
        /// Process that queued it.
        queued_by: u32 = Dictionary,
        /// The kworker: process.
        pid: u32 = Dictionary,
        /// The kworker: thread.
        tid: u32 = Dictionary,
        /// CPU at its end.
        cpu: u32 = Delta,
        /// Device of the devpts instance.
        devpts: u32 = Dictionary,
        /// The number in `/dev/pts/N`.
        pty: u32 = Dictionary,
        /// The bytes go to the master's end, else to the slave's.
        to_master: bool = Plain,
        /// Thread that queued it.
        queued_by_tid: u32 = Dictionary,
        /// The terminal keeps a line until it is complete and does not echo it.
        mute: bool = Plain,
        /// `SCHED_*` of the kworker.
        policy: u8 = Delta,
        /// −20 … 19.
        nice: i8 = Delta,
        /// 1 … 99 for FIFO and RR.
        rt_priority: u8 = Delta,
        /// EEVDF slice, µs; 0: not known.
        slice_us: u32 = Dictionary,
        /// Utilisation clamp, least.
        uclamp_min: u16 = Dictionary,
        /// Utilisation clamp, most.
        uclamp_max: u16 = Dictionary,
        /// Nice of its autogroup, −128 where it is in none.
        autogroup_nice: i32 = Dictionary,
        /// Id of its cgroup: see table `cgroups`.
        cgroup: u64 = Dictionary,
        /// Of the wait: the CPU was idle, ns.
        idle_ns: u64 = Delta,
        /// Of the wait: others than those in `rivals` ran, ns.
        other_ns: u64 = Delta,
        /// Of the wait: who ran is not known, ns.
        unknown_ns: u64 = Delta,
    }
}

impl Flush {
    /// How long it waited for a kworker; `None` where it was queued before tracing began.
    pub fn wait_ns(&self) -> Option<u64> {
        (self.queued != 0).then(|| self.ts.saturating_sub(self.queued))
    }

    /// When it was done.
    pub fn end(&self) -> u64 {
        self.ts.saturating_add(self.dur)
    }
}

record! {
    /// A send or a receive on a stream socket.
    Sock in sockets, columns SockColumns {
        /// How long, ns, blocking included.
        dur: u64 = Delta,
        /// Process.
        pid: u32 = Dictionary,
        /// Thread.
        tid: u32 = Dictionary,
        /// CPU at its end.
        cpu: u32 = Delta,
        /// The same number at both ends of a connection.
        conn: u64 = Dictionary,
        /// It sent, else it received.
        send: bool = Plain,
        /// Bytes, or a negative errno.
        ret: i64 = Delta,
        /// Process at the other end; 0: not known.
        peer: u32 = Dictionary,
    }
}

impl Sock {
    /// When it ended.
    pub fn end(&self) -> u64 {
        self.ts.saturating_add(self.dur)
    }
}

record! {
    /// A USDT probe fired.
    Hop in hops, columns HopColumns {
        /// Process.
        pid: u32 = Dictionary,
        /// Thread.
        tid: u32 = Dictionary,
        /// CPU.
        cpu: u32 = Delta,
        /// Number that the run gave to the probe.
        hop: u32 = Dictionary,
        /// The probe (`pty__read__size`).
        name: Name = Dictionary,
        /// How many of its arguments were there.
        nargs: u8 = Delta,
        /// Value, in the metric's unit.
        arg0: u64 = Delta,
        /// Pane or stream.
        arg1: u64 = Delta,
        /// Sequence number.
        arg2: u64 = Delta,
    }
}

record! {
    /// One input on a PTY and what came of it: `ts` is when it was read or written first.
    Echo in echoes, columns EchoColumns {
        /// Number within the recording; its links have it too.
        echo: u64 = Delta,
        /// Until the last link's end, ns.
        dur: u64 = Delta,
        /// Device of the devpts instance.
        devpts: u32 = Dictionary,
        /// The number in `/dev/pts/N`.
        pty: u32 = Dictionary,
        /// Process that the input came in by.
        pid: u32 = Dictionary,
        /// Bytes of the input.
        bytes: u64 = Delta,
        /// How it ended: `echoed`, `silent`, `unread`, `late`, `undelivered`, `lost`, `open`.
        end: Name = Dictionary,
        /// How many links it has.
        links: u32 = Delta,
        /// What the longest link is called.
        slowest: Name = Dictionary,
    }
}

record! {
    /// One link of an echo's chain. The parts of `dur` sum to it.
    EchoLink in echo_links, columns EchoLinkColumns {
        /// The echo.
        echo: u64 = Delta,
        /// Its place in the chain, from 0.
        link: u32 = Delta,
        /// How long, ns.
        dur: u64 = Delta,
        /// What happens (`server write`, `flush work queued` …).
        name: Name = Dictionary,
        /// Process; 0: none.
        pid: u32 = Dictionary,
        /// Thread; 0: none.
        tid: u32 = Dictionary,
        /// The thread's name.
        comm: Name = Dictionary,
        /// CPU.
        cpu: u32 = Delta,
        /// On a CPU, ns.
        on_cpu_ns: u64 = Delta,
        /// Ready, waiting for a CPU, ns.
        runq_ns: u64 = Delta,
        /// Asleep, ns.
        blocked_ns: u64 = Delta,
        /// In interrupts, ns.
        interrupt_ns: u64 = Delta,
        /// Throttled by a cgroup's quota, ns.
        throttled_ns: u64 = Delta,
        /// What it slept in: a syscall, a lock, a page fault.
        blocked_in: Name = Dictionary,
        /// Who ran instead for the largest part.
        instead: Name = Dictionary,
        /// Its process.
        instead_pid: u32 = Dictionary,
        /// For how long, ns.
        instead_ns: u64 = Delta,
        /// `SCHED_*` of the kernel's UAPI.
        policy: u8 = Delta,
        /// −20 … 19.
        nice: i8 = Delta,
        /// 1 … 99 for FIFO and RR.
        rt_priority: u8 = Delta,
        /// Control group.
        cgroup: Name = Dictionary,
        /// Bytes that passed.
        bytes: u64 = Delta,
    }
}
