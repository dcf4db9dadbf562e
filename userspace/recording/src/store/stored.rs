//! Recordings side by side in one folder, each in a folder of its own: how large, how old, and away with one.
//!
//! Only what a recorder makes is counted and removed, by its name and place. What else lies in such a
//! folder stays, and so does the folder then; no link is followed.

use std::collections::BTreeSet;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, statat};

use super::folder::{Folder, file_system_uid};
use super::layout::{self, PartName};
use super::recover::living;
use crate::Error;
use crate::rows::Table;

/// A recording in a folder of recordings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its folder's name.
    pub name: String,
    /// What its files take on the disk.
    pub bytes: u64,
    /// When one of them was last written, Unix time in ns.
    pub written_ns: i64,
    /// A recorder holds it.
    pub living: bool,
}

/// The recordings in `dir`, by name. Folders of other users, and without anything of a recording, are passed over.
///
/// # Errors
/// When `dir` cannot be read. A recording that cannot is passed over.
pub fn stored(dir: &Path) -> Result<Vec<Stored>, Error> {
    let root = Folder::open(dir)?;
    let mut found = Vec::new();
    for (name, kind) in root.list()? {
        if kind == FileType::Directory
            && let Ok(folder) = root.open_in(&name)
            && folder.owner().is_ok_and(|uid| uid == file_system_uid())
            && let Ok(Some(one)) = look(&folder, name)
        {
            found.push(one);
        }
    }
    Ok(found)
}

/// `None`: nothing of a recording is in it.
fn look(folder: &Folder, name: String) -> Result<Option<Stored>, Error> {
    let mut size = Size::default();
    each_file(folder, &mut |place, file| {
        size.add(place, file);
        Ok(())
    })?;
    Ok((size.files != 0).then_some(Stored {
        name,
        bytes: size.bytes,
        written_ns: size.written_ns,
        living: !living(folder)?.is_empty(),
    }))
}

#[derive(Default)]
struct Size {
    files: usize,
    bytes: u64,
    written_ns: i64,
}

impl Size {
    fn add(&mut self, folder: &Folder, name: &str) {
        // One that is renamed meanwhile is found the next time.
        let Ok(stat) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return;
        };
        self.files += 1;
        // Not the length: a file can have holes, and room set aside.
        self.bytes += stat.st_blocks.cast_unsigned().saturating_mul(512);
        let written = stat
            .st_mtime
            .saturating_mul(1_000_000_000)
            .saturating_add(stat.st_mtime_nsec.cast_signed());
        self.written_ns = self.written_ns.max(written);
    }
}

/// Removes a recording that no recorder holds. Whether its folder is gone: what is not a recorder's stays in it.
///
/// # Errors
/// When a recorder holds it, it is another user's, or a file cannot be removed.
pub fn remove(dir: &Path, name: &str) -> Result<bool, Error> {
    let root = Folder::open(dir)?;
    let not_ours = |why| Error::Unsafe {
        path: dir.join(name),
        why,
    };
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(not_ours("this is no recording's name"));
    }
    let folder = root.open_in(name)?;
    if folder.owner()? != file_system_uid() {
        return Err(not_ours("this folder is another user's"));
    }
    // Nobody recovers it meanwhile.
    folder.lock()?;
    if !living(&folder)?.is_empty() {
        return Err(not_ours("this is being recorded"));
    }
    each_file(&folder, &mut |place, file| {
        place
            .remove(file)
            .map_err(|e| Error::io(format!("cannot remove {file}"), e))
    })?;
    for table in Table::ALL {
        if let Ok(table_folder) = folder.open_in(table.name()) {
            for (date, _) in inner(&table_folder, "date=")? {
                if let Ok(date_folder) = table_folder.open_in(&date) {
                    for (host, _) in inner(&date_folder, "host=")? {
                        date_folder.remove_folder(&host)?;
                    }
                }
                table_folder.remove_folder(&date)?;
            }
            folder.remove_folder(table.name())?;
        }
    }
    root.remove_folder(name)
}

fn inner(folder: &Folder, prefix: &str) -> Result<Vec<(String, FileType)>, Error> {
    let mut found = folder.list()?;
    found.retain(|(name, kind)| *kind == FileType::Directory && name.starts_with(prefix));
    Ok(found)
}

