//! Ground truth for the recorder: known calls of every kind, each logged with its result and with
//! the file that it was about, as the program itself knows it.
//!
//! A thread's calls that count lie between two marks. Logs of other processes come through pipes,
//! when those have made their second mark.

#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]

mod family;
mod files;
mod sockets;
mod uring;
mod worker;

use std::io;
use std::path::PathBuf;

use clap::Parser;
use phux_trace_tests::calls::Truth;
use phux_trace_tests::truth;
use worker::Worker;

#[derive(Debug, Parser)]
struct Options {
    /// An empty directory to work in.
    #[arg(long)]
    dir: PathBuf,
    /// Do all of it so often.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Leave io_uring out.
    #[arg(long)]
    no_uring: bool,
    /// The other side of an exec: a descriptor that it inherits, one that it must not, and where
    /// its log goes.
    #[arg(long, hide = true, value_delimiter = ',')]
    after_exec: Vec<i32>,
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    let dir = options.dir.canonicalize()?;
    let dir = dir
        .to_str()
        .ok_or_else(|| io::Error::other("not UTF-8"))?
        .to_owned();
    if let [inherited, closed, log] = options.after_exec[..] {
        return family::after_exec(&dir, inherited, closed, log);
    }
    truth::ready()?;
    let mut uring = false;
    let mut threads = Vec::new();
    for round in 0..options.rounds {
        let mut worker = Worker::begin(&format!("{dir}/{round}"))?;
        worker.files();
        worker.names();
        worker.errors();
        worker.ends()?;
        worker.polling();
        let other = worker.other_thread();
        let children = worker.children()?;
        if !options.no_uring {
            uring = worker.ring();
        }
        threads.push(worker.end());
        threads.push(other);
        for child in children {
            threads.extend(family::logs(child)?);
        }
    }
    truth::done(&Truth { threads, uring })
}
