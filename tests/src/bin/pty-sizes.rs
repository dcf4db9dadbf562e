//! Ground truth for PTYs: known sizes at known times, in both directions.
//!
//! The parent holds the masters and reads; a child holds the slaves and writes. Both go in step:
//! the next size is written when the one before has arrived, so that reads are as repeatable as
//! the kernel lets them be. What is printed is what `read(2)` and `write(2)` returned, not what
//! was asked for.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use phux_trace_tests::ptys::{Pty, open_slave};
use phux_trace_tests::truth;
use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Parser)]
struct Options {
    /// Sizes that the child writes, one after the other, bytes.
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000")]
    sizes: Vec<usize>,
    /// Sizes that the parent writes (keystrokes), each after the child's write of the same place.
    #[arg(long, value_delimiter = ',')]
    input_sizes: Vec<usize>,
    /// Pause before each write, µs.
    #[arg(long, default_value_t = 1000)]
    gap_us: u64,
    /// How often the list of sizes is gone through.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// How the parent waits for output.
    #[arg(long, value_enum, default_value = "blocking")]
    reader: Reader,
    /// readv and writev with three parts instead of read and write.
    #[arg(long)]
    vectored: bool,
    /// Every second read and write is such a one.
    #[arg(long, conflicts_with = "vectored")]
    alternate: bool,
    /// Number of PTYs, served one after the other.
    #[arg(long, default_value_t = 1)]
    ptys: usize,
    /// After the sizes, the child writes this many bytes as fast as it can.
    #[arg(long, default_value_t = 0)]
    flood: usize,
    /// Buffer of each read, bytes.
    #[arg(long, default_value_t = 65_536)]
    buffer: usize,
    /// The child's side: the slaves to open.
    #[arg(long, hide = true)]
    slave: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Reader {
    Blocking,
    Nonblocking,
    Poll,
    Epoll,
}

/// Calls in one direction at one end.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Calls {
    /// How many calls moved anything.
    count: u64,
    bytes: u64,
    /// Size → number of calls.
    sizes: BTreeMap<usize, u64>,
    /// Calls that moved nothing (EAGAIN here).
    empty: u64,
    /// Time within the calls that moved anything, measured around them, ns.
    within_ns: u64,
}

