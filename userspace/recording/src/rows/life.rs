//! Tables `tasks`, `drains`, `losses`, `run`.

use super::Name;
use super::table::record;

record! {
    /// A process or thread of the target began, became another program, or ended.
    Task in tasks, columns TaskColumns {
        /// `fork`, `exec`, `exit`; `target` for a process that is the target from here on, `untarget` for one
        /// that is not any more; `seen` for a thread that was first met, with its name.
        kind: Name = Dictionary,
        /// Process.
        pid: u32 = Dictionary,
        /// Thread.
        tid: u32 = Dictionary,
        /// CPU.
        cpu: u32 = Delta,
        /// Of a fork: the parent.
        parent: u32 = Dictionary,
        /// Why it is traced: `enum relation` of the kernel side.
        relation: u32 = Delta,
        /// Its name.
        name: Name = Dictionary,
        /// Of an exit: the thread's number when it was first seen, as in table `threads`.
        first_tid: u32 = Dictionary,
        /// Of an exit: CLOCK_MONOTONIC of the thread's start, as in table `threads`.
        start_time: u64 = Delta,
        /// Of an exit: it was the last thread of its process.
        last: bool = Plain,
        /// Of an exit: status as wait(2) has it.
        exit_code: u32 = Dictionary,
    }
}

record! {
    /// Everything that happened up to `ts` has been recorded: the analysis went on from here.
    Drain in drains, columns DrainColumns {
        /// Events so far that the kernel had no room for.
        lost: u64 = Delta,
        /// Tracing ended then.
        last: bool = Plain,
    }
}

record! {
    /// Something was lost, since the row of this class before.
    Loss in losses, columns LossColumns {
        /// Class, as named in `events.h`; `recorder_…` where the recorder itself shed rows.
        class: Name = Dictionary,
        /// How many.
        count: u64 = Delta,
        /// What it means for the figures.
        meaning: Name = Dictionary,
    }
}

record! {
    /// The recording: one row, there from its beginning; written anew at its end.
    Run in run, columns RunColumns {
        /// Host name. (Not `host`: that is a column of each table, from its folder.)
        hostname: Name = Dictionary,
        /// Kernel release.
        kernel: Name = Dictionary,
        /// Version of phux-trace.
        version: Name = Dictionary,
        /// CPUs online.
        cpus: u32 = Delta,
        /// Unix time at `ts`, ns: `unix_ns + (x.ts - run.ts)` is the time of day of row x.
        unix_ns: u64 = Delta,
        /// What was asked for: the target as typed.
        target: Name = Dictionary,
        /// Options, JSON.
        options: Name = Dictionary,
        /// How each thing was measured, JSON.
        backends: Name = Dictionary,
        /// What a report tells besides the tables, JSON: processes, who held the PTYs, placements,
        /// notes, cost. Empty while it runs, and of one that was killed.
        details: Name = Dictionary,
        /// How it ended: `running`, `finished`, `killed`, or the error that ended it.
        outcome: Name = Dictionary,
        /// Last moment that it has rows of; missing while it runs.
        end: Option<u64> = Delta,
        /// Rows written, the row of the run itself left out.
        rows: u64 = Delta,
    }
}
