//! Ground truth in numbers: so many threads that live at the same time, so many files that are open at the
//! same time. Each thread reads a byte of a file; each file is opened, and written to when all are open.
//! The files are held by several processes, as a limit on one's descriptors cannot be raised everywhere.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier};
use std::thread::sleep;
use std::time::Duration;

use clap::Parser;
use phux_trace_tests::truth;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

/// After so many calls it rests, so that what is lost is not lost for want of room in a ring.
const STRIDE: usize = 1_000;
const REST: Duration = Duration::from_millis(20);
/// Files that one process holds, below the usual hard limit of 20,000 and more.
const SHARE: usize = 16_000;
const STACK: usize = 64 * 1024;

#[derive(Debug, Parser)]
struct Options {
    /// An empty directory to work in.
    #[arg(long)]
    dir: PathBuf,
    /// Threads.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Files.
    #[arg(long, default_value_t = 0)]
    files: usize,
    /// One that holds files: from the first until before the last.
    #[arg(long, hide = true, num_args = 2)]
    holds: Vec<usize>,
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    if let [from, until] = options.holds[..] {
        return hold(&options.dir, from..until);
    }
    let byte = options.dir.join("byte");
    std::fs::write(&byte, b"x")?;
    truth::ready()?;

    let together = Arc::new(Barrier::new(options.threads + 1));
    let mut threads = Vec::with_capacity(options.threads);
    for n in 0..options.threads {
        let (together, byte) = (together.clone(), byte.clone());
        let thread = std::thread::Builder::new()
            .name("crowd-worker".into())
            .stack_size(STACK);
        threads.push(thread.spawn(move || {
            let read = File::open(byte).and_then(|mut f| f.read(&mut [0; 1]));
            together.wait();
            read
        })?);
        if n % STRIDE == STRIDE - 1 {
            sleep(REST);
        }
    }
    together.wait();
    let mut read = 0;
    for thread in threads {
        read += thread.join().map_err(|_| io::Error::other("a panic"))??;
    }

    let mut holders = Vec::new();
    for from in (0..options.files).step_by(SHARE) {
        let until = options.files.min(from + SHARE);
        let mut holder = Command::new(std::env::current_exe()?)
            .arg("--dir")
            .arg(&options.dir)
            .args(["--holds", &from.to_string(), &until.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        // One after the other: each says when it has opened its own.
        let mut out = holder.stdout.take().map(BufReader::new);
        let mut line = String::new();
        out.as_mut().map(|o| o.read_line(&mut line)).transpose()?;
        holders.push(holder);
    }
    let mut written = 0;
    for mut holder in holders {
        // Its standard input ends: the word to write.
        drop(holder.stdin.take());
        if !holder.wait()?.success() {
            return Err(io::Error::other("a holder failed"));
        }
        written += 1;
    }
    truth::done(&json!({ "read": read, "holders": written }))
}

/// Opens files, says so, and writes to them when it is told.
fn hold(dir: &Path, which: Range<usize>) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    )?;
    let mut files = Vec::with_capacity(which.len());
    for n in which {
        files.push(File::create(dir.join(format!("file-{n}")))?);
        if n % STRIDE == STRIDE - 1 {
            sleep(REST);
        }
    }
    let mut out = io::stdout().lock();
    writeln!(out, "open")?;
    out.flush()?;
    io::stdin().lock().read_to_end(&mut Vec::new())?;
    for (n, file) in files.iter_mut().enumerate() {
        file.write_all(b"y")?;
        if n % STRIDE == STRIDE - 1 {
            sleep(REST);
        }
    }
    Ok(())
}
