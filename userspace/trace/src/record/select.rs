//! From the options to what the kernel side filters by.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use probe_ebpf::events;

use crate::cli::RecordArgs;
use crate::probes::CallOptions;
use crate::probes::calls::sees_uring;
use crate::syscalls::Family;
use crate::syscalls::table::table;

/// What these options select.
///
/// # Errors
/// A family, call or cgroup that is not there.
pub(super) fn select(args: &RecordArgs) -> Result<CallOptions> {
    let summed = families(&args.aggregate)?;
    let streamed = families(&args.families)?;
    let named = args
        .syscall
        .iter()
        .map(|name| match table().named(name) {
            Some(call) => Ok(call.nr),
            None => bail!("no system call is called {name}"),
        })
        .collect::<Result<BTreeSet<u32>>>()?;
    let shapes = table().calls().iter().map(|call| {
        let wanted = match named.is_empty() {
            true => streamed.contains(&call.family) || summed.contains(&call.family),
            false => named.contains(&call.nr),
        };
        match (wanted, summed.contains(&call.family)) {
            (false, _) => 0,
            (true, false) => call.shape | events::SHAPE_STREAMED,
            (true, true) => call.shape | events::SHAPE_SUMMED,
        }
    });
    Ok(CallOptions {
        shapes: shapes.collect(),
        comm: args.comm.as_deref().map(comm),
        cgroup: args.cgroup.as_deref().map(cgroup).transpose()?,
        threads: args.tid.clone(),
        // A request is no system call: who names calls does not want it.
        uring: named.is_empty() && sees_uring(),
    })
}

/// All calls of these families, one by one.
///
/// # Errors
/// There is no such family.
pub(crate) fn of_families(names: &[String]) -> Result<CallOptions> {
    let streamed = families(names)?;
    let shapes = table().calls().iter().map(|call| {
        let wanted = streamed.contains(&call.family);
        if wanted {
            call.shape | events::SHAPE_STREAMED
        } else {
            0
        }
    });
    Ok(CallOptions {
        shapes: shapes.collect(),
        comm: None,
        cgroup: None,
        threads: Vec::new(),
        uring: sees_uring(),
    })
}

fn families(names: &[String]) -> Result<BTreeSet<Family>> {
    let mut families = BTreeSet::new();
    for name in names {
        if name == "all" {
            families.extend(Family::ALL);
        } else {
            let family = name.parse().map_err(anyhow::Error::msg);
            families.insert(family.with_context(|| name.clone())?);
        }
    }
    Ok(families)
}

/// As the kernel keeps it: cut to 15 bytes, the rest zero.
fn comm(name: &str) -> [u8; 16] {
    let mut comm = [0; 16];
    for (to, byte) in comm.iter_mut().take(15).zip(name.as_bytes()) {
        *to = *byte;
    }
    comm
}

/// Id and depth of a cgroup. The id is the inode of its directory.
fn cgroup(path: &Path) -> Result<(u64, u32)> {
    let (dir, level) = cgroup_dir(path)?;
    let found = std::fs::metadata(&dir).with_context(|| dir.display().to_string())?;
    if !dir.join("cgroup.procs").exists() {
        bail!("{} is no cgroup", dir.display());
    }
    Ok((found.ino(), level))
}

/// Its directory and depth. It may be given with or without the place where cgroups are mounted.
fn cgroup_dir(path: &Path) -> Result<(PathBuf, u32)> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").context("/proc/self/mounts")?;
    let Some(root) = cgroup2_mount(&mounts) else {
        bail!("no cgroup2 file system is mounted here")
    };
    let below = path.strip_prefix(root).unwrap_or(path);
    let below = below.strip_prefix("/").unwrap_or(below);
    let mut level = 0;
    for part in below.components() {
        match part {
            Component::Normal(_) => level += 1,
            Component::CurDir => (),
            _ => bail!(
                "{}: a cgroup is named by its path from {root}",
                path.display()
            ),
        }
    }
    Ok((Path::new(root).join(below), level))
}

/// Where the unified hierarchy is; beside version 1 it is not at the usual place.
fn cgroup2_mount(mounts: &str) -> Option<&str> {
    mounts.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (at, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then_some(at)
    })
}

/// The processes of a cgroup and of those below.
pub(super) fn members(path: &Path) -> Result<Vec<u32>> {
    let mut members = Vec::new();
    let mut dirs = vec![cgroup_dir(path)?.0];
    while let Some(dir) = dirs.pop() {
        // One that is removed meanwhile has no processes.
        let procs = std::fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
        members.extend(procs.lines().filter_map(|l| l.parse::<u32>().ok()));
        let below = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        dirs.extend(below.map(|e| e.path()).filter(|p| p.is_dir()));
    }
    members.retain(|pid| *pid != 0 && *pid != std::process::id());
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn selected(args: &[&str]) -> Result<CallOptions> {
        let words = ["phux-trace", "record", "-p", "1"].iter().chain(args);
        match Cli::try_parse_from(words)?.command {
            Command::Record(args) => select(&args),
            other => bail!("{other:?}"),
        }
    }

    fn shape(options: &CallOptions, name: &str) -> u32 {
        options.shapes[table().named(name).expect(name).nr as usize]
    }

    #[test]
    fn the_file_system_is_the_default_and_families_are_summed_where_asked() {
        let default = selected(&[]).expect("the default");
        assert!(shape(&default, "read") & events::SHAPE_STREAMED != 0);
        assert_eq!(shape(&default, "sendto"), 0);
        let all = selected(&["--families", "all", "--aggregate", "polling"]).expect("all");
        assert!(shape(&all, "sendto") & events::SHAPE_STREAMED != 0);
        assert!(shape(&all, "poll") & events::SHAPE_SUMMED != 0);
        assert_eq!(shape(&all, "poll") & events::SHAPE_STREAMED, 0);
        let one = selected(&["--syscall", "openat,close"]).expect("two calls");
        assert_eq!(one.shapes.iter().filter(|s| **s != 0).count(), 2);
        for bad in [
            ["--families", "files"],
            ["--syscall", "reed"],
            ["--cgroup", "../x"],
        ] {
            assert!(selected(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_unified_hierarchy_is_found_wherever_it_is_mounted() {
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
            cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(cgroup2_mount(mounts), Some("/sys/fs/cgroup/unified"));
        assert_eq!(cgroup2_mount("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn a_name_is_cut_as_the_kernel_cuts_it() {
        assert_eq!(&comm("sh"), b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(&comm("a-very-long-name-indeed"), b"a-very-long-nam\0");
    }
}
