//! Where the cgroups that schedule are to be seen, and which folder a cgroup is.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::probes::system::cpu_controller_on_v1;

/// Folders that one search for a cgroup looks at, at most: a host with 2,000 containers has some 10,000.
const SEARCHED: usize = 50_000;

/// Version of the cgroup interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

/// The mounted hierarchy that has the cpu controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    pub(super) version: Version,
    /// Its folder.
    pub(super) mounted: PathBuf,
    /// The cgroup that is mounted there; `/` but in a container.
    pub(super) root: PathBuf,
}

impl Hierarchy {
    /// The one of this host, if it is mounted for us to see.
    pub(super) fn of_host() -> Option<Hierarchy> {
        let version = if cpu_controller_on_v1() {
            Version::V1
        } else {
            Version::V2
        };
        let mounts = fs::read("/proc/self/mountinfo").ok()?;
        mounts
            .split(|b| *b == b'\n')
            .find_map(|line| mounted(line, version))
    }

    /// The cgroup of a process or of one thread, by its `cgroup` file in `/proc`.
    pub(super) fn folder_of(&self, proc_cgroup: &str) -> Option<PathBuf> {
        let path = proc_cgroup.lines().find_map(|line| {
            let (_number, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let ours = match self.version {
                Version::V2 => controllers.is_empty(),
                Version::V1 => controllers.split(',').any(|c| c == "cpu"),
            };
            ours.then_some(path)
        })?;
        let below = Path::new(path).strip_prefix(&self.root).ok()?;
        Some(self.mounted.join(below))
    }

    /// Looks for the folder with this inode, which is the cgroup's id.
    pub(super) fn search(&self, id: u64) -> Option<PathBuf> {
        let mut folders = vec![self.mounted.clone()];
        let mut seen = 0;
        while let Some(folder) = folders.pop() {
            if inode(&folder).ok() == Some(id) {
                return Some(folder);
            }
            seen += 1;
            if seen > SEARCHED {
                break;
            }
            // One that is removed meanwhile has nothing below it.
            let Ok(entries) = fs::read_dir(&folder) else {
                continue;
            };
            let below = entries
                .flatten()
                .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
            folders.extend(below.map(|e| e.path()));
        }
        None
    }

    /// Name of a cgroup, as the tools of the field show it: its path from the hierarchy's root.
    pub(super) fn name(&self, folder: &Path) -> String {
        let below = folder.strip_prefix(&self.mounted).unwrap_or(folder);
        self.root.join(below).to_string_lossy().into_owned()
    }

    /// The cgroup and those above it, up to the root's children; the root itself limits nobody.
    pub(super) fn levels<'a>(&'a self, folder: &'a Path) -> impl Iterator<Item = &'a Path> {
        folder
            .ancestors()
            .take_while(move |f| *f != self.mounted && f.starts_with(&self.mounted))
    }
}

/// Id of the cgroup that this folder is.
pub(super) fn inode(folder: &Path) -> io::Result<u64> {
    Ok(fs::metadata(folder)?.ino())
}

/// One line of `mountinfo`, if it is the wanted hierarchy.
fn mounted(line: &[u8], version: Version) -> Option<Hierarchy> {
    // id parent major:minor ROOT PLACE options [optional ...] - TYPE source SUPER
    let mut fields = line.split(|b| *b == b' ');
    let (root, place) = (fields.nth(3)?, fields.next()?);
    let mut after = fields.skip_while(|f| *f != b"-").skip(1);
    let (kind, options) = (after.next()?, after.nth(1)?);
    let ours = match version {
        Version::V2 => kind == b"cgroup2",
        Version::V1 => kind == b"cgroup" && options.split(|b| *b == b',').any(|o| o == b"cpu"),
    };
    ours.then(|| Hierarchy {
        version,
        mounted: unescape(place),
        root: unescape(root),
    })
}

/// `\040` is a space: mountinfo writes what would split a line as three octal digits.
fn unescape(text: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let byte = digits
            .and_then(|d| std::str::from_utf8(d).ok())
            .and_then(|d| u8::from_str_radix(d, 8).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() {
            after.get(3..).unwrap_or_default()
        } else {
            after
        };
    }
    std::ffi::OsString::from_vec(out).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &[u8] =
        b"35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
    const V1: &[u8] =
        b"36 24 0:31 /docker/1 /sys/fs/cgroup/cpu\\040here rw - cgroup cgroup rw,cpu,cpuacct";

    #[test]
    fn the_mounted_hierarchy_is_found_by_its_controller() {
        let v2 = mounted(V2, Version::V2).expect("version 2");
        assert_eq!(v2.mounted, Path::new("/sys/fs/cgroup"));
        assert_eq!(mounted(V2, Version::V1), None);
        let v1 = mounted(V1, Version::V1).expect("version 1");
        assert_eq!(v1.mounted, Path::new("/sys/fs/cgroup/cpu here"));
        assert_eq!(v1.root, Path::new("/docker/1"));
        assert_eq!(mounted(V1, Version::V2), None);
        let cpuset = b"36 24 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset";
        assert_eq!(mounted(cpuset, Version::V1), None);
        assert_eq!(mounted(b"36 24", Version::V2), None, "torn");
    }

    #[test]
    fn a_process_names_its_cgroup_in_each_hierarchy() {
        let file = "9:name=systemd:/s\n1:cpu,cpuacct:/docker/1/build\n0::/user.slice/a:b\n";
        let v2 = mounted(V2, Version::V2).expect("version 2");
        assert_eq!(
            v2.folder_of(file).as_deref(),
            Some(Path::new("/sys/fs/cgroup/user.slice/a:b"))
        );
        let v1 = mounted(V1, Version::V1).expect("version 1");
        let folder = v1.folder_of(file).expect("inside the container");
        assert_eq!(folder, Path::new("/sys/fs/cgroup/cpu here/build"));
        assert_eq!(v1.name(&folder), "/docker/1/build");
        assert_eq!(v1.folder_of("1:cpu:/elsewhere"), None, "not to be seen");
    }

    #[test]
    fn a_cgroup_is_found_by_its_inode_and_knows_those_above_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let hierarchy = Hierarchy {
            version: Version::V2,
            mounted: dir.path().into(),
            root: "/".into(),
        };
        let deep = dir.path().join("a.slice/b.slice/c.scope");
        fs::create_dir_all(&deep).expect("folders");
        let id = inode(&deep).expect("an inode");
        assert_eq!(hierarchy.search(id), Some(deep.clone()));
        assert_eq!(hierarchy.search(u64::MAX), None);
        assert_eq!(hierarchy.name(&deep), "/a.slice/b.slice/c.scope");
        assert_eq!(hierarchy.name(dir.path()), "/");
        let levels: Vec<String> = hierarchy.levels(&deep).map(|l| hierarchy.name(l)).collect();
        assert_eq!(
            levels,
            ["/a.slice/b.slice/c.scope", "/a.slice/b.slice", "/a.slice"]
        );
    }
}
