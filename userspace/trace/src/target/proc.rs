//! Processes and threads as `/proc` shows them.
//!
//! Small readers of our own: what is needed is four files, and each must survive a
//! `comm` that contains `) R 1 1` or a newline, and a process that ends while it is read.
//! All files of one process are opened relative to one open `/proc/PID`, so
//! that a pid that is given to a new process meanwhile yields an error, not a mixture of the two.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Dir, Mode, OFlags, openat, readlinkat};

use super::users::Users;
use crate::report::model::SchedClass;

/// `PF_KTHREAD` of `include/linux/sched.h`: the task is a kernel thread.
const PF_KTHREAD: u64 = 0x0020_0000;

/// Inode of the initial pid namespace: `PROC_PID_INIT_INO` of `include/linux/proc_ns.h`.
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Largest piece of one `/proc` file that is read; `status` of a process in 65,536 groups and
/// `mountinfo` of 10,000 mounts stay below.
const MAX_READ: u64 = 4 << 20;

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process id in the pid namespace of our `/proc`.
    pub pid: u32,
    /// Parent's pid, 0 where it has none here.
    pub ppid: u32,
    /// Name of its main thread, lossily decoded; at most 15 bytes, set by the process itself (not
    /// to be trusted).
    pub comm: String,
    /// Path of its executable inside its own mount namespace; `None` without the privilege to see
    /// it.
    pub exe: Option<PathBuf>,
    /// Real user id.
    pub uid: u32,
    /// User name, or the number where it has none.
    pub user: String,
    /// Number of threads.
    pub threads: u32,
    /// Start, in clock ticks since boot; with `pid` it is an identity that survives pid reuse.
    pub start_ticks: u64,
    /// Its pid in each nested pid namespace, outermost (ours) first; one entry when it is in ours.
    pub nspid: Vec<u32>,
    /// A kernel thread.
    pub kernel_thread: bool,
    /// It has ended and waits for its parent to notice.
    pub zombie: bool,
}

impl Process {
    /// Last component of the executable's path, lossily decoded, without the ` (deleted)` of a replaced binary.
    pub fn exe_name(&self) -> Option<Cow<'_, str>> {
        let name = self.exe.as_ref()?.file_name()?.to_string_lossy();
        Some(match name.strip_suffix(" (deleted)") {
            Some(name) => name.to_owned().into(),
            None => name,
        })
    }

    /// It lives in a pid namespace nested in ours.
    pub fn in_nested_pid_namespace(&self) -> bool {
        self.nspid.len() > 1
    }
}

/// One thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Thread id in the pid namespace of our `/proc`.
    pub tid: u32,
    /// Its name, lossily decoded.
    pub comm: String,
    /// Scheduling class.
    pub sched: SchedClass,
}

/// The fields of a `stat` file that are used here.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stat {
    comm: String,
    state: u8,
    ppid: u32,
    flags: u64,
    nice: i32,
    threads: u32,
    start_ticks: u64,
    rt_priority: u32,
    policy: u32,
}

/// Parses `/proc/PID/stat` (proc_pid_stat(5)). `comm` may hold any byte, `)` included: the last one
/// ends it.
fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let open = bytes.iter().position(|&b| b == b'(')?;
    let close = bytes.iter().rposition(|&b| b == b')')?;
    let comm = String::from_utf8_lossy(bytes.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(bytes.get(close + 1..)?).ok()?;
    // Field 3 (state) is the first of `rest`.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied();
    Some(Stat {
        comm,
        state: *field(3)?.as_bytes().first()?,
        ppid: field(4)?.parse().ok()?,
        flags: field(9)?.parse().ok()?,
        nice: field(19)?.parse().ok()?,
        threads: field(20)?.parse().ok()?,
        start_ticks: field(22)?.parse().ok()?,
        rt_priority: field(40)?.parse().ok()?,
        policy: field(41)?.parse().ok()?,
    })
}

