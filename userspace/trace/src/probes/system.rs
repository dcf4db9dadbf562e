//! What `/proc` and `/sys` say about this kernel and about our privileges: enough to tell why a
//! trial failed, and what would bring it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use rustix::io::Errno;

/// Oldest kernel that phux-trace is made for: `bpf_loop()` came with 5.17, the `prev_state` argument
/// of `sched_switch` with 5.18, and 6.1 is the first long-term kernel with both.
pub const MINIMUM: (u32, u32) = (6, 1);

/// Type information of the running kernel.
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// The initial user namespace (`PROC_USER_INIT_INO`): only there a capability lets anyone use BPF.
const INITIAL_USER_NAMESPACE: &str = "user:[4026531837]";

/// A Linux capability that matters here, by its number in `linux/capability.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the kernel's own names")]
pub enum Capability {
    DacOverride = 1,
    DacReadSearch = 2,
    SysPtrace = 19,
    SysAdmin = 21,
    Syslog = 34,
    Perfmon = 38,
    Bpf = 39,
}

/// This kernel and these privileges, at one moment.
#[derive(Debug, Clone, Default)]
pub struct System {
    /// `uname -r`.
    pub release: String,
    /// Major and minor number of it, where it begins with such.
    pub version: Option<(u32, u32)>,
    /// Why the kernel's BTF cannot be read; `None`: it can.
    pub btf_error: Option<String>,
    /// Effective capabilities, one a bit.
    pub capabilities: u64,
    /// Not the initial user namespace: capabilities count for nothing in it.
    pub nested_user_namespace: bool,
    /// `none`, `integrity` or `confidentiality`; `None`: not in this kernel, or not to be seen.
    pub lockdown: Option<String>,
}

impl System {
    /// Looks. What cannot be read is taken for absent.
    pub fn look() -> System {
        let release = rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        System {
            version: version(&release),
            release,
            btf_error: fs::File::open(BTF)
                .err()
                .map(|e| format!("{BTF}: {}", told(&e))),
            capabilities: effective(&status).unwrap_or(0),
            nested_user_namespace: fs::read_link("/proc/self/ns/user")
                .is_ok_and(|l| l.as_os_str() != INITIAL_USER_NAMESPACE),
            lockdown: fs::read_to_string("/sys/kernel/security/lockdown")
                .ok()
                .and_then(|t| chosen(&t)),
        }
    }

    /// Whether a capability is effective, if only inside a user namespace.
    pub fn holds(&self, capability: Capability) -> bool {
        (self.capabilities >> (capability as u32)) & 1 == 1
    }

    /// Whether a capability is effective, and counts for the whole host.
    pub fn has(&self, capability: Capability) -> bool {
        !self.nested_user_namespace && self.holds(capability)
    }

    /// Whether tracing programs may be loaded, as far as capabilities go.
    pub fn may_trace(&self) -> bool {
        self.has(Capability::SysAdmin)
            || (self.has(Capability::Bpf) && self.has(Capability::Perfmon))
    }

    /// Older than what phux-trace is made for. A release that is not understood is not old.
    pub fn too_old(&self) -> bool {
        self.version.is_some_and(|v| v < MINIMUM)
    }
}

/// A number in `/proc/sys`, by its path there.
pub fn sysctl(path: &str) -> Option<i64> {
    let text = fs::read_to_string(format!("/proc/sys/{path}")).ok()?;
    text.trim().parse().ok()
}

/// Whether the cpu controller is one of version 1: then the cgroups that schedule are those of its hierarchy.
pub fn cpu_controller_on_v1() -> bool {
    fs::read_to_string("/proc/cgroups").is_ok_and(|text| cpu_hierarchy(&text) != 0)
}

/// The hierarchy that the cpu controller is on, by `/proc/cgroups`; 0 is that of version 2.
fn cpu_hierarchy(cgroups: &str) -> u32 {
    let mut lines = cgroups.lines().map(str::split_ascii_whitespace);
    let number = lines.find_map(|mut words| (words.next() == Some("cpu")).then(|| words.next())?);
    number.and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Whether the kernel tells us its addresses. Where it hides them they are all zero, which libbpf
/// takes for an address like any other.
///
/// # Errors
/// Why they are not to be had.
pub fn shows_addresses() -> Result<(), String> {
    let told = |e| format!("/proc/kallsyms: {}", told(&e));
    let list = fs::File::open("/proc/kallsyms").map_err(told)?;
    // Offsets of per-CPU variables come first on some kernels, and some of those are zero too.
    for line in BufReader::new(list).split(b'\n') {
        if has_address(&line.map_err(told)?) {
            return Ok(());
        }
    }
    Err("the kernel hides its addresses (all are zero in /proc/kallsyms)".into())
}

/// Whether `ffffffff81234567 t name` has one that is not zero.
fn has_address(line: &[u8]) -> bool {
    line.iter()
        .take_while(|c| c.is_ascii_hexdigit())
        .any(|c| *c != b'0')
}

/// An error of a file, in the field's few words.
pub(crate) fn told(error: &std::io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ACCESS | Errno::PERM) => "permission denied".into(),
        Some(Errno::NOENT) => "not there".into(),
        _ => error.to_string(),
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// `none [integrity] confidentiality`: the one in brackets.
fn chosen(text: &str) -> Option<String> {
    let (_, after) = text.split_once('[')?;
    Some(after.split_once(']')?.0.to_owned())
}

/// Where tracefs is mounted, if it has this event (`sched/sched_switch`).
#[must_use]
pub fn tracefs(event: &str) -> Option<&'static str> {
    const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let has = |place: &&str| {
        Path::new(place)
            .join("events")
            .join(event)
            .join("id")
            .exists()
    };
    PLACES.into_iter().find(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        assert_eq!(version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(version("6.18.44-x"), Some((6, 18)));
        assert_eq!(version("7.0-rc1"), Some((7, 0)));
        for odd in ["", "six", "6", "99999999999.1"] {
            assert_eq!(version(odd), None, "{odd}");
        }
        let old = |version| {
            System {
                version,
                ..System::default()
            }
            .too_old()
        };
        assert!(old(Some((5, 15))) && old(Some((6, 0))));
        assert!(!old(Some((6, 1))) && !old(Some((10, 0))) && !old(None));
    }

    #[test]
    fn capabilities() {
        assert_eq!(
            effective("Name:\tx\nCapEff:\t000000c000000000\n"),
            Some(0xc0_0000_0000)
        );
        let holding = |capabilities| System {
            capabilities,
            ..System::default()
        };
        assert!(
            holding(0xc0_0000_0000).may_trace(),
            "CAP_BPF and CAP_PERFMON"
        );
        assert!(!holding(0x80_0000_0000).may_trace(), "CAP_BPF alone");
        assert!(holding(1 << 21).may_trace(), "CAP_SYS_ADMIN");
        assert!(!holding(0).may_trace());
        let nested = System {
            nested_user_namespace: true,
            ..holding(u64::MAX)
        };
        assert!(!nested.may_trace());
    }

    #[test]
    fn addresses_and_lockdown() {
        assert!(has_address(b"ffffffff81a0b0c0 t flush_to_ldisc"));
        assert!(!has_address(b"0000000000000000 t abcdef"));
        assert!(!has_address(b""));
        assert_eq!(
            chosen("none [integrity] confidentiality\n").as_deref(),
            Some("integrity")
        );
        assert_eq!(chosen("none"), None);
    }
}
