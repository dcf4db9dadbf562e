//! What a file is called: as a person would, and as `/proc/PID/fd` does where that says enough.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use probe_ebpf::events;

/// `S_IFMT` and two of its values, of stat(2).
const S_IFMT: u16 = 0o170_000;
const S_IFSOCK: u16 = 0o140_000;
const S_IFIFO: u16 = 0o010_000;

/// `linux/magic.h`.
const PIPEFS_MAGIC: u32 = 0x5049_5045;
const ANON_INODE_FS_MAGIC: u32 = 0x0904_1934;
const PID_FS_MAGIC: u32 = 0x5049_4446;
const NSFS_MAGIC: u32 = 0x6e73_6673;

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
const AF_NETLINK: u16 = 16;
const SOCK_STREAM: u16 = 1;
const SOCK_DGRAM: u16 = 2;
const SOCK_TYPE_MASK: u16 = 0xf;

/// Writes the name into `out`, which is emptied first.
pub fn name_of(file: &events::ev_file, names: &[u8], out: &mut String) {
    out.clear();
    // Writing into a String cannot fail.
    let _ = match file.mode & S_IFMT {
        S_IFSOCK => socket(file, names, out),
        S_IFIFO if file.magic == PIPEFS_MAGIC => write!(out, "pipe:[{}]", file.ino),
        _ => {
            path(file, names, out);
            Ok(())
        }
    };
}

fn path(file: &events::ev_file, names: &[u8], out: &mut String) {
    // Each is ended by a zero, so what follows the last one is no name.
    let names = names.strip_suffix(&[0]).unwrap_or(names);
    if names.is_empty() {
        // No name at all: the root, or a thing of a file system that makes names up.
        let _ = match file.magic {
            PID_FS_MAGIC => write!(out, "pidfd:[{}]", file.ino),
            NSFS_MAGIC => write!(out, "namespace:[{}]", file.ino),
            _ => write!(out, "/"),
        };
        return;
    }
    let cut = u32::from(file.flags) & events::FILE_CUT != 0;
    if file.magic == ANON_INODE_FS_MAGIC {
        out.push_str("anon_inode:");
        out.push_str(&String::from_utf8_lossy(names));
        return;
    }
    if cut {
        out.push_str("...");
    }
    for name in names.rsplit(|b| *b == 0) {
        out.push('/');
        match std::str::from_utf8(name) {
            Ok(name) => out.push_str(name),
            Err(_) => out.push_str(&String::from_utf8_lossy(name)),
        }
    }
    if u32::from(file.flags) & events::FILE_DELETED != 0 || names.starts_with(b"memfd:") {
        out.push_str(" (deleted)");
    }
}

fn socket(file: &events::ev_file, names: &[u8], out: &mut String) -> std::fmt::Result {
    let kind = file.type_ & SOCK_TYPE_MASK;
    match file.family {
        AF_UNIX => {
            out.push_str("unix:");
            // An abstract address begins with a zero and is shown with an @, as by ss(8).
            let bound = match names.split_first() {
                Some((0, rest)) => {
                    out.push('@');
                    rest
                }
                _ => names,
            };
            let bound = bound.split(|b| *b == 0).next().unwrap_or_default();
            out.push_str(&String::from_utf8_lossy(bound));
            write!(out, "[{}]", file.ino)?;
            if file.peer_ino != 0 {
                write!(out, "->[{}]", file.peer_ino)?;
            }
            Ok(())
        }
        AF_INET | AF_INET6 => {
            out.push_str(match kind {
                SOCK_STREAM => "tcp:",
                SOCK_DGRAM => "udp:",
                _ => "ip:",
            });
            address(file.family, &file.addr, file.port, out)?;
            if file.peer_port != 0 {
                out.push_str("->");
                address(file.family, &file.peer_addr, file.peer_port, out)?;
            }
            Ok(())
        }
        AF_NETLINK => write!(out, "netlink:[{}]", file.ino),
        family => write!(out, "socket:[{}] of family {family}", file.ino),
    }
}

