//! Checks of a target: what `attach` to it would trip over.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use anyhow::Context;

use super::{Check, EVERYTHING, SUDO};
use crate::probes::system::told;
use crate::target::binary::Binaries;
use crate::target::proc::ProcDir;
use crate::target::{Ask, Invoker, Process, Survey, Target, resolve};

/// Provider whose probes are hops.
const PROVIDER: &str = "phux";
/// Names that are listed before the rest is counted.
const SHOWN: usize = 6;

/// All checks of the target that `asked` names.
///
/// # Errors
/// `/proc` cannot be read.
pub(super) fn checks(asked: &OsStr) -> anyhow::Result<Vec<Check>> {
    let survey = Survey::take().context("cannot read /proc")?;
    Ok(of(asked, &survey, Invoker::current()))
}

fn of(asked: &OsStr, survey: &Survey, invoker: Invoker) -> Vec<Check> {
    let target = match resolve(&Ask::parse(Some(asked)), survey, invoker) {
        Ok(target) => target,
        Err(error) => {
            let fix = "a name or pid that phux-trace list shows";
            return vec![Check::missing("target", error.to_string(), EVERYTHING, fix).required()];
        }
    };
    let asked = asked.to_string_lossy();
    let names = listed(
        target
            .processes
            .iter()
            .map(|p| format!("{} {}", p.comm, p.pid)),
    );
    let mut checks = vec![Check::ok("target", format!("{asked}: {names}")).required()];
    checks.push(readable(&target));
    checks.push(ptys(&target, survey));
    checks.extend(hops(&target));
    checks.push(namespace(&target));
    // What concerns the choice of the target; its circumstances have checks of their own.
    let pids: Vec<u32> = target.processes.iter().map(|p| p.pid).collect();
    let circumstances =
        crate::target::resolve::target(String::new(), &pids, survey, Vec::new()).notes;
    let choice = target.notes.iter().filter(|n| !circumstances.contains(n));
    checks.extend(choice.map(|note| Check::ok("about the target", note.as_str())));
    checks
}

fn listed(names: impl IntoIterator<Item = String>) -> String {
    let all: Vec<String> = names.into_iter().collect();
    let more = all.len().saturating_sub(SHOWN);
    let mut text = all.into_iter().take(SHOWN).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

fn readable(target: &Target) -> Check {
    const NAME: &str = "target's /proc";
    let refused: Vec<String> = target
        .processes
        .iter()
        .filter_map(|p| Some(format!("{} {} ({})", p.comm, p.pid, refusal(p)?)))
        .collect();
    if refused.is_empty() {
        return Check::ok(NAME, "descriptors and mapped files can be read");
    }
    Check::degraded(
        NAME,
        format!("not readable: {}", listed(refused)),
        "its USDT probes, and its PTYs here",
        SUDO,
    )
}

fn refusal(process: &Process) -> Option<String> {
    let look = || {
        let dir = ProcDir::open(process.pid)?;
        dir.open_dir("fd")?;
        dir.read_link("exe")?;
        dir.read("maps").map(drop)
    };
    look().err().map(|e| match e.kind() {
        std::io::ErrorKind::NotFound => "it has ended".into(),
        _ => told(&e),
    })
}

fn ptys(target: &Target, survey: &Survey) -> Check {
    const NAME: &str = "target's PTYs";
    if !target.ptys.is_empty() {
        let index = |p: &crate::target::Pty| format!("pts/{}", p.index);
        let all = listed(target.ptys.iter().map(index));
        return Check::ok(NAME, format!("{}: {all}", target.ptys.len()));
    }
    let (found, fix) = if survey.refused > 0 {
        ("none that we may see", SUDO)
    } else {
        ("it holds none", "a target that phux-trace list shows")
    };
    Check::degraded(NAME, found, "PTY reads, writes and flushes", fix)
}

/// The hops, and a line for each file whose notes are damaged.
fn hops(target: &Target) -> Vec<Check> {
    const NAME: &str = "target's USDT probes";
    let mut binaries = Binaries::default();
    let mut probes: BTreeMap<String, usize> = BTreeMap::new();
    let mut damage: Vec<Check> = Vec::new();
    let mut read = 0;
    for process in &target.processes {
        let Ok(files) = binaries.of_process(process.pid) else {
            continue;
        };
        read += 1;
        for file in files {
            let Ok(notes) = &file.notes else { continue };
            for probe in notes.probes.iter().filter(|p| p.provider == PROVIDER) {
                *probes.entry(probe.name.clone()).or_default() += 1;
            }
            for fault in &notes.damage {
                let check = Check::degraded(
                    "USDT notes",
                    format!("{}: {fault}", file.path.display()),
                    "the probes behind the damage",
                    "build or install that file again",
                );
                if !damage.contains(&check) {
                    damage.push(check);
                }
            }
        }
    }
    const LOST: &str = "the hops inside the target; threads and PTYs are measured all the same";
    let first = if read == 0 {
        Check::degraded(NAME, "its files cannot be read", LOST, SUDO)
    } else if probes.is_empty() {
        let fix = "a program with USDT probes of provider phux, as hop! of phux-perf makes them";
        Check::degraded(NAME, "none of provider phux", LOST, fix)
    } else {
        let sites: usize = probes.values().sum();
        let names = listed(probes.keys().cloned());
        let of = format!(
            "{} of provider phux at {sites} sites: {names}",
            probes.len()
        );
        Check::ok(NAME, of)
    };
    let mut checks = vec![first];
    checks.extend(damage);
    checks
}

fn namespace(target: &Target) -> Check {
    const NAME: &str = "target's pid namespace";
    let nested = target
        .processes
        .iter()
        .filter(|p| p.in_nested_pid_namespace());
    let nested: Vec<String> = nested
        .map(|p| {
            let inner: Vec<String> = p.nspid.iter().skip(1).map(u32::to_string).collect();
            format!(
                "{} {} is pid {} inside",
                p.comm,
                p.pid,
                inner.join(", then ")
            )
        })
        .collect();
    if nested.is_empty() {
        return Check::ok(NAME, "phux-trace's own");
    }
    // It is followed all the same, by the pids that it has here.
    Check::ok(
        NAME,
        format!("nested; {}; reports say the pids of here", listed(nested)),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Status, blocking};
    use super::*;

    #[test]
    fn ourselves_as_a_target() {
        let survey = Survey::take().expect("/proc");
        let invoker = Invoker {
            pid: 0,
            uid: rustix::process::getuid().as_raw(),
        };
        let checks = of(std::process::id().to_string().as_ref(), &survey, invoker);
        assert!(blocking(&checks).is_empty(), "{checks:?}");
        let named = |name: &str| checks.iter().find(|c| c.check == name).expect("a check");
        assert_eq!(named("target's /proc").status, Status::Ok);
        assert!(!named("target's USDT probes").required);
    }

    #[test]
    fn a_target_that_is_not_there_is_a_line() {
        let survey = Survey::take().expect("/proc");
        let invoker = Invoker {
            pid: std::process::id(),
            uid: 0,
        };
        let checks = of("no such program".as_ref(), &survey, invoker);
        assert_eq!(blocking(&checks).len(), 1);
        assert!(
            checks.iter().all(|c| c.detail.contains("no such program")),
            "{checks:?}"
        );
    }
}
