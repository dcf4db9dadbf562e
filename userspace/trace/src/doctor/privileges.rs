//! Checks of what we may do, and of the settings that decide it.

use super::{Check, EVERYTHING, SUDO};
use crate::probes::system::{Capability, System, shows_addresses, sysctl};

/// All of them. `allowed`: everything required could be loaded.
pub(super) fn checks(system: &System, allowed: bool) -> Vec<Check> {
    vec![
        tracing(system, allowed),
        others(system),
        unprivileged_bpf(system),
        perf_events(system),
        addresses(),
    ]
}

fn tracing(system: &System, allowed: bool) -> Check {
    const NAME: &str = "capabilities to trace";
    let held = [
        (Capability::SysAdmin, "CAP_SYS_ADMIN"),
        (Capability::Bpf, "CAP_BPF"),
        (Capability::Perfmon, "CAP_PERFMON"),
    ]
    .into_iter()
    .filter(|(c, _)| system.holds(*c))
    .map(|(_, name)| name)
    .collect::<Vec<_>>();
    let mut found = match held.as_slice() {
        [] => "neither CAP_BPF nor CAP_PERFMON".to_owned(),
        held => held.join(", "),
    };
    if system.nested_user_namespace {
        found.push_str(", of a user namespace only (a rootless container): void here");
    }
    if system.may_trace() {
        return Check::ok(NAME, found).required();
    }
    if allowed {
        // A BPF token, for one.
        found.push_str("; the kernel allows the programs all the same");
        return Check::ok(NAME, found).required();
    }
    let fix = if system.nested_user_namespace {
        "root of the host, outside the container"
    } else {
        "root, or CAP_BPF and CAP_PERFMON: sudo phux-trace"
    };
    Check::missing(NAME, found, EVERYTHING, fix).required()
}

/// Reading the descriptors and maps of other users' processes in `/proc`: the directory asks for the
/// one capability, the links in it for the other.
fn others(system: &System) -> Check {
    const NAME: &str = "other users' processes";
    let directory = system.has(Capability::DacReadSearch) || system.has(Capability::DacOverride);
    let lacking: Vec<&str> = [
        (system.has(Capability::SysPtrace), "CAP_SYS_PTRACE"),
        (directory, "CAP_DAC_READ_SEARCH"),
    ]
    .into_iter()
    .filter(|(held, _)| !held)
    .map(|(_, name)| name)
    .collect();
    if lacking.is_empty() {
        return Check::ok(NAME, "can be looked into");
    }
    Check::degraded(
        NAME,
        format!("cannot be looked into without {}", lacking.join(" and ")),
        "other users' targets by name, their PTYs and USDT probes",
        SUDO,
    )
}

fn unprivileged_bpf(system: &System) -> Check {
    let meaning = match sysctl("kernel/unprivileged_bpf_disabled") {
        None => "not to be read".to_owned(),
        Some(0) => "0: everyone may load socket filters; tracing needs privileges anyway".into(),
        Some(n) => format!("{n}: bpf() is for the privileged, as attach is"),
    };
    let ours = if system.may_trace() {
        "; we are"
    } else {
        "; we are not"
    };
    Check::ok("kernel.unprivileged_bpf_disabled", meaning + ours)
}

fn perf_events(system: &System) -> Check {
    const NAME: &str = "kernel.perf_event_paranoid";
    let level = sysctl("kernel/perf_event_paranoid");
    let shown = level.map_or("not to be read".to_owned(), |n| n.to_string());
    if system.has(Capability::Perfmon) || system.has(Capability::SysAdmin) {
        return Check::ok(NAME, format!("{shown}: CAP_PERFMON is above it"));
    }
    if level.is_some_and(|n| n < 0) {
        return Check::ok(NAME, format!("{shown}: everyone may"));
    }
    Check::degraded(
        NAME,
        format!("{shown}: no uprobes without CAP_PERFMON"),
        "the hops inside the target",
        SUDO,
    )
}

fn addresses() -> Check {
    const NAME: &str = "kernel.kptr_restrict";
    let level = sysctl("kernel/kptr_restrict");
    let shown = level.map_or("not to be read".to_owned(), |n| n.to_string());
    match shows_addresses() {
        Ok(()) => Check::ok(NAME, format!("{shown}: /proc/kallsyms shows addresses")),
        Err(why) => Check::degraded(
            NAME,
            format!("{shown}: {why}"),
            "the kworker's hop and the reader's wait",
            if level == Some(2) {
                "root, and sysctl kernel.kptr_restrict=1"
            } else {
                "root, or CAP_SYSLOG"
            },
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn capabilities_decide() {
        let with = |capabilities| System {
            capabilities,
            ..System::default()
        };
        let status = |s: System, allowed| tracing(&s, allowed).status;
        assert_eq!(status(with(0), false), Status::Missing);
        assert_eq!(
            status(with(1 << 39), false),
            Status::Missing,
            "CAP_BPF alone"
        );
        assert_eq!(status(with(3 << 38), false), Status::Ok);
        assert_eq!(status(with(0), true), Status::Ok, "allowed is allowed");
        let rootless = System {
            nested_user_namespace: true,
            ..with(u64::MAX)
        };
        let check = tracing(&rootless, false);
        assert_eq!(check.status, Status::Missing);
        assert!(check.detail.contains("container"), "{}", check.detail);

        assert_eq!(others(&with(1 << 19 | 1 << 2)).status, Status::Ok);
        let rootless = System {
            nested_user_namespace: true,
            ..with(u64::MAX)
        };
        assert_eq!(others(&rootless).status, Status::Degraded);
        let half = others(&with(1 << 2));
        assert!(
            half.detail.ends_with("without CAP_SYS_PTRACE"),
            "{}",
            half.detail
        );
    }
}
