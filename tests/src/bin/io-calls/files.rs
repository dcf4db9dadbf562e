//! Files: opened, read, written, duplicated, renamed while open, deleted while open, not there.

use crate::worker::{NONE, Worker, c, int, sys};

const CWD: i64 = libc::AT_FDCWD as i64;
const CREATE: usize = (libc::O_CREAT | libc::O_RDWR | libc::O_CLOEXEC) as usize;
const DEV_NULL: &str = "/dev/null";

/// `struct open_how`.
#[repr(C)]
struct How {
    flags: u64,
    mode: u64,
    resolve: u64,
}

impl Worker {
    /// Opens by a path that starts at the working directory.
    pub(crate) fn open(&mut self, name: &str, flags: usize) -> i64 {
        let (text, path) = (c(name), self.path(name));
        self.call(
            sys!(openat, SYS_openat),
            [int(CWD), text.as_ptr() as usize, flags, 0o600],
            Some(&path),
        )
    }

    pub(crate) fn close(&mut self, fd: i64, path: Option<&str>) {
        self.call(sys!(close, SYS_close), [int(fd)], path);
    }

    pub(crate) fn write(&mut self, fd: i64, bytes: &[u8], path: Option<&str>) -> i64 {
        self.call(
            sys!(write, SYS_write),
            [int(fd), bytes.as_ptr() as usize, bytes.len()],
            path,
        )
    }

    pub(crate) fn read(&mut self, fd: i64, most: usize, path: Option<&str>) -> i64 {
        let mut buffer = vec![0u8; most];
        self.call(
            sys!(read, SYS_read),
            [int(fd), buffer.as_mut_ptr() as usize, most],
            path,
        )
    }

