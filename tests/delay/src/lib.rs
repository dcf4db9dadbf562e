//! Makes chosen reads and writes of a program late, by a known time: preloaded with `LD_PRELOAD`.
//!
//! `PHUX_DELAY=COMM:OP:KIND:HOW:MICROS`, where COMM is the name of the process or of the thread that
//! it applies to, OP `read` or `write` (sends and receives included) or `after-read`, KIND `master`,
//! `slave` or `socket`, and HOW `sleep` or `spin`, or `sync`: writes to disk until the time is over.
//! A read is late only when there is something to read, so that it is late once for each time that
//! it is of use. `PHUX_DELAY_LOG=FILE` gets a line with the real length, ns, of each delay.
//!
//! The C library's own functions are not called by these: each makes its system call itself.

use std::ffi::CStr;
use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use libc::{c_int, c_long, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    Read,
    AfterRead,
    Write,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Sleep,
    Spin,
    Sync,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Master,
    Slave,
    Socket,
}

struct Plan {
    comm: String,
    op: Op,
    kind: Kind,
    how: How,
    time: Duration,
    log: Option<String>,
}

static PLAN: OnceLock<Option<Plan>> = OnceLock::new();

/// Made before the program begins: a signal's handler that writes, as libevent's does, must not find
/// it half made by the very thread that it interrupts, which would wait for itself.
#[used]
#[unsafe(link_section = ".init_array")]
static MAKE: extern "C" fn() = make;

extern "C" fn make() {
    let _ = PLAN.set(planned());
}

fn plan() -> Option<&'static Plan> {
    PLAN.get()?.as_ref()
}

fn planned() -> Option<Plan> {
    let text = std::env::var("PHUX_DELAY").ok()?;
    let mut words = text.rsplitn(5, ':');
    let micros = words.next()?.parse().ok()?;
    let how = match words.next()? {
        "sleep" => How::Sleep,
        "spin" => How::Spin,
        "sync" => How::Sync,
        _ => return None,
    };
    let kind = match words.next()? {
        "master" => Kind::Master,
        "slave" => Kind::Slave,
        "socket" => Kind::Socket,
        _ => return None,
    };
    let op = match words.next()? {
        "read" => Op::Read,
        "after-read" => Op::AfterRead,
        "write" => Op::Write,
        _ => return None,
    };
    Some(Plan {
        comm: words.next()?.to_owned(),
        op,
        kind,
        how,
        time: Duration::from_micros(micros),
        log: std::env::var("PHUX_DELAY_LOG").ok(),
    })
}

/// A system call, its result as the C library gives it.
fn call(nr: c_long, args: [usize; 6]) -> ssize_t {
    let [a, b, c, d, e, f] = args;
    // SAFETY: the arguments are those that the program gave to the function of this name.
    let result = unsafe { libc::syscall(nr, a, b, c, d, e, f) };
    result as ssize_t
}

fn kind_of(fd: RawFd) -> Option<Kind> {
    let mut number: c_int = 0;
    // SAFETY: TIOCGPTN writes one int; on anything else than a master it fails.
    if unsafe { libc::ioctl(fd, libc::TIOCGPTN, &raw mut number) } == 0 {
        return Some(Kind::Master);
    }
    // SAFETY: asks about a descriptor.
    if unsafe { libc::isatty(fd) } == 1 {
        return Some(Kind::Slave);
    }
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fstat fills the struct or fails.
    let socket = unsafe {
        libc::fstat(fd, stat.as_mut_ptr()) == 0
            && stat.assume_init().st_mode & libc::S_IFMT == libc::S_IFSOCK
    };
    socket.then_some(Kind::Socket)
}

/// By the thread's name or the process's: what it is called now, since servers rename themselves.
fn named(comm: &str) -> bool {
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes, the last of them 0.
    let got = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) } == 0;
    let thread = CStr::from_bytes_until_nul(&name).unwrap_or(c"");
    got && thread.to_bytes() == comm.as_bytes()
}

/// Something to read, or the end.
fn readable(fd: RawFd) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd, and it does not wait.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}

static LOG: AtomicI64 = AtomicI64::new(-1);

