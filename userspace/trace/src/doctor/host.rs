//! Checks of the kernel and of where phux-trace runs.

use aya::sys::{Stats, enable_stats};

use super::{Check, EVERYTHING, SUDO};
use crate::probes::system::{self, MINIMUM, System};
use crate::probes::trial::{Answer, Feature, PidNamespace};
use crate::probes::{Options, Probes, percpu};
use crate::target::proc::in_initial_pid_namespace;

/// Release, BTF, lockdown. `allowed`: everything required could be loaded.
pub(super) fn checks(system: &System, allowed: bool) -> Vec<Check> {
    vec![
        release(system, allowed),
        btf(system),
        lockdown(system, allowed),
        tracefs(),
    ]
}

/// Some programs are better as plain tracepoints, whose numbers only tracefs tells.
fn tracefs() -> Check {
    const NAME: &str = "tracefs";
    match system::tracefs("sched/sched_process_exit") {
        Some(place) => Check::ok(NAME, format!("mounted on {place}")),
        None => Check::degraded(
            NAME,
            "not mounted, or not for us to see",
            "where fentry is refused, every system call of the host costs more meanwhile; on kernels from 7.3, \
             figures of threads that end at the same moment as others",
            "mount -t tracefs tracefs /sys/kernel/tracing",
        ),
    }
}

fn release(system: &System, allowed: bool) -> Check {
    const NAME: &str = "kernel release";
    let (major, minor) = MINIMUM;
    let found = format!("{}; {major}.{minor} is the minimum", system.release);
    let fix = format!("Linux {major}.{minor} or newer");
    if !system.too_old() {
        return Check::ok(NAME, found).required();
    }
    // Backports: what counts is what the kernel accepts.
    if allowed {
        return Check::degraded(
            NAME,
            format!("{found}, yet all that attach must have is allowed"),
            "figures that nobody has compared on so old a kernel",
            &fix,
        )
        .required();
    }
    Check::missing(NAME, found, EVERYTHING, &fix).required()
}

fn btf(system: &System) -> Check {
    const NAME: &str = "kernel BTF";
    match &system.btf_error {
        None => Check::ok(NAME, "/sys/kernel/btf/vmlinux is readable"),
        Some(error) => Check::missing(
            NAME,
            error.as_str(),
            EVERYTHING,
            "a kernel with CONFIG_DEBUG_INFO_BTF, and sysfs mounted on /sys",
        ),
    }
    .required()
}

fn lockdown(system: &System, allowed: bool) -> Check {
    const NAME: &str = "kernel lockdown";
    match system.lockdown.as_deref() {
        None => Check::ok(NAME, "not in this kernel, or its securityfs is not mounted"),
        Some("confidentiality") if !allowed => Check::missing(
            NAME,
            "confidentiality: no program may read kernel memory",
            EVERYTHING,
            "boot with lockdown=integrity or lockdown=none",
        ),
        Some(mode) => Check::ok(NAME, format!("{mode}: nothing is forbidden to attach")),
    }
    .required()
}

/// The programs of `attach` themselves, as these trials would have them: each may be allowed what it
/// needs and still not fit a kernel that has changed a structure.
pub(super) fn programs(trials: &[(Feature, Answer)]) -> Check {
    const NAME: &str = "BPF programs of attach";
    let has = |feature| trials.iter().any(|(f, a)| *f == feature && a.is_ok());
    let loaded = Probes::load(&Options {
        namespace: PidNamespace::default(),
        fentry: has(Feature::Fentry),
        tracefs: system::tracefs("syscalls/sys_enter_read").is_some(),
        flush: has(Feature::Flush),
        uprobe: has(Feature::Uprobe),
        follow_exec: false,
        stream: false,
        follow_echoes: true,
        sock_fentry: has(Feature::SockFentry),
        cpus_per_ring: None,
        calls: None,
    });
    match loaded {
        Ok(_unloaded_here) => Check::ok(NAME, "load"),
        Err(error) => Check::missing(
            NAME,
            error.to_string(),
            EVERYTHING,
            "a phux-trace that knows this kernel; please report it",
        ),
    }
    .required()
}

/// Whether a wake-up from an interrupt is told apart from one by the task that it interrupted.
pub(super) fn interrupts() -> Check {
    const NAME: &str = "wake-ups from interrupts";
    if !cfg!(target_arch = "x86_64") {
        return Check::ok(
            NAME,
            "preempt_count stands in the thread on this architecture",
        );
    }
    match percpu::rq_to_preempt_count() {
        Some(_) => Check::ok(NAME, "told apart: BTF tells where preempt_count is"),
        None => Check::degraded(
            NAME,
            "not told apart: this BTF does not say where preempt_count is",
            "a task that an interrupt hits can be named as waker",
            "a kernel whose BTF holds per-CPU variables",
        ),
    }
}

/// Whether the kernel measures the time in BPF programs.
pub(super) fn run_time_statistics() -> Check {
    const NAME: &str = "BPF run-time statistics";
    match enable_stats(Stats::RunTime) {
        Ok(_held_until_here) => Check::ok(NAME, "can be switched on; off again"),
        Err(_) => Check::degraded(
            NAME,
            "refused: the kernel asks for CAP_SYS_ADMIN",
            "the own cost in nanoseconds of BPF programs",
            SUDO,
        ),
    }
}

/// Where phux-trace itself stands among the pid namespaces.
pub(super) fn pid_namespace() -> Check {
    const NAME: &str = "pid namespace";
    if in_initial_pid_namespace() {
        return Check::ok(NAME, "the initial one: pids are the kernel's own");
    }
    Check::degraded(
        NAME,
        "phux-trace runs in a nested one (a container)",
        "processes outside it: they have no pid here, and cannot be targets",
        "run phux-trace on the host",
    )
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn an_old_kernel_that_can_is_second_best() {
        let old = System {
            version: Some((5, 19)),
            release: "5.19.0".into(),
            ..System::default()
        };
        assert_eq!(release(&old, true).status, Status::Degraded);
        let cannot = release(&old, false);
        assert_eq!((cannot.status, cannot.required), (Status::Missing, true));
        assert_eq!(release(&System::default(), false).status, Status::Ok);
    }

    #[test]
    fn lockdown_blocks_only_where_it_forbids() {
        let locked = |mode: &str| System {
            lockdown: Some(mode.into()),
            ..System::default()
        };
        assert_eq!(
            lockdown(&locked("confidentiality"), false).status,
            Status::Missing
        );
        assert_eq!(
            lockdown(&locked("confidentiality"), true).status,
            Status::Ok
        );
        assert_eq!(lockdown(&locked("integrity"), false).status, Status::Ok);
    }
}