    /// One file, by every descriptor that can be made of it.
    pub(crate) fn files(&mut self) {
        let a = self.path("a");
        let a = Some(a.as_str());
        let fd = self.open("a", CREATE);
        self.write(fd, b"0123456789", a);
        let bytes = *b"abc";
        let mut buffer = [0u8; 64];
        let (from, to) = (bytes.as_ptr() as usize, buffer.as_mut_ptr() as usize);
        self.call(sys!(pwrite64, SYS_pwrite64), [int(fd), from, 3, 10], a);
        self.call(sys!(lseek, SYS_lseek), [int(fd), 0, 0], a);
        self.read(fd, 5, a);
        self.call(sys!(pread64, SYS_pread64), [int(fd), to, 64, 0], a);
        let parts = [
            libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: 2,
            },
            libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: 1,
            },
        ];
        let parts = parts.as_ptr() as usize;
        self.call(sys!(readv, SYS_readv), [int(fd), parts, 2], a);
        self.call(sys!(writev, SYS_writev), [int(fd), parts, 2], a);
        self.call(sys!(preadv, SYS_preadv), [int(fd), parts, 2, 0], a);
        self.call(sys!(ftruncate, SYS_ftruncate), [int(fd), 4], a);
        self.call(sys!(fsync, SYS_fsync), [int(fd)], a);
        self.call(sys!(fdatasync, SYS_fdatasync), [int(fd)], a);
        // SAFETY: plain numbers, of which zero is a value.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        let stat = std::ptr::from_mut(&mut stat) as usize;
        self.call(sys!(fstat, SYS_fstat), [int(fd), stat], a);
        self.call(sys!(fchmod, SYS_fchmod), [int(fd), 0o640], a);
        self.call(sys!(flock, SYS_flock), [int(fd), libc::LOCK_EX as usize], a);

        let dup = self.call(sys!(dup, SYS_dup), [int(fd)], a);
        self.read(dup, 1, a);
        // Over another file, which it closes.
        let over = self.open("over", CREATE);
        let over_path = self.path("over");
        self.call2(
            sys!(dup2, SYS_dup2),
            [int(fd), int(over)],
            a,
            Some(&over_path),
        );
        self.read(over, 1, a);
        let cloexec = libc::O_CLOEXEC as usize;
        self.call2(
            sys!(dup3, SYS_dup3),
            [int(dup), int(over + 20), cloexec],
            a,
            NONE,
        );
        let command = libc::F_DUPFD_CLOEXEC as usize;
        let high = self.call(sys!(fcntl, SYS_fcntl), [int(fd), command, 200], a);
        self.call(sys!(lseek, SYS_lseek), [int(high), 1, 0], a);
        self.read(over + 20, 1, a);
        let getfl = libc::F_GETFL as usize;
        self.call(sys!(fcntl, SYS_fcntl), [int(high), getfl], a);
        for fd in [fd, dup, over, over + 20] {
            self.close(fd, a);
        }
        // The last one, by a range; then the numbers are somebody else's.
        self.call(sys!(close_range, SYS_close_range), [200, 200, 0], NONE);
        self.call(sys!(close, SYS_close), [200], NONE);
        let same = self.open("other", CREATE);
        assert_eq!(same, fd, "the lowest number is free again");
        let other = self.path("other");
        self.write(same, b"x", Some(&other));
        self.close(same, Some(&other));
    }

    /// Names that change, and ways to give one.
    pub(crate) fn names(&mut self) {
        let dir = self.dir.clone();
        let at = |name: &str| format!("{dir}/{name}");
        let sub = c("sub");
        self.call(
            sys!(mkdir, SYS_mkdir),
            [sub.as_ptr() as usize, 0o700],
            Some(&at("sub")),
        );
        let flags = (libc::O_DIRECTORY | libc::O_RDONLY) as usize;
        let sub_fd = self.open("sub", flags);
        // Starting at a directory.
        let text = c("./x");
        let text = text.as_ptr() as usize;
        let x = at("sub/x");
        let fd = self.call(
            sys!(openat, SYS_openat),
            [int(sub_fd), text, CREATE, 0o600],
            Some(&x),
        );
        self.write(fd, b"12", Some(&x));
        let how = How {
            flags: libc::O_RDONLY as u64,
            mode: 0,
            resolve: 0,
        };
        let (how, size) = (std::ptr::from_ref(&how) as usize, size_of::<How>());
        let again = self.call(
            sys!(openat2, SYS_openat2),
            [int(sub_fd), text, how, size],
            Some(&x),
        );
        self.read(again, 1, Some(&x));
        self.close(again, Some(&x));
        // SAFETY: plain numbers, of which zero is a value.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        let stat = std::ptr::from_mut(&mut stat) as usize;
        self.call(
            sys!(newfstatat, SYS_newfstatat),
            [int(sub_fd), text, stat, 0],
            Some(&x),
        );
        let empty = c("");
        self.call(
            sys!(newfstatat, SYS_newfstatat),
            [
                int(fd),
                empty.as_ptr() as usize,
                stat,
                libc::AT_EMPTY_PATH as usize,
            ],
            Some(&x),
        );
        self.call(
            sys!(faccessat, SYS_faccessat),
            [int(sub_fd), text, libc::R_OK as usize],
            Some(&x),
        );
        // Renamed while it is open: the descriptor keeps the name that it was opened by.
        let (from, to) = (c("sub/x"), c(&at("y")));
        self.call2(
            sys!(rename, SYS_rename),
            [from.as_ptr() as usize, to.as_ptr() as usize],
            Some(&at("y")),
            Some(&x),
        );
        self.write(fd, b"3", Some(&x));
        let y_fd = self.open("y", libc::O_RDONLY as usize);
        self.read(y_fd, 9, Some(&at("y")));
        self.close(y_fd, Some(&at("y")));
        self.call2(
            sys!(renameat2, SYS_renameat2),
            [
                int(CWD),
                c("y").as_ptr() as usize,
                int(sub_fd),
                c("z").as_ptr() as usize,
                0,
            ],
            Some(&at("sub/z")),
            Some(&at("y")),
        );
        self.call2(
            sys!(link, SYS_link),
            [c("sub/z").as_ptr() as usize, c("l").as_ptr() as usize],
            Some(&at("l")),
            Some(&at("sub/z")),
        );
        self.call2(
            sys!(symlink, SYS_symlink),
            [c("sub/z").as_ptr() as usize, c("s").as_ptr() as usize],
            Some(&at("s")),
            Some("sub/z"),
        );
        let mut buffer = [0u8; 64];
        self.call(
            sys!(readlink, SYS_readlink),
            [c("s").as_ptr() as usize, buffer.as_mut_ptr() as usize, 64],
            Some(&at("s")),
        );
        // Through a symbolic link: what was opened is told, not how.
        let through = self.call(
            sys!(openat, SYS_openat),
            [int(CWD), c("s").as_ptr() as usize, 0],
            Some(&at("sub/z")),
        );
        self.close(through, Some(&at("sub/z")));
        // Deleted while it is open.
        for name in ["l", "s"] {
            let text = c(name);
            self.call(
                sys!(unlink, SYS_unlink),
                [text.as_ptr() as usize],
                Some(&at(name)),
            );
        }
        self.call(
            sys!(unlinkat, SYS_unlinkat),
            [int(sub_fd), c("z").as_ptr() as usize, 0],
            Some(&at("sub/z")),
        );
        self.write(fd, b"4", Some(&x));
        self.close(fd, Some(&x));
        let mut entries = [0u8; 1024];
        let entries = entries.as_mut_ptr() as usize;
        let sub_path = at("sub");
        self.call(
            sys!(getdents64, SYS_getdents64),
            [int(sub_fd), entries, 1024],
            Some(&sub_path),
        );
        // The working directory changes under relative paths.
        self.call(sys!(fchdir, SYS_fchdir), [int(sub_fd)], Some(&sub_path));
        let deep = self.call(
            sys!(openat, SYS_openat),
            [int(CWD), c("deep").as_ptr() as usize, CREATE, 0o600],
            Some(&at("sub/deep")),
        );
        self.close(deep, Some(&at("sub/deep")));
        self.call(
            sys!(openat, SYS_openat),
            [int(CWD), c("missing").as_ptr() as usize, 0],
            Some(&at("sub/missing")),
        );
        let back = c(&dir);
        self.call(sys!(chdir, SYS_chdir), [back.as_ptr() as usize], Some(&dir));
        self.close(sub_fd, Some(&sub_path));
        // As a file that never had a name.
        let memory = self.call(
            sys!(memfd_create, SYS_memfd_create),
            [c("scratch").as_ptr() as usize, 0],
            Some("/memfd:scratch (deleted)"),
        );
        self.write(memory, b"1234", Some("/memfd:scratch (deleted)"));
        self.copies(memory);
        self.close(memory, Some("/memfd:scratch (deleted)"));
    }

    /// Two files in one call.
    fn copies(&mut self, memory: i64) {
        let scratch = Some("/memfd:scratch (deleted)");
        let to = self.open("copy", CREATE);
        let path = self.path("copy");
        let copy = Some(path.as_str());
        self.call(sys!(lseek, SYS_lseek), [int(memory), 0, 0], scratch);
        self.call2(
            sys!(sendfile, SYS_sendfile),
            [int(to), int(memory), 0, 3],
            copy,
            scratch,
        );
        self.call(sys!(lseek, SYS_lseek), [int(to), 0, 0], copy);
        let third = self.open("third", CREATE);
        let third_path = self.path("third");
        self.call2(
            sys!(copy_file_range, SYS_copy_file_range),
            [int(to), 0, int(third), 0, 2, 0],
            copy,
            Some(&third_path),
        );
        self.close(third, Some(&third_path));
        self.close(to, copy);
    }

    /// What fails.
    pub(crate) fn errors(&mut self) {
        let mut byte = [0u8];
        let byte = byte.as_mut_ptr() as usize;
        self.call(sys!(read, SYS_read), [int(-1), byte, 1], NONE);
        self.call(sys!(write, SYS_write), [int(9999), byte, 1], NONE);
        self.close(9999, NONE);
        let missing = self.path("missing/file");
        self.open("missing/file", 0);
        self.call(
            sys!(unlink, SYS_unlink),
            [c("missing/file").as_ptr() as usize],
            Some(&missing),
        );
        let null = self.call(
            sys!(openat, SYS_openat),
            [int(CWD), c(DEV_NULL).as_ptr() as usize, 1],
            Some(DEV_NULL),
        );
        self.call(sys!(read, SYS_read), [int(null), byte, 1], Some(DEV_NULL));
        // Memory that is not there: nothing is read, nothing is told of the path.
        self.call(sys!(write, SYS_write), [int(null), 8, 1], Some(DEV_NULL));
        self.close(null, Some(DEV_NULL));
        let file = self.open("other", 0);
        let other = self.path("other");
        self.call(
            sys!(openat, SYS_openat),
            [int(file), c("below").as_ptr() as usize, 0],
            Some(&self.path("other/below")),
        );
        self.close(file, Some(&other));
    }
}
