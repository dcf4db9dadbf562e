//! What a run says, as data: every view (text, JSON) is rendered from a [`Report`] and from nothing else.
//!
//! All times are nanoseconds, all sizes bytes. A figure that a backend could not
//! give is `None`, never zero; why it is missing stands in [`Report::backends`].

use phux_perf::Snapshot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the JSON shape. Raised when a field changes its meaning or vanishes; new fields do not raise it.
pub const SCHEMA_VERSION: u32 = 1;

/// Everything that one run of `attach` found out.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `true` for the last report of a run; interval reports carry what came since the one before.
    pub last: bool,
    /// Why this is less than a report can be, if it was made without the privileges to trace; said first.
    pub limited: Option<String>,
    /// When, where and for how long.
    pub window: Window,
    /// The sentence that a person reads first, with its evidence.
    pub verdict: Verdict,
    /// Who was traced.
    pub target: Target,
    /// How each thing was measured, and what could not be.
    pub backends: Vec<Backend>,
    /// What was lost, by class; a class that lost nothing is left out.
    pub losses: Vec<Loss>,
    /// What the looking itself cost.
    pub cost: Cost,
    /// One row per traced thread that ran or waited.
    pub threads: Vec<ThreadRow>,
    /// One row per PTY of the target.
    pub ptys: Vec<PtyRow>,
    /// One row per USDT probe of provider `phux` and process.
    pub hops: Vec<HopRow>,
    /// One entry per process of the target that keeps histograms of its own.
    pub in_process: Vec<InProcess>,
    /// What a reader must know besides: a target that died, a hostile binary, a namespace.
    pub notes: Vec<String>,
}

/// When, where and for how long was measured.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Start, milliseconds since the Unix epoch.
    pub start_unix_ms: u64,
    /// Length, ns of CLOCK_MONOTONIC.
    pub duration_ns: u64,
    /// Host name.
    pub host: String,
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// CPUs online.
    pub cpus: u32,
}

/// The largest cause of delay, or that there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Machine-readable cause.
    pub cause: Cause,
    /// One sentence with its figures.
    pub sentence: String,
    /// The figures that led to it, one line each, strongest first.
    pub evidence: Vec<String>,
}

/// What kind of delay is the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// No wait that a person could feel.
    NothingWrong,
    /// Threads of the target wait for a CPU.
    RunQueue,
    /// The kernel's flush worker of a PTY waits for a CPU.
    FlushWorker,
    /// The reader of a PTY, once woken, waits for a CPU.
    ReaderWait,
    /// The target never ran, or nothing was measured.
    NoData,
}

/// Who was traced.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// What the user typed, or how the target was found.
    pub asked: String,
    /// The traced processes, the named ones first.
    pub processes: Vec<Process>,
}

/// One traced process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Process id, in the pid namespace of phux-trace.
    pub pid: u32,
    /// `comm` of its leader.
    pub name: String,
    /// User name, or the number where it has none.
    pub user: String,
    /// Why it is traced.
    pub relation: Relation,
    /// How it ended while traced, if it did (`exited 0`, `killed by signal 9`, `exec'd vim`).
    pub ended: Option<String>,
}

/// Why a process is traced.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// Named by the user, or forked from it without an exec.
    Target,
    /// Sits at the other end of one of the target's PTYs, or was started by the target.
    Peer,
}

/// How one capability was had, or that it was not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Backend {
    /// What it is for: `sched`, `tty`, `flush`, `hop`, `in_process`, `ends`.
    pub capability: String,
    /// The hooks in use (`tp_btf sched_switch …`, `sys_exit + fd walk`), `None` where nothing worked.
    pub used: Option<String>,
    /// What is missing or second best, with what is lost by it and what would bring it.
    pub missing: Option<String>,
}

/// Losses of one class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    /// Class, as named in `events.h`.
    pub class: String,
    /// How many.
    pub count: u64,
    /// What the loss means for the figures.
    pub meaning: String,
}

/// What the looking cost.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// CPU time of phux-trace itself (user + system) in the window.
    pub daemon_cpu_ns: u64,
    /// Its resident memory at the end.
    pub daemon_rss_bytes: u64,
    /// Time spent in its BPF programs, from the kernel's run-time statistics; `None` where those cannot be switched on.
    pub bpf_ns: Option<u64>,
    /// The same by program.
    pub programs: Vec<ProgramCost>,
}

