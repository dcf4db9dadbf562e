//! Linux: `sched_setattr` on the calling thread, and `sched_getattr` to see what came of it.

use super::Promotion;
use std::mem::MaybeUninit;
use std::time::Duration;

/// The nice value to ask for: about nine times the weight of a thread at nice 0.
const NICE: i32 = -10;

/// The slice to ask for: the least that the kernel grants (`sched_setattr` clamps to 0.1–100 ms).
/// A thread of the hot path runs for some ten microseconds at a time, so it seldom uses it up.
const SLICE: Duration = Duration::from_micros(100);

/// `struct sched_attr` of sched_setattr(2), in its first form (`SCHED_ATTR_SIZE_VER0`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct SchedAttr {
    size: u32,
    sched_policy: u32,
    sched_flags: u64,
    sched_nice: i32,
    sched_priority: u32,
    /// The slice of a fair thread, in nanoseconds; before 6.12 neither taken nor told.
    sched_runtime: u64,
    sched_deadline: u64,
    sched_period: u64,
}

const SIZE: u32 = size_of::<SchedAttr>() as u32;

/// Threads and processes that this thread starts get the defaults again.
const SCHED_FLAG_RESET_ON_FORK: u64 = 1;

pub(super) fn promote() -> Promotion {
    let Some(before) = get() else {
        return Promotion::None;
    };
    if before.sched_policy != libc::SCHED_OTHER as u32 {
        return Promotion::None;
    }
    // The best first; a refusal changes nothing, so the next is tried.
    for nice in [NICE, lowest_allowed_nice().max(NICE), before.sched_nice] {
        let wanted = SchedAttr {
            size: SIZE,
            sched_flags: before.sched_flags | SCHED_FLAG_RESET_ON_FORK,
            sched_nice: nice.min(before.sched_nice),
            sched_runtime: SLICE.as_nanos() as u64,
            ..before
        };
        if set(&wanted) {
            break;
        }
    }
    get().map_or(Promotion::None, |after| gained(&before, &after))
}

/// What the kernel says has changed.
fn gained(before: &SchedAttr, after: &SchedAttr) -> Promotion {
    let slice = SLICE.as_nanos() as u64;
    let slice = (after.sched_runtime == slice).then_some(SLICE);
    match slice {
        slice if after.sched_nice < before.sched_nice || after.sched_nice < 0 => Promotion::Nice {
            nice: after.sched_nice,
            slice,
        },
        Some(slice) => Promotion::Slice(slice),
        None => Promotion::None,
    }
}

/// What `RLIMIT_NICE` allows without a privilege: 20 minus the limit (getrlimit(2)).
fn lowest_allowed_nice() -> i32 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a writable rlimit.
    if unsafe { libc::getrlimit(libc::RLIMIT_NICE, &mut limit) } != 0 {
        return 20;
    }
    // At most 40 has a meaning; more, as "unlimited", is as good as 40.
    20 - limit.rlim_cur.min(40) as i32
}

fn get() -> Option<SchedAttr> {
    let mut attr = MaybeUninit::<SchedAttr>::zeroed();
    // SAFETY: the kernel writes at most SIZE bytes to `attr`; thread 0 is the calling one.
    let failed = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, attr.as_mut_ptr(), SIZE, 0) };
    // SAFETY: plain integers, zeroed and then perhaps written to.
    (failed == 0).then(|| unsafe { attr.assume_init() })
}

fn set(attr: &SchedAttr) -> bool {
    // SAFETY: the kernel reads `attr.size` bytes, which is the size of `attr`; thread 0 is the
    // calling one, so no other is touched.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(attr), 0) == 0 }
}
