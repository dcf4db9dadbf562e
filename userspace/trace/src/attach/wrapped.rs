//! Starts the command behind `--` so that not one of its instructions goes untraced.
//!
//! phux-trace starts itself first, as a shim that waits for a word on a pipe and then
//! execs the command: the pid is known, and traced, before the command begins.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};

use crate::say;

/// Name of the hidden command that is the shim.
pub const SHIM: &str = "exec-when-told";

/// How long a command may take to end after SIGTERM, before SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// What a shell says of a command that is not there, and of one that cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// A command that is started, or about to be.
#[derive(Debug)]
pub(crate) struct Wrapped {
    child: tokio::process::Child,
    pid: u32,
    go: Option<std::io::PipeWriter>,
}

impl Wrapped {
    /// Starts the shim. Within a tokio runtime.
    pub(crate) fn prepare(command: &[OsString]) -> Result<Wrapped> {
        let (wait, go) = std::io::pipe().context("a pipe")?;
        // The shim inherits the reading end, and only that one.
        fcntl_setfd(&wait, FdFlags::empty()).context("a pipe for the shim")?;
        let child = tokio::process::Command::new("/proc/self/exe")
            .arg(SHIM)
            .arg(wait.as_raw_fd().to_string())
            .args(command)
            .spawn()
            .context("starting the command's shim")?;
        let Some(pid) = child.id() else {
            bail!("the command's shim ended at once")
        };
        Ok(Wrapped {
            child,
            pid,
            go: Some(go),
        })
    }

    /// Its pid, the shim's and the command's alike.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets the command begin.
    pub(crate) fn go(&mut self) -> Result<()> {
        if let Some(mut go) = self.go.take() {
            go.write_all(b"go").context("the command's shim is gone")?;
        }
        Ok(())
    }

    /// Until it ends.
    pub(crate) async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Ends it: SIGTERM, and SIGKILL for one that does not listen.
    pub(crate) async fn end(&mut self) -> std::io::Result<ExitStatus> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Ok(status);
        }
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // Not waited for yet, so the pid is still its own.
            let _ = kill_process(pid, Signal::TERM);
        }
        if let Ok(status) = tokio::time::timeout(GRACE, self.child.wait()).await {
            return status;
        }
        self.child.start_kill()?;
        self.child.wait().await
    }
}

/// The shim itself: waits for the word on descriptor `fd`, then becomes `command`.
pub fn shim(fd: i32, command: &[OsString]) -> ExitCode {
    let mut word = [0; 2];
    {
        // SAFETY: our parent left this descriptor open for us alone, and nothing else
        // in this process has touched it.
        let wait = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut wait = std::fs::File::from(wait);
        // The parent is gone, or has thought better of it: nothing to start.
        if wait.read_exact(&mut word).is_err() {
            return ExitCode::FAILURE;
        }
    }
    let Some((program, args)) = command.split_first() else {
        return ExitCode::FAILURE;
    };
    let error = std::process::Command::new(program).args(args).exec();
    say::complain(&format!("{}: {error}", program.to_string_lossy()));
    ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound {
        NOT_FOUND
    } else {
        NOT_EXECUTABLE
    })
}
