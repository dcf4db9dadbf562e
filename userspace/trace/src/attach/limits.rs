//! Limits of this process that tracing can run into.

use anyhow::{Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a run holds at most without the target's USDT probes: some 40 programs with their
/// links, 30 maps, a ring for each 8 CPUs, sockets and files. Measured: 110 on two CPUs.
const NEEDED: u64 = 256;

/// Raises the soft limit of open files to the hard one: each program, map, ring and probe is one.
///
/// # Errors
/// The hard limit is too low.
pub(crate) fn raise_open_files() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    // Of a limit of u64::MAX the kernel says "none".
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if limit.current != limit.maximum {
        // Refused: the soft one counts, below.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    match getrlimit(Resource::Nofile).current {
        Some(now) if now < NEEDED => bail!(
            "RLIMIT_NOFILE allows {now} open files, and attach needs {NEEDED}: raise the hard limit \
             (ulimit -Hn {NEEDED}, LimitNOFILE= of systemd, /etc/security/limits.conf)"
        ),
        _ => Ok(()),
    }
}
