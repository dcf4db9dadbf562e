//! Scheduling class and cgroup of a process, set from outside.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::procfs;

/// How the kernel shall schedule a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// SCHED_OTHER with this nice value.
    Nice(i32),
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO with this priority.
    Fifo(i32),
}

impl Class {
    /// Sets it for every thread that process `pid` has now.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set(self, pid: u32) -> io::Result<()> {
        for tid in procfs::threads(pid) {
            let tid = i32::try_from(tid).map_err(io::Error::other)?;
            let (policy, sched_priority) = match self {
                Class::Nice(_) => (libc::SCHED_OTHER, 0),
                Class::Idle => (libc::SCHED_IDLE, 0),
                Class::Fifo(priority) => (libc::SCHED_FIFO, priority),
            };
            let param = libc::sched_param { sched_priority };
            // SAFETY: the kernel reads one sched_param, which lives through the call.
            if unsafe { libc::sched_setscheduler(tid, policy, &raw const param) } != 0 {
                return Err(io::Error::last_os_error());
            }
            if let Class::Nice(nice) = self {
                // SAFETY: three integers; on Linux it takes a thread id.
                let set =
                    unsafe { libc::setpriority(libc::PRIO_PROCESS, tid.unsigned_abs(), nice) };
                if set != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
        }
        Ok(())
    }
}

/// A cgroup (version 2) with a CPU quota.
#[derive(Debug)]
pub struct Quota(PathBuf);

impl Quota {
    /// Makes it: so many µs of CPU in each period of so many.
    ///
    /// # Errors
    /// No cgroup2 with a cpu controller at `/sys/fs/cgroup`.
    pub fn new(name: &str, quota_us: u32, period_us: u32) -> io::Result<Quota> {
        let root = Path::new("/sys/fs/cgroup");
        fs::write(root.join("cgroup.subtree_control"), "+cpu")?;
        let dir = root.join(name);
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("cpu.max"), format!("{quota_us} {period_us}"))?;
        Ok(Quota(dir))
    }

    /// Puts process `pid` in.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn take(&self, pid: u32) -> io::Result<()> {
        fs::write(self.0.join("cgroup.procs"), pid.to_string())
    }
}
