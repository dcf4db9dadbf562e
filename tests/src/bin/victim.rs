//! Ground truth for scheduling: a thread that sleeps and wakes, and a hog on the same CPU.
//!
//! The kernel's own account of the victim (`schedstat`, switches) is read while the victim is
//! asleep before its first wake-up and after its last, so that a tracer which was there all the
//! time must find the same numbers.

use std::io::{self, BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use phux_trace_tests::procfs::{Account, sleeps};
use phux_trace_tests::{truth, wait_for};
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use serde::Serialize;

#[derive(Debug, Parser)]
struct Options {
    /// What wakes the victim.
    #[arg(long, value_enum, default_value = "timer")]
    wake: Wake,
    /// How often it is woken.
    #[arg(long, default_value_t = 200)]
    count: u64,
    /// Sleep between wake-ups, µs.
    #[arg(long, default_value_t = 2000)]
    gap_us: u64,
    /// Work after each wake-up, µs of wall time.
    #[arg(long, default_value_t = 50)]
    work_us: u64,
    /// The CPU of victim and hog; the last one allowed when absent.
    #[arg(long)]
    cpu: Option<usize>,
    /// No hog: the victim has the CPU for itself.
    #[arg(long)]
    no_hog: bool,
    /// The hog is a process of its own (`hog`) instead of a thread (`spinner`).
    #[arg(long)]
    hog_process: bool,
    /// The other side of --hog-process: spin until standard input closes.
    #[arg(long, hide = true)]
    spin: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Wake {
    Timer,
    Futex,
    Pipe,
}

#[derive(Debug, Serialize)]
struct Truth {
    cpu: usize,
    /// Wake-ups that were asked for.
    wakes: u64,
    victim: Thread,
    /// The hog, whichever kind it is.
    hog: Option<Thread>,
}

#[derive(Debug, Serialize)]
struct Thread {
    pid: u32,
    tid: u32,
    #[serde(flatten)]
    account: Account,
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    let allowed = sched_getaffinity(None)?;
    let last = (0..CpuSet::MAX_CPU)
        .rfind(|cpu| allowed.is_set(*cpu))
        .unwrap_or(0);
    let cpu = options.cpu.unwrap_or(last);
    if options.spin {
        spin_process(cpu)
    } else {
        run(&options, cpu)
    }
}

fn run(options: &Options, cpu: usize) -> io::Result<()> {
    let pid = std::process::id();
    let mut hog = match (options.no_hog, options.hog_process) {
        (true, _) => None,
        (false, true) => Some(Hog::process(cpu)?),
        (false, false) => Some(Hog::thread(cpu)?),
    };
    let (start, started) = mpsc::channel::<()>();
    let (finish, finished) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let mut bell = Bell::new(options)?;
    let ringer = bell.ringer();
    let rung = Arc::new(AtomicU64::new(0));
    let (gap, work, count) = (
        Duration::from_micros(options.gap_us),
        Duration::from_micros(options.work_us),
        options.count,
    );

    let victim_rung = rung.clone();
    let victim = spawn("victim", cpu, move || {
        let _ = tell.send((my_tid(), thread::current()));
        let _ = started.recv();
        for _ in 0..count {
            bell.sleep(gap)?;
            let until = Instant::now() + work;
            while Instant::now() < until {}
            victim_rung.fetch_add(1, Ordering::Release);
        }
        let _ = finished.recv();
        Ok(())
    })?;
    let (tid, handle) = told.recv().map_err(io::Error::other)?;

    let before = at_rest(pid, tid)?;
    let hog_before = hog.as_ref().map(|h| at_rest(h.pid, h.tid)).transpose()?;
    truth::ready()?;
    if let Some(hog) = &mut hog {
        hog.go()?;
    }
    start.send(()).map_err(io::Error::other)?;
    for nth in 0..count {
        if let Some(ringer) = &ringer {
            // In step: a ring while the victim is awake would wake nobody.
            asleep(pid, tid)?;
            thread::sleep(gap);
            ringer.ring(nth, &handle)?;
        }
        wait_for(Duration::from_secs(60), || {
            (rung.load(Ordering::Acquire) > nth).then_some(())
        })
        .ok_or_else(|| io::Error::other("the victim never woke"))?;
    }
    let account = at_rest(pid, tid)?.since(before);
    let hog_truth = match (&mut hog, hog_before) {
        (Some(hog), Some(before)) => Some(Thread {
            pid: hog.pid,
            tid: hog.tid,
            account: hog.account_at_rest()?.since(before),
        }),
        _ => None,
    };
    let victim_truth = Thread { pid, tid, account };
    truth::done(&Truth {
        cpu,
        wakes: count,
        victim: victim_truth,
        hog: hog_truth,
    })?;
    let _ = finish.send(());
    victim
        .join()
        .map_err(|_| io::Error::other("the victim panicked"))?
}

/// What the victim sleeps on.
enum Bell {
    Timer(OwnedFd),
    Futex(Arc<AtomicU64>),
    Pipe(OwnedFd, Option<Arc<OwnedFd>>),
}

/// The other end of a [`Bell`] that does not ring by itself.
enum Ringer {
    Futex(Arc<AtomicU64>),
    Pipe(Arc<OwnedFd>),
}

impl Bell {
    fn new(options: &Options) -> io::Result<Bell> {
        Ok(match options.wake {
            Wake::Timer => Bell::Timer(timerfd_create(
                TimerfdClockId::Monotonic,
                TimerfdFlags::CLOEXEC,
            )?),
            Wake::Futex => Bell::Futex(Arc::default()),
            Wake::Pipe => {
                let (read, write) = rustix::pipe::pipe()?;
                Bell::Pipe(read, Some(Arc::new(write)))
            }
        })
    }

    fn ringer(&mut self) -> Option<Ringer> {
        match self {
            Bell::Timer(_) => None,
            Bell::Futex(rings) => Some(Ringer::Futex(rings.clone())),
            Bell::Pipe(_, write) => write.take().map(Ringer::Pipe),
        }
    }

    fn sleep(&self, gap: Duration) -> io::Result<()> {
        match self {
            Bell::Timer(fd) => {
                let once = Itimerspec {
                    it_interval: Timespec {
                        tv_sec: 0,
                        tv_nsec: 0,
                    },
                    it_value: Timespec {
                        tv_sec: gap.as_secs() as i64,
                        tv_nsec: i64::from(gap.subsec_nanos()),
                    },
                };
                timerfd_settime(fd, TimerfdTimerFlags::empty(), &once)?;
                rustix::io::read(fd, &mut [0; 8])?;
            }
            Bell::Futex(rings) => {
                let seen = rings.load(Ordering::Acquire);
                while rings.load(Ordering::Acquire) == seen {
                    thread::park();
                }
            }
            Bell::Pipe(read, _) => {
                rustix::io::read(read, &mut [0; 1])?;
            }
        }
        Ok(())
    }
}

impl Ringer {
    fn ring(&self, nth: u64, victim: &thread::Thread) -> io::Result<()> {
        match self {
            Ringer::Futex(rings) => {
                rings.store(nth + 1, Ordering::Release);
                victim.unpark();
            }
            Ringer::Pipe(write) => {
                rustix::io::write(write, b".")?;
            }
        }
        Ok(())
    }
}

/// What keeps the CPU busy between [`Hog::go`] and [`Hog::account_at_rest`].
struct Hog {
    pid: u32,
    tid: u32,
    spin: Spin,
}

enum Spin {
    Thread {
        state: Arc<AtomicU32>,
        handle: thread::JoinHandle<io::Result<()>>,
    },
    Process(Child),
}

/// States of the spinning thread.
const PARKED: u32 = 0;
const SPINNING: u32 = 1;
const RESTING: u32 = 2;

impl Hog {
    fn thread(cpu: usize) -> io::Result<Hog> {
        let state = Arc::new(AtomicU32::new(PARKED));
        let (tell, told) = mpsc::channel();
        let shared = state.clone();
        let handle = spawn("spinner", cpu, move || {
            let _ = tell.send(my_tid());
            while shared.load(Ordering::Acquire) == PARKED {
                thread::park();
            }
            while shared.load(Ordering::Relaxed) == SPINNING {
                std::hint::spin_loop();
            }
            // Stay, asleep: a tracer reads the thread's account too.
            loop {
                thread::park();
            }
        })?;
        let tid = told.recv().map_err(io::Error::other)?;
        Ok(Hog {
            pid: std::process::id(),
            tid,
            spin: Spin::Thread { state, handle },
        })
    }

    fn process(cpu: usize) -> io::Result<Hog> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--spin", "--cpu", &cpu.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        // Its first line comes when it is pinned; only then is being asleep the state at rest.
        let stdout = child
            .stdout
            .take()
            .ok_or_else(|| io::Error::other("no output"))?;
        BufReader::new(stdout).read_line(&mut String::new())?;
        Ok(Hog {
            pid: child.id(),
            tid: child.id(),
            spin: Spin::Process(child),
        })
    }

    fn go(&mut self) -> io::Result<()> {
        match &mut self.spin {
            Spin::Thread { state, handle } => {
                state.store(SPINNING, Ordering::Release);
                handle.thread().unpark();
                Ok(())
            }
            Spin::Process(child) => say(child, b"g"),
        }
    }

    fn account_at_rest(&mut self) -> io::Result<Account> {
        match &mut self.spin {
            Spin::Thread { state, .. } => state.store(RESTING, Ordering::Release),
            Spin::Process(child) => say(child, b"r")?,
        }
        at_rest(self.pid, self.tid)
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        if let Spin::Process(child) = &mut self.spin {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

fn say(child: &mut Child, word: &[u8]) -> io::Result<()> {
    let stdin = child
        .stdin
        .as_mut()
        .ok_or_else(|| io::Error::other("the hog has no input"))?;
    io::Write::write_all(stdin, word)
}

/// The hog as a process: `g` on standard input starts it, `r` lets it rest, the end ends it.
fn spin_process(cpu: usize) -> io::Result<()> {
    rustix::thread::set_name(c"hog")?;
    pin(cpu)?;
    println!("pinned");
    let stdin = rustix::stdio::stdin();
    let mut word = [0];
    while rustix::io::read(stdin, &mut word)? == 1 {
        if word == *b"g" {
            rustix::io::ioctl_fionbio(stdin, true)?;
            // Spin in user space; look for the next word a few hundred times a second.
            while rustix::io::read(stdin, &mut word) == Err(rustix::io::Errno::AGAIN) {
                let until = Instant::now() + Duration::from_millis(3);
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
            }
            rustix::io::ioctl_fionbio(stdin, false)?;
        }
    }
    Ok(())
}

fn spawn(
    name: &str,
    cpu: usize,
    body: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<thread::JoinHandle<io::Result<()>>> {
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        pin(cpu)?;
        body()
    })
}

fn pin(cpu: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu);
    Ok(sched_setaffinity(None, &only)?)
}

fn my_tid() -> u32 {
    gettid().as_raw_nonzero().get().unsigned_abs()
}

fn asleep(pid: u32, tid: u32) -> io::Result<()> {
    wait_for(Duration::from_secs(60), || sleeps(pid, tid).then_some(()))
        .ok_or_else(|| io::Error::other(format!("thread {tid} does not come to rest")))
}

/// The account of a thread that sleeps and has been switched out: it does not move any more.
fn at_rest(pid: u32, tid: u32) -> io::Result<Account> {
    let mut last = None;
    wait_for(Duration::from_secs(60), || {
        let now = Account::of(pid, tid).ok()?;
        (last.replace(now) == Some(now) && sleeps(pid, tid)).then_some(now)
    })
    .ok_or_else(|| io::Error::other(format!("thread {tid} does not come to rest")))
}
