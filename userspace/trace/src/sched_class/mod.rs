//! Scheduling class as a dimension: all that decides when a thread gets a CPU, in full. The kernel
//! side tells a [`Placement`] with each time off CPU; here it gets its cgroup's name, weight and quota.

mod cgroup;
mod groups;
mod hierarchy;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use self::cgroup::Throttled;
pub(crate) use self::groups::Groups;
use self::hierarchy::{Hierarchy, Version, inode};
use crate::report::model::{CgroupLevel, PlacementInfo, SchedClass};
use crate::source::event::Placement;
use crate::stats::{PtyId, Side};
use crate::target::proc::policy_name;

/// Threads that are kept, at most; beyond it nothing new is taken.
const KEPT: usize = 65_536;

/// The placements of all threads that were seen, and the cgroups that they name.
#[derive(Debug, Default)]
pub struct Placements {
    groups: Groups,
    threads: HashMap<u32, Placement>,
    /// Of the last kworker that flushed it.
    flushers: HashMap<(PtyId, Side), Placement>,
    /// By folder: how much it had been throttled when it was first seen, and when the last interval ended.
    throttled: HashMap<PathBuf, (Throttled, Throttled)>,
}

/// Since when throttling counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// The run began.
    Run,
    /// The last interval ended.
    Interval,
}

impl Placements {
    /// Of this host.
    pub fn of_host() -> Placements {
        Placements {
            groups: Groups::of_host(),
            ..Placements::default()
        }
    }

    /// Begins to count the throttling of a process's cgroup, before anything is told of it.
    pub fn watch(&mut self, pid: u32) {
        if let Some(folder) = self.groups.folder_in_proc(&format!("/proc/{pid}/cgroup"))
            && let Ok(id) = inode(&folder)
        {
            self.keep(id, Some(folder));
        }
    }

    /// A thread was seen with this placement. Process and thread are where its cgroup is looked up
    /// first; it may end at any moment, so this is done when it is seen, not when it is told.
    pub fn saw(&mut self, pid: u32, tid: u32, place: &Placement) {
        if self.threads.get(&tid) == Some(place) {
            return;
        }
        if self.threads.len() < KEPT || self.threads.contains_key(&tid) {
            self.threads.insert(tid, *place);
        }
        if place.cgroup != 0 && self.groups.known(place.cgroup).is_none() {
            let folder = self
                .groups
                .find(place.cgroup, &format!("/proc/{pid}/task/{tid}/cgroup"));
            self.keep(place.cgroup, folder);
        }
    }

    /// A kworker was seen that flushed a PTY towards this side.
    pub fn saw_flusher(&mut self, pty: PtyId, towards: Side, tid: u32, place: &Placement) {
        self.saw(tid, tid, place);
        if self.flushers.len() < KEPT || self.flushers.contains_key(&(pty, towards)) {
            self.flushers.insert((pty, towards), *place);
        }
    }

    /// The placement of the kworker that flushed a PTY last.
    pub fn of_flusher(&self, pty: PtyId, towards: Side) -> Option<Placement> {
        self.flushers.get(&(pty, towards)).copied()
    }

    /// The last placement of a thread.
    pub fn of_thread(&self, tid: u32) -> Option<Placement> {
        self.threads.get(&tid).copied()
    }

    /// Name of a cgroup: its path from the root of the hierarchy.
    pub fn cgroup_name(&mut self, id: u64) -> Option<String> {
        let folder = self.folder(id)?;
        Some(self.groups.hierarchy.as_ref()?.name(&folder))
    }

    /// What the kernel told, and the cgroup's name: no files are read.
    pub fn brief(&mut self, place: &Placement) -> PlacementInfo {
        PlacementInfo {
            sched: SchedClass {
                policy: policy_name(u32::from(place.class.policy)),
                nice: i32::from(place.class.nice),
                rt_priority: u32::from(place.class.rt_priority),
            },
            slice_us: (place.slice_us != 0).then_some(place.slice_us),
            uclamp_min: place.uclamp.0,
            uclamp_max: place.uclamp.1,
            autogroup_nice: place.autogroup_nice,
            cgroup_id: place.cgroup,
            cgroup: self.cgroup_name(place.cgroup),
            ..PlacementInfo::default()
        }
    }

    /// A placement in full; `tid` is the thread whose CPUs are told, if it lives.
    pub fn info(&mut self, place: &Placement, tid: Option<u32>, since: Since) -> PlacementInfo {
        let folder = self.folder(place.cgroup);
        let mut info = PlacementInfo {
            cpus_allowed: tid.and_then(cpus_allowed),
            ..self.brief(place)
        };
        if let (Some(hierarchy), Some(folder)) = (&self.groups.hierarchy, &folder) {
            if hierarchy.version == Version::V2 {
                let levels = hierarchy.levels(folder);
                info.cpuset = cgroup::cpuset(levels.chain([hierarchy.mounted.as_path()]));
            }
            let levels = hierarchy.levels(folder);
            info.levels = levels
                .filter_map(|l| self.level(hierarchy, l, since))
                .collect();
        }
        info
    }

    /// An interval ended: from here on [`Since::Interval`] counts.
    pub fn interval_ended(&mut self) {
        for (folder, (_, last)) in &mut self.throttled {
            *last = cgroup::throttled(folder);
        }
    }

