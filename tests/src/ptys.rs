//! PTY pairs for the ground-truth programs.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{ffi::OsStr, io};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

/// A PTY in raw mode: bytes pass as they are, without echo.
#[derive(Debug)]
pub struct Pty {
    /// The master.
    pub master: OwnedFd,
    /// The slave; keep it until the other end is open, or the master sees a hang-up.
    pub slave: OwnedFd,
    /// The slave's path, `/dev/pts/N`.
    pub path: PathBuf,
    /// The N of the path.
    pub index: u32,
}

impl Pty {
    /// Opens a new pair.
    pub fn open() -> io::Result<Pty> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        Pty::of(master, Path::new("/dev/pts"))
    }

    /// Opens a new pair of the devpts instance that is mounted at `devpts`.
    pub fn open_in(devpts: &Path) -> io::Result<Pty> {
        Pty::of(open_slave(&devpts.join("ptmx"))?, devpts)
    }

    fn of(master: OwnedFd, devpts: &Path) -> io::Result<Pty> {
        unlockpt(&master)?;
        let name: CString = ptsname(&master, Vec::new())?;
        let name = Path::new(OsStr::from_bytes(name.as_bytes()));
        // The kernel gives the number; the name is what it would be in /dev/pts.
        let path = devpts.join(name.file_name().unwrap_or_default());
        let slave = open_slave(&path)?;
        let mut modes = tcgetattr(&slave)?;
        modes.make_raw();
        tcsetattr(&slave, OptionalActions::Now, &modes)?;
        let index = path
            .file_name()
            .and_then(OsStr::to_str)
            .and_then(|n| n.parse().ok())
            .ok_or_else(|| io::Error::other(format!("{}: no number", path.display())))?;
        Ok(Pty {
            master,
            slave,
            path,
            index,
        })
    }
}

/// Opens a slave without making it the controlling terminal.
pub fn open_slave(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// A descriptor as a [`File`], for the standard library's reads and writes.
pub fn file(fd: OwnedFd) -> File {
    File::from(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn raw_bytes_pass_unchanged() {
        let pty = Pty::open().expect("a pty");
        let (mut master, mut slave) = (file(pty.master), file(pty.slave));
        slave.write_all(b"a\nb\r\x03").expect("write");
        let mut got = [0; 5];
        master.read_exact(&mut got).expect("read");
        assert_eq!(&got, b"a\nb\r\x03");
    }
}
