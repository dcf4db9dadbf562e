//! Scheduling class of a process, set from outside.

use std::io;

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
    /// That of thread `tid`.
    ///
    /// # Errors
    /// The thread is gone, or is of another class than these.
    pub fn of(tid: u32) -> io::Result<Class> {
        let pid = i32::try_from(tid).map_err(io::Error::other)?;
        let mut param = libc::sched_param { sched_priority: 0 };
        // SAFETY: the first takes integers, the second writes one sched_param.
        let policy = unsafe {
            match libc::sched_getparam(pid, &raw mut param) {
                0 => libc::sched_getscheduler(pid),
                _ => -1,
            }
        };
        match policy {
            libc::SCHED_OTHER => {
                let of = rustix::process::Pid::from_raw(pid);
                Ok(Class::Nice(rustix::process::getpriority_process(of)?))
            }
            libc::SCHED_IDLE => Ok(Class::Idle),
            libc::SCHED_FIFO => Ok(Class::Fifo(param.sched_priority)),
            -1 => Err(io::Error::last_os_error()),
            other => Err(io::Error::other(format!("policy {other}"))),
        }
    }

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
