//! Two threads on one CPU that wake each other through pipes: a wake-up and a switch for each pass,
//! and nothing else. For what a tracer of the scheduler costs.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use clap::Parser;
use phux_trace_tests::truth;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

#[derive(Debug, Parser)]
struct Options {
    /// Passes there and back.
    #[arg(long, default_value_t = 100_000)]
    rounds: u64,
}

#[derive(Debug, Serialize)]
struct Truth {
    rounds: u64,
    elapsed_ns: u64,
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    let allowed = sched_getaffinity(None)?;
    let last = (0..CpuSet::MAX_CPU)
        .rfind(|cpu| allowed.is_set(*cpu))
        .unwrap_or(0);
    let mut only = CpuSet::new();
    only.set(last);
    sched_setaffinity(None, &only)?;
    let (there_out, there_in) = rustix::pipe::pipe()?;
    let (back_out, back_in) = rustix::pipe::pipe()?;
    // Made before anybody attaches; ends with the process, or when its pipe closes.
    std::thread::Builder::new()
        .name("pong".into())
        .spawn(move || pong(&there_out, &back_in))?;
    truth::ready()?;
    let start = Instant::now();
    let mut byte = [0];
    for _ in 0..options.rounds {
        rustix::io::write(&there_in, b".")?;
        rustix::io::read(&back_out, &mut byte)?;
    }
    let elapsed_ns = start.elapsed().as_nanos() as u64;
    truth::done(&Truth {
        rounds: options.rounds,
        elapsed_ns,
    })
}

fn pong(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    let mut byte = [0];
    while rustix::io::read(from, &mut byte)? == 1 {
        rustix::io::write(to, &byte)?;
    }
    Ok(())
}
