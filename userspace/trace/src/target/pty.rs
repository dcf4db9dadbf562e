//! PTY topology: which process holds which end of which PTY.
//!
//! A file descriptor is a PTY master when its device number is 5:2 (`/dev/ptmx`,
//! `/dev/pts/ptmx`); the index stands in `/proc/PID/fdinfo/N` as `tty-index`. It
//! is a slave when its major is 136–143.
//!
//! An index alone is no identity: each devpts instance (container) counts from
//! 0. The identity is (device number of the devpts instance, index).
//! - A slave's inode lives in its instance: `st_dev` tells it.
//! - A master opened through `/dev/pts/ptmx` (what containers do) lives there too.
//! - A master opened through a `ptmx` node outside devpts (devtmpfs, so most hosts) belongs to the
//!   devpts that the kernel found mounted at `pts` beside that node (`path_pts` in `fs/namei.c`).
//!   We look at the same place: `mnt_id` of the descriptor names the mount, a process whose mount
//!   namespace has that mount gives the view, and `pts` beside the node is looked at through that
//!   process's root. That also holds for a descriptor that was passed in from another namespace.
//!   What it misses is a devpts mounted over another one after the PTY was opened.
//!
//! A process that only has a PTY as its controlling terminal, or holds it through `/dev/tty` (5:0),
//! is not counted: those name no instance.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags, makedev, statx};

use super::proc::{ProcDir, numbers_in, read_link_at};

/// `DEVPTS_SUPER_MAGIC` of `include/uapi/linux/magic.h`.
const DEVPTS_SUPER_MAGIC: u64 = 0x1cd1;

/// A PTY and who holds its ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pty {
    /// The number in `/dev/pts/N`.
    pub index: u32,
    /// Device number of the devpts instance, as `st_dev` gives it; 0 where it could not be found
    /// out.
    pub devpts: u64,
    /// Processes that hold the master, ascending by pid.
    pub master: Vec<Holder>,
    /// Processes that hold the slave, ascending by pid.
    pub slave: Vec<Holder>,
}

impl Pty {
    /// Whether a process holds the given end.
    pub fn held_by(&self, pid: u32, side: Side) -> bool {
        self.holders(side).iter().any(|h| h.pid == pid)
    }

    /// Holders of one end.
    pub fn holders(&self, side: Side) -> &[Holder] {
        match side {
            Side::Master => &self.master,
            Side::Slave => &self.slave,
        }
    }
}

/// A process that holds one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its file descriptors of this end, ascending.
    pub fds: Vec<u32>,
}

/// An end of a PTY.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The multiplexer's or terminal emulator's end.
    Master,
    /// The end of the program inside.
    Slave,
}

/// Index of the slave with this device number. Linux 2.6 and later put all on major 136; the majors
/// up to 143 are the older way of going past 256.
fn slave_index(major: u32, minor: u32) -> Option<u32> {
    (136..=143)
        .contains(&major)
        .then(|| (major - 136) * 256 + minor)
}

/// What a scan found.
#[derive(Debug, Default)]
pub struct Scan {
    /// The PTYs, ascending by instance and index.
    pub ptys: Vec<Pty>,
    /// Processes whose descriptors we may not read (other users', without root).
    pub refused: usize,
}

/// Scans the descriptors of the given processes (pid and name). Processes that vanish are left out.
pub fn scan<'a>(processes: impl IntoIterator<Item = (u32, &'a str)>) -> Scan {
    let processes: Vec<(u32, &str)> = processes.into_iter().collect();
    let mut instances = Instances::new(processes.iter().map(|p| p.0).collect());
    let mut found: BTreeMap<(u64, u32), Pty> = BTreeMap::new();
    let mut refused = 0;
    for &(pid, name) in &processes {
        let ends = match ends_of(pid, &mut instances) {
            Ok(ends) => ends,
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                refused += 1;
                continue;
            }
            Err(_) => continue,
        };
        for (devpts, index, side, fd) in ends {
            let pty = found.entry((devpts, index)).or_insert_with(|| Pty {
                index,
                devpts,
                master: Vec::new(),
                slave: Vec::new(),
            });
            let holders = match side {
                Side::Master => &mut pty.master,
                Side::Slave => &mut pty.slave,
            };
            match holders.last_mut() {
                Some(last) if last.pid == pid => last.fds.push(fd),
                _ => holders.push(Holder {
                    pid,
                    name: name.to_owned(),
                    fds: vec![fd],
                }),
            }
        }
    }
    let mut ptys: Vec<Pty> = found.into_values().collect();
    for holder in ptys
        .iter_mut()
        .flat_map(|p| p.master.iter_mut().chain(p.slave.iter_mut()))
    {
        holder.fds.sort_unstable();
    }
    for pty in &mut ptys {
        pty.master.sort_unstable_by_key(|h| h.pid);
        pty.slave.sort_unstable_by_key(|h| h.pid);
    }
    Scan { ptys, refused }
}

