//! Programs run by a user without privileges.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::bins::bin;

/// The user: nobody. It owns no file of the system, and no process.
pub const UID: u32 = 65534;

/// A folder of that user's, with copies of our programs, which may stand where nobody may look.
#[derive(Debug)]
pub struct Nobody {
    dir: TempDir,
}

impl Nobody {
    /// Copies these programs of the workspace.
    pub fn with(programs: &[&str]) -> Nobody {
        let nobody = Nobody {
            dir: TempDir::new().expect("a folder"),
        };
        let dir = nobody.dir.path();
        fs::set_permissions(dir, Permissions::from_mode(0o755)).expect("chmod");
        for program in programs {
            fs::copy(bin(program), dir.join(program)).expect("a copy");
        }
        let home = nobody.home();
        fs::create_dir(&home).expect("a home");
        fs::set_permissions(&home, Permissions::from_mode(0o700)).expect("chmod");
        chown(&home, Some(UID), Some(UID)).expect("chown");
        nobody
    }

    /// A folder that the user may write to, and nobody else.
    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// Where the copy of a program is.
    pub fn path(&self, program: &str) -> PathBuf {
        self.dir.path().join(program)
    }

    /// Runs `program`, one of the copies or any of the system's, as that user, with these options of
    /// setpriv(1) besides.
    pub fn command_with(&self, setpriv: &[&str], program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .args(setpriv)
            .arg("--")
            .arg(match self.path(program) {
                copy if copy.exists() => copy,
                _ => Path::new(program).to_owned(),
            })
            .env("HOME", self.home())
            .env("TMUX_TMPDIR", self.home())
            .env("TERM", "xterm")
            // Its shell of passwd(5) refuses everything; tmux and script ask for that one.
            .env("SHELL", "/bin/sh")
            .env_remove("TMUX")
            .current_dir(self.home());
        command
    }

    /// The same without options.
    pub fn command(&self, program: &str) -> Command {
        self.command_with(&[], program)
    }
}

/// The ambient capabilities that a systemd unit gives, as options of setpriv(1) want them: `+bpf,+perfmon`.
pub fn capabilities_of(unit: &str) -> String {
    let caps = unit
        .lines()
        .find_map(|l| l.strip_prefix("AmbientCapabilities="))
        .expect("a line");
    let caps: Vec<String> = caps
        .split_ascii_whitespace()
        .map(|c| format!("+{}", c.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    caps.join(",")
}
