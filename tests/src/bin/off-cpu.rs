//! Ground truth for the time off CPU: one thread for each thing that a thread can sleep in, each
//! woken in step by a ringer, and pairs of threads that talk over stream sockets.
//!
//! `--spin` instead burns that much CPU time, for quotas; `--serve PATH` and `--connect PATH` are
//! two processes that talk over one Unix socket.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use phux_trace_tests::procfs::sleeps;
use phux_trace_tests::ptys::open_slave;
use phux_trace_tests::{truth, wait_for};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::gettid;
use serde::Serialize;

const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of the file whose pages fault.
const FILE_BYTES: usize = 4 << 20;

#[derive(Debug, Parser)]
struct Options {
    /// How often each thread sleeps, and how many messages each pair exchanges.
    #[arg(long, default_value_t = 40)]
    count: u64,
    /// A folder on a disk, for fsync and for faults; neither without.
    #[arg(long)]
    disk: Option<PathBuf>,
    /// Burn so much CPU time, ms, and nothing else.
    #[arg(long)]
    spin: Option<u64>,
    /// Answer whoever connects here, `count` times.
    #[arg(long)]
    serve: Option<PathBuf>,
    /// Connect there, and ask `count` times once told to.
    #[arg(long)]
    connect: Option<PathBuf>,
    /// Write a byte there after each answer.
    #[arg(long, requires = "connect")]
    terminal: Option<PathBuf>,
}

/// One thread that slept.
#[derive(Debug, Default, Serialize)]
struct Slept {
    /// In what.
    what: &'static str,
    tid: u32,
    /// The numbers that its system call can have; none: a fault.
    syscalls: Vec<i64>,
    /// Who woke it; 0: an interrupt.
    ringer: u32,
    /// How often.
    times: u64,
    /// Major faults by the kernel's account.
    major_faults: u64,
}

/// Two threads that talked.
#[derive(Debug, Serialize)]
struct Talked {
    over: &'static str,
    ends: [u32; 2],
    /// Sends by each, and as many receives.
    messages: u64,
    bytes: u64,
}

#[derive(Debug, Default, Serialize)]
struct Truth {
    slept: Vec<Slept>,
    talked: Vec<Talked>,
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    if let Some(ms) = options.spin {
        return spin(Duration::from_millis(ms));
    }
    if let Some(path) = &options.serve {
        return serve(path, options.count);
    }
    if let Some(path) = &options.connect {
        return connect(path, options.terminal.as_deref(), options.count);
    }
    truth::ready()?;
    let n = options.count;
    let mut slept = vec![
        nanosleep(n)?,
        rung("futex", &[libc::SYS_futex], n, Futex::default())?,
        rung("read", &[libc::SYS_read], n, Pipe::new(false)?)?,
        rung(
            "poll",
            &[libc::SYS_poll, libc::SYS_ppoll],
            n,
            Pipe::new(true)?,
        )?,
    ];
    if let Some(disk) = &options.disk {
        slept.push(fsync(disk, n)?);
        slept.push(faults(disk)?);
    }
    let talked = vec![
        talk("socketpair", n, UnixStream::pair()?)?,
        talk("unix", n, unix_pair()?)?,
        talk("tcp", n, tcp_pair()?)?,
    ];
    truth::done(&Truth { slept, talked })
}

fn my_tid() -> u32 {
    gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Runs `work` in a thread of its own and gives what it returns.
fn in_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let thread = thread::Builder::new().name(name.into()).spawn(work)?;
    thread
        .join()
        .map_err(|_| io::Error::other("a thread panicked"))?
}

fn nanosleep(times: u64) -> io::Result<Slept> {
    in_thread("nanosleep", move || {
        for _ in 0..times {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(Slept {
            what: "nanosleep",
            tid: my_tid(),
            syscalls: vec![libc::SYS_nanosleep, libc::SYS_clock_nanosleep],
            times,
            ..Slept::default()
        })
    })
}

/// Something that one thread waits for and another one brings about.
trait Bell: Send + Sync + 'static {
    fn wait(&self, nth: u64) -> io::Result<()>;
    fn ring(&self, nth: u64, sleeper: &thread::Thread) -> io::Result<()>;
}