/// Run-time statistics of one BPF program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramCost {
    /// Program name.
    pub name: String,
    /// How often it ran.
    pub runs: u64,
    /// For how long.
    pub ns: u64,
}

/// A distribution: exact count, sum, min and max; percentiles never low and at most 12.5 % high.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Dist {
    /// Samples.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// Smallest (0 when empty).
    pub min: u64,
    /// Largest.
    pub max: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// The non-empty ones of the 504 buckets, ascending.
    pub buckets: Vec<Bucket>,
}

/// One non-empty bucket of a [`Dist`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bucket {
    /// 0–503.
    pub idx: u16,
    /// Samples in it.
    pub count: u64,
}

impl From<&Snapshot> for Dist {
    fn from(s: &Snapshot) -> Self {
        Dist {
            count: s.count,
            sum: s.sum,
            min: s.min,
            max: s.max,
            p50: s.percentile(50.0),
            p90: s.percentile(90.0),
            p99: s.percentile(99.0),
            buckets: s
                .nonempty()
                .map(|(idx, count)| Bucket {
                    idx: idx as u16,
                    count,
                })
                .collect(),
        }
    }
}

/// Scheduling class of a thread: what Linux has for macOS's QoS class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SchedClass {
    /// `SCHED_OTHER`, `SCHED_BATCH`, `SCHED_IDLE`, `SCHED_FIFO`, `SCHED_RR`, `SCHED_DEADLINE`, `SCHED_EXT`.
    pub policy: String,
    /// −20 … 19; meaningful for OTHER and BATCH.
    pub nice: i32,
    /// 1 … 99 for FIFO and RR, else 0.
    pub rt_priority: u32,
}

/// All that decides when a thread gets a CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlacementInfo {
    /// Policy, nice, real-time priority.
    pub sched: SchedClass,
    /// How long it may run before others have their turn (EEVDF's slice), µs; `None` where the kernel does not tell.
    pub slice_us: Option<u32>,
    /// Utilisation clamp as asked for: at least, 0–1024.
    pub uclamp_min: u16,
    /// At most, 0–1024; 1024: no clamp.
    pub uclamp_max: u16,
    /// Nice of its autogroup, if it is in one: then its own nice counts only within that.
    pub autogroup_nice: Option<i32>,
    /// Id of its cgroup: the inode of its folder.
    pub cgroup_id: u64,
    /// Path of its cgroup; `None` where that is gone or not to be seen.
    pub cgroup: Option<String>,
    /// Its cgroup and those above it, as far as the cpu controller is on for them, the root left out.
    pub levels: Vec<CgroupLevel>,
    /// CPUs of its cpuset (version 2).
    pub cpuset: Option<String>,
    /// CPUs that it may run on in the end; `None` where it has ended.
    pub cpus_allowed: Option<String>,
}

/// One cgroup that a thread is in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CgroupLevel {
    /// Its path.
    pub path: String,
    /// `cpu.weight`, 100 if nobody has changed it; of version 1 its shares on the same scale.
    pub weight: Option<u64>,
    /// `cpu.idle`: its tasks run only when nobody else wants to.
    pub idle: bool,
    /// Quota, µs of CPU time a period; `None`: none.
    pub quota_us: Option<u64>,
    /// The period, µs.
    pub period_us: Option<u64>,
    /// In how many periods it was throttled in the window.
    pub nr_throttled: Option<u64>,
    /// For how long, all CPUs together.
    pub throttled_ns: Option<u64>,
}

/// One traced thread.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ThreadRow {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// `comm` of the thread.
    pub comm: String,
    /// What it does, where that is known (`pty reader`, `main loop`, `child`).
    pub role: Option<String>,
    /// Of the target or of the other end.
    pub relation: Relation,
    /// Its scheduling class when last seen.
    pub sched: SchedClass,
    /// The same with all that belongs to it; `None` where echoes are not followed.
    pub placement: Option<PlacementInfo>,
    /// Time on a CPU.
    pub on_cpu_ns: u64,
    /// Time blocked (asleep, from off CPU until woken).
    pub blocked_ns: u64,
    /// Voluntary switches (it blocked).
    pub voluntary: u64,
    /// Involuntary switches (it was preempted or yielded).
    pub involuntary: u64,
    /// Moves to another CPU.
    pub migrations: u64,
    /// Run-queue latency: runnable (woken, new or preempted) until on a CPU. Empty where `account` stands.
    pub wait: Dist,
    /// The same where only the kernel's own account of it could be read (no privileges to trace).
    pub account: Option<WaitAccount>,
    /// A wait that had not ended when the window did: how long it had lasted.
    pub waiting_ns: Option<u64>,
    /// Who had the CPU during those waits, most time first; bounded, the rest summed in one row.
    pub ran_instead: Vec<Culprit>,
    /// Who woke it, most often first.
    pub wakers: Vec<Waker>,
    /// It ended within the window.
    pub exited: bool,
    /// How many ended threads of this name are summed in this row; then `tid` is 0, and for peers `pid` too.
    pub threads: u64,
}

