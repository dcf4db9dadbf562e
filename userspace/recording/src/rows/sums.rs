//! Tables `threads`, `buckets`, `blame`, `metrics`: figures that are summed where they arise, by interval.

use super::Name;
use super::table::record;

record! {
    /// What one thread did in the interval that began at `ts`.
    Thread in threads, columns ThreadColumns {
        /// Length of the interval, ns.
        dur: u64 = Delta,
        /// Process.
        pid: u32 = Dictionary,
        /// Thread; 0 where ended threads are summed.
        tid: u32 = Dictionary,
        /// Name.
        comm: Name = Dictionary,
        /// Its part in the target, if known.
        role: Name = Dictionary,
        /// Its tid when it was first seen; an exec can change it.
        first_tid: u32 = Dictionary,
        /// CLOCK_MONOTONIC of its start.
        start_time: u64 = Dictionary,
        /// Why it is traced: `enum relation` of the kernel side.
        relation: u32 = Delta,
        /// On a CPU, ns.
        on_cpu_ns: u64 = Delta,
        /// Asleep, ns.
        blocked_ns: u64 = Delta,
        /// Waits for a CPU.
        waits: u64 = Delta,
        /// Their sum, ns.
        wait_ns: u64 = Delta,
        /// The longest of the recording so far, ns.
        wait_max_ns: u64 = Delta,
        /// Switches because it blocked.
        voluntary: u64 = Delta,
        /// Switches because it was preempted or yielded.
        involuntary: u64 = Delta,
        /// Moves to another CPU.
        migrations: u64 = Delta,
        /// What it was doing at the interval's end: `enum phase` of the kernel side.
        phase: u32 = Delta,
        /// Since when.
        phase_since: u64 = Delta,
        /// `SCHED_*` of the kernel's UAPI.
        policy: u8 = Delta,
        /// −20 … 19.
        nice: i8 = Delta,
        /// 1 … 99 for FIFO and RR.
        rt_priority: u8 = Delta,
        /// Control group.
        cgroup: Name = Dictionary,
        /// It has ended.
        exited: bool = Plain,
        /// When, CLOCK_MONOTONIC ns; 0 while it lives, and of a sum.
        ended_at: u64 = Delta,
        /// Status as wait(2) has it.
        exit_code: u32 = Delta,
        /// By how many the ended threads grew that are summed here; of a thread of its own 0.
        threads: u64 = Delta,
    }
}

record! {
    /// One bucket of a histogram of 504 buckets (`phux_perf::Histogram`) that grew in the interval that
    /// began at `ts`. The histogram has one row more, before them, `bucket` −1: how its count and sum
    /// grew, and its smallest and largest so far.
    Bucket in buckets, columns BucketColumns {
        /// What the histogram is of: `thread`, `pty`, `flush`, `hop`, `metric`; `probe` is what the
        /// kernel has of the probe with a metric's name between the same two looks.
        scope: Name = Dictionary,
        /// Which figure: `wait`, `size`, `duration`, `empty` (calls that moved nothing: only their
        /// count), `run`, `reader_wait`, or the probe's or metric's name.
        name: Name = Dictionary,
        /// Process; 0: none. Of a PTY the one that read or wrote last.
        pid: u32 = Dictionary,
        /// Thread; 0: none, or ended threads summed by name.
        tid: u32 = Dictionary,
        /// Device of the devpts instance; 0: none.
        devpts: u32 = Dictionary,
        /// The number in `/dev/pts/N`.
        pty: u32 = Dictionary,
        /// At, or towards, the master's end.
        master: bool = Plain,
        /// Of writes, else of reads.
        write: bool = Plain,
        /// 0 … 503; −1: the row of sum, smallest and largest.
        bucket: i32 = Delta,
        /// Samples in it (of row −1: all).
        count: u64 = Delta,
        /// Row −1: sum of all samples.
        sum: u64 = Delta,
        /// Row −1: the smallest so far.
        min: u64 = Delta,
        /// Row −1: the largest so far.
        max: u64 = Delta,
    }
}

record! {
    /// Who had the CPU instead, or who woke, in the interval that began at `ts`.
    Blame in blame, columns BlameColumns {
        /// Whose: `thread` (pid, tid) or `flush` (devpts, pty, master).
        scope: Name = Dictionary,
        /// The victim's process.
        pid: u32 = Dictionary,
        /// The victim.
        tid: u32 = Dictionary,
        /// Device of the devpts instance; 0: none.
        devpts: u32 = Dictionary,
        /// The number in `/dev/pts/N`.
        pty: u32 = Dictionary,
        /// Flush work towards the master's end.
        master: bool = Plain,
        /// `task`, `own` (of the victim's own process), `idle`, `other`, `unknown`; `waker`,
        /// `waker_interrupt`, `waker_other`.
        kind: Name = Dictionary,
        /// Name of the culprit or waker.
        name: Name = Dictionary,
        /// Its time on the CPU meanwhile, ns.
        ns: u64 = Delta,
        /// Its slices; of a waker the wake-ups, or the works that it queued.
        count: u64 = Delta,
        /// Some of its pids, `1,2,3`; a last `+` says that there were more.
        pids: Name = Dictionary,
        /// `SCHED_*` of the kernel's UAPI.
        policy: u8 = Delta,
        /// −20 … 19.
        nice: i8 = Delta,
        /// 1 … 99 for FIFO and RR.
        rt_priority: u8 = Delta,
        /// Id of its cgroup: see table `cgroups`; 0: not known.
        cgroup: u64 = Dictionary,
    }
}

record! {
    /// One figure that a process keeps of itself, as it grew in the interval that began at `ts`.
    /// Its histogram is in `buckets`, scope `metric`.
    Metric in metrics, columns MetricColumns {
        /// Length of the interval, ns.
        dur: u64 = Delta,
        /// Process.
        pid: u32 = Dictionary,
        /// The metric (`pty.read.size`).
        name: Name = Dictionary,
        /// `histogram`, `counter`, `gauge`.
        kind: Name = Dictionary,
        /// Its unit.
        unit: Name = Dictionary,
        /// A counter's growth, a gauge's value, a histogram's samples.
        value: i64 = Delta,
        /// A histogram's sum.
        sum: u64 = Delta,
        /// A histogram's or gauge's largest.
        max: u64 = Delta,
        /// There is a probe of that name: its values are in `buckets`, scope `probe`.
        probe: bool = Plain,
    }
}