/// Each file of a recording, with the folder that it is in.
fn each_file(
    folder: &Folder,
    each: &mut impl FnMut(&Folder, &str) -> Result<(), Error>,
) -> Result<(), Error> {
    let top = folder.list()?;
    let is_folder = |name: &str| {
        top.iter()
            .any(|(n, kind)| n == name && *kind == FileType::Directory)
    };
    for table in Table::ALL.iter().filter(|t| is_folder(t.name())) {
        let table = folder.open_in(table.name())?;
        for (date, _) in inner(&table, "date=")? {
            let date = table.open_in(&date)?;
            for (host, _) in inner(&date, "host=")? {
                let host = date.open_in(&host)?;
                for (name, kind) in host.list()? {
                    if kind == FileType::RegularFile && is_part(&name) {
                        each(&host, &name)?;
                    }
                }
            }
        }
    }
    // The locks last: without its lock a recording looks as if nobody held it.
    let of_run = |name: &str| {
        layout::run_of_ballast(name)
            .or_else(|| layout::run_of_lock(name))
            .is_some()
    };
    let own: BTreeSet<&String> = top
        .iter()
        .filter(|(name, kind)| *kind == FileType::RegularFile && of_run(name))
        .map(|(name, _)| name)
        .collect();
    own.into_iter().try_for_each(|name| each(folder, name))
}

fn is_part(name: &str) -> bool {
    PartName::from_finished(name)
        .or_else(|| PartName::from_in_progress(name))
        .or_else(|| PartName::from_journal(name))
        .is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Recorder, Run, Syscall};
    use std::fs;

    fn record(dir: &Path) -> Recorder {
        let run = Run {
            unix_ns: 1_773_396_000_000_000_000,
            hostname: "here".into(),
            ..Run::default()
        };
        let recorder = Recorder::create(dir, run, Options::default()).expect("a recorder");
        recorder
            .push(Syscall {
                ts: 5,
                ..Syscall::default()
            })
            .expect("a row");
        recorder
    }

    #[test]
    fn what_is_recorded_stays_and_what_was_recorded_goes() {
        let dir = tempfile::tempdir().expect("a folder");
        let recorder = record(&dir.path().join("one"));
        let all = stored(dir.path()).expect("read");
        assert_eq!(all.len(), 1);
        assert!(
            all[0].living && all[0].bytes > 0 && all[0].written_ns > 0,
            "{all:?}"
        );
        assert!(remove(dir.path(), "one").is_err(), "it is being recorded");
        recorder.finish().expect("finished");
        assert!(!stored(dir.path()).expect("read")[0].living);
        assert!(remove(dir.path(), "one").expect("removed"));
        assert!(!dir.path().join("one").exists());
    }

    #[test]
    fn what_is_no_recorders_stays_where_it_is() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path();
        record(&path.join("one")).finish().expect("finished");
        fs::write(path.join("one/notes.txt"), "mine").expect("written");
        fs::create_dir(path.join("other")).expect("a folder");
        fs::write(path.join("other/part-1-00000.parquet"), "no table's").expect("written");
        fs::write(path.join("file"), "none").expect("written");
        // A link to something outside, by a name that a recorder would give.
        let outside = tempfile::tempdir().expect("a folder");
        fs::write(outside.path().join("part-1-00000.parquet"), "precious").expect("written");
        std::os::unix::fs::symlink(outside.path(), path.join("link")).expect("a link");
        let host = path.join("one/losses/date=2026-03-13");
        fs::create_dir_all(&host).expect("a folder");
        std::os::unix::fs::symlink(outside.path(), host.join("host=here")).expect("a link");

        let names: Vec<_> = stored(path)
            .expect("read")
            .into_iter()
            .map(|s| s.name)
            .collect();
        assert_eq!(names, ["one"]);
        assert!(!remove(path, "one").expect("removed"), "its folder stays");
        assert!(path.join("one/notes.txt").exists() && !path.join("one/syscalls").exists());
        for bad in ["..", ".", "", "link", "../x", "file"] {
            assert!(remove(path, bad).is_err(), "{bad}");
        }
        assert!(outside.path().join("part-1-00000.parquet").exists());
    }
}