/// Waits for a CPU by the kernel's own account (`schedstat`), which has their number and sum and no
/// distribution. It was read in samples; what those prove of single waits is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitAccount {
    /// Times that it got a CPU.
    pub count: u64,
    /// Waits for those, ns.
    pub sum: u64,
    /// Samples in which a wait was 1 ms or longer for certain, since they were on average.
    pub slow: u64,
    /// What the waits of 1 ms and more took at least, ns.
    pub slow_ns: u64,
    /// The longest was at least so long, ns.
    pub longest: u64,
}

/// What had the CPU that somebody waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Culprit {
    /// Kind of time.
    pub kind: CulpritKind,
    /// Process name (for threads of the victim's own process: the thread's name).
    pub name: String,
    /// Some of its pids (at most 4).
    pub pids: Vec<u32>,
    /// There were more pids than are listed.
    pub more_pids: bool,
    /// Time it had the CPU while the victim waited for that CPU.
    pub ns: u64,
    /// In how many slices.
    pub slices: u64,
    /// Its scheduling class when last seen; `None` for the kinds that are no task.
    pub sched: Option<SchedClass>,
    /// Path of its cgroup when last seen, where that is known.
    pub cgroup: Option<String>,
}

/// What kind of time it was that the victim did not get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CulpritKind {
    /// Another task ran.
    Task,
    /// The CPU was idle and had to be woken, or the switch itself took the time.
    Idle,
    /// Not known: the wait went back further than the record of slices, or the table was full.
    Unknown,
}

/// Who woke a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waker {
    /// Process name, or `interrupt` where the wake came from an interrupt and no task caused it.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// A PTY: both ends, what went through it, and how long it waited.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PtyRow {
    /// The number in `/dev/pts/N`.
    pub index: u32,
    /// Device number of the devpts instance: two containers can both have a `/dev/pts/3`.
    pub devpts: u64,
    /// Processes that hold the master, as `name(pid)` data.
    pub master: Vec<End>,
    /// Processes that hold the slave.
    pub slave: Vec<End>,
    /// Reads on the master: output of the program inside.
    pub master_reads: Io,
    /// Writes on the master: keystrokes.
    pub master_writes: Io,
    /// Reads on the slave: the program inside takes its input.
    pub slave_reads: Io,
    /// Writes on the slave: the program inside prints.
    pub slave_writes: Io,
    /// Flush work towards the master (output).
    pub flush_output: Flush,
    /// Flush work towards the slave (input).
    pub flush_input: Flush,
}

/// A process at one end of a PTY.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct End {
    /// Process.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// Reads or writes at one end of a PTY.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Io {
    /// Sizes, bytes, of the calls that moved any.
    pub size: Dist,
    /// Duration of those calls, blocking included.
    pub duration: Dist,
    /// Calls that moved nothing: end of file, EAGAIN, EINTR, EIO.
    pub empty: u64,
}

/// `flush_to_ldisc` work in one direction, and the wake that follows it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Flush {
    /// Queued until a kworker started it.
    pub wait: Dist,
    /// Started until ended.
    pub run: Dist,
    /// The reader's wait: woken by this work until on a CPU.
    pub reader_wait: Dist,
    /// Who queued it, most often first.
    pub queued_by: Vec<Waker>,
    /// Who had the kworker's CPU while the work waited.
    pub ran_instead: Vec<Culprit>,
    /// The kworker's class and cgroup, when last seen; `None` where echoes are not followed.
    pub placement: Option<PlacementInfo>,
}

/// One hop: a USDT probe of provider `phux` in one process.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct HopRow {
    /// Process.
    pub pid: u32,
    /// Probe name (`pty__read__size`).
    pub probe: String,
    /// Metric name (`pty.read.size`).
    pub metric: String,
    /// Unit of the values, where known: `micros`, `bytes`, `count`.
    pub unit: Option<String>,
    /// Probe sites attached.
    pub sites: u32,
    /// Values (arg0).
    pub value: Dist,
}

