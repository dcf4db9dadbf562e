//! What a program that makes known system calls says about them, and how a tracer's account of it
//! is held against that.

use std::io;

use serde::{Deserialize, Serialize};

/// The calls that count lie between two `lseek` on this descriptor, which fail.
pub const MARK: i32 = -777;

/// A call, as the program that made it knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Did {
    /// Its name.
    pub name: String,
    /// What it returned; a negative errno when it failed.
    pub ret: i64,
    /// The file that it was about; `None`: none, or not to be known.
    pub path: Option<String>,
    /// The second path of a rename, link or copy.
    pub path2: Option<String>,
    /// Bytes that it moved.
    pub bytes: u64,
}

/// The calls of one thread, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadLog {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Its calls between the marks.
    pub calls: Vec<Did>,
}

/// All that it did.
#[derive(Debug, Serialize, Deserialize)]
pub struct Truth {
    /// By thread.
    pub threads: Vec<ThreadLog>,
    /// Whether this kernel let it use io_uring.
    pub uring: bool,
}

/// Makes a system call; gives what it returned, a negative errno when it failed.
///
/// # Safety
/// Pointers among the arguments must be to what the call says, and the call itself must do nothing
/// that breaks this program.
pub unsafe fn syscall(nr: libc::c_long, args: [usize; 6]) -> i64 {
    let [a, b, c, d, e, f] = args;
    // SAFETY: the caller's promise.
    let ret = unsafe { libc::syscall(nr, a, b, c, d, e, f) };
    if ret == -1 {
        -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    } else {
        ret
    }
}

/// Makes the mark.
pub fn mark() {
    // SAFETY: a descriptor that cannot be.
    unsafe { syscall(libc::SYS_lseek, [MARK as usize, 0, 0, 0, 0, 0]) };
}