/// Name of a scheduling policy (`include/uapi/linux/sched.h`).
pub fn policy_name(policy: u32) -> String {
    match policy {
        0 => "SCHED_OTHER".into(),
        1 => "SCHED_FIFO".into(),
        2 => "SCHED_RR".into(),
        3 => "SCHED_BATCH".into(),
        5 => "SCHED_IDLE".into(),
        6 => "SCHED_DEADLINE".into(),
        7 => "SCHED_EXT".into(),
        other => format!("SCHED_{other}"),
    }
}

/// An open `/proc/PID`.
#[derive(Debug)]
pub struct ProcDir {
    pid: u32,
    fd: OwnedFd,
}

impl ProcDir {
    /// Opens `/proc/PID`.
    ///
    /// # Errors
    /// `NotFound` when no process has that pid.
    pub fn open(pid: u32) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(format!("/proc/{pid}"), flags, Mode::empty())?;
        Ok(Self { pid, fd })
    }

    /// Reads a file below `/proc/PID`, at most [`MAX_READ`] bytes of it.
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        read_at(self.fd.as_fd(), name)
    }

    /// Opens a directory below `/proc/PID`.
    pub fn open_dir(&self, name: &str) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(&self.fd, name, flags, Mode::empty())?)
    }

    /// Text of a symbolic link below `/proc/PID`.
    pub fn read_link(&self, name: &str) -> io::Result<PathBuf> {
        read_link_at(self.fd.as_fd(), name)
    }

    /// Everything that a [`Process`] holds.
    ///
    /// # Errors
    /// The process has ended, or its files cannot be read or understood.
    pub fn process(&self, users: &mut Users) -> io::Result<Process> {
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "unreadable /proc/PID/stat");
        let stat = parse_stat(&self.read("stat")?).ok_or_else(bad)?;
        let status = self.read("status")?;
        let uid = status_numbers(&status, "Uid")
            .first()
            .copied()
            .unwrap_or(u32::MAX);
        let nspid = status_numbers(&status, "NSpid");
        Ok(Process {
            pid: self.pid,
            ppid: stat.ppid,
            comm: stat.comm,
            exe: self.read_link("exe").ok(),
            uid,
            user: users.name(uid),
            threads: stat.threads,
            start_ticks: stat.start_ticks,
            nspid: if nspid.is_empty() {
                vec![self.pid]
            } else {
                nspid
            },
            kernel_thread: stat.flags & PF_KTHREAD != 0,
            // A leader that has ended before its process's other threads is a zombie alone.
            zombie: matches!(stat.state, b'Z' | b'X') && stat.threads <= 1,
        })
    }

    /// The process that this pid belongs to: another one when the pid is that of a thread.
    pub fn thread_group(&self) -> io::Result<u32> {
        let status = self.read("status")?;
        Ok(status_numbers(&status, "Tgid")
            .first()
            .copied()
            .unwrap_or(self.pid))
    }

    /// Ids of its threads.
    pub fn thread_ids(&self) -> io::Result<Vec<u32>> {
        numbers_in(self.open_dir("task")?.as_fd())
    }

    /// One of its threads.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn thread(&self, tid: u32) -> io::Result<Thread> {
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "unreadable stat of a thread");
        let stat = parse_stat(&self.read(&format!("task/{tid}/stat"))?).ok_or_else(bad)?;
        Ok(Thread {
            tid,
            comm: stat.comm,
            sched: SchedClass {
                policy: policy_name(stat.policy),
                nice: stat.nice,
                rt_priority: stat.rt_priority,
            },
        })
    }

    /// Its threads, ascending; those that end meanwhile are left out.
    pub fn threads(&self) -> io::Result<Vec<Thread>> {
        let mut tids = self.thread_ids()?;
        tids.sort_unstable();
        Ok(tids
            .into_iter()
            .filter_map(|t| self.thread(t).ok())
            .collect())
    }

    /// The words of its command line, at most 64. Its memory is read for that: only where the words
    /// are needed.
    pub fn argv(&self) -> Vec<String> {
        let Ok(bytes) = self.read("cmdline") else {
            return Vec::new();
        };
        bytes
            .split(|&b| b == 0)
            .filter(|word| !word.is_empty())
            .take(64)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect()
    }
}

