//! The Unix sockets that a process listens on: how a server is found whatever its environment says.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// `SO_ACCEPTCON` in the flags of `/proc/net/unix`: a socket that listens.
const LISTENS: u32 = 1 << 16;

/// Paths of the sockets that process `pid` listens on, as reached from here. Empty for a process
/// that has ended or belongs to another user.
pub fn sockets(pid: u32) -> Vec<PathBuf> {
    let Ok(table) = std::fs::read(format!("/proc/{pid}/net/unix")) else {
        return Vec::new();
    };
    let own = inodes(pid);
    listening(&table)
        .filter(|(inode, _)| own.contains(inode))
        .filter_map(|(_, path)| {
            // Paths are those of the process's own root; abstract names begin with @.
            let inside = path.strip_prefix("/").ok()?;
            Some(
                Path::new("/proc")
                    .join(pid.to_string())
                    .join("root")
                    .join(inside),
            )
        })
        .collect()
}

/// Inodes of the sockets among a process's descriptors.
fn inodes(pid: u32) -> BTreeSet<u64> {
    let Ok(fds) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return BTreeSet::new();
    };
    fds.filter_map(|fd| {
        let link = std::fs::read_link(fd.ok()?.path()).ok()?;
        link.to_str()?
            .strip_prefix("socket:[")?
            .strip_suffix(']')?
            .parse()
            .ok()
    })
    .collect()
}

/// Inode and path of every listening socket in `/proc/net/unix`:
/// `address: refcount protocol flags type state inode path`. The path is the rest of the line and
/// may hold anything but a newline.
pub(crate) fn listening(table: &[u8]) -> impl Iterator<Item = (u64, PathBuf)> + '_ {
    table.split(|b| *b == b'\n').skip(1).filter_map(|line| {
        let mut fields = line.splitn(2, |b| *b == b'/');
        let (head, path) = (std::str::from_utf8(fields.next()?).ok()?, fields.next()?);
        let mut words = head.split_ascii_whitespace().skip(3);
        let flags = u32::from_str_radix(words.next()?, 16).ok()?;
        let inode = words.nth(2)?.parse().ok()?;
        let path = PathBuf::from(OsString::from_vec([b"/", path].concat()));
        (flags & LISTENS != 0).then_some((inode, path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_with_a_path_are_found() {
        let table = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 101 /run/a b.sock\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 102 /run/connected\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 103 @abstract\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 104\n\
            torn 0000";
        let found: Vec<_> = listening(table).collect();
        assert_eq!(found, [(101, PathBuf::from("/run/a b.sock"))]);
    }

    #[test]
    fn a_socket_of_this_process_is_reached() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("s.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&path).expect("bound");
        let found = sockets(std::process::id());
        let found = found.iter().find(|p| p.ends_with("s.sock")).expect("found");
        std::os::unix::net::UnixStream::connect(found).expect("reached through /proc");
        assert!(sockets(u32::MAX).is_empty());
    }
}