fn address(family: u16, bytes: &[u8; 16], port: u16, out: &mut String) -> std::fmt::Result {
    if family == AF_INET {
        let [a, b, c, d, ..] = *bytes;
        write!(out, "{}:{port}", Ipv4Addr::new(a, b, c, d))
    } else {
        write!(out, "[{}]:{port}", Ipv6Addr::from(*bytes))
    }
}

/// Writes a path that a program gave, which starts at `base` unless it is absolute, into `out`.
pub fn given_path(base: Option<&str>, given: &[u8], out: &mut String) {
    out.clear();
    let mut given = given.strip_suffix(&[0]).unwrap_or(given);
    if !given.starts_with(b"/")
        && let Some(base) = base
    {
        out.push_str(base);
        while let Some(rest) = given.strip_prefix(b"./") {
            given = rest;
        }
        if given.is_empty() || given == b"." {
            return;
        }
        if !out.ends_with('/') {
            out.push('/');
        }
    }
    match std::str::from_utf8(given) {
        Ok(given) => out.push_str(given),
        Err(_) => out.push_str(&String::from_utf8_lossy(given)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(file: &events::ev_file, names: &[u8]) -> String {
        let mut out = "left over".into();
        name_of(file, names, &mut out);
        out
    }

    fn file(mode: u16) -> events::ev_file {
        events::ev_file {
            mode,
            ino: 7,
            ..events::ev_file::default()
        }
    }

    #[test]
    fn a_path_is_told_leaf_first_and_read_root_first() {
        let mut f = file(0o100_644);
        assert_eq!(named(&f, b"c\0b\0a\0"), "/a/b/c");
        assert_eq!(named(&f, b""), "/");
        f.flags = (events::FILE_CUT | events::FILE_DELETED) as u16;
        assert_eq!(named(&f, b"c\0b\0"), ".../b/c (deleted)");
        assert_eq!(named(&file(0o100_644), b"memfd:x\0"), "/memfd:x (deleted)");
    }

    #[test]
    fn pipes_and_sockets_are_named_by_their_ends() {
        let mut pipe = file(S_IFIFO | 0o600);
        pipe.magic = PIPEFS_MAGIC;
        assert_eq!(named(&pipe, b""), "pipe:[7]");
        let mut s = file(S_IFSOCK);
        (s.family, s.type_, s.peer_ino) = (AF_UNIX, SOCK_STREAM, 9);
        assert_eq!(named(&s, b"/run/s\0"), "unix:/run/s[7]->[9]");
        assert_eq!(named(&s, b"\0abstract"), "unix:@abstract[7]->[9]");
        (s.family, s.port, s.peer_port) = (AF_INET, 80, 4000);
        s.addr[..4].copy_from_slice(&[127, 0, 0, 1]);
        s.peer_addr[..4].copy_from_slice(&[10, 0, 0, 2]);
        assert_eq!(named(&s, b""), "tcp:127.0.0.1:80->10.0.0.2:4000");
        (s.family, s.type_, s.peer_port) = (AF_INET6, SOCK_DGRAM, 0);
        assert_eq!(named(&s, b""), "udp:[7f00:1::]:80");
    }

    #[test]
    fn a_given_path_starts_where_the_kernel_starts_it() {
        let given = |base, path: &[u8]| {
            let mut out = String::new();
            given_path(base, path, &mut out);
            out
        };
        assert_eq!(given(Some("/a"), b"b\0"), "/a/b");
        assert_eq!(given(Some("/"), b"b\0"), "/b");
        assert_eq!(given(Some("/a"), b"/b\0"), "/b");
        assert_eq!(given(Some("/a"), b"././b\0"), "/a/b");
        assert_eq!(given(Some("/a"), b"\0"), "/a");
        assert_eq!(given(None, b"b\0"), "b");
    }
}
