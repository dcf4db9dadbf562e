//! io_uring, by its bare interface: requests that are no system calls.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::worker::{NONE, Worker, int, sys};

const ENTRIES: u32 = 8;
/// `IORING_OFF_SQ_RING`, `IORING_OFF_CQ_RING` and `IORING_OFF_SQES`.
const OFF_SQ: i64 = 0;
const OFF_CQ: i64 = 0x0800_0000;
const OFF_SQES: i64 = 0x1000_0000;
const ENTER_GETEVENTS: usize = 1;

/// `IORING_OP_*`.
const NOP: u8 = 0;
const CLOSE: u8 = 19;
const READ: u8 = 22;
const WRITE: u8 = 23;

/// `struct io_uring_params`.
#[repr(C)]
#[derive(Default)]
struct Params {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    features: u32,
    wq_fd: u32,
    resv: [u32; 3],
    /// head, tail, ring_mask, ring_entries, flags, dropped, array, resv.
    sq_off: [u32; 8],
    sq_user_addr: u64,
    /// head, tail, ring_mask, ring_entries, overflow, cqes, flags, resv.
    cq_off: [u32; 8],
    cq_user_addr: u64,
}

/// `struct io_uring_sqe`, the fields that are used here.
#[repr(C)]
struct Sqe {
    opcode: u8,
    flags: u8,
    ioprio: u16,
    fd: i32,
    off: u64,
    addr: u64,
    len: u32,
    rw_flags: u32,
    user_data: u64,
    rest: [u64; 3],
}

struct Ring {
    fd: i64,
    params: Params,
    sq: *mut u8,
    cq: *mut u8,
    sqes: *mut Sqe,
}

fn map(fd: i64, size: usize, offset: i64) -> Option<*mut u8> {
    // SAFETY: new memory, shared with the kernel's ring.
    let at = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_POPULATE,
            fd as i32,
            offset,
        )
    };
    (at != libc::MAP_FAILED).then_some(at.cast())
}

impl Ring {
    fn word(at: *mut u8, offset: u32) -> &'static AtomicU32 {
        // SAFETY: the kernel says that an aligned u32 lies there, and it is mapped until the end.
        unsafe { &*at.add(offset as usize).cast::<AtomicU32>() }
    }

    fn new(fd: i64, params: Params) -> Option<Ring> {
        let sq_size = params.sq_off[6] as usize + params.sq_entries as usize * 4;
        let cq_size = params.cq_off[5] as usize + params.cq_entries as usize * 16;
        Some(Ring {
            fd,
            sq: map(fd, sq_size, OFF_SQ)?,
            cq: map(fd, cq_size, OFF_CQ)?,
            sqes: map(fd, params.sq_entries as usize * size_of::<Sqe>(), OFF_SQES)?.cast(),
            params,
        })
    }

    /// Hands one request over.
    fn push(&self, sqe: Sqe) {
        let tail = Self::word(self.sq, self.params.sq_off[1]);
        let mask = Self::word(self.sq, self.params.sq_off[2]).load(Ordering::Relaxed);
        let index = tail.load(Ordering::Relaxed) & mask;
        // SAFETY: below the number of entries by the mask; nobody else writes it.
        unsafe { self.sqes.add(index as usize).write(sqe) };
        Self::word(self.sq, self.params.sq_off[6] + 4 * index).store(index, Ordering::Relaxed);
        tail.fetch_add(1, Ordering::Release);
    }

    /// Result of the next one that has completed.
    fn pop(&self) -> i64 {
        let head = Self::word(self.cq, self.params.cq_off[0]);
        let mask = Self::word(self.cq, self.params.cq_off[2]).load(Ordering::Relaxed);
        let index = head.load(Ordering::Relaxed) & mask;
        let res = Self::word(self.cq, self.params.cq_off[5] + 16 * index + 8);
        let res = res.load(Ordering::Acquire);
        head.fetch_add(1, Ordering::Release);
        i64::from(res as i32)
    }
}

impl Worker {
    /// Requests, one at a time; whether this kernel allows them.
    pub(crate) fn ring(&mut self) -> bool {
        let mut params = Params::default();
        let at = &raw mut params as usize;
        let name = Some("anon_inode:[io_uring]");
        let fd = self.call(
            sys!(io_uring_setup, SYS_io_uring_setup),
            [ENTRIES as usize, at],
            name,
        );
        if fd < 0 {
            return false;
        }
        let Some(ring) = Ring::new(fd, params) else {
            std::process::abort()
        };
        let file = self.open("by-ring", (libc::O_CREAT | libc::O_RDWR) as usize);
        let path = self.path("by-ring");
        let path = Some(path.as_str());
        let bytes = *b"by a ring";
        let mut buffer = [0u8; 64];
        self.request(&ring, "io_uring:nop", (NOP, -1), (0, 0), NONE);
        let from = (bytes.as_ptr() as u64, 9);
        self.request(&ring, "io_uring:write", (WRITE, file), from, path);
        let to = (buffer.as_mut_ptr() as u64, 64);
        self.request(&ring, "io_uring:read", (READ, file), to, path);
        self.request(&ring, "io_uring:read", (READ, 9999), to, NONE);
        self.request(&ring, "io_uring:close", (CLOSE, file), (0, 0), path);
        self.close(file, NONE);
        self.close(fd, name);
        true
    }

    fn request(
        &mut self,
        ring: &Ring,
        name: &str,
        (opcode, fd): (u8, i64),
        (addr, len): (u64, u32),
        path: Option<&str>,
    ) {
        ring.push(Sqe {
            opcode,
            flags: 0,
            ioprio: 0,
            fd: fd as i32,
            off: 0,
            addr,
            len,
            rw_flags: 0,
            user_data: 0,
            rest: [0; 3],
        });
        let enter = [int(ring.fd), 1, 1, ENTER_GETEVENTS, 0, 0];
        // Its record comes when it completes, which is before the call that waits for it returns.
        let at = self.calls_so_far();
        self.call(
            sys!(io_uring_enter, SYS_io_uring_enter),
            enter,
            Some("anon_inode:[io_uring]"),
        );
        let result = ring.pop();
        self.insert(at, name, result, path);
    }
}
