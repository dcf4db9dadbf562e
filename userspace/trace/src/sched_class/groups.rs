//! The cgroups that schedule, by the ids that the kernel tells: which folder each is, and how it is set.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::cgroup;
use super::hierarchy::{Hierarchy, Version, inode};
use crate::report::model::Cgroup;

/// Cgroups that are kept, at most; beyond it each is looked for again.
const KEPT: usize = 65_536;

/// The cgroups of this host, of version 1 or 2, whichever has the cpu controller.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(super) hierarchy: Option<Hierarchy>,
    /// By id; `None`: looked for and not found.
    pub(super) folders: HashMap<u64, Option<PathBuf>>,
}

impl Groups {
    /// Of this host.
    pub(crate) fn of_host() -> Groups {
        Groups {
            hierarchy: Hierarchy::of_host(),
            ..Groups::default()
        }
    }

    /// The folder of a cgroup that is known, if it was found; `None` where it was never looked for.
    pub(super) fn known(&self, id: u64) -> Option<Option<PathBuf>> {
        self.folders.get(&id).cloned()
    }

    /// Remembers a folder; whether there was room.
    pub(super) fn keep(&mut self, id: u64, folder: Option<PathBuf>) -> bool {
        let room = self.folders.len() < KEPT || self.folders.contains_key(&id);
        if room {
            self.folders.insert(id, folder);
        }
        room
    }

    /// By what `/proc` says of one that is in it, else by looking everywhere.
    pub(super) fn find(&self, id: u64, proc_cgroup: &str) -> Option<PathBuf> {
        self.folder_in_proc(proc_cgroup)
            // It may have moved on meanwhile.
            .filter(|f| inode(f).ok() == Some(id))
            .or_else(|| self.search(id))
    }

    /// By looking everywhere.
    pub(super) fn search(&self, id: u64) -> Option<PathBuf> {
        self.hierarchy.as_ref()?.search(id)
    }

    /// By what a `cgroup` file in `/proc` says.
    pub(super) fn folder_in_proc(&self, proc_cgroup: &str) -> Option<PathBuf> {
        let text = fs::read_to_string(proc_cgroup).ok()?;
        self.hierarchy.as_ref()?.folder_of(&text)
    }

    /// How a cgroup is set now; `None` where it is gone or not to be seen.
    pub(crate) fn cgroup(&mut self, id: u64) -> Option<Cgroup> {
        let folder = match self.known(id) {
            Some(known) => known,
            None => {
                let found = self.search(id);
                self.keep(id, found.clone());
                found
            }
        };
        self.described(id, &folder?)
    }

    fn described(&self, id: u64, folder: &Path) -> Option<Cgroup> {
        let hierarchy = self.hierarchy.as_ref()?;
        if inode(folder).ok() != Some(id) {
            return None;
        }
        let set = |level: &Path| cgroup::cpu(level, hierarchy.version);
        let mounted = hierarchy.mounted.as_path();
        // What is mounted is the root of the host, which has no limit, or of a container, which may.
        let mut all = hierarchy.levels(folder).chain([mounted]);
        let limit = all.find_map(|l| Some((set(l)?.quota?, hierarchy.name(l))));
        let mut down: Vec<&Path> = hierarchy.levels(folder).collect();
        down.reverse();
        let weights = down.into_iter().map_while(|l| set(l)?.weight);
        let weights: Vec<u32> = weights.filter_map(|w| u32::try_from(w).ok()).collect();
        let own = set(folder).filter(|_| folder != mounted);
        let levels = hierarchy.levels(folder).chain([mounted]);
        Some(Cgroup {
            id,
            path: hierarchy.name(folder),
            version_1: hierarchy.version == Version::V1,
            weight: own.and_then(|c| u32::try_from(c.weight?).ok()),
            weights,
            quota_us: limit.as_ref().map(|l| l.0.0),
            period_us: limit.as_ref().map(|l| l.0.1),
            quota_path: limit.map(|l| l.1),
            cpus: match hierarchy.version {
                Version::V2 => cgroup::cpuset(levels),
                Version::V1 => None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(version: Version, files: &[(&str, &str)]) -> (tempfile::TempDir, Groups, u64) {
        let dir = tempfile::tempdir().expect("a folder");
        let leaf = dir.path().join("a/b");
        fs::create_dir_all(&leaf).expect("folders");
        for (path, text) in files {
            fs::write(dir.path().join(path), text).expect("a file");
        }
        let groups = Groups {
            hierarchy: Some(Hierarchy {
                version,
                mounted: dir.path().into(),
                root: "/".into(),
            }),
            ..Groups::default()
        };
        let id = inode(&leaf).expect("an inode");
        (dir, groups, id)
    }

    #[test]
    fn a_quota_of_version_2_is_found_where_it_is_set() {
        let (dir, mut groups, id) = groups(
            Version::V2,
            &[
                ("cpuset.cpus.effective", "0-3\n"),
                ("a/cpu.weight", "50\n"),
                ("a/cpu.max", "20000 100000\n"),
                ("a/b/cpu.weight", "200\n"),
                ("a/b/cpu.max", "max 100000\n"),
            ],
        );
        let group = groups.cgroup(id).expect("it is there");
        assert_eq!((group.path.as_str(), group.version_1), ("/a/b", false));
        assert_eq!((group.weight, group.weights), (Some(200), vec![50, 200]));
        assert_eq!(
            (group.quota_us, group.period_us, group.quota_path.as_deref()),
            (Some(20_000), Some(100_000), Some("/a"))
        );
        assert_eq!(group.cpus.as_deref(), Some("0-3"));
        fs::remove_dir_all(dir.path().join("a")).expect("removed");
        assert_eq!(groups.cgroup(id), None);
    }

    #[test]
    fn version_1_is_told_by_the_same_names() {
        let (_dir, mut groups, id) = groups(
            Version::V1,
            &[
                ("cpu.shares", "1024\n"),
                ("cpu.cfs_quota_us", "-1\n"),
                ("a/cpu.shares", "1024\n"),
                ("a/cpu.cfs_quota_us", "-1\n"),
                ("a/b/cpu.shares", "512\n"),
                ("a/b/cpu.cfs_quota_us", "5000\n"),
                ("a/b/cpu.cfs_period_us", "100000\n"),
            ],
        );
        let group = groups.cgroup(id).expect("it is there");
        assert_eq!((group.path.as_str(), group.version_1), ("/a/b", true));
        assert_eq!((group.weight, group.weights), (Some(50), vec![100, 50]));
        assert_eq!(
            (group.quota_us, group.quota_path.as_deref()),
            (Some(5000), Some("/a/b"))
        );
        assert_eq!(groups.cgroup(u64::MAX), None);
    }
}