fn log(plan: &Plan, ns: u128) {
    let Some(path) = &plan.log else { return };
    let mut fd = LOG.load(Ordering::Relaxed);
    if fd < 0 {
        let Ok(path) = std::ffi::CString::new(path.as_str()) else {
            return;
        };
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC;
        // SAFETY: a path that ends with a zero.
        fd = i64::from(unsafe { libc::open(path.as_ptr(), flags, 0o600) });
        LOG.store(fd, Ordering::Relaxed);
    }
    let line = format!("{ns}\n");
    let (fd, at, len) = (fd as usize, line.as_ptr() as usize, line.len());
    call(libc::SYS_write, [fd, at, len, 0, 0, 0]);
}

fn before(op: Op, fd: RawFd) {
    let Some(plan) = plan() else { return };
    if plan.op == op && is_planned(plan, fd) && (op == Op::Write || readable(fd)) {
        wait(plan);
    }
}

fn after(op: Op, fd: RawFd, result: ssize_t) {
    let Some(plan) = plan() else { return };
    if op == Op::Read && plan.op == Op::AfterRead && result > 0 && is_planned(plan, fd) {
        wait(plan);
    }
}

fn is_planned(plan: &Plan, fd: RawFd) -> bool {
    named(&plan.comm) && kind_of(fd) == Some(plan.kind)
}

fn wait(plan: &Plan) {
    let start = Instant::now();
    match plan.how {
        How::Sleep => std::thread::sleep(plan.time),
        How::Spin => {
            while start.elapsed() < plan.time {
                std::hint::spin_loop();
            }
        }
        How::Sync => sync_until(start + plan.time),
    }
    log(plan, start.elapsed().as_nanos());
}

/// Writes a file of its own to the disk, again and again.
fn sync_until(end: Instant) {
    let flags = libc::O_RDWR | libc::O_TMPFILE | libc::O_CLOEXEC;
    // SAFETY: a path that ends with a zero. /var/tmp is on a disk where /tmp may not be.
    let fd = unsafe { libc::open(c"/var/tmp".as_ptr(), flags, 0o600) };
    if fd < 0 {
        return;
    }
    let page = [0u8; 4096];
    while Instant::now() < end {
        let (at, len) = (page.as_ptr() as usize, page.len());
        call(libc::SYS_pwrite64, [fd as usize, at, len, 0, 0, 0]);
        // SAFETY: a descriptor of ours.
        unsafe { libc::fdatasync(fd) };
    }
    // SAFETY: a descriptor of ours, closed once.
    unsafe { libc::close(fd) };
}

/// The call, late. The program sees the error number of the call, not of what came after.
fn late(op: Op, fd: RawFd, nr: c_long, args: [usize; 6]) -> ssize_t {
    before(op, fd);
    let result = call(nr, args);
    if result > 0 {
        after(op, fd, result);
    }
    result
}

macro_rules! functions {
    ($($op:ident $nr:ident $name:ident($($arg:ident: $ty:ty),*);)*) => {$(
        /// The C library's function of this name, late.
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, $($arg: $ty),*) -> ssize_t {
            let mut args = [fd as usize, 0, 0, 0, 0, 0];
            let given: &[usize] = &[$($arg as usize),*];
            args[1..=given.len()].copy_from_slice(given);
            late(Op::$op, fd, libc::$nr, args)
        }
    )*};
}

functions! {
    Read SYS_read read(buf: *mut c_void, len: size_t);
    Read SYS_readv readv(iov: *const iovec, n: c_int);
    Read SYS_recvfrom recvfrom(buf: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr, n: *mut socklen_t);
    Read SYS_recvmsg recvmsg(msg: *mut msghdr, flags: c_int);
    Write SYS_write write(buf: *const c_void, len: size_t);
    Write SYS_writev writev(iov: *const iovec, n: c_int);
    Write SYS_sendto sendto(buf: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, n: socklen_t);
    Write SYS_sendmsg sendmsg(msg: *const msghdr, flags: c_int);
}

/// The C library's function of this name, late.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    let args = [fd as usize, buf as usize, len, flags as usize, 0, 0];
    late(Op::Read, fd, libc::SYS_recvfrom, args)
}

/// The C library's function of this name, late.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    let args = [fd as usize, buf as usize, len, flags as usize, 0, 0];
    late(Op::Write, fd, libc::SYS_sendto, args)
}