/// A process's own histograms over the window (GET_PERF), beside those that its probes filled in the kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InProcess {
    /// Process.
    pub pid: u32,
    /// What it calls itself (`server`).
    pub role: String,
    /// Its histograms, in its own order.
    pub rows: Vec<InProcessRow>,
    /// Why there are none.
    pub missing: Option<String>,
}

/// One metric, seen from both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InProcessRow {
    /// Metric name.
    pub metric: String,
    /// `micros`, `bytes`, `count`, or what the process calls it.
    pub unit: String,
    /// As the process has it.
    pub inside: Dist,
    /// As the kernel has it, from the probe of that name; `None` where there is no such probe.
    pub outside: Option<Dist>,
    /// Samples, over all buckets, that only one of the two has.
    pub differing: Option<u64>,
}

/// One line of `--events`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventRow {
    /// When it ended, ns since the Unix epoch.
    pub unix_ns: u64,
    /// What happened.
    pub kind: EventKind,
    /// Process; of a flush the kworker.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// CPU.
    pub cpu: u32,
    /// Device number of the PTY's devpts instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devpts: Option<u64>,
    /// The PTY's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// At the master (of a flush: towards it), else at the slave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master: Option<bool>,
    /// Bytes read or written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Why none were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<i64>,
    /// Of a read or write, blocking included; of a flush, from its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
    /// Of a flush: from queued to started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ns: Option<u64>,
    /// Of a flush: the process that queued it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_by: Option<u32>,
    /// Of a flush: the thread of it that did; with the kernel's own echo a kworker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_by_tid: Option<u32>,
    /// Of a flush: who had the kworker's CPU from queued to started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran_instead: Option<Vec<Culprit>>,
    /// Of a time off CPU the thread's, of a flush the kworker's, at that moment; without what the cgroup's files tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Box<PlacementInfo>>,
    /// Of a time off CPU: all that is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off: Option<Box<OffRow>>,
    /// Of a socket: the connection; the same number at both ends, of this run only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conn: Option<u64>,
    /// Of a socket: it sent, else it received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<bool>,
    /// Of a socket: the process at the other end, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<u32>,
    /// Of a hop: its probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<String>,
    /// Of a hop: value, pane or stream, sequence number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<u64>>,
}

/// Kind of an [`EventRow`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A read on a PTY.
    #[default]
    Read,
    /// A write on a PTY.
    Write,
    /// Flush work of a PTY.
    Flush,
    /// A USDT probe.
    Hop,
    /// A thread is back on a CPU: its time off it.
    Off,
    /// A send or a receive on a stream socket.
    Sock,
}

/// How a thread came to be runnable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WakeKind {
    /// It never slept: it lost its CPU.
    Preempted,
    /// A task woke it.
    Task,
    /// An interrupt did: no task caused it.
    Interrupt,
    /// It was forked.
    New,
    /// The kernel told no tracepoint of it.
    #[default]
    Unseen,
}

/// A thread's time off CPU: `blocked_ns`, then `wait_ns`, until the row's time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OffRow {
    /// Asleep; `None` where it was not seen to leave its CPU.
    pub blocked_ns: Option<u64>,
    /// Runnable, waiting for a CPU.
    pub wait_ns: u64,
    /// Of the wait: its cgroup had used up its quota.
    pub throttled_ns: u64,
    /// Of the time on CPU before: in interrupts, where the kernel tells.
    pub interrupt_ns: u64,
    /// How it came to be runnable.
    pub wake: WakeKind,
    /// Process of who woke it.
    pub waker_pid: Option<u32>,
    /// Thread of who woke it.
    pub waker_tid: Option<u32>,
    /// It was woken by flush work of the PTY with this number.
    pub woken_by_flush: Option<u32>,
    /// Number of the system call that it slept in.
    pub syscall: Option<i32>,
    /// It slept in an exception: a page fault, as a rule.
    pub fault: bool,
    /// Uninterruptibly: for a disk, as a rule.
    pub disk: bool,
    /// The kernel counts it as waiting for I/O.
    pub iowait: bool,
    /// Major page faults since the row before.
    pub major_faults: u32,
    /// Moves to another CPU while it waited.
    pub migrations: u32,
    /// Who had the CPU; sums to the wait.
    pub ran_instead: Vec<Culprit>,
}
