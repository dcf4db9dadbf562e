//! Why there is no target, told so that the next step is clear.

use std::fmt;

use crate::escape::{name, visible};

/// A process that could have been meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its user.
    pub user: String,
    /// PTYs of which it holds an end.
    pub ptys: usize,
}

/// Candidates, one a line, at most 20.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Candidates(pub Vec<Candidate>);

impl fmt::Display for Candidates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 20;
        for c in self.0.iter().take(SHOWN) {
            let name = name(&c.name);
            let s = if c.ptys == 1 { "" } else { "s" };
            write!(
                f,
                "\n  {:>7}  {name:<16} {:<12} {} PTY{s}",
                c.pid,
                visible(&c.user),
                c.ptys
            )?;
        }
        if self.0.len() > SHOWN {
            write!(
                f,
                "\n  and {} more: see phux-trace list",
                self.0.len() - SHOWN
            )?;
        }
        Ok(())
    }
}

/// Why there is no target. Each message names the cause and the next step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The number cannot be a pid.
    #[error(
        "{typed} is no pid: pids on this system are 1 to {max}. `phux-trace list` shows those with PTYs"
    )]
    NotAPid {
        /// What was typed.
        typed: u64,
        /// Highest pid.
        max: u32,
    },
    /// No such process that we could see.
    #[error("no process has pid {pid}; it may have ended. `phux-trace list` shows those with PTYs")]
    NoSuchPid {
        /// What was typed.
        pid: u32,
    },
    /// The pid exists in a nested pid namespace only.
    #[error(
        "no process has pid {pid} here, but inside another pid namespace (a container) {pid} is one of these; use the pid that is shown:{candidates}"
    )]
    OtherNamespace {
        /// What was typed.
        pid: u32,
        /// Who has that pid inside a namespace.
        candidates: Candidates,
    },
    /// The process exists but `/proc` hides it.
    #[error(
        "process {pid} exists, but /proc hides it from this user (mount option hidepid): run as root (sudo)"
    )]
    Hidden {
        /// What was typed.
        pid: u32,
    },
    /// The process has ended.
    #[error(
        "process {pid} ({name}) has ended and only waits for its parent to notice: name a live one"
    )]
    Ended {
        /// What was typed.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// A kernel thread.
    #[error(
        "{pid} ({name}) is a kernel thread: it holds no PTY. Name the process whose terminal lags; the report tells which kernel threads it waited for"
    )]
    KernelThread {
        /// What was typed.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// phux-trace itself.
    #[error("{pid} is phux-trace itself: name another process")]
    Myself {
        /// What was typed.
        pid: u32,
    },
    /// No process of that name.
    #[error("no process is named \"{name}\" (neither its comm nor its executable).{}{}", known(.candidates), hint(*.hidden))]
    UnknownName {
        /// What was typed.
        name: String,
        /// `/proc` hides other users' processes.
        hidden: bool,
        /// Processes that hold masters.
        candidates: Candidates,
    },
    /// Several users have one.
    #[error("\"{name}\" runs for several users: name one by its pid:{candidates}")]
    SeveralUsers {
        /// What was typed.
        name: String,
        /// The matches.
        candidates: Candidates,
    },
    /// No target given and more than one multiplexer.
    #[error("more than one multiplexer runs: name one, or a pid:{candidates}")]
    SeveralMultiplexers {
        /// Their servers.
        candidates: Candidates,
    },
    /// No target given and no multiplexer.
    #[error("no multiplexer runs that is known by name (phux, tmux, screen, zellij, dtach, abduco).{}{}", known(.candidates), hint(*.hidden))]
    NoMultiplexer {
        /// `/proc` hides other users' processes.
        hidden: bool,
        /// Processes that hold masters.
        candidates: Candidates,
    },
}

fn hint(hidden: bool) -> &'static str {
    if hidden {
        "\n/proc hides other users' processes here (mount option hidepid): sudo shows all"
    } else {
        ""
    }
}

fn known(candidates: &Candidates) -> String {
    if candidates.0.is_empty() {
        let root = rustix::process::geteuid().is_root();
        let hint = if root {
            ""
        } else {
            " that this user may look into; sudo shows all"
        };
        return format!(" No process holds a PTY master{hint}");
    }
    format!(" These hold PTY masters; name one, or its pid:{candidates}")
}
