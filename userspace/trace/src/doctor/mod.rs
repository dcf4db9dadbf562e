//! What this kernel, these privileges and this target allow. Everything is asked, nothing is guessed
//! from a version; nothing stays loaded.

mod host;
mod privileges;
mod target;

use std::ffi::OsStr;

use serde::Serialize;

use crate::probes::system::System;
use crate::probes::trial::{Answer, Feature, try_features};

/// How one check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    Ok,
    /// `attach` runs, with less.
    Degraded,
    /// Not there.
    Missing,
}

/// One check, as `--json` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was checked.
    pub check: String,
    /// How it came out.
    pub status: Status,
    /// What was found.
    pub detail: String,
    /// What is lost without it; `null` when it is ok.
    pub lost: Option<String>,
    /// What would bring it; `null` when it is ok.
    pub fix: Option<String>,
    /// When it is missing, `attach` cannot run.
    pub required: bool,
}

impl Check {
    fn ok(check: &str, detail: impl Into<String>) -> Check {
        Check {
            check: check.into(),
            status: Status::Ok,
            detail: detail.into(),
            lost: None,
            fix: None,
            required: false,
        }
    }

    fn failed(
        status: Status,
        check: &str,
        detail: impl Into<String>,
        lost: &str,
        fix: &str,
    ) -> Check {
        Check {
            status,
            lost: Some(lost.into()),
            fix: Some(fix.into()),
            ..Check::ok(check, detail)
        }
    }

    fn degraded(check: &str, detail: impl Into<String>, lost: &str, fix: &str) -> Check {
        Check::failed(Status::Degraded, check, detail, lost, fix)
    }

    fn missing(check: &str, detail: impl Into<String>, lost: &str, fix: &str) -> Check {
        Check::failed(Status::Missing, check, detail, lost, fix)
    }

    fn required(self) -> Check {
        Check {
            required: true,
            ..self
        }
    }
}

/// What is lost where a required thing is missing.
const EVERYTHING: &str = "everything: attach cannot run";
/// What brings privileges.
const SUDO: &str = "root: sudo phux-trace";

/// The required checks that are missing; none: `attach` could run.
pub fn blocking(checks: &[Check]) -> Vec<&Check> {
    checks
        .iter()
        .filter(|c| c.required && c.status == Status::Missing)
        .collect()
}

/// All checks: of the host, of the privileges, and of a target where one is named.
///
/// # Errors
/// `/proc` cannot be read.
pub fn checks(asked: Option<&OsStr>) -> anyhow::Result<Vec<Check>> {
    let system = System::look();
    let trials = try_features(&Feature::ALL);
    let allowed = trials.iter().all(|(f, a)| a.is_ok() || !f.is_required());
    let mut checks = host::checks(&system, allowed);
    checks.extend(privileges::checks(&system, allowed));
    checks.extend(trials.iter().map(|(f, a)| feature(*f, a, &system)));
    if allowed {
        checks.push(host::programs(&trials));
    }
    checks.push(host::interrupts());
    checks.push(host::run_time_statistics());
    checks.push(host::pid_namespace());
    if let Some(asked) = asked {
        checks.extend(target::checks(asked)?);
    }
    Ok(checks)
}

fn feature(feature: Feature, answer: &Answer, system: &System) -> Check {
    let name = feature.name();
    let check = match answer {
        Ok(()) => Check::ok(name, "loads and attaches"),
        Err(why) => {
            let fix = if !system.may_trace() {
                SUDO
            } else if system.btf_error.is_some() {
                "the kernel's BTF: see above"
            } else {
                feature.fix()
            };
            // PTYs and sockets have a second way; the others have none.
            let second_way = matches!(feature, Feature::Fentry | Feature::SockFentry);
            let status = if second_way && system.may_trace() {
                Status::Degraded
            } else {
                Status::Missing
            };
            Check::failed(status, name, why.as_str(), feature.lost(), fix)
        }
    };
    Check {
        required: feature.is_required(),
        ..check
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_required_check_blocks() {
        let optional = Check::missing("flush", "no", "the hop", "root");
        let second_best = Check::degraded("release", "old", "nothing", "new").required();
        assert!(blocking(&[Check::ok("a", ""), optional.clone(), second_best.clone()]).is_empty());
        let blocks = Check::missing("BTF", "no", EVERYTHING, "a kernel").required();
        assert_eq!(
            blocking(&[optional, blocks.clone(), second_best]),
            [&blocks]
        );
    }

    #[test]
    fn features_are_told_by_what_they_mean() {
        let root = System {
            capabilities: u64::MAX,
            ..System::default()
        };
        let refused: Answer = Err("permission denied".into());
        let fentry = feature(Feature::Fentry, &refused, &root);
        assert_eq!((fentry.status, fentry.required), (Status::Degraded, false));
        let ring = feature(Feature::Ring, &refused, &root);
        assert_eq!((ring.status, ring.required), (Status::Missing, true));
        assert_ne!(ring.fix.as_deref(), Some(SUDO));
        let nobody = feature(Feature::Ring, &refused, &System::default());
        assert_eq!(nobody.fix.as_deref(), Some(SUDO));
        let fine = feature(Feature::Ring, &Ok(()), &root);
        assert_eq!(
            (fine.status, fine.lost, fine.required),
            (Status::Ok, None, true)
        );
    }
}
