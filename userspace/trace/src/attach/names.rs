//! What threads and cgroups are called, for whom only their numbers are known.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::echo::Names;
use crate::report::model::Cgroup;

/// Where cgroups (v2) are mounted: alone, or beside those of version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// Names that are kept.
const NAMES: usize = 8192;
/// Cgroups that are looked at: a host with more is not walked to the end.
const CGROUPS: usize = 16_384;
/// How long settings of a cgroup are believed, and a walk is not done again.
const FRESH: Duration = Duration::from_secs(2);

/// Asks /proc and the cgroup file system, and remembers.
#[derive(Debug)]
pub(crate) struct Named {
    threads: RefCell<HashMap<(u32, u32), String>>,
    paths: RefCell<HashMap<u64, PathBuf>>,
    cgroups: RefCell<HashMap<u64, (Instant, Cgroup)>>,
    walked: RefCell<Option<Instant>>,
    root: Option<PathBuf>,
    unix_offset_ns: i128,
}

impl Named {
    pub(crate) fn new(unix_offset_ns: i128) -> Named {
        let v2 = |dir: &str| Path::new(dir).join("cgroup.controllers").exists();
        Named {
            threads: RefCell::default(),
            paths: RefCell::default(),
            cgroups: RefCell::default(),
            walked: RefCell::default(),
            root: MOUNTS.iter().find(|d| v2(d)).map(PathBuf::from),
            unix_offset_ns,
        }
    }

    /// A thread that has ended was called so.
    pub(crate) fn ended(&self, pid: u32, tid: u32, name: &str) {
        self.remember(pid, tid, name.to_owned());
    }

    fn remember(&self, pid: u32, tid: u32, name: String) {
        let mut threads = self.threads.borrow_mut();
        if threads.len() >= NAMES {
            threads.clear();
        }
        threads.insert((pid, tid), name);
    }

    /// Finds out which folder has which inode.
    fn walk(&self) {
        let Some(root) = &self.root else { return };
        let mut walked = self.walked.borrow_mut();
        if walked.is_some_and(|at| at.elapsed() < FRESH) {
            return;
        }
        *walked = Some(Instant::now());
        let mut paths = self.paths.borrow_mut();
        paths.clear();
        let mut left = vec![root.clone()];
        while let Some(dir) = left.pop() {
            if paths.len() >= CGROUPS {
                return;
            }
            if let Ok(meta) = fs::metadata(&dir) {
                paths.insert(meta.ino(), dir.clone());
            }
            // Gone meanwhile, or not ours to see: without it.
            let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
            let dirs = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
            left.extend(dirs.map(|e| e.path()));
        }
    }

    fn read_cgroup(&self, id: u64) -> Option<Cgroup> {
        let known = self.paths.borrow().get(&id).cloned();
        let dir = known.or_else(|| {
            self.walk();
            self.paths.borrow().get(&id).cloned()
        })?;
        let root = self.root.as_ref()?;
        let read = |file: &str| fs::read_to_string(dir.join(file)).ok();
        let above: Vec<&Path> = dir
            .ancestors()
            .take_while(|d| d.starts_with(root))
            .collect();
        let path = |dir: &Path| {
            let below = dir.strip_prefix(root).ok()?;
            Some(format!("/{}", below.to_string_lossy()))
        };
        let limit = above.iter().find_map(|d| {
            let limit = quota(&fs::read_to_string(d.join("cpu.max")).ok()?)?;
            Some((limit, path(d)?))
        });
        let weight = |d: &Path| weight(&fs::read_to_string(d.join("cpu.weight")).ok()?);
        // The root has none.
        let down = above.iter().rev().skip(1);
        Some(Cgroup {
            id,
            path: path(&dir)?,
            weight: weight(&dir),
            weights: down.map_while(|d| weight(d)).collect(),
            quota_us: limit.as_ref().map(|l| l.0.0),
            period_us: limit.as_ref().map(|l| l.0.1),
            quota_path: limit.map(|l| l.1),
            cpus: read("cpuset.cpus.effective").map(|c| c.trim().to_owned()),
        })
    }
}

fn weight(text: &str) -> Option<u32> {
    text.trim().parse().ok()
}

/// `cpu.max`: `200000 100000`; `None` for `max 100000`.
fn quota(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace().map(str::parse);
    Some((words.next()?.ok()?, words.next()?.ok()?))
}

impl Names for Named {
    fn thread(&self, pid: u32, tid: u32) -> String {
        if let Some(name) = self.threads.borrow().get(&(pid, tid)) {
            return name.clone();
        }
        if tid == 0 {
            return String::new();
        }
        let comm = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"));
        let Ok(name) = comm.map(|c| c.trim_end_matches('\n').to_owned()) else {
            return String::new();
        };
        self.remember(pid, tid, name.clone());
        name
    }

    fn cgroup(&self, id: u64) -> Option<Cgroup> {
        if let Some((at, cgroup)) = self.cgroups.borrow().get(&id)
            && at.elapsed() < FRESH
        {
            return Some(cgroup.clone());
        }
        let found = self.read_cgroup(id);
        let mut cgroups = self.cgroups.borrow_mut();
        if cgroups.len() >= NAMES {
            cgroups.clear();
        }
        match found {
            Some(cgroup) => {
                cgroups.insert(id, (Instant::now(), cgroup.clone()));
                Some(cgroup)
            }
            // Gone: what it was set to last.
            None => cgroups.get(&id).map(|(_, c)| c.clone()),
        }
    }

    fn unix_offset_ns(&self) -> i128 {
        self.unix_offset_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_thread_and_own_cgroup_are_found() {
        let named = Named::new(0);
        let pid = std::process::id();
        let comm = fs::read_to_string(format!("/proc/{pid}/task/{pid}/comm")).unwrap();
        assert_eq!(named.thread(pid, pid), comm.trim_end());
        assert_eq!(named.thread(pid, 0), "");
        assert_eq!(named.thread(0, u32::MAX), "");
        let Some(root) = named.root.clone() else {
            println!("skipped: no cgroups of version 2 here");
            return;
        };
        let id = fs::metadata(&root).unwrap().ino();
        assert_eq!(named.cgroup(id).map(|c| c.path), Some("/".into()));
        assert_eq!(named.cgroup(u64::MAX), None);
    }

    #[test]
    fn limits() {
        assert_eq!(quota("200000 100000\n"), Some((200_000, 100_000)));
        assert_eq!(quota("max 100000\n"), None);
        assert_eq!(quota(""), None);
    }
}