    fn level(&self, hierarchy: &Hierarchy, folder: &Path, since: Since) -> Option<CgroupLevel> {
        let set = cgroup::cpu(folder, hierarchy.version)?;
        let before = self
            .throttled
            .get(folder)
            .map(|(run, interval)| match since {
                Since::Run => *run,
                Since::Interval => *interval,
            });
        let throttled = before.map(|b| cgroup::throttled(folder).since(b));
        Some(CgroupLevel {
            path: hierarchy.name(folder),
            version_1: hierarchy.version == Version::V1,
            weight: set.weight,
            idle: set.idle,
            quota_us: set.quota.map(|q| q.0),
            period_us: set.quota.map(|q| q.1),
            nr_throttled: throttled.map(|t| t.times),
            throttled_ns: throttled.map(|t| t.ns),
        })
    }

    fn folder(&mut self, id: u64) -> Option<PathBuf> {
        if id == 0 {
            return None;
        }
        if let Some(known) = self.groups.known(id) {
            return known;
        }
        let found = self.groups.search(id);
        self.keep(id, found.clone());
        found
    }

    fn keep(&mut self, id: u64, folder: Option<PathBuf>) {
        if !self.groups.keep(id, folder.clone()) {
            return;
        }
        if let (Some(hierarchy), Some(folder)) = (&self.groups.hierarchy, &folder) {
            for level in hierarchy.levels(folder) {
                let now = || (cgroup::throttled(level), cgroup::throttled(level));
                self.throttled.entry(level.to_owned()).or_insert_with(now);
            }
        }
    }
}

/// The CPUs that a thread may run on, its own wish and its cpuset's together.
fn cpus_allowed(tid: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = |l: &str| Some(l.strip_prefix("Cpus_allowed_list:")?.trim().to_owned());
    status.lines().find_map(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::SchedClass as Class;

    fn fixture() -> (tempfile::TempDir, Placements, u64) {
        let dir = tempfile::tempdir().expect("a folder");
        let leaf = dir.path().join("user.slice/build.scope");
        fs::create_dir_all(&leaf).expect("folders");
        let write = |path: &str, text: &str| {
            fs::write(dir.path().join(path), text).expect("a file");
        };
        write("cpuset.cpus.effective", "0-3\n");
        write("user.slice/cpu.weight", "100\n");
        write("user.slice/cpu.max", "max 100000\n");
        write("user.slice/cpuset.cpus.effective", "2-3\n");
        write("user.slice/build.scope/cpu.weight", "20\n");
        write("user.slice/build.scope/cpu.max", "50000 100000\n");
        write(
            "user.slice/build.scope/cpu.stat",
            "nr_throttled 5\nthrottled_usec 100\n",
        );
        let id = inode(&leaf).expect("an inode");
        let placements = Placements {
            groups: Groups {
                hierarchy: Some(Hierarchy {
                    version: Version::V2,
                    mounted: dir.path().into(),
                    root: "/".into(),
                }),
                ..Groups::default()
            },
            ..Placements::default()
        };
        (dir, placements, id)
    }

    #[test]
    fn a_placement_is_told_with_all_its_groups() {
        let (dir, mut placements, cgroup) = fixture();
        let place = Placement {
            class: Class {
                policy: 3,
                nice: 5,
                rt_priority: 0,
            },
            slice_us: 3000,
            uclamp: (0, 1024),
            autogroup_nice: None,
            cgroup,
        };
        placements.saw(0, 0, &place);
        assert_eq!(placements.of_thread(0), Some(place));
        let stat = dir.path().join("user.slice/build.scope/cpu.stat");
        fs::write(&stat, "nr_throttled 7\nthrottled_usec 150\n").expect("a file");
        let info = placements.info(&place, None, Since::Run);
        assert_eq!(info.cgroup.as_deref(), Some("/user.slice/build.scope"));
        assert_eq!(info.cpuset.as_deref(), Some("2-3"));
        assert_eq!(info.sched.policy, "SCHED_BATCH");
        let [leaf, above] = info.levels.as_slice() else {
            panic!("{:?}", info.levels)
        };
        assert_eq!((leaf.weight, above.weight), (Some(20), Some(100)));
        assert_eq!((leaf.quota_us, above.quota_us), (Some(50_000), None));
        assert_eq!(
            (leaf.nr_throttled, leaf.throttled_ns),
            (Some(2), Some(50_000))
        );

        placements.interval_ended();
        let info = placements.info(&place, None, Since::Interval);
        assert_eq!(info.levels.first().and_then(|l| l.nr_throttled), Some(0));
        let info = placements.info(&place, None, Since::Run);
        assert_eq!(info.levels.first().and_then(|l| l.nr_throttled), Some(2));
    }

    #[test]
    fn what_is_gone_has_a_number_and_no_name() {
        let (_dir, mut placements, _) = fixture();
        let place = Placement {
            cgroup: u64::MAX,
            ..Placement::default()
        };
        placements.saw(0, 1, &place);
        let info = placements.info(&place, None, Since::Run);
        assert_eq!((info.cgroup_id, info.cgroup), (u64::MAX, None));
        assert_eq!(info.cpuset, None);
        assert_eq!(Placements::default().cgroup_name(5), None);
    }
}
