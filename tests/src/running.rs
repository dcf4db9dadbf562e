//! A child process that cannot outlive its test.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::wait::wait_for;

/// A child in a process group of its own; the whole group is killed on drop.
///
/// Its standard output is read line by line into memory, its standard error kept whole: neither
/// pipe can fill and stall it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
    what: String,
}

impl Running {
    /// Starts `command` with all three standard streams piped.
    pub fn start(command: &mut Command) -> Running {
        let what = format!("{command:?}");
        let mut child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut stderr = child.stderr.take().expect("stderr is piped");
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Running {
            stdin: child.stdin.take(),
            child,
            lines,
            stderr: Some(stderr),
            what,
        }
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of standard output; panics when none comes in time, with what it said instead.
    pub fn line(&mut self, deadline: Duration) -> String {
        match self.lines.recv_timeout(deadline) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("{}: no line within {deadline:?}", self.what),
            Err(RecvTimeoutError::Disconnected) => {
                let _ = self.child.wait();
                let stderr = self.take_stderr();
                panic!("{}: ended without the awaited line: {stderr}", self.what)
            }
        }
    }

    /// The next line of standard output, if it comes within this time.
    pub fn try_line(&mut self, deadline: Duration) -> Option<String> {
        self.lines.recv_timeout(deadline).ok()
    }

    /// Writes one line to standard input.
    pub fn say(&mut self, text: &str) {
        let stdin = self
            .stdin
            .as_mut()
            .unwrap_or_else(|| panic!("{}: stdin closed", self.what));
        writeln!(stdin, "{text}").unwrap_or_else(|e| panic!("{}: {e}", self.what));
    }

    /// Writes bytes to standard input, without a line's end.
    pub fn say_raw(&mut self, bytes: &[u8]) {
        let stdin = self
            .stdin
            .as_mut()
            .unwrap_or_else(|| panic!("{}: stdin closed", self.what));
        stdin
            .write_all(bytes)
            .and_then(|()| stdin.flush())
            .unwrap_or_else(|e| panic!("{}: {e}", self.what));
    }

    /// Closes standard input: end of file for the child.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Sends a signal to the child alone.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid() as i32) {
            // It may have ended by itself, which is as good.
            let _ = kill_process(pid, signal);
        }
    }

    /// True while it has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end; gives the exit status, the rest of standard output, and standard error.
    pub fn end(mut self, deadline: Duration) -> Ended {
        let status = wait_for(deadline, || self.child.try_wait().ok().flatten())
            .unwrap_or_else(|| panic!("{}: still runs after {deadline:?}", self.what));
        // A grandchild may hold the pipes open: kill the group before reading to their ends.
        self.kill_group();
        let stdout = self.lines.iter().collect();
        let stderr = self.take_stderr();
        Ended {
            status,
            stdout,
            stderr,
        }
    }

    fn take_stderr(&mut self) -> String {
        self.kill_group();
        self.stderr
            .take()
            .and_then(|t| t.join().ok())
            .unwrap_or_default()
    }

    fn kill_group(&self) {
        if let Some(pid) = Pid::from_raw(self.pid() as i32) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill_group();
        let _ = self.child.wait();
    }
}

/// How a [`Running`] ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit status.
    pub status: ExitStatus,
    /// Lines of standard output that nobody had taken.
    pub stdout: Vec<String>,
    /// All of standard error.
    pub stderr: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs;

    const SOON: Duration = Duration::from_secs(10);

    #[test]
    fn drop_kills_the_grandchildren() {
        let mut sh = Running::start(Command::new("sh").args(["-c", "sleep 1000 & echo $!; wait"]));
        let grandchild: u32 = sh.line(SOON).parse().expect("a pid");
        assert!(procfs::is_alive(grandchild));
        drop(sh);
        wait_for(SOON, || (!procfs::is_alive(grandchild)).then_some(())).expect("killed");
    }

    #[test]
    fn end_gives_status_and_both_streams() {
        let mut sh = Running::start(
            Command::new("sh").args(["-c", "read x; echo got $x; echo no >&2; exit 3"]),
        );
        sh.say("it");
        let ended = sh.end(SOON);
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!(ended.stdout, ["got it"]);
        assert_eq!(ended.stderr, "no\n");
    }
}
