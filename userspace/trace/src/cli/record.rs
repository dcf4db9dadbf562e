//! `record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{EXIT_CODES, duration};
use crate::recording::trigger::Condition;

/// Arguments of `record`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  sudo phux-trace record -- make check         the file system calls of a command
  sudo phux-trace record tmux -d 10s --families fs,network,polling
  sudo phux-trace record -p 4242 --families all --aggregate polling,time
  sudo phux-trace record -p 4242 --syscall openat,read --events | jq .path
  sudo phux-trace record tmux -d 1min -o rec   everything, to be asked later
  sudo phux-trace record tmux -o rec --ring 60s --on 'echo.p99>10ms'")]
#[command(after_long_help = format!("\
TARGET is meant as by attach, and everything that it starts is recorded with it. What is
recorded is chosen in the kernel: what nobody wants costs next to nothing.

Families: fs (the default), network, polling, memory, ipc, process, signals, time, sched,
security, aio, misc; all. Requests of io_uring belong to any of them and are recorded too.

With -o everything goes to a directory of Parquet files, private to you: the calls, and
each time off CPU, PTY read and write, flush, socket use, hop and echo. phux-trace report,
echo, query, diff and export read it. --ring keeps only the last moments in memory and
writes them out when the condition of --on begins to hold (without --on: at the end).

A family that is aggregated is summed up in the kernel by process and call: cheaper than
telling each call, and without files, threads and single times.

Examples:
  sudo phux-trace record -- make check         the file system calls of a command
  sudo phux-trace record tmux -d 10s --families fs,network,polling
  sudo phux-trace record -p 4242 --families all --aggregate polling,time
  sudo phux-trace record -p 4242 --syscall openat,read --events | jq .path
  sudo phux-trace record tmux -d 1min -o rec   everything, to be asked later
  sudo phux-trace record tmux -o rec --ring 60s --on 'echo.p99>10ms'

{EXIT_CODES}"))]
pub struct RecordArgs {
    /// Pid or name of what to record
    #[arg(value_name = "TARGET", conflicts_with_all = ["pid", "command"])]
    pub target: Option<OsString>,
    /// Record this process
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<u32>,
    /// Stop after this time (10s, 2min, 500ms; a plain number is seconds)
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Families of system calls, or all
    #[arg(
        long,
        value_name = "FAMILIES",
        value_delimiter = ',',
        default_value = "fs"
    )]
    pub families: Vec<String>,
    /// Only these system calls
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        conflicts_with = "families"
    )]
    pub syscall: Vec<String>,
    /// Families to sum up in the kernel, or all
    #[arg(long, value_name = "FAMILIES", value_delimiter = ',')]
    pub aggregate: Vec<String>,
    /// Only threads of this name
    #[arg(long, value_name = "NAME")]
    pub comm: Option<String>,
    /// Only these threads
    #[arg(long, value_name = "TID", value_delimiter = ',')]
    pub tid: Vec<u32>,
    /// Only what is in this cgroup; without TARGET all processes in it
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Record to this directory, which is made where it is missing
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Keep only the last moments, in memory (with -o)
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "output")]
    pub ring: Option<Duration>,
    /// When to write them out: echo.p99>10ms, echo.max>100ms; any percentile
    #[arg(long, value_name = "CONDITION", requires = "ring")]
    pub on: Vec<Condition>,
    /// Print the figures as JSON lines
    #[arg(long)]
    pub json: bool,
    /// Print each call as it ends, as JSON lines (implies --json)
    #[arg(long)]
    pub events: bool,
    /// CPUs that share one ring buffer, rounded up to a power of two
    #[arg(long, value_name = "N", hide = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub cpus_per_ring: Option<u32>,
    /// Start this command and record it
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}