/// The PTY ends that one process holds: instance, index, side, descriptor.
fn ends_of(pid: u32, instances: &mut Instances) -> io::Result<Vec<(u64, u32, Side, u32)>> {
    let process = ProcDir::open(pid)?;
    let fds = process.open_dir("fd")?;
    let mut ends = Vec::new();
    for fd in numbers_in(fds.as_fd())? {
        let name = fd.to_string();
        // DONT_SYNC: a descriptor on a dead network file system must not hang us.
        let Ok(st) = statx(&fds, &name, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE) else {
            continue;
        };
        if u32::from(st.stx_mode) & 0o170_000 != 0o020_000 {
            continue; // no character device
        }
        let dev = makedev(st.stx_dev_major, st.stx_dev_minor);
        if let Some(index) = slave_index(st.stx_rdev_major, st.stx_rdev_minor) {
            ends.push((dev, index, Side::Slave, fd));
        } else if (st.stx_rdev_major, st.stx_rdev_minor) == (5, 2) {
            let Ok(info) = process.read(&format!("fdinfo/{fd}")) else {
                continue;
            };
            let info = FdInfo::parse(&info);
            // No index: the open of /dev/ptmx has not finished, or the kernel is too old.
            let Some(index) = info.tty_index else {
                continue;
            };
            let devpts = instances.of_master(pid, &fds, &name, dev, info.mnt_id);
            ends.push((devpts, index, Side::Master, fd));
        }
    }
    Ok(ends)
}

/// What a master's `fdinfo` tells.
#[derive(Debug, Default, PartialEq, Eq)]
struct FdInfo {
    tty_index: Option<u32>,
    mnt_id: Option<u32>,
}

impl FdInfo {
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let value = |key: &str| {
            text.lines().find_map(|line| {
                line.strip_prefix(key)?
                    .strip_prefix(':')?
                    .trim()
                    .parse::<u32>()
                    .ok()
            })
        };
        FdInfo {
            tty_index: value("tty-index"),
            mnt_id: value("mnt_id"),
        }
    }
}

/// For [`crate::fuzz`].
pub(crate) fn fuzz(bytes: &[u8]) {
    let _ = FdInfo::parse(bytes);
}

/// Finds the devpts instance of a master; remembers what it looked up for the length of one scan.
struct Instances {
    pids: Vec<u32>,
    by_node: HashMap<(u32, PathBuf), u64>,
    /// One process of each mount namespace, with the ids of the mounts in it; filled when first
    /// needed.
    namespaces: Option<Vec<(u32, HashSet<u32>)>>,
}

impl Instances {
    fn new(pids: Vec<u32>) -> Self {
        Self {
            pids,
            by_node: HashMap::new(),
            namespaces: None,
        }
    }

    /// `st_dev` of the instance, 0 where it cannot be told.
    fn of_master(
        &mut self,
        pid: u32,
        fds: &OwnedFd,
        fd: &str,
        st_dev: u64,
        mnt_id: Option<u32>,
    ) -> u64 {
        if on_devpts(Path::new(&format!("/proc/{pid}/fd/{fd}"))) {
            return st_dev;
        }
        let (Some(mnt_id), Ok(node)) = (mnt_id, read_link_at(fds.as_fd(), fd)) else {
            return 0;
        };
        if let Some(&known) = self.by_node.get(&(mnt_id, node.clone())) {
            return known;
        }
        let viewer = if mounts_of(pid).contains(&mnt_id) {
            Some(pid)
        } else {
            let namespaces = self
                .namespaces
                .get_or_insert_with(|| mount_namespaces(&self.pids));
            namespaces
                .iter()
                .find(|(_, mounts)| mounts.contains(&mnt_id))
                .map(|n| n.0)
        };
        let devpts = viewer
            .and_then(|viewer| devpts_beside(viewer, &node))
            .unwrap_or(0);
        self.by_node.insert((mnt_id, node), devpts);
        devpts
    }
}

/// `st_dev` of the devpts mounted at `pts` beside `node`, seen through the root of `viewer`.
fn devpts_beside(viewer: u32, node: &Path) -> Option<u64> {
    let beside = node.parent()?.strip_prefix("/").ok()?.join("pts");
    let path = Path::new("/proc")
        .join(viewer.to_string())
        .join("root")
        .join(beside);
    if !on_devpts(&path) {
        return None;
    }
    let st = statx(
        rustix::fs::CWD,
        &path,
        AtFlags::STATX_DONT_SYNC,
        StatxFlags::TYPE,
    )
    .ok()?;
    Some(makedev(st.stx_dev_major, st.stx_dev_minor))
}

fn on_devpts(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|fs| fs.f_type as u64 == DEVPTS_SUPER_MAGIC)
}

/// Ids of the mounts that a process sees; empty where we may not look.
fn mounts_of(pid: u32) -> HashSet<u32> {
    let Ok(process) = ProcDir::open(pid) else {
        return HashSet::new();
    };
    let Ok(text) = process.read("mountinfo") else {
        return HashSet::new();
    };
    String::from_utf8_lossy(&text)
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().next()?.parse().ok())
        .collect()
}

/// One process of each mount namespace among `pids`, with its mounts.
fn mount_namespaces(pids: &[u32]) -> Vec<(u32, HashSet<u32>)> {
    let mut seen = HashSet::new();
    let mut namespaces = Vec::new();
    for &pid in pids {
        let Ok(ns) = std::fs::read_link(format!("/proc/{pid}/ns/mnt")) else {
            continue;
        };
        if seen.insert(ns) {
            namespaces.push((pid, mounts_of(pid)));
        }
    }
    namespaces
}

#[cfg(test)]
#[path = "pty_tests.rs"]
mod tests;
