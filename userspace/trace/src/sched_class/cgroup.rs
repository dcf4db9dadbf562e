//! What one cgroup says about the CPU time of its tasks.

use std::fs;
use std::path::Path;

use super::hierarchy::Version;

/// `cpu.shares` of a version 1 group that nobody has changed; version 2 calls the same 100.
const DEFAULT_SHARES: u64 = 1024;
const DEFAULT_WEIGHT: u64 = 100;

/// The files of one cgroup; what a kernel does not tell is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cpu {
    /// `cpu.weight`, 1–10,000; of version 1 its shares on the same scale.
    pub(super) weight: Option<u64>,
    /// `cpu.idle`: its tasks run only when nobody else wants to.
    pub(super) idle: bool,
    /// Quota and period, µs; `None`: no quota.
    pub(super) quota: Option<(u64, u64)>,
}

/// How often, and how long in all, ns, a group was throttled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Throttled {
    pub(super) times: u64,
    pub(super) ns: u64,
}

impl Throttled {
    pub(super) fn since(self, earlier: Throttled) -> Throttled {
        Throttled {
            times: self.times.saturating_sub(earlier.times),
            ns: self.ns.saturating_sub(earlier.ns),
        }
    }
}

/// Reads how a cgroup is set; `None` where the cpu controller is not on for it.
pub(super) fn cpu(folder: &Path, version: Version) -> Option<Cpu> {
    let (weight, quota) = match version {
        Version::V2 => {
            let weight = number(folder, "cpu.weight");
            let max = text(folder, "cpu.max").unwrap_or_default();
            (weight?, max_of(&max))
        }
        Version::V1 => {
            let shares = number(folder, "cpu.shares")?;
            let quota = number(folder, "cpu.cfs_quota_us"); // -1, no number of this kind: none
            let period = number(folder, "cpu.cfs_period_us");
            (shares * DEFAULT_WEIGHT / DEFAULT_SHARES, quota.zip(period))
        }
    };
    Some(Cpu {
        weight: Some(weight),
        idle: number(folder, "cpu.idle") == Some(1),
        quota,
    })
}

/// Reads how much a cgroup was throttled so far.
pub(super) fn throttled(folder: &Path) -> Throttled {
    let stat = text(folder, "cpu.stat").unwrap_or_default();
    let field = |name: &str| {
        let mut lines = stat.lines();
        lines.find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')?.parse::<u64>().ok())
    };
    // µs in version 2, ns in version 1.
    let ns = field("throttled_usec").map(|us| us.saturating_mul(1000));
    Throttled {
        times: field("nr_throttled").unwrap_or(0),
        ns: ns.or_else(|| field("throttled_time")).unwrap_or(0),
    }
}

/// The CPUs that a cgroup of version 2 may use; told by it or by the next one above that has the controller.
pub(super) fn cpuset<'a>(levels: impl Iterator<Item = &'a Path>) -> Option<String> {
    let told = |folder: &Path| text(folder, "cpuset.cpus.effective");
    levels.map(told).find_map(|t| t.filter(|t| !t.is_empty()))
}

/// `max 100000`, `20000 100000`.
fn max_of(text: &str) -> Option<(u64, u64)> {
    let (quota, period) = text.split_once(' ')?;
    Some((quota.parse().ok()?, period.parse().ok()?))
}

fn text(folder: &Path, file: &str) -> Option<String> {
    Some(fs::read_to_string(folder.join(file)).ok()?.trim().into())
}

fn number(folder: &Path, file: &str) -> Option<u64> {
    text(folder, file)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            fs::write(dir.path().join(name), text).expect("a file");
        }
        dir
    }

    #[test]
    fn version_2_tells_weight_quota_and_idle() {
        let dir = folder(&[("cpu.weight", "50\n"), ("cpu.max", "20000 100000\n")]);
        let set = cpu(dir.path(), Version::V2).expect("the controller is on");
        assert_eq!(
            (set.weight, set.quota, set.idle),
            (Some(50), Some((20000, 100_000)), false)
        );
        let dir = folder(&[
            ("cpu.weight", "0\n"),
            ("cpu.max", "max 100000\n"),
            ("cpu.idle", "1\n"),
        ]);
        let set = cpu(dir.path(), Version::V2).expect("the controller is on");
        assert_eq!((set.quota, set.idle), (None, true));
        assert_eq!(cpu(folder(&[]).path(), Version::V2), None);
    }

    #[test]
    fn version_1_is_told_on_the_same_scale() {
        let dir = folder(&[
            ("cpu.shares", "2048\n"),
            ("cpu.cfs_quota_us", "-1\n"),
            ("cpu.cfs_period_us", "100000\n"),
        ]);
        let set = cpu(dir.path(), Version::V1).expect("the controller is on");
        assert_eq!((set.weight, set.quota), (Some(200), None));
        fs::write(dir.path().join("cpu.cfs_quota_us"), "30000\n").expect("a file");
        let set = cpu(dir.path(), Version::V1).expect("the controller is on");
        assert_eq!(set.quota, Some((30000, 100_000)));
    }

    #[test]
    fn throttling_is_told_in_ns_by_both_versions() {
        let v2 = folder(&[(
            "cpu.stat",
            "usage_usec 9\nnr_periods 8\nnr_throttled 7\nthrottled_usec 6\n",
        )]);
        let v1 = folder(&[(
            "cpu.stat",
            "nr_periods 8\nnr_throttled 7\nthrottled_time 6000\n",
        )]);
        let both = Throttled { times: 7, ns: 6000 };
        assert_eq!((throttled(v2.path()), throttled(v1.path())), (both, both));
        assert_eq!(throttled(folder(&[]).path()), Throttled::default());
    }
}