/// Pids of all processes that `/proc` shows.
///
/// # Errors
/// `/proc` is not mounted or not readable.
pub fn pids() -> io::Result<Vec<u32>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc = rustix::fs::open("/proc", flags, Mode::empty())?;
    numbers_in(proc.as_fd())
}

/// Threads of a process.
///
/// # Errors
/// The process has ended.
pub fn threads(pid: u32) -> io::Result<Vec<Thread>> {
    ProcDir::open(pid)?.threads()
}

/// Direct children of a process, of all its threads. None where the kernel does not tell
/// (CONFIG_PROC_CHILDREN), or the process has ended.
pub fn children(pid: u32) -> Vec<u32> {
    let Ok(process) = ProcDir::open(pid) else {
        return Vec::new();
    };
    let of_thread = |tid: u32| process.read(&format!("task/{tid}/children")).ok();
    let lists = process.thread_ids().unwrap_or_default().into_iter();
    lists
        .filter_map(of_thread)
        .flat_map(|list| {
            let words = String::from_utf8_lossy(&list).into_owned();
            let pids = words.split_ascii_whitespace().map_while(|w| w.parse().ok());
            pids.collect::<Vec<u32>>()
        })
        .collect()
}

/// The process `pid`.
///
/// # Errors
/// The process has ended.
pub fn process(pid: u32) -> io::Result<Process> {
    ProcDir::open(pid)?.process(&mut Users::default())
}

/// Highest pid that this kernel gives out (`kernel.pid_max`), exclusive.
pub fn pid_max() -> u32 {
    std::fs::read_to_string("/proc/sys/kernel/pid_max")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(1 << 22) // PID_MAX_LIMIT of a 64-bit kernel
}

/// Whether we are in the initial pid namespace: only there every process of the host has a pid. In
/// a nested one the kernel side translates, and who is outside has pid 0.
pub fn in_initial_pid_namespace() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|l| l.as_os_str() == INITIAL_PID_NAMESPACE)
}

/// The names in a directory that are numbers.
pub(super) fn numbers_in(dir: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in Dir::read_from(dir)? {
        // A process that ends makes the rest of its directory unreadable; what was read stays true.
        let Ok(entry) = entry else { break };
        if let Some(number) = entry.file_name().to_str().ok().and_then(|n| n.parse().ok()) {
            numbers.push(number);
        }
    }
    Ok(numbers)
}

/// Text of a symbolic link relative to `dir`.
pub(super) fn read_link_at(dir: BorrowedFd<'_>, name: &str) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let target = readlinkat(dir, name, Vec::new())?;
    Ok(std::ffi::OsString::from_vec(target.into_bytes()).into())
}

