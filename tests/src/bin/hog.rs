//! Takes a CPU away from others, in a way that can be chosen. Prints `ready <pid>` and ends with its
//! standard input.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use rustix::thread::{CpuSet, sched_setaffinity};

#[derive(Debug, Parser)]
struct Options {
    /// The CPU to take; any when absent.
    #[arg(long)]
    cpu: Option<usize>,
    /// Scheduling policy.
    #[arg(long, value_enum, default_value = "other")]
    policy: Policy,
    /// Nice value, of `other`.
    #[arg(long, default_value_t = 0, allow_hyphen_values = true)]
    nice: i32,
    /// How many threads compute.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Compute for so long, µs; 0: without a break.
    #[arg(long, default_value_t = 0)]
    burst_us: u64,
    /// Then sleep for so long, µs.
    #[arg(long, default_value_t = 1000)]
    gap_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Policy {
    Other,
    Fifo,
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    if let Some(cpu) = options.cpu {
        let mut cpus = CpuSet::new();
        cpus.set(cpu);
        sched_setaffinity(None, &cpus)?;
    }
    if options.nice != 0 {
        rustix::process::setpriority_process(None, options.nice)?;
    }
    let (burst, gap) = (
        Duration::from_micros(options.burst_us),
        Duration::from_micros(options.gap_us),
    );
    let (tell, told) = std::sync::mpsc::channel();
    for _ in 0..options.threads {
        let tell = tell.clone();
        std::thread::spawn(move || {
            let class = match options.policy {
                Policy::Fifo => real_time(),
                Policy::Other => Ok(()),
            };
            // Else it would compute in another class than was asked for.
            let refused = class.is_err();
            if tell.send(class).is_err() || refused {
                return;
            }
            loop {
                let start = Instant::now();
                while burst.is_zero() || start.elapsed() < burst {
                    std::hint::spin_loop();
                }
                std::thread::sleep(gap);
            }
        });
    }
    // Each has had its CPU once.
    for class in told.iter().take(options.threads) {
        class?;
    }
    let mut out = io::stdout().lock();
    writeln!(out, "ready {}", std::process::id())?;
    out.flush()?;
    io::stdin().lock().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// SCHED_FIFO for this thread.
fn real_time() -> io::Result<()> {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: a parameter that lives for the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
