//! Makes chosen reads and writes of a program late, by a known time: preloaded with `LD_PRELOAD`.
//!
//! `PHUX_DELAY=COMM:OP:KIND:HOW:MICROS`, where COMM is the name of the process or of the thread that
//! it applies to, OP `read` or `write` (sends and receives included), KIND `master`, `slave` or `socket`,
//! and HOW `sleep` or `spin`. A read is late only when there is something to read, so that it is late
//! once for each time that it is of use. `PHUX_DELAY_LOG=FILE` gets a line with the real length, ns,
//! of each delay.
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
    Write,
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
    spin: bool,
    time: Duration,
    log: Option<String>,
}

static PLAN: OnceLock<Option<Plan>> = OnceLock::new();

fn plan() -> Option<&'static Plan> {
    PLAN.get_or_init(|| {
        let text = std::env::var("PHUX_DELAY").ok()?;
        let mut words = text.rsplitn(5, ':');
        let micros = words.next()?.parse().ok()?;
        let spin = words.next()? == "spin";
        let kind = match words.next()? {
            "master" => Kind::Master,
            "slave" => Kind::Slave,
            "socket" => Kind::Socket,
            _ => return None,
        };
        let op = match words.next()? {
            "read" => Op::Read,
            "write" => Op::Write,
            _ => return None,
        };
        Some(Plan {
            comm: words.next()?.to_owned(),
            op,
            kind,
            spin,
            time: Duration::from_micros(micros),
            log: std::env::var("PHUX_DELAY_LOG").ok(),
        })
    })
    .as_ref()
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
    if plan.op != op || !named(&plan.comm) || kind_of(fd) != Some(plan.kind) {
        return;
    }
    if op == Op::Read && !readable(fd) {
        return;
    }
    let start = Instant::now();
    if plan.spin {
        while start.elapsed() < plan.time {
            std::hint::spin_loop();
        }
    } else {
        std::thread::sleep(plan.time);
    }
    log(plan, start.elapsed().as_nanos());
}

macro_rules! late {
    ($($op:ident $nr:ident $name:ident($($arg:ident: $ty:ty),*);)*) => {$(
        /// The C library's function of this name, late.
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, $($arg: $ty),*) -> ssize_t {
            before(Op::$op, fd);
            let mut args = [fd as usize, 0, 0, 0, 0, 0];
            let given: &[usize] = &[$($arg as usize),*];
            args[1..=given.len()].copy_from_slice(given);
            call(libc::$nr, args)
        }
    )*};
}

late! {
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
    before(Op::Read, fd);
    let (at, flags) = (buf as usize, flags as usize);
    call(libc::SYS_recvfrom, [fd as usize, at, len, flags, 0, 0])
}

/// The C library's function of this name, late.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    before(Op::Write, fd);
    let (at, flags) = (buf as usize, flags as usize);
    call(libc::SYS_sendto, [fd as usize, at, len, flags, 0, 0])
}
