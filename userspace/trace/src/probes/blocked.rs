//! Why `attach` cannot run here: the cause behind a refused trial, and the next step.

use thiserror::Error;

use super::system::{MINIMUM, System};
use super::trial::{self, Feature, PidNamespace};

/// What keeps `attach` from running. Each message names the cause and the next step.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Blocked {
    /// Capabilities are missing.
    #[error("attach needs root, or CAP_BPF and CAP_PERFMON: try sudo phux-trace attach")]
    Privileges,
    /// Root, but only of a container.
    #[error(
        "attach needs root of the host, and this is a user namespace (a rootless container), \
         where the kernel allows no tracing: run it on the host"
    )]
    UserNamespace,
    /// No type information of the kernel.
    #[error(
        "attach needs the kernel's BTF ({0}): run a kernel built with CONFIG_DEBUG_INFO_BTF, as \
         those of the distributions are, and mount sysfs on /sys"
    )]
    NoBtf(String),
    /// The kernel is too old.
    #[error("attach needs Linux {}.{} or newer, and this is {release}: {feature} is refused ({why})",
        MINIMUM.0, MINIMUM.1)]
    TooOld {
        /// Of this kernel.
        release: String,
        /// What it refused first.
        feature: &'static str,
        /// Its reason.
        why: String,
    },
    /// Kernel lockdown.
    #[error(
        "attach reads kernel memory, which lockdown ({0}) forbids: boot with lockdown=none or \
         lockdown=integrity"
    )]
    Lockdown(String),
    /// Anything else.
    #[error("{feature} is refused: {why}. `phux-trace doctor` says what else this kernel allows")]
    Refused {
        /// What the kernel refused.
        feature: &'static str,
        /// Its reason.
        why: String,
    },
}

impl Blocked {
    /// Privileges are all that is missing: figures that need none can be had.
    pub fn is_ours_to_have(&self) -> bool {
        matches!(self, Blocked::Privileges | Blocked::UserNamespace)
    }
}

/// Tries everything without which `attach` cannot run; gives phux-trace's own pid namespace.
///
/// # Errors
/// The first thing refused, told by its cause.
pub fn required() -> Result<PidNamespace, Blocked> {
    let (answers, namespace) = trial::try_required();
    for (feature, answer) in answers {
        answer.map_err(|why| cause(feature, why, &System::look()))?;
    }
    Ok(namespace)
}

/// The cause behind a refusal.
pub fn cause(feature: Feature, why: String, system: &System) -> Blocked {
    let feature = feature.name();
    if system.nested_user_namespace {
        Blocked::UserNamespace
    } else if !system.may_trace() {
        Blocked::Privileges
    } else if let Some(error) = &system.btf_error {
        Blocked::NoBtf(error.clone())
    } else if system.too_old() {
        let release = system.release.clone();
        Blocked::TooOld {
            release,
            feature,
            why,
        }
    } else if system.lockdown.as_deref() == Some("confidentiality") {
        Blocked::Lockdown("confidentiality".into())
    } else {
        Blocked::Refused { feature, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_nearest_to_the_user_is_told() {
        let able = System {
            release: "6.1.0".into(),
            version: Some((6, 1)),
            capabilities: u64::MAX,
            ..System::default()
        };
        let told = |system: System| cause(Feature::Loop, "EINVAL".into(), &system).to_string();
        let refused = told(able.clone());
        assert!(refused.contains("bpf_loop is refused: EINVAL") && refused.contains("doctor"));
        let old = System {
            version: Some((5, 15)),
            release: "5.15.0-x".into(),
            ..able.clone()
        };
        let text = told(old.clone());
        assert!(
            text.contains("Linux 6.1 or newer") && text.contains("5.15.0-x"),
            "{text}"
        );
        let no_btf = System {
            btf_error: Some("/sys/kernel/btf/vmlinux: not there".into()),
            ..old
        };
        assert!(told(no_btf.clone()).contains("needs the kernel's BTF (/sys/"));
        // Without privileges nothing else can be known.
        let nobody = System {
            capabilities: 0,
            ..no_btf
        };
        assert_eq!(
            told(nobody.clone()),
            "attach needs root, or CAP_BPF and CAP_PERFMON: try sudo phux-trace attach"
        );
        assert!(
            told(System {
                nested_user_namespace: true,
                ..nobody
            })
            .contains("on the host")
        );
        let locked = System {
            lockdown: Some("confidentiality".into()),
            ..able.clone()
        };
        assert!(told(locked).contains("lockdown"));
        let harmless = System {
            lockdown: Some("integrity".into()),
            ..able
        };
        assert!(!told(harmless).contains("lockdown"));
    }
}
