//! Linux: `sched_setattr` on the calling thread, and `sched_getattr` to see what came of it.

use super::Promotion;
use std::mem::MaybeUninit;
use std::time::Duration;

/// The nice value to ask for: about nine times the weight of a thread at nice 0.
pub(super) const NICE: i32 = -10;

/// The slice to ask for: the least that the kernel grants (`sched_setattr` clamps to 0.1–100 ms).
///
/// A thread that wakes gets a deadline one slice ahead, and the earliest deadline runs. A thread
/// that always sleeps again within some ten microseconds is served soon with any slice; for one that
/// runs a millisecond at a time (a burst of output through the parser) the slice decides. The price:
/// such a burst is interrupted more often while others want the CPU, which the nice value makes up
/// for where it is allowed. `cargo bench -p phux-perf --bench promote` shows both.
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
    let Some(before) = get(0) else {
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
    get(0).map_or(Promotion::None, |after| gained(&before, &after))
}

/// What a thread of this process has now.
pub(super) fn has(thread: i32) -> Promotion {
    get(thread).map_or(Promotion::None, |now| gained(&now, &now))
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
    nice_of_limit(limit.rlim_cur)
}

/// At most 40 has a meaning; more, as "unlimited", is as good as 40.
fn nice_of_limit(limit: libc::rlim_t) -> i32 {
    20 - limit.min(40) as i32
}

/// Thread 0 is the calling one.
fn get(thread: i32) -> Option<SchedAttr> {
    let mut attr = MaybeUninit::<SchedAttr>::zeroed();
    let out = attr.as_mut_ptr();
    // SAFETY: the kernel writes at most SIZE bytes to `attr`.
    let failed = unsafe { libc::syscall(libc::SYS_sched_getattr, thread, out, SIZE, 0) };
    // SAFETY: plain integers, zeroed and then perhaps written to.
    (failed == 0).then(|| unsafe { attr.assume_init() })
}

fn set(attr: &SchedAttr) -> bool {
    // SAFETY: the kernel reads `attr.size` bytes, which is the size of `attr`; thread 0 is the
    // calling one, so no other is touched.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(attr), 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Runs on a thread of its own, whose promotion is gone with it.
    fn on_a_thread<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
        thread::spawn(f).join().expect("no panic")
    }

    fn now() -> SchedAttr {
        get(0).expect("sched_getattr works")
    }

    fn is_root() -> bool {
        // SAFETY: takes nothing and returns an integer.
        unsafe { libc::geteuid() == 0 }
    }

    /// Gives up CAP_SYS_NICE, for this thread alone.
    fn drop_privilege() -> bool {
        #[repr(C)]
        struct Header {
            version: u32,
            pid: i32,
        }
        const VERSION_3: u32 = 0x2008_0522;
        let header = Header {
            version: VERSION_3,
            pid: 0,
        };
        // Two sets of effective, permitted and inheritable: no capability in any.
        let none = [0u32; 6];
        // SAFETY: both are as capset(2) asks for; the raw call acts on the calling thread alone.
        unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) == 0 }
    }

    /// Whether this kernel has slices of a thread's own (6.12 and later): seen by asking for one.
    fn kernel_has_slices() -> bool {
        on_a_thread(|| {
            let wanted = SchedAttr {
                size: SIZE,
                sched_runtime: 5_000_000,
                ..now()
            };
            assert!(set(&wanted), "a slice needs no privilege");
            now().sched_runtime == 5_000_000
        })
    }

    #[test]
    fn what_it_says_is_what_the_kernel_says() {
        let (said, before, after) = on_a_thread(|| {
            let before = now();
            (super::super::promote_current_thread(), before, now())
        });
        let slice = kernel_has_slices().then_some(SLICE);
        if let Some(slice) = slice {
            assert_eq!(u128::from(after.sched_runtime), slice.as_nanos());
        }
        match said {
            Promotion::Nice { nice, slice: said } => {
                assert_eq!((nice, said), (after.sched_nice, slice));
                assert!(nice < 0);
            }
            Promotion::Slice(said) => assert_eq!((Some(said), after.sched_nice), (slice, 0)),
            other => assert_eq!((other, slice), (Promotion::None, None)),
        }
        assert_eq!(after.sched_policy, before.sched_policy);
        if is_root() {
            assert_eq!(after.sched_nice, NICE.min(before.sched_nice), "root may");
        }
        assert_eq!(said.gauge(), i64::from(said != Promotion::None));
    }

    #[test]
    fn without_privilege_it_gets_the_slice_alone() {
        let (said, before, after) = on_a_thread(|| {
            assert!(drop_privilege(), "a thread may always give up capabilities");
            let before = now();
            (promote(), before, now())
        });
        let allowed = lowest_allowed_nice().max(NICE);
        if allowed < before.sched_nice {
            assert_eq!(after.sched_nice, allowed, "RLIMIT_NICE allows it");
            return;
        }
        assert_eq!(after.sched_nice, before.sched_nice);
        if kernel_has_slices() {
            assert_eq!(said, Promotion::Slice(SLICE));
        } else {
            assert_eq!(said, Promotion::None);
        }
    }

    #[test]
    fn limits_and_nice_values() {
        for (limit, nice) in [
            (0, 20),
            (20, 0),
            (25, -5),
            (40, -20),
            (libc::RLIM_INFINITY, -20),
        ] {
            assert_eq!(nice_of_limit(limit), nice);
        }
    }

    #[test]
    fn rlimit_nice_is_used_where_there_is_no_privilege() {
        const CANNOT_RAISE: i32 = 77;
        // The limit is the whole process's, so the test has a process of its own.
        // SAFETY: the child makes system calls only, allocates nothing and ends without unwinding.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let limit = libc::rlimit {
                rlim_cur: 25,
                rlim_max: 25,
            };
            // SAFETY: `limit` is a readable rlimit.
            if unsafe { libc::setrlimit(libc::RLIMIT_NICE, &limit) } != 0 {
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(CANNOT_RAISE) };
            }
            let right = drop_privilege()
                && matches!(promote(), Promotion::Nice { nice: -5, .. })
                && get(0).is_some_and(|attr| attr.sched_nice == -5);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!right)) };
        }
        let mut status = -1;
        // SAFETY: `status` is a writable integer.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        if libc::WEXITSTATUS(status) == CANNOT_RAISE {
            // Even root lacks CAP_SYS_RESOURCE in many a container.
            println!("skipped: RLIMIT_NICE cannot be raised here");
            return;
        }
        assert_eq!(status, 0, "a limit of 25 allows nice -5");
    }

    #[test]
    fn what_a_promoted_thread_starts_is_not_promoted() {
        let (plain, inherited) = on_a_thread(|| {
            let plain = now();
            promote();
            (plain, thread::spawn(now).join().expect("no panic"))
        });
        assert_eq!(inherited.sched_nice, plain.sched_nice);
        if kernel_has_slices() {
            assert_ne!(u128::from(inherited.sched_runtime), SLICE.as_nanos());
        }
    }

    #[test]
    fn another_policy_is_left_alone() {
        let (said, before, after) = on_a_thread(|| {
            let batch = SchedAttr {
                sched_policy: libc::SCHED_BATCH as u32,
                size: SIZE,
                ..now()
            };
            assert!(set(&batch), "SCHED_BATCH needs no privilege");
            let before = now();
            (promote(), before, now())
        });
        assert_eq!(said, Promotion::None);
        assert_eq!(
            (after.sched_policy, after.sched_nice, after.sched_runtime),
            (before.sched_policy, before.sched_nice, before.sched_runtime)
        );
    }
}
