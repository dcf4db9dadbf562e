//! Where the daemon's things are, and that they are nobody else's.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, mkdir};
use rustix::io::Errno;

/// Held locked by the daemon whose recordings these are.
const LOCK: &str = ".daemon.lock";

/// systemd's variable, or what it would be. With a dynamic user it is a link to where it really is.
fn directory(variable: &str, usual: &str) -> PathBuf {
    let dir = match std::env::var_os(variable) {
        // Several are separated by colons; ours is one.
        Some(dir) if !dir.is_empty() => dir.into(),
        _ => PathBuf::from(usual),
    };
    std::fs::canonicalize(&dir).unwrap_or(dir)
}

/// The folder of the recordings.
pub(super) fn recordings(asked: Option<&Path>) -> PathBuf {
    match asked {
        Some(dir) => dir.to_owned(),
        None => directory("STATE_DIRECTORY", "/var/lib/phux-trace"),
    }
}

/// The socket.
pub(super) fn socket(asked: Option<&Path>) -> PathBuf {
    match asked {
        Some(path) => path.to_owned(),
        None => directory("RUNTIME_DIRECTORY", "/run/phux-trace").join("ctl.sock"),
    }
}

/// Opens a folder that is ours and that nobody else may enter; makes it where it is missing.
pub(super) fn private(dir: &Path) -> Result<OwnedFd> {
    match mkdir(dir, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(e) => return Err(e).with_context(|| format!("cannot make {}", dir.display())),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(dir, flags, Mode::empty());
    let opened = opened.with_context(|| format!("cannot open {}", dir.display()))?;
    let stat = fstat(&opened).with_context(|| dir.display().to_string())?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        bail!("{} is another user's", dir.display());
    }
    if stat.st_mode & 0o077 != 0 {
        bail!("{} must be ours alone (chmod 700)", dir.display());
    }
    Ok(opened)
}

/// Takes a folder of recordings for this daemon alone, for as long as the answer lives.
pub(super) fn claim(dir: &Path) -> Result<File> {
    let folder = private(dir)?;
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = rustix::fs::openat(&folder, LOCK, flags, Mode::RUSR | Mode::WUSR);
    let lock = lock.with_context(|| format!("cannot lock {}", dir.display()))?;
    only(&lock, dir)?;
    Ok(lock.into())
}

/// Locks it, or says who must have it.
pub(super) fn only(lock: impl AsFd, of: &Path) -> Result<()> {
    match flock(lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => bail!("another phux-trace daemon has {}", of.display()),
        Err(e) => Err(e).with_context(|| format!("cannot lock {}", of.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_is_ours_alone_or_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let new = dir.path().join("new");
        let first = claim(&new).expect("made");
        let told = claim(&new).expect_err("taken").to_string();
        assert!(told.contains("another phux-trace daemon"), "{told}");
        drop(first);
        claim(&new).expect("free again");
        let open = std::fs::Permissions::from_mode(0o750);
        std::fs::set_permissions(&new, open).expect("chmod");
        assert!(claim(&new).is_err(), "others may enter");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).expect("a link");
        assert!(private(&link).is_err(), "a link");
    }
}
