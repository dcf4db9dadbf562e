//! Ways to make a program slow from outside, each undone on drop.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::bins::bin;
use crate::classes::Class;
use crate::procfs;
use crate::running::Running;
use crate::wait::wait_for;

const SOON: Duration = Duration::from_secs(20);

/// Lets every thread that process `pid` has now run on these CPUs only.
pub fn pin(pid: u32, cpus: &[usize]) {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    for tid in procfs::threads(pid) {
        sched_setaffinity(Pid::from_raw(tid.cast_signed()), &set)
            .unwrap_or_else(|e| panic!("affinity of {tid} of {pid}: {e}"));
    }
}

/// The program `hog`, computing.
#[derive(Debug)]
pub struct Hog(Running);

impl Hog {
    /// Starts it with these options, see `hog --help`.
    pub fn start(options: &[&str]) -> Hog {
        let mut running = Running::start(Command::new(bin("hog")).args(options));
        let ready = running.line(SOON);
        assert_eq!(ready, format!("ready {}", running.pid()));
        Hog(running)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }
}

/// A cgroup of its own that some processes are in.
#[derive(Debug)]
pub struct Cgroup {
    dir: PathBuf,
    back: PathBuf,
    pids: Vec<u32>,
}

impl Cgroup {
    /// Puts these into a new cgroup that may use `quota` of CPU time in each `period`.
    pub fn with_quota(pids: &[u32], quota: Duration, period: Duration) -> Cgroup {
        let (quota, period) = (quota.as_micros(), period.as_micros());
        let cgroup = Cgroup::new(pids);
        if cgroup.dir.join("cpu.cfs_quota_us").exists() {
            cgroup.set("cpu.cfs_period_us", &period.to_string());
            cgroup.set("cpu.cfs_quota_us", &quota.to_string());
        } else {
            cgroup.set("cpu.max", &format!("{quota} {period}"));
        }
        cgroup
    }

    fn new(pids: &[u32]) -> Cgroup {
        // Version 1, where the machine has the CPU controller there; else version 2.
        let v1 = Path::new("/sys/fs/cgroup/cpu");
        let root = if v1.join("cpu.shares").exists() || v1.join("cpu.cfs_quota_us").exists() {
            v1
        } else {
            let root = Path::new("/sys/fs/cgroup");
            // Fails where it is delegated already, and then is not needed.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+cpu");
            root
        };
        let dir = root.join(format!("phux-trace-test-{}", std::process::id()));
        fs::create_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        let cgroup = Cgroup {
            dir,
            back: root.join("cgroup.procs"),
            pids: pids.to_vec(),
        };
        for pid in pids {
            cgroup.set("cgroup.procs", &pid.to_string());
        }
        cgroup
    }

    /// How long its tasks have been throttled, as the kernel counts it.
    pub fn throttled(&self) -> Duration {
        let stat = fs::read_to_string(self.dir.join("cpu.stat")).expect("cpu.stat");
        let value = |name: &str| -> Option<u64> {
            let line = stat.lines().find_map(|l| l.strip_prefix(name))?;
            line.trim().parse().ok()
        };
        let ns = value("throttled_time ").map(Duration::from_nanos);
        ns.or_else(|| value("throttled_usec ").map(Duration::from_micros))
            .unwrap_or_else(|| panic!("{stat}"))
    }

    fn set(&self, file: &str, value: &str) {
        let path = self.dir.join(file);
        fs::write(&path, value).unwrap_or_else(|e| panic!("{} = {value}: {e}", path.display()));
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for pid in &self.pids {
            let _ = fs::write(&self.back, pid.to_string());
        }
        // Not as long as somebody is in it, and who ends takes a moment.
        let _ = wait_for(SOON, || fs::remove_dir(&self.dir).ok());
    }
}

/// The kernel's unbound workers, those that flush PTYs among them, on some CPUs only.
#[derive(Debug)]
pub struct Kworkers {
    before: String,
}

const KWORKER_CPUS: &str = "/sys/devices/virtual/workqueue/cpumask";

impl Kworkers {
    /// Confines them to one CPU.
    pub fn only_on(cpu: usize) -> Kworkers {
        let before = fs::read_to_string(KWORKER_CPUS).expect("a workqueue mask");
        fs::write(KWORKER_CPUS, format!("{:x}", 1u64 << cpu)).expect("a workqueue mask");
        Kworkers { before }
    }
}

impl Drop for Kworkers {
    fn drop(&mut self) {
        let _ = fs::write(KWORKER_CPUS, self.before.trim());
    }
}

/// The kernel's unbound workers before everybody of the ordinary classes, so that no stranger is in
/// their way. Those that the kernel makes later are not.
#[derive(Debug)]
pub struct Favoured(Vec<u32>);

impl Favoured {
    /// All that are there now get this class.
    pub fn kworkers(class: Class) -> Favoured {
        let ordinary = procfs::kworkers()
            .into_iter()
            .filter(|pid| Class::of(*pid).is_ok_and(|class| class == Class::Nice(0)));
        // One may have ended.
        Favoured(ordinary.filter(|pid| class.set(*pid).is_ok()).collect())
    }
}

impl Drop for Favoured {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = Class::Nice(0).set(*pid);
        }
    }
}
