//! Table `sched`.

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
        instead_ns: u64 = Delta,
        /// Of the wait: the CPU was idle, ns.
        idle_ns: u64 = Delta,
        /// `SCHED_*` of the kernel's UAPI.
        policy: u8 = Delta,
        /// −20 … 19.
        nice: i8 = Delta,
        /// 1 … 99 for FIFO and RR.
        rt_priority: u8 = Delta,
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