/// Reads a file relative to `dir`, bounded.
pub(super) fn read_at(dir: BorrowedFd<'_>, name: &str) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = openat(dir, name, flags, Mode::empty())?;
    let mut bytes = Vec::new();
    File::from(fd).take(MAX_READ).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The numbers after `key:` in a `status` file. `Name:` is the first line and has its newlines
/// escaped, so no `comm` can forge a line.
fn status_numbers(status: &[u8], key: &str) -> Vec<u32> {
    let text = String::from_utf8_lossy(status);
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
        .map(|rest| {
            rest.split_ascii_whitespace()
                .map_while(|n| n.parse().ok())
                .collect()
        })
        .unwrap_or_default()
}

/// For [`crate::fuzz`].
pub(crate) fn fuzz(bytes: &[u8]) {
    if let Some(stat) = parse_stat(bytes) {
        assert!(stat.comm.len() <= 3 * bytes.len());
    }
    for key in ["Uid", "NSpid", "Tgid"] {
        assert!(status_numbers(bytes, key).len() <= bytes.len());
    }
}

/// An ordinary process for tests.
#[cfg(test)]
pub(super) fn sample(pid: u32, comm: &str, exe: Option<&str>, uid: u32) -> Process {
    Process {
        pid,
        ppid: 1,
        comm: comm.into(),
        exe: exe.map(Into::into),
        uid,
        user: format!("user{uid}"),
        threads: 1,
        start_ticks: 1,
        nspid: vec![pid],
        kernel_thread: false,
        zombie: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL: &str = "S 7 6392 3471 0 -1 4194304 101 0 0 0 0 0 0 0 20 -5 12 0 80768 3133440 393 18446744073709551615 \
                        1 1 1 0 0 0 0 0 0 0 0 0 17 1 30 1 0 0 0 1 1 1 1 1 1 1 0";

    #[test]
    fn stat_with_a_hostile_name() {
        for comm in [
            "cat",
            ") R 1 1 (",
            "a\nb c",
            "",
            "((((",
            "tmux: server",
            "\u{1b}[31m",
        ] {
            let text = format!("4242 ({comm}) {TAIL}");
            let stat = parse_stat(text.as_bytes()).expect(comm);
            assert_eq!(stat.comm, comm);
            assert_eq!((stat.ppid, stat.nice, stat.threads), (7, -5, 12));
            assert_eq!(
                (stat.start_ticks, stat.rt_priority, stat.policy),
                (80768, 30, 1)
            );
        }
        let mut bytes = b"1 (".to_vec();
        bytes.extend([0xff, 0xfe, b')', b' ']);
        bytes.extend(TAIL.as_bytes());
        assert_eq!(
            parse_stat(&bytes).expect("not UTF-8").comm,
            "\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn stat_that_is_cut_anywhere_is_refused_or_read() {
        let text = format!("4242 (a b) {TAIL}");
        for end in 0..text.len() {
            let _ = parse_stat(&text.as_bytes()[..end]);
        }
        assert_eq!(parse_stat(b""), None);
        assert_eq!(parse_stat(b")("), None);
    }

    #[test]
    fn own_process_and_a_named_thread() {
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let named = std::thread::Builder::new().name(") R 0 0 (".into());
        let handle = named.spawn(move || told.recv()).expect("thread");
        let me = process(std::process::id()).expect("own process");
        assert_eq!(me.pid, std::process::id());
        assert!(me.threads >= 2);
        assert!(!me.kernel_thread && !me.zombie);
        assert_eq!(me.exe, std::env::current_exe().ok());
        assert_eq!(me.nspid.first(), Some(&me.pid));
        // The thread names itself once it runs: wait for that.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let found = loop {
            let all = threads(me.pid).expect("own threads");
            if let Some(t) = all.into_iter().find(|t| t.comm == ") R 0 0 (") {
                break t;
            }
            assert!(
                std::time::Instant::now() < deadline,
                "the thread never showed"
            );
            std::thread::yield_now();
        };
        assert_eq!(found.sched.rt_priority, 0);
        drop(tell);
        let _ = handle.join();
    }

    #[test]
    fn thousands_of_threads_are_ordinary() {
        let barrier = std::sync::Arc::new(std::sync::Barrier::new(2_001));
        let handles: Vec<_> = (0..2_000)
            .map(|_| {
                let barrier = barrier.clone();
                let small = std::thread::Builder::new().stack_size(16 * 1024);
                small.spawn(move || barrier.wait()).expect("thread")
            })
            .collect();
        assert!(threads(std::process::id()).expect("threads").len() >= 2_000);
        barrier.wait();
        for handle in handles {
            handle.join().expect("joins");
        }
    }

    #[test]
    fn a_pid_that_nobody_has() {
        let error = process(u32::MAX).expect_err("no such pid");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