#[derive(Default)]
struct Futex(AtomicU64);

impl Bell for Futex {
    fn wait(&self, nth: u64) -> io::Result<()> {
        while self.0.load(Ordering::Acquire) <= nth {
            thread::park();
        }
        Ok(())
    }

    fn ring(&self, nth: u64, sleeper: &thread::Thread) -> io::Result<()> {
        self.0.store(nth + 1, Ordering::Release);
        sleeper.unpark();
        Ok(())
    }
}

struct Pipe {
    read: std::os::fd::OwnedFd,
    write: std::os::fd::OwnedFd,
    polls: bool,
}

impl Pipe {
    fn new(polls: bool) -> io::Result<Pipe> {
        let (read, write) = rustix::pipe::pipe()?;
        Ok(Pipe { read, write, polls })
    }
}

impl Bell for Pipe {
    fn wait(&self, _nth: u64) -> io::Result<()> {
        if self.polls {
            let mut fds = [PollFd::new(&self.read, PollFlags::IN)];
            poll(&mut fds, None)?;
        }
        rustix::io::read(self.read.as_fd(), &mut [0; 1])?;
        Ok(())
    }

    fn ring(&self, _nth: u64, _sleeper: &thread::Thread) -> io::Result<()> {
        rustix::io::write(&self.write, b".")?;
        Ok(())
    }
}

/// A thread that waits `times` times, and one that rings when it sleeps.
fn rung(what: &'static str, syscalls: &[i64], times: u64, bell: impl Bell) -> io::Result<Slept> {
    let bell = Arc::new(bell);
    let waits = bell.clone();
    let (tell, told) = std::sync::mpsc::channel();
    // Not to be found asleep before its first wait.
    let begun = Arc::new(AtomicBool::new(false));
    let begins = begun.clone();
    let round = Arc::new(AtomicU64::new(0));
    let counts = round.clone();
    let sleeper = thread::Builder::new().name(what.into()).spawn(move || {
        let _ = tell.send((my_tid(), thread::current()));
        begins.store(true, Ordering::Release);
        for nth in 0..times {
            waits.wait(nth)?;
            counts.store(nth + 1, Ordering::Release);
        }
        Ok::<_, io::Error>(())
    })?;
    let (tid, handle) = told.recv().map_err(io::Error::other)?;
    let ringer = in_thread("ringer", move || {
        wait_for(PATIENCE, || begun.load(Ordering::Acquire).then_some(()))
            .ok_or_else(|| io::Error::other("the sleeper never began"))?;
        for nth in 0..times {
            wait_for(PATIENCE, || {
                let there = round.load(Ordering::Acquire) == nth;
                (there && sleeps(std::process::id(), tid)).then_some(())
            })
            .ok_or_else(|| io::Error::other("the sleeper never slept"))?;
            bell.ring(nth, &handle)?;
        }
        Ok(my_tid())
    })?;
    sleeper
        .join()
        .map_err(|_| io::Error::other("the sleeper panicked"))??;
    Ok(Slept {
        what,
        tid,
        syscalls: syscalls.to_vec(),
        ringer,
        times,
        major_faults: 0,
    })
}

fn fsync(disk: &Path, times: u64) -> io::Result<Slept> {
    let mut file = tempfile::tempfile_in(disk)?;
    in_thread("fsync", move || {
        for _ in 0..times {
            file.write_all(&[7; 4096])?;
            file.sync_all()?;
        }
        Ok(Slept {
            what: "fsync",
            tid: my_tid(),
            syscalls: vec![libc::SYS_fsync],
            times,
            ..Slept::default()
        })
    })
}

