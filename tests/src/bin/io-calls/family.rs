//! Other processes: one forked, which uses the same numbers for other files; one that execs, with a
//! descriptor that it keeps and one that it must not.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;

use phux_trace_tests::calls::ThreadLog;

use crate::worker::{NONE, Worker, c, int, sys};

const CREATE: usize = (libc::O_CREAT | libc::O_RDWR) as usize;

/// A process, and where its log comes from.
pub(crate) struct Child {
    pid: libc::pid_t,
    logs: File,
}

fn send(log: &ThreadLog, to: i32) -> io::Result<()> {
    // SAFETY: a descriptor that this process has for that and nothing else.
    let mut out = unsafe { File::from_raw_fd(to) };
    serde_json::to_writer(&mut out, log)?;
    out.write_all(b"\n")
}

/// What a child says that it did.
pub(crate) fn logs(child: Child) -> io::Result<Vec<ThreadLog>> {
    let Child { pid, mut logs } = child;
    let mut text = String::new();
    logs.read_to_string(&mut text)?;
    // SAFETY: a child of ours.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    let parsed: Result<Vec<ThreadLog>, _> = text.lines().map(serde_json::from_str).collect();
    Ok(parsed?)
}

impl Worker {
    /// Forks one that stays this program, and one that becomes it anew.
    pub(crate) fn children(&mut self) -> io::Result<Vec<Child>> {
        let (kept, path) = (self.open("kept", CREATE), self.path("kept"));
        self.write(kept, b"kept by two", Some(&path));
        self.call(sys!(lseek, SYS_lseek), [int(kept), 0, 0], Some(&path));
        let cloexec = self.open("cloexec", CREATE | libc::O_CLOEXEC as usize);
        let forked = self.fork(|worker| worker.forked(kept, &path))?;
        // They share one position: what the first read, the second does not. So they come in turn.
        // SAFETY: waits for the child and leaves it to be waited for.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let options = libc::WEXITED | libc::WNOWAIT;
            libc::waitid(libc::P_PID, forked.pid as u32, &raw mut info, options);
        }
        let dir = self.dir.clone();
        let execed = self.fork_to_exec(&dir, kept, cloexec)?;
        self.close(cloexec, Some(&self.path("cloexec")));
        self.close(kept, Some(&path));
        Ok(vec![forked, execed])
    }

    /// A pipe for a child's log.
    fn pipe(&mut self) -> io::Result<[i32; 2]> {
        let mut ends = [0; 2];
        let at = ends.as_mut_ptr() as usize;
        match self.call(sys!(pipe2, SYS_pipe2), [at, 0], NONE) {
            0 => Ok(ends),
            errno => Err(io::Error::from_raw_os_error(-errno as i32)),
        }
    }

    fn fork(&mut self, work: impl FnOnce(&mut Worker)) -> io::Result<Child> {
        let [read, write] = self.pipe()?;
        // SAFETY: this program has one thread now, so that the child can do what it likes.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let mut worker = Worker::mark(&self.dir);
            work(&mut worker);
            let sent = send(&worker.end(), write);
            // SAFETY: ends this process at once, without what its parent would do at its end.
            unsafe { libc::_exit(i32::from(sent.is_err())) };
        }
        self.let_go(write);
        // SAFETY: nobody else has this end.
        let logs = unsafe { File::from_raw_fd(read) };
        Ok(Child { pid, logs })
    }

    /// The end of a pipe whose name is not to be known.
    fn let_go(&mut self, end: i32) {
        self.close(i64::from(end), Some("pipe:"));
    }

    fn forked(&mut self, kept: i64, path: &str) {
        self.read(kept, 4, Some(path));
        // The number means another file here than in the parent.
        self.close(kept, Some(path));
        let same = self.open("of-the-child", CREATE);
        assert_eq!(same, kept, "the lowest number is free again");
        let own = self.path("of-the-child");
        self.write(same, b"12", Some(&own));
        self.close(same, Some(&own));
    }

    fn fork_to_exec(&mut self, dir: &str, kept: i64, cloexec: i64) -> io::Result<Child> {
        let [read, write] = self.pipe()?;
        let words = [
            "/proc/self/exe".to_owned(),
            "--dir".into(),
            dir.into(),
            "--after-exec".into(),
            format!("{kept},{cloexec},{write}"),
        ];
        let words: Vec<_> = words.iter().map(|w| c(w)).collect();
        let mut argv: Vec<*const libc::c_char> = words.iter().map(|w| w.as_ptr()).collect();
        argv.push(std::ptr::null());
        // SAFETY: as above.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: the words live, and the list ends with a null.
            unsafe {
                libc::execv(argv[0], argv.as_ptr());
                libc::_exit(1);
            }
        }
        self.let_go(write);
        // SAFETY: nobody else has this end.
        let logs = unsafe { File::from_raw_fd(read) };
        Ok(Child { pid, logs })
    }
}

/// The other side of the exec.
pub(crate) fn after_exec(dir: &str, kept: i32, cloexec: i32, log: i32) -> io::Result<()> {
    let mut worker = Worker::mark(dir);
    let kept_path = worker.path("kept");
    worker.read(i64::from(kept), 64, Some(&kept_path));
    // It was closed on the way.
    worker.read(i64::from(cloexec), 1, NONE);
    let fresh = worker.open("fresh", CREATE);
    let path = worker.path("fresh");
    worker.write(fresh, b"fresh", Some(&path));
    worker.close(fresh, Some(&path));
    worker.close(i64::from(kept), Some(&kept_path));
    send(&worker.end(), log)
}
