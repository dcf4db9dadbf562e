use std::io::Read;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, ptsname, unlockpt};

use super::*;

#[test]
fn device_numbers() {
    assert_eq!(slave_index(136, 3), Some(3));
    assert_eq!(
        slave_index(136, 70_000),
        Some(70_000),
        "one major holds 2^20 minors"
    );
    assert_eq!(slave_index(137, 1), Some(257));
    assert_eq!(slave_index(135, 0), None);
    assert_eq!(slave_index(144, 0), None);
}

#[test]
fn fdinfo() {
    let of = |text: &str| FdInfo::parse(text.as_bytes());
    assert_eq!(
        of("pos:\t0\nflags:\t02100002\nmnt_id:\t24\nino:\t91\ntty-index:\t7\n"),
        FdInfo {
            tty_index: Some(7),
            mnt_id: Some(24)
        }
    );
    assert_eq!(of("tty-index:\tx\nmnt_id:\t-1\n"), FdInfo::default());
    assert_eq!(of(""), FdInfo::default());
}

fn index_of(master: &impl AsFd) -> u32 {
    let path = ptsname(master, Vec::new())
        .expect("a PTY")
        .into_string()
        .expect("ASCII");
    path.rsplit('/')
        .next()
        .and_then(|n| n.parse().ok())
        .expect("/dev/pts/N")
}

#[test]
fn both_ends_in_this_process() {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).expect("a PTY");
    grantpt(&master).expect("granted");
    unlockpt(&master).expect("unlocked");
    let slave = ioctl_tiocgptpeer(&master, flags).expect("the slave");
    let second = rustix::io::fcntl_dupfd_cloexec(&slave, 0).expect("a second descriptor");
    let me = std::process::id();
    let scan = scan([(me, "me")]);
    let pty = scan
        .ptys
        .iter()
        .find(|p| p.index == index_of(&master))
        .expect("found");
    let raw = |fd: &OwnedFd| u32::try_from(fd.as_raw_fd()).expect("a descriptor");
    let mut slaves = vec![raw(&slave), raw(&second)];
    slaves.sort_unstable();
    assert_eq!(
        pty.master,
        [Holder {
            pid: me,
            name: "me".into(),
            fds: vec![raw(&master)]
        }]
    );
    assert_eq!(
        pty.slave,
        [Holder {
            pid: me,
            name: "me".into(),
            fds: slaves
        }]
    );
    assert_eq!(pty.devpts, rustix::fs::fstat(&slave).expect("slave").st_dev);
}

/// A child that holds PTYs in mounts of its own; killed at the end.
struct Held(Child);

impl Held {
    /// Runs a shell script behind `unshare -m` and waits until it has printed `ready`.
    fn run(script: &str) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh");
        let mut ready = [0; 5];
        child
            .stdout
            .as_mut()
            .expect("piped")
            .read_exact(&mut ready)
            .expect(script);
        assert_eq!(&ready, b"ready");
        Self(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn root_or_skip(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    assert!(
        root || std::env::var_os("CI").is_none(),
        "{test} needs root"
    );
    if !root {
        println!("{test}: skipped, needs root");
    }
    root
}

/// The only PTY whose master `pid` holds.
fn master_of(pids: &[u32], pid: u32) -> Pty {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let ptys = scan(pids.iter().map(|p| (*p, "x"))).ptys;
        if let Some(pty) = ptys.into_iter().find(|p| p.held_by(pid, Side::Master)) {
            return pty;
        }
        assert!(Instant::now() < deadline, "pid {pid} never held a master");
        std::thread::yield_now();
    }
}

/// Two containers' worth of `/dev/pts/0`: one reached through the instance's own `ptmx`, one
/// through the host's node.
#[test]
fn the_same_index_in_two_devpts_instances() {
    if !root_or_skip("the_same_index_in_two_devpts_instances") {
        return;
    }
    const MOUNT: &str = "mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts";
    let hold = "exec 3<>/dev/ptmx; printf ready; read -r _";
    let own = Held::run(&format!(
        "exec unshare -m sh -c '{MOUNT} && mount --bind /dev/pts/ptmx /dev/ptmx && {hold}'"
    ));
    let node = Held::run(&format!("exec unshare -m sh -c '{MOUNT} && {hold}'"));
    let pids = [own.pid(), node.pid()];
    let (a, b) = (master_of(&pids, own.pid()), master_of(&pids, node.pid()));
    assert_eq!((a.index, b.index), (0, 0), "a new instance counts from 0");
    assert_ne!(a.devpts, b.devpts, "told apart by the instance");
    for (pty, pid) in [(&a, own.pid()), (&b, node.pid())] {
        let root = std::fs::metadata(format!("/proc/{pid}/root/dev/pts")).expect("its devpts");
        assert_eq!(pty.devpts, std::os::unix::fs::MetadataExt::dev(&root));
        assert_eq!(pty.master.len(), 1, "not merged with the other one");
    }
}

/// A master from our namespace in a process that has since moved to another: its instance is still
/// ours.
#[test]
fn a_master_carried_into_another_mount_namespace() {
    if !root_or_skip("a_master_carried_into_another_mount_namespace") {
        return;
    }
    let moved = Held::run(
        "exec 3<>/dev/ptmx; exec unshare -m sh -c \
         'mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts; printf ready; read -r _'",
    );
    let pids = [std::process::id(), moved.pid()];
    let pty = master_of(&pids, moved.pid());
    let here = std::fs::metadata("/dev/pts").expect("devpts");
    assert_eq!(pty.devpts, std::os::unix::fs::MetadataExt::dev(&here));
}

#[test]
fn vanished_processes_are_left_out() {
    let scan = scan([(u32::MAX, "gone"), (u32::MAX - 1, "gone too")]);
    assert!(scan.ptys.is_empty());
    assert_eq!(scan.refused, 0);
}