impl Calls {
    fn add(&mut self, size: usize, since: Instant) {
        self.count += 1;
        self.bytes += size as u64;
        *self.sizes.entry(size).or_default() += 1;
        self.within_ns += since.elapsed().as_nanos() as u64;
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Ends {
    reads: Calls,
    writes: Calls,
}

#[derive(Debug, Serialize)]
struct PtyTruth {
    index: u32,
    master: Ends,
    slave: Ends,
}

#[derive(Debug, Serialize)]
struct Truth {
    child: u32,
    ptys: Vec<PtyTruth>,
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    if options.slave.is_empty() {
        parent(&options)
    } else {
        child(&options)
    }
}

fn parent(options: &Options) -> io::Result<()> {
    let ptys: Vec<Pty> = (0..options.ptys)
        .map(|_| Pty::open())
        .collect::<io::Result<_>>()?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .args(
            ptys.iter()
                .flat_map(|p| ["--slave".into(), p.path.clone().into_os_string()]),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let result = lead(options, ptys, &mut child);
    // On an error the child sees its input close, and ends too.
    drop(child.stdin.take());
    child.wait()?;
    result
}

fn lead(options: &Options, ptys: Vec<Pty>, child: &mut Child) -> io::Result<()> {
    let broken = || io::Error::other("the child's pipe is not there");
    let mut control = child.stdin.take().ok_or_else(broken)?;
    let mut reports = BufReader::new(child.stdout.take().ok_or_else(broken)?).lines();
    let mut report = move || reports.next().ok_or_else(broken)?;
    report()?; // The child has opened every slave: ours can go.
    let indices: Vec<u32> = ptys.iter().map(|p| p.index).collect();
    let masters: Vec<OwnedFd> = ptys.into_iter().map(|p| p.master).collect();
    let waiter = Waiter::new(options.reader, &masters)?;
    let mut ends: Vec<Ends> = masters.iter().map(|_| Ends::default()).collect();
    truth::ready()?;

    for (place, size) in steps(options) {
        for (which, master) in masters.iter().enumerate() {
            control.write_all(b".")?;
            let end = &mut ends[which];
            read_all(
                options,
                &waiter,
                which,
                master.as_fd(),
                size,
                &mut end.reads,
            )?;
            if let Some(input) = input_at(options, place) {
                write_all(options, master.as_fd(), input, &mut end.writes)?;
            }
        }
    }
    if options.flood > 0 {
        for (which, master) in masters.iter().enumerate() {
            control.write_all(b".")?;
            let reads = &mut ends[which].reads;
            read_all(
                options,
                &waiter,
                which,
                master.as_fd(),
                options.flood,
                reads,
            )?;
        }
    }
    let slaves: Vec<Ends> = serde_json::from_str(&report()?)?;
    let rows = indices.into_iter().zip(ends).zip(slaves);
    let ptys = rows
        .map(|((index, master), slave)| PtyTruth {
            index,
            master,
            slave,
        })
        .collect();
    truth::done(&Truth {
        child: child.id(),
        ptys,
    })
}

fn child(options: &Options) -> io::Result<()> {
    let slaves: Vec<OwnedFd> = options
        .slave
        .iter()
        .map(|p| open_slave(p))
        .collect::<io::Result<_>>()?;
    let mut ends: Vec<Ends> = slaves.iter().map(|_| Ends::default()).collect();
    let waiter = Waiter::Blocking;
    let mut control = io::stdin().lock();
    println!("open");
    let mut word = [0];
    for (place, size) in steps(options) {
        for (which, slave) in slaves.iter().enumerate() {
            control.read_exact(&mut word)?;
            std::thread::sleep(Duration::from_micros(options.gap_us));
            let end = &mut ends[which];
            write_all(options, slave.as_fd(), size, &mut end.writes)?;
            if let Some(input) = input_at(options, place) {
                read_all(
                    options,
                    &waiter,
                    which,
                    slave.as_fd(),
                    input,
                    &mut end.reads,
                )?;
            }
        }
    }
    if options.flood > 0 {
        for (which, slave) in slaves.iter().enumerate() {
            control.read_exact(&mut word)?;
            write_all(
                options,
                slave.as_fd(),
                options.flood,
                &mut ends[which].writes,
            )?;
        }
    }
    println!("{}", serde_json::to_string(&ends)?);
    // Hold the slaves until the parent is done: a hang-up would be one more read there.
    control.read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Whether the next call that moves anything is readv or writev.
fn vectored(options: &Options, before: &Calls) -> bool {
    options.vectored || (options.alternate && before.count % 2 == 1)
}

/// (place in the list, size), for every write of the child to each PTY.
fn steps(options: &Options) -> impl Iterator<Item = (usize, usize)> + '_ {
    (0..options.rounds).flat_map(|_| options.sizes.iter().copied().enumerate())
}

fn input_at(options: &Options, place: usize) -> Option<usize> {
    options
        .input_sizes
        .get(place)
        .copied()
        .filter(|size| *size > 0)
}

/// How the parent waits until a master can be read.
enum Waiter {
    Blocking,
    Nonblocking,
    Poll,
    Epoll(OwnedFd),
}

impl Waiter {
    fn new(reader: Reader, masters: &[OwnedFd]) -> io::Result<Waiter> {
        if reader != Reader::Blocking {
            for master in masters {
                rustix::io::ioctl_fionbio(master, true)?;
            }
        }
        Ok(match reader {
            Reader::Blocking => Waiter::Blocking,
            Reader::Nonblocking => Waiter::Nonblocking,
            Reader::Poll => Waiter::Poll,
            Reader::Epoll => {
                let fd = epoll::create(epoll::CreateFlags::CLOEXEC)?;
                for (which, master) in masters.iter().enumerate() {
                    let data = epoll::EventData::new_u64(which as u64);
                    epoll::add(&fd, master, data, epoll::EventFlags::IN)?;
                }
                Waiter::Epoll(fd)
            }
        })
    }

    fn wait(&self, which: usize, fd: BorrowedFd<'_>) -> io::Result<()> {
        match self {
            Waiter::Blocking | Waiter::Nonblocking => Ok(()),
            Waiter::Poll => {
                poll(&mut [PollFd::new(&fd, PollFlags::IN)], None)?;
                Ok(())
            }
            Waiter::Epoll(epoll_fd) => loop {
                let mut events = Vec::with_capacity(16);
                epoll::wait(epoll_fd, rustix::buffer::spare_capacity(&mut events), None)?;
                if events.iter().any(|e| e.data.u64() == which as u64) {
                    return Ok(());
                }
            },
        }
    }
}

fn read_all(
    options: &Options,
    waiter: &Waiter,
    which: usize,
    fd: BorrowedFd<'_>,
    size: usize,
    calls: &mut Calls,
) -> io::Result<()> {
    let mut buffer = vec![0; options.buffer.max(3)];
    let mut left = size;
    while left > 0 {
        waiter.wait(which, fd)?;
        let since = Instant::now();
        let got = if vectored(options, calls) {
            let (a, rest) = buffer.split_at_mut(1);
            let (b, c) = rest.split_at_mut(1);
            let parts = &mut [IoSliceMut::new(a), IoSliceMut::new(b), IoSliceMut::new(c)];
            rustix::io::readv(fd, parts)
        } else {
            rustix::io::read(fd, &mut buffer[..])
        };
        match got {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "hang-up")),
            Ok(n) => {
                calls.add(n, since);
                left = left.saturating_sub(n);
            }
            Err(Errno::AGAIN) => calls.empty += 1,
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

fn write_all(
    options: &Options,
    fd: BorrowedFd<'_>,
    size: usize,
    calls: &mut Calls,
) -> io::Result<()> {
    let bytes = vec![b'x'; size];
    let mut left = &bytes[..];
    while !left.is_empty() {
        let since = Instant::now();
        let put = if vectored(options, calls) && left.len() >= 3 {
            let (a, rest) = left.split_at(1);
            let (b, c) = rest.split_at(1);
            rustix::io::writev(fd, &[IoSlice::new(a), IoSlice::new(b), IoSlice::new(c)])
        } else {
            rustix::io::write(fd, left)
        };
        match put {
            Ok(n) => {
                calls.add(n, since);
                left = &left[n..];
            }
            // A non-blocking master whose other side is full.
            Err(Errno::AGAIN) => {
                calls.empty += 1;
                poll(&mut [PollFd::new(&fd, PollFlags::OUT)], None)?;
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}
