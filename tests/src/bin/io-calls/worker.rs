//! A thread that makes calls and logs them.

use std::ffi::CString;
use std::io;

use phux_trace_tests::calls::{Did, ThreadLog, mark, syscall};

/// Not there.
pub(crate) const NONE: Option<&str> = None;

pub(crate) struct Worker {
    /// Its own directory; also its working directory.
    pub(crate) dir: String,
    calls: Vec<Did>,
}

/// A text for the kernel.
pub(crate) fn c(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// An argument that is a descriptor or another int.
pub(crate) fn int(value: i64) -> usize {
    value as usize
}

pub(crate) fn ids() -> (u32, u32) {
    let tid = rustix::thread::gettid().as_raw_nonzero().get();
    (std::process::id(), tid as u32)
}

impl Worker {
    pub(crate) fn begin(dir: &str) -> io::Result<Worker> {
        std::fs::create_dir_all(dir)?;
        std::env::set_current_dir(dir)?;
        Ok(Worker::mark(dir))
    }

    /// One that begins where it is.
    pub(crate) fn mark(dir: &str) -> Worker {
        let worker = Worker {
            dir: dir.into(),
            calls: Vec::with_capacity(4096),
        };
        mark();
        worker
    }

    pub(crate) fn end(self) -> ThreadLog {
        mark();
        let (pid, tid) = ids();
        ThreadLog {
            pid,
            tid,
            calls: self.calls,
        }
    }

    /// A path in its directory.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    /// Makes a call and logs it with the file that it is about.
    ///
    /// `args` of pointers are to memory that the caller keeps.
    pub(crate) fn call<const N: usize>(
        &mut self,
        (name, nr): (&str, libc::c_long),
        args: [usize; N],
        path: Option<&str>,
    ) -> i64 {
        self.call2((name, nr), args, path, NONE)
    }

    pub(crate) fn call2<const N: usize>(
        &mut self,
        (name, nr): (&str, libc::c_long),
        args: [usize; N],
        path: Option<&str>,
        path2: Option<&str>,
    ) -> i64 {
        let mut all = [0; 6];
        for (to, arg) in all.iter_mut().zip(args) {
            *to = arg;
        }
        // SAFETY: every caller in this program passes pointers to locals that live on, and
        // descriptors of its own.
        let ret = unsafe { syscall(nr, all) };
        self.log(name, ret, path, path2);
        ret
    }

    /// Says what the last two calls turned out to be about.
    pub(crate) fn amend(&mut self, path: &str) {
        for call in self.calls.iter_mut().rev().take(2) {
            call.path = Some(path.into());
        }
    }

    /// How many are logged.
    pub(crate) fn calls_so_far(&self) -> usize {
        self.calls.len()
    }

    /// Logs what ended before calls that are logged already.
    pub(crate) fn insert(&mut self, at: usize, name: &str, ret: i64, path: Option<&str>) {
        self.log(name, ret, path, NONE);
        if let Some(calls) = self.calls.get_mut(at..) {
            calls.rotate_right(1);
        }
    }

    /// Logs a call that was made otherwise.
    pub(crate) fn log(&mut self, name: &str, ret: i64, path: Option<&str>, path2: Option<&str>) {
        const MOVE: [&str; 22] = [
            "read",
            "write",
            "pread64",
            "pwrite64",
            "readv",
            "writev",
            "sendto",
            "recvfrom",
            "sendmsg",
            "recvmsg",
            "sendfile",
            "copy_file_range",
            "splice",
            "getdents64",
            "tee",
            "preadv",
            "pwritev",
            "vmsplice",
            "preadv2",
            "pwritev2",
            "io_uring:read",
            "io_uring:write",
        ];
        let moved = MOVE.contains(&name) && ret > 0;
        self.calls.push(Did {
            name: name.into(),
            ret,
            path: path.map(Into::into),
            path2: path2.map(Into::into),
            bytes: if moved { ret as u64 } else { 0 },
        });
    }
}

/// Name and number of a system call.
macro_rules! sys {
    ($name:ident, $nr:ident) => {
        (stringify!($name), libc::$nr)
    };
}
pub(crate) use sys;
