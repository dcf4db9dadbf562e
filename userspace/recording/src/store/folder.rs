//! Folders and files of a recording. Keystroke timing is sensitive: all is the owner's alone, and no link is followed.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};

use crate::Error;

const FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::RDONLY);

/// The user as whom this thread makes files: under sudo not the effective one, see setfsuid(2).
pub(crate) fn file_system_uid() -> u32 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let uids = status.lines().find_map(|l| l.strip_prefix("Uid:"));
    let of_files = uids.and_then(|l| l.split_ascii_whitespace().nth(3)?.parse().ok());
    of_files.unwrap_or_else(|| rustix::process::geteuid().as_raw())
}

/// An open folder: what is done in it is done there even if its path comes to mean something else.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens a folder. Its last component is not followed if it is a link; what leads to it is.
    pub(crate) fn open(path: &Path) -> Result<Folder, Error> {
        let fd = rustix::fs::open(path, FOLDER, Mode::empty()).map_err(|e| refused(path, e))?;
        Ok(Folder {
            fd,
            path: path.to_path_buf(),
        })
    }

    /// Opens the recording's own folder, and makes it (0700) where it is missing.
    pub(crate) fn create(path: &Path) -> Result<Folder, Error> {
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Folder::open(path),
            Err(e) => Err(Error::io(
                format!("cannot make {}", path.display()),
                e.into(),
            )),
        }
    }

    /// A folder in this one, made (0700) where it is missing. One of another user is refused: who
    /// owns it could swap the files in it.
    pub(crate) fn create_in(&self, name: &str) -> Result<Folder, Error> {
        let path = self.path.join(name);
        match rustix::fs::mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(e) => {
                return Err(Error::io(
                    format!("cannot make {}", path.display()),
                    e.into(),
                ));
            }
        }
        let folder = self.open_in(name)?;
        if folder.owner()? != file_system_uid() {
            return Err(Error::Unsafe {
                path,
                why: "this folder is another user's",
            });
        }
        Ok(folder)
    }

    /// A folder in this one.
    pub(crate) fn open_in(&self, name: &str) -> Result<Folder, Error> {
        let path = self.path.join(name);
        let fd = rustix::fs::openat(&self.fd, name, FOLDER, Mode::empty())
            .map_err(|e| refused(&path, e))?;
        Ok(Folder { fd, path })
    }

    /// A new file (0600); one that is there already is an error.
    pub(crate) fn create_file(&self, name: &str) -> Result<File, Error> {
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.file(name, flags)
            .map_err(|e| Error::io(format!("cannot make {}", self.describe(name)), e))
    }

    /// An existing file, to be read; and to be written, if so said.
    pub(crate) fn open_file(&self, name: &str, write: bool) -> io::Result<File> {
        let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
        // Not blocking: a name that turned out to be a FIFO must not hang us.
        let file = self.file(
            name,
            access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK,
        )?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a file"));
        }
        Ok(file)
    }

    fn file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(File::from(fd))
    }

    /// Gives a file its name; over an older one only if so said.
    pub(crate) fn rename(&self, from: &str, to: &str, replace: bool) -> io::Result<()> {
        let flags = if replace {
            RenameFlags::empty()
        } else {
            RenameFlags::NOREPLACE
        };
        match rustix::fs::renameat_with(&self.fd, from, &self.fd, to, flags) {
            // File systems without RENAME_NOREPLACE (some FUSE and network ones).
            Err(rustix::io::Errno::INVAL) if !replace => {
                rustix::fs::linkat(&self.fd, from, &self.fd, to, AtFlags::empty())?;
                self.remove(from)
            }
            other => Ok(other?),
        }
    }

    /// Removes a file; one that is gone already is fine.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Removes an empty folder in it: whether it is gone. One that is not empty, or a link, stays.
    pub(crate) fn remove_folder(&self, name: &str) -> Result<bool, Error> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(true),
            Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::NOTDIR) => Ok(false),
            Err(e) => Err(Error::io(
                format!("cannot remove {}", self.describe(name)),
                e.into(),
            )),
        }
    }

    /// Whose it is.
    pub(crate) fn owner(&self) -> Result<u32, Error> {
        let stat = rustix::fs::fstat(&self.fd)
            .map_err(|e| Error::io(self.path.display().to_string(), e.into()))?;
        Ok(stat.st_uid)
    }

    /// Makes renames in it outlast a power cut.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.fd.as_fd())?)
    }

    /// Waits until nobody else has it locked; unlocked when it is dropped.
    pub(crate) fn lock(&self) -> Result<(), Error> {
        rustix::fs::flock(&self.fd, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|e| Error::io(format!("cannot lock {}", self.path.display()), e.into()))
    }

    /// The same folder.
    pub(crate) fn again(&self) -> Result<Folder, Error> {
        let fd = self
            .fd
            .try_clone()
            .map_err(|e| Error::io(format!("cannot open {}", self.path.display()), e))?;
        Ok(Folder {
            fd,
            path: self.path.clone(),
        })
    }

    /// What is in it, by name; names that are not UTF-8 are not ours.
    pub(crate) fn list(&self) -> Result<Vec<(String, FileType)>, Error> {
        let failed = |e: rustix::io::Errno| {
            Error::io(format!("cannot list {}", self.path.display()), e.into())
        };
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if name == "." || name == ".." {
                continue;
            }
            let mut kind = entry.file_type();
            if kind == FileType::Unknown {
                // Some file systems do not say; a file that has just vanished stays unknown.
                kind = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |s| FileType::from_raw_mode(s.st_mode));
            }
            found.push((name.to_owned(), kind));
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn describe(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn refused(path: &Path, e: rustix::io::Errno) -> Error {
    match e {
        rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR => Error::Unsafe {
            path: path.to_path_buf(),
            why: "not a folder (a link is not followed)",
        },
        e => Error::io(format!("cannot open {}", path.display()), e.into()),
    }
}
