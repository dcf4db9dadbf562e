//! Names of the system calls that a terminal's programs sleep in.

/// The name of a system call of this architecture, if it is one of those.
pub fn name(nr: i32) -> Option<&'static str> {
    let nr = libc::c_long::from(nr);
    COMMON
        .iter()
        .chain(OLD)
        .find(|(known, _)| *known == nr)
        .map(|(_, name)| *name)
}

macro_rules! table {
    ($($name:ident $sys:ident),* $(,)?) => { &[$((libc::$sys, stringify!($name))),*] };
}

/// On every architecture.
const COMMON: &[(libc::c_long, &str)] = table![
    read SYS_read, readv SYS_readv, pread64 SYS_pread64, write SYS_write, writev SYS_writev,
    pwrite64 SYS_pwrite64, sendto SYS_sendto, sendmsg SYS_sendmsg, sendmmsg SYS_sendmmsg,
    recvfrom SYS_recvfrom, recvmsg SYS_recvmsg, recvmmsg SYS_recvmmsg, connect SYS_connect,
    accept SYS_accept, accept4 SYS_accept4, epoll_pwait SYS_epoll_pwait, ppoll SYS_ppoll,
    pselect6 SYS_pselect6, futex SYS_futex, nanosleep SYS_nanosleep,
    clock_nanosleep SYS_clock_nanosleep, fsync SYS_fsync, fdatasync SYS_fdatasync,
    sync SYS_sync, syncfs SYS_syncfs, sync_file_range SYS_sync_file_range, msync SYS_msync,
    openat SYS_openat, close SYS_close, ioctl SYS_ioctl, fcntl SYS_fcntl, flock SYS_flock,
    ftruncate SYS_ftruncate, fallocate SYS_fallocate, unlinkat SYS_unlinkat, mkdirat SYS_mkdirat,
    statx SYS_statx, getdents64 SYS_getdents64, lseek SYS_lseek, splice SYS_splice,
    sendfile SYS_sendfile, wait4 SYS_wait4, waitid SYS_waitid, execve SYS_execve, clone SYS_clone,
    clone3 SYS_clone3, mmap SYS_mmap, munmap SYS_munmap, mprotect SYS_mprotect,
    madvise SYS_madvise, brk SYS_brk, rt_sigtimedwait SYS_rt_sigtimedwait,
    rt_sigsuspend SYS_rt_sigsuspend, io_uring_enter SYS_io_uring_enter,
    sched_yield SYS_sched_yield, kill SYS_kill, exit_group SYS_exit_group,
];

/// Only where they are older than their successors.
#[cfg(target_arch = "x86_64")]
const OLD: &[(libc::c_long, &str)] = table![
    poll SYS_poll, select SYS_select, epoll_wait SYS_epoll_wait, open SYS_open, stat SYS_stat,
    lstat SYS_lstat, rename SYS_rename, unlink SYS_unlink, mkdir SYS_mkdir, fork SYS_fork,
    vfork SYS_vfork, pause SYS_pause,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[(libc::c_long, &str)] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_this_architecture() {
        assert_eq!(name(libc::SYS_fsync as i32), Some("fsync"));
        assert_eq!(name(libc::SYS_sendmsg as i32), Some("sendmsg"));
        assert_eq!(name(i32::MAX), None);
        assert_eq!(name(-1), None);
    }

    #[test]
    fn no_number_stands_twice() {
        let mut numbers: Vec<_> = COMMON.iter().chain(OLD).map(|(nr, _)| *nr).collect();
        let before = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), before);
    }
}