/// Touches the pages of a file that is not in memory, one by one.
fn faults(disk: &Path) -> io::Result<Slept> {
    let mut file = tempfile::tempfile_in(disk)?;
    file.write_all(&vec![7; FILE_BYTES])?;
    file.sync_all()?;
    in_thread("faults", move || {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        let before = major_faults();
        touch(&file)?;
        let major_faults = major_faults() - before;
        // So that a record is written after the last of them.
        thread::sleep(Duration::from_millis(1));
        Ok(Slept {
            what: "faults",
            tid: my_tid(),
            times: major_faults,
            major_faults,
            ..Slept::default()
        })
    })
}

fn major_faults() -> u64 {
    // SAFETY: getrusage fills the struct that it is given, which lives for the call.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    usage.ru_majflt.unsigned_abs()
}

fn touch(file: &File) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: a private, read-only mapping of a file of that size which nobody truncates; every
    // byte read lies within it, and it is unmapped at the end.
    unsafe {
        let map = libc::mmap(
            std::ptr::null_mut(),
            FILE_BYTES,
            libc::PROT_READ,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        );
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Without read-ahead each page is a fault of its own.
        libc::madvise(map, FILE_BYTES, libc::MADV_RANDOM);
        for at in (0..FILE_BYTES).step_by(4096 * 16) {
            std::ptr::read_volatile(map.cast::<u8>().add(at));
        }
        libc::munmap(map, FILE_BYTES);
    }
    Ok(())
}

fn unix_pair() -> io::Result<(UnixStream, UnixStream)> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path)?;
    let near = UnixStream::connect(&path)?;
    Ok((near, listener.accept()?.0))
}

fn tcp_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    Ok((near, listener.accept()?.0))
}

/// Two threads that say 3 bytes to each other in turn.
fn talk<S>(over: &'static str, messages: u64, (mut here, mut there): (S, S)) -> io::Result<Talked>
where
    S: Read + Write + Send + 'static,
{
    let answers = thread::Builder::new()
        .name("answers".into())
        .spawn(move || {
            for _ in 0..messages {
                there.read_exact(&mut [0; 3])?;
                there.write_all(b"two")?;
            }
            Ok::<_, io::Error>(my_tid())
        })?;
    let asks = in_thread("asks", move || {
        for _ in 0..messages {
            here.write_all(b"one")?;
            here.read_exact(&mut [0; 3])?;
        }
        Ok(my_tid())
    })?;
    let answers = answers
        .join()
        .map_err(|_| io::Error::other("the one who answers panicked"))??;
    Ok(Talked {
        over,
        ends: [asks, answers],
        messages,
        bytes: 3,
    })
}

/// CPU time, not wall time: with a quota it takes longer.
fn spin(time: Duration) -> io::Result<()> {
    truth::ready()?;
    let began = Instant::now();
    in_thread("spinner", move || {
        let used = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let of = |t: rustix::time::Timespec| {
            Duration::new(
                t.tv_sec.unsigned_abs(),
                u32::try_from(t.tv_nsec).unwrap_or(0),
            )
        };
        let begin = of(used());
        while of(used()).saturating_sub(begin) < time {}
        Ok(())
    })?;
    truth::done(&serde_json::json!({ "wall_ns": began.elapsed().as_nanos() as u64 }))
}

fn serve(path: &Path, count: u64) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    truth::ready()?;
    let (mut client, _) = listener.accept()?;
    let mut answered = 0;
    while answered < count && client.read(&mut [0; 16])? != 0 {
        client.write_all(b"answer")?;
        answered += 1;
    }
    truth::done(&serde_json::json!({ "answered": answered }))
}

fn connect(path: &Path, terminal: Option<&Path>, count: u64) -> io::Result<()> {
    let terminal = terminal.map(open_slave).transpose()?;
    let mut server = UnixStream::connect(path)?;
    truth::ready()?;
    for _ in 0..count {
        server.write_all(b"ask")?;
        let _ = server.read(&mut [0; 16])?;
        if let Some(terminal) = &terminal {
            rustix::io::write(terminal, b".")?;
        }
        thread::sleep(Duration::from_millis(10));
    }
    truth::done(&serde_json::json!({ "asked": count }))
}
