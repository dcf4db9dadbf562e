//! One look at the whole system: all processes, all PTYs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::proc::{ProcDir, Process, pids};
use super::pty::{self, Pty, Side};
use super::users::Users;

/// All processes and PTYs at one moment, as far as we may see them.
#[derive(Debug, Default, Clone)]
pub struct Survey {
    /// By pid.
    pub processes: BTreeMap<u32, Process>,
    /// Ascending by devpts instance and index.
    pub ptys: Vec<Pty>,
    /// Processes whose descriptors we may not read: without root, other users'.
    pub refused: usize,
}

impl Survey {
    /// Looks. Costs a few file reads a process and one call a file descriptor.
    ///
    /// # Errors
    /// `/proc` is not mounted or not readable, or that of another pid namespace.
    pub fn take() -> io::Result<Self> {
        let mut users = Users::default();
        let mut processes = BTreeMap::new();
        for pid in pids()? {
            // Vanished meanwhile: not there.
            let Ok(process) = ProcDir::open(pid).and_then(|p| p.process(&mut users)) else {
                continue;
            };
            processes.insert(pid, process);
        }
        if !processes.contains_key(&std::process::id()) {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "/proc does not show even phux-trace itself: mount it (mount -t proc proc /proc), the one \
                 of this pid namespace",
            ));
        }
        let visible = processes.values().filter(|p| !p.kernel_thread && !p.zombie);
        let scan = pty::scan(visible.map(|p| (p.pid, p.comm.as_str())));
        Ok(Self {
            processes,
            ptys: scan.ptys,
            refused: scan.refused,
        })
    }

    /// The PTYs of which a process holds an end.
    pub fn ptys_of(&self, pid: u32) -> impl Iterator<Item = &Pty> {
        self.ptys
            .iter()
            .filter(move |p| p.held_by(pid, Side::Master) || p.held_by(pid, Side::Slave))
    }

    /// Whether a process holds a PTY master.
    pub fn holds_master(&self, pid: u32) -> bool {
        self.ptys.iter().any(|p| p.held_by(pid, Side::Master))
    }

    /// Pids of all processes that hold an end of a PTY, ascending.
    pub fn holders(&self) -> BTreeSet<u32> {
        self.ptys
            .iter()
            .flat_map(|p| p.master.iter().chain(&p.slave))
            .map(|h| h.pid)
            .collect()
    }

    /// Direct children of a process, ascending.
    pub fn children(&self, pid: u32) -> impl Iterator<Item = &Process> {
        self.processes.values().filter(move |p| p.ppid == pid)
    }

    /// Whether `/proc` keeps other users' processes from us (mount option `hidepid`): every pid namespace has a
    /// process 1, and we do not see it.
    pub fn is_hidden(&self) -> bool {
        !self.processes.contains_key(&1)
    }

    /// Whether the PTYs come from more than one devpts instance, so that an index alone could be
    /// misread.
    pub fn several_devpts(&self) -> bool {
        self.ptys
            .windows(2)
            .any(|pair| matches!(pair, [a, b] if a.devpts != b.devpts))
    }
}
