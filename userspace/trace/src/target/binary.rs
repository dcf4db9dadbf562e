//! The ELF files that a process has mapped executable, and their probes.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::notes::{self, Notes, NotesError};
use super::proc::ProcDir;

/// Mapped files that are looked at in one process.
const MAX_FILES: usize = 1024;

/// An ELF file that a process runs.
#[derive(Debug, Clone)]
pub struct Binary {
    /// Path as the process itself sees it.
    pub path: PathBuf,
    /// Path by which it can be opened from here, whatever the process's mount namespace: what to
    /// attach to.
    pub reach: PathBuf,
    /// Probes, or why there are none to be had.
    pub notes: Result<Arc<Notes>, Arc<NotesError>>,
}

/// Identity of a file's content: device, inode, size, time of change.
type FileId = (u64, u64, i64, i64);

/// Reads notes, each file once: a hundred shells map the same library.
#[derive(Debug, Default)]
pub struct Binaries {
    known: HashMap<FileId, Result<Arc<Notes>, Arc<NotesError>>>,
}

impl Binaries {
    /// The executable of a process, then its other files mapped executable, by path.
    ///
    /// # Errors
    /// The process has ended, or belongs to another user.
    pub fn of_process(&mut self, pid: u32) -> io::Result<Vec<Binary>> {
        let process = ProcDir::open(pid)?;
        let exe = process.read_link("exe")?;
        let maps = process.read("maps")?;
        // `/proc/PID/exe` reaches the file that runs, even one deleted or replaced since.
        let reach = PathBuf::from(format!("/proc/{pid}/exe"));
        let mut binaries = vec![Binary {
            notes: self.notes(
                rustix::fs::open(&reach, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()),
                None,
            ),
            path: exe.clone(),
            reach,
        }];
        let root = process.open_dir("root");
        for (path, inode) in executable_mappings(&maps) {
            if path == exe || binaries.len() >= MAX_FILES {
                continue;
            }
            let reach = match path.strip_prefix("/") {
                Ok(inside) => Path::new("/proc")
                    .join(pid.to_string())
                    .join("root")
                    .join(inside),
                Err(_) => continue,
            };
            // Inside the process's own root: a symbolic link of a container must not lead to a file
            // of ours.
            let place = match &root {
                Ok(root) => rustix::fs::openat2(
                    root,
                    &path,
                    OFlags::PATH | OFlags::CLOEXEC,
                    Mode::empty(),
                    ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
                ),
                Err(_) => continue,
            };
            let notes = self.notes(place, Some(inode));
            binaries.push(Binary { path, reach, notes });
        }
        Ok(binaries)
    }

    fn notes(
        &mut self,
        place: rustix::io::Result<OwnedFd>,
        inode: Option<u64>,
    ) -> Result<Arc<Notes>, Arc<NotesError>> {
        let place = place.map_err(|e| Arc::new(NotesError::Open(e.into())))?;
        let st = rustix::fs::fstat(&place).map_err(|e| Arc::new(NotesError::Open(e.into())))?;
        if inode.is_some_and(|mapped| mapped != st.st_ino) {
            let replaced = io::Error::other("the file was replaced since the process mapped it");
            return Err(Arc::new(NotesError::Open(replaced)));
        }
        let id = (st.st_dev, st.st_ino, st.st_size, st.st_ctime);
        self.known
            .entry(id)
            .or_insert_with(|| {
                notes::reopen_regular(&place)
                    .and_then(notes::read)
                    .map(Arc::new)
                    .map_err(Arc::new)
            })
            .clone()
    }
}

/// Files mapped executable, with their inodes; the same file once.
pub(crate) fn executable_mappings(maps: &[u8]) -> BTreeMap<PathBuf, u64> {
    maps.split(|&b| b == b'\n')
        .filter_map(executable_mapping)
        .collect()
}

/// One line of `maps`: `start-end perms offset dev inode   path`.
fn executable_mapping(line: &[u8]) -> Option<(PathBuf, u64)> {
    let mut rest = line;
    let mut field = || -> Option<&[u8]> {
        let start = rest.iter().position(|&b| b != b' ')?;
        let end = rest.iter().skip(start).position(|&b| b == b' ')? + start;
        let (word, after) = (rest.get(start..end)?, rest.get(end..)?);
        rest = after;
        Some(word)
    };
    let (_range, perms, _offset, _dev, inode) = (field()?, field()?, field()?, field()?, field()?);
    if !perms.contains(&b'x') {
        return None;
    }
    let inode = std::str::from_utf8(inode).ok()?.parse().ok()?;
    let path = rest.get(rest.iter().position(|&b| b != b' ')?..)?;
    // Not `[vdso]`, not `anon_inode:…`, not ` (deleted)`, which cannot be reached by its path.
    if inode == 0 || !path.starts_with(b"/") || path.ends_with(b" (deleted)") {
        return None;
    }
    // The kernel writes a newline in a path as \012.
    let mut text = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&first, after)) = rest.split_first() {
        match rest.strip_prefix(b"\\012") {
            Some(after) => {
                text.push(b'\n');
                rest = after;
            }
            None => {
                text.push(first);
                rest = after;
            }
        }
    }
    Some((PathBuf::from(OsString::from_vec(text)), inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let one = |line: &str| executable_mapping(line.as_bytes());
        assert_eq!(
            one("7f0-7f1 r-xp 00026000 fe:00 2885   /usr/lib/libc.so.6"),
            Some(("/usr/lib/libc.so.6".into(), 2885))
        );
        assert_eq!(
            one(r"7f0-7f1 r-xp 00026000 fe:00 2885   /tmp/a b\012c"),
            Some(("/tmp/a b\nc".into(), 2885))
        );
        assert_eq!(
            one("7f0-7f1 r--p 00026000 fe:00 2885   /usr/lib/libc.so.6"),
            None
        );
        assert_eq!(one("7f0-7f1 r-xp 00000000 00:00 0      [vdso]"), None);
        assert_eq!(one("7f0-7f1 r-xp 00000000 00:00 0 "), None);
        assert_eq!(one("7f0-7f1 r-xp 00000000 fe:00 7 /tmp/x (deleted)"), None);
        for broken in ["", " ", "a b c d e", "7f0-7f1 r-xp 0 fe:00 nine /x", "    "] {
            assert_eq!(one(broken), None, "{broken}");
        }
    }

    #[test]
    fn own_binaries_are_found_once_each() {
        let mut binaries = Binaries::default();
        let found = binaries.of_process(std::process::id()).expect("own maps");
        let exe = std::env::current_exe().expect("own path");
        assert_eq!(found.first().map(|b| &b.path), Some(&exe));
        assert_eq!(found.iter().filter(|b| b.path == exe).count(), 1);
        let libc = found
            .iter()
            .find(|b| b.path.to_string_lossy().contains("libc.so"));
        if let Some(libc) = libc {
            let notes = libc.notes.as_ref().expect("libc is an ELF file");
            assert!(notes.probes.iter().all(|p| p.provider == "libc"));
        }
        let known = binaries.known.len();
        binaries
            .of_process(std::process::id())
            .expect("own maps again");
        assert_eq!(binaries.known.len(), known, "each file is read once");
    }
}
