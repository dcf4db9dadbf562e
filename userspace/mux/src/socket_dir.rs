//! Binding the server's socket: a directory of our own, one server, no stale file in the way.

use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use rustix::fs::FlockOperation;

/// A bound socket. The lock is held for as long as the server lives, so that of two that start at
/// once one wins, and is released by the system however the server ends.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) listener: UnixListener,
    _lock: File,
}

/// Binds `path`.
///
/// # Errors
/// Where the directory is not ours alone, the path is too long, or another server is there.
pub(crate) fn bind(path: &Path) -> anyhow::Result<Bound> {
    ensure!(
        path.as_os_str().len() <= phux_wire::socket::MAX_PATH,
        "the socket's path is longer than {} bytes: {}",
        phux_wire::socket::MAX_PATH,
        path.display()
    );
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = dir.context("the socket's path names no directory")?;
    prepare_dir(dir)?;
    let lock = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path.with_extension("lock"))
        .with_context(|| format!("cannot open the lock beside {}", path.display()))?;
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        bail!("another server has {}", path.display());
    }
    // With the lock, a socket that is there is stale or that of a server that knows no lock.
    match UnixStream::connect(path) {
        Ok(_) => bail!("another server listens on {}", path.display()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        // A file that is no socket refuses too.
        Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused && is_socket(path) => {
            std::fs::remove_file(path).context("cannot remove the stale socket")?;
        }
        Err(e) => bail!("{} is not a socket of ours: {e}", path.display()),
    }
    let listener =
        UnixListener::bind(path).with_context(|| format!("cannot bind {}", path.display()))?;
    // The directory has kept everyone else out until here.
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))
        .with_context(|| format!("cannot set the mode of {}", path.display()))?;
    Ok(Bound {
        listener,
        _lock: lock,
    })
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

/// Makes the socket's directory, or checks that nobody else can get at what is in it: what the
/// socket lets in can type into every session.
fn prepare_dir(dir: &Path) -> anyhow::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {}
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(e).with_context(|| format!("cannot make {}", dir.display())),
    }
    let meta = std::fs::symlink_metadata(dir)
        .with_context(|| format!("cannot look at {}", dir.display()))?;
    let owner = rustix::process::geteuid().as_raw();
    ensure!(
        meta.is_dir() && meta.uid() == owner && meta.mode() & 0o077 == 0,
        "{} must be a directory of user {owner} with mode 0700",
        dir.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of our own, and in it the place for a socket.
    fn place() -> (tempfile::TempDir, std::path::PathBuf) {
        let base = tempfile::tempdir().expect("temporary directory");
        std::fs::set_permissions(base.path(), PermissionsExt::from_mode(0o700)).expect("chmod");
        let path = base.path().join("phux.sock");
        (base, path)
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("exists").mode() & 0o777
    }

    #[test]
    fn directory_and_socket_are_ours_alone() {
        let base = tempfile::tempdir().expect("temporary directory");
        let path = base.path().join("phux/phux.sock");
        let _bound = bind(&path).expect("bind");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().expect("directory")), 0o700);
    }

    #[test]
    fn a_directory_open_to_others_is_refused() {
        let base = tempfile::tempdir().expect("temporary directory");
        std::fs::set_permissions(base.path(), PermissionsExt::from_mode(0o755)).expect("chmod");
        let error = bind(&base.path().join("phux.sock")).expect_err("refused");
        assert!(error.to_string().contains("0700"), "{error}");
    }

    #[test]
    fn a_link_to_a_directory_is_refused() {
        let base = tempfile::tempdir().expect("temporary directory");
        std::fs::create_dir(base.path().join("real")).expect("mkdir");
        std::os::unix::fs::symlink("real", base.path().join("link")).expect("link");
        bind(&base.path().join("link/phux.sock")).expect_err("refused");
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let (_base, path) = place();
        drop(UnixListener::bind(&path).expect("a socket that nobody listens on"));
        let bound = bind(&path).expect("stale");
        bind(&path).expect_err("locked");
        drop(bound);
        // A server without a lock.
        std::fs::remove_file(&path).expect("remove");
        let _other = UnixListener::bind(&path).expect("bind");
        let error = bind(&path).expect_err("live");
        assert!(error.to_string().contains("another server"), "{error}");
    }

    #[test]
    fn anything_but_a_socket_is_left_alone() {
        let (_base, path) = place();
        std::fs::write(&path, "precious").expect("write");
        bind(&path).expect_err("not a socket");
        assert_eq!(std::fs::read(&path).expect("still there"), b"precious");
    }
}
