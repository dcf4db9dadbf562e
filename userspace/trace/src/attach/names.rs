//! What threads and cgroups are called, for whom only their numbers are known.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use crate::echo::Names;
use crate::report::model::Cgroup;
use crate::sched_class::Groups;

/// Names that are kept.
const NAMES: usize = 8192;
/// How long settings of a cgroup are believed.
const FRESH: Duration = Duration::from_secs(2);

/// Asks /proc and the cgroup file system, and remembers.
#[derive(Debug)]
pub(crate) struct Named {
    threads: RefCell<HashMap<(u32, u32), String>>,
    groups: RefCell<Groups>,
    cgroups: RefCell<HashMap<u64, (Instant, Cgroup)>>,
    unix_offset_ns: i128,
}

impl Named {
    pub(crate) fn new(unix_offset_ns: i128) -> Named {
        Named {
            threads: RefCell::default(),
            groups: RefCell::new(Groups::of_host()),
            cgroups: RefCell::default(),
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
        let found = self.groups.borrow_mut().cgroup(id);
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
    fn an_own_thread_is_found_and_a_cgroup_that_is_none_is_not() {
        let named = Named::new(0);
        let pid = std::process::id();
        let comm = fs::read_to_string(format!("/proc/{pid}/task/{pid}/comm")).unwrap();
        assert_eq!(named.thread(pid, pid), comm.trim_end());
        assert_eq!(named.thread(pid, 0), "");
        assert_eq!(named.thread(0, u32::MAX), "");
        assert_eq!(named.cgroup(u64::MAX), None);
    }
}
