//! Tables `sched`, `off`, `rivals`, `cgroups`.

use super::Name;
use super::table::record;

record! {
    /// A traced thread had a CPU from `ts` for `dur`, after it had waited for it since `runnable`.
    Slice in sched, columns SliceColumns {
        /// How long it had the CPU, ns.
        dur: u64 = Delta,
        /// When it became ready: woken or preempted; 0: not seen.
        runnable: u64 = Delta,
        /// CPU.
        cpu: u16 = Delta,
        /// Thread.
        tid: u32 = Dictionary,
        /// Process.
        pid: u32 = Dictionary,
        /// The thread's name.
        comm: Name = Dictionary,
        /// State that it left the CPU in, as Perfetto writes it: `R` (still ready), `R+`
        /// (preempted), `S`, `D`, `T`, `t`, `X`, `Z`, `I`.
        end_state: Name = Dictionary,
        /// Syscall that it sleeps in, if any.
        blocked_in: Name = Dictionary,
        /// Who woke it: thread; 0: nobody (it was preempted), or an interrupt.
        waker_tid: u32 = Dictionary,
        /// Its process.
        waker_pid: u32 = Dictionary,
        /// Its name.
        waker: Name = Dictionary,
        /// It was woken from an interrupt.
        waker_interrupt: bool = Plain,
        /// Who ran instead for the largest part of the wait: process.
        instead_pid: u32 = Dictionary,
        /// Its name; empty: nobody, or not known.
        instead: Name = Dictionary,
        /// For how long, ns.
        instead_ns: u64 = Amount,
        /// Of the wait: the CPU was idle, ns.
        idle_ns: u64 = Amount,
        /// `SCHED_*` of the kernel's UAPI.
        policy: u8 = Delta,
        /// −20 … 19.
        nice: i8 = Delta,
        /// 1 … 99 for FIFO and RR.
        rt_priority: u8 = Delta,
    }
}

record! {
    /// A traced thread was off its CPU: from `ts` for `dur`, then it ran again. What the analysis of
    /// echoes is made from, whole; `sched` says the same by time on the CPU.
    Off in off, columns OffColumns {
        /// How long, ns.
        dur: u64 = Delta,
        /// Thread.
        tid: u32 = Dictionary,
        /// Process.
        pid: u32 = Dictionary,
        /// CPU that it got.
        cpu: u32 = Delta,
        /// The moment when it left its CPU was not seen: `ts` is then that of `runnable`.
        began_unseen: bool = Plain,
        /// When it was ready again, ns.
        runnable: u64 = Delta,
        /// Of the wait: its cgroup had used up its quota, ns.
        throttled_ns: u64 = Amount,
        /// Of the slice before: interrupts, ns.
        interrupt_ns: u64 = Amount,
        /// How it came to be ready: `preempted`, `task`, `interrupt`, `new`, `unseen`.
        wake: Name = Dictionary,
        /// Who woke it: process.
        waker_pid: u32 = Dictionary,
        /// Who woke it: thread.
        waker_tid: u32 = Dictionary,
        /// The waker was doing flush work of a PTY, which follows.
        by_flush: bool = Plain,
        /// Device of the devpts instance.
        devpts: u32 = Dictionary,
        /// The number in `/dev/pts/N`.
        pty: u32 = Dictionary,
        /// The bytes went to the master's end, else to the slave's.
        to_master: bool = Plain,
        /// System call that it slept in, by number; −1: none.
        syscall: i32 = Dictionary,
        /// It slept in a page fault.
        fault: bool = Plain,
        /// It slept uninterruptibly.
        disk: bool = Plain,
        /// The kernel counts the sleep as waiting for I/O.
        iowait: bool = Plain,
        /// Major page faults since its row before.
        major_faults: u32 = Delta,
        /// Moves to another CPU while it waited.
        migrations: u32 = Delta,
        /// `SCHED_*` of the kernel's UAPI.
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
        idle_ns: u64 = Amount,
        /// Of the wait: others than those in `rivals` ran, ns.
        other_ns: u64 = Amount,
        /// Of the wait: who ran is not known, ns.
        unknown_ns: u64 = Amount,
    }
}

impl Off {
    /// When it was on a CPU again.
    pub fn end(&self) -> u64 {
        self.ts.saturating_add(self.dur)
    }
}

record! {
    /// Who had the CPU that somebody waited for: `ts` is when that one got it at last. Recorded just
    /// before the row of `off` or `flush` that it belongs to.
    Rival in rivals, columns RivalColumns {
        /// Who waited.
        victim_tid: u32 = Dictionary,
        /// Who ran: process; of the victim's own process the thread.
        pid: u32 = Dictionary,
        /// Its name.
        name: Name = Dictionary,
        /// Of the victim's own process.
        own: bool = Plain,
        /// How long, ns.
        ns: u64 = Delta,
        /// `SCHED_*` of the kernel's UAPI.
        policy: u8 = Delta,
        /// −20 … 19.
        nice: i8 = Delta,
        /// 1 … 99 for FIFO and RR.
        rt_priority: u8 = Delta,
        /// Id of its cgroup.
        cgroup: u64 = Dictionary,
    }
}

record! {
    /// A cgroup that somebody was in, as it was when it was first met.
    Cgroup in cgroups, columns CgroupColumns {
        /// Its id: the inode of its folder.
        id: u64 = Dictionary,
        /// Path from the root of the hierarchy.
        path: Name = Text,
        /// `cpu.weight`; missing where the controller is off.
        weight: Option<u64> = Delta,
        /// The same of each cgroup on the path, `100,50`.
        weights: Name = Dictionary,
        /// `cpu.max`: so much of each period, µs; missing where there is no limit.
        quota_us: Option<u64> = Delta,
        /// `cpu.max`: the period, µs.
        period_us: Option<u64> = Delta,
        /// Path of the cgroup that has that limit.
        quota_path: Name = Text,
        /// `cpuset.cpus.effective`.
        cpus: Name = Dictionary,
    }
}

impl Slice {
    /// How long it waited for the CPU; `None` where the beginning was not seen.
    pub fn wait_ns(&self) -> Option<u64> {
        (self.runnable != 0).then(|| self.ts.saturating_sub(self.runnable))
    }

    /// When it left the CPU.
    pub fn end(&self) -> u64 {
        self.ts.saturating_add(self.dur)
    }
}
