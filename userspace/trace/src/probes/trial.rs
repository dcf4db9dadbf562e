//! What this kernel and these privileges allow, found by asking: one small program is loaded, and
//! attached, for each thing; together, and one by one where something is refused.

use std::io::Read;
use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{ErrorKind, Iter, Link, UprobeMultiOpts};
use probe_ebpf::{OpenTrialSkel, TrialSkel, TrialSkelBuilder};

use super::{log, system};

/// Something that a kernel can refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// BTF-typed tracepoints: the ground that everything stands on.
    TpBtf,
    /// State kept by task.
    TaskStorage,
    /// Ring buffers.
    Ring,
    /// `bpf_loop()`: walking back over a CPU's slices.
    Loop,
    /// Task iterators: seeding and reading out.
    Iterator,
    /// Functions traced at entry and exit: the cheap way to PTY reads and writes.
    Fentry,
    /// The same of the functions of stream sockets.
    SockFentry,
    /// Uprobes with cookies: USDT.
    Uprobe,
    /// The address of `flush_to_ldisc`: the kworker's hop.
    Flush,
}

impl Feature {
    /// All of them, the indispensable ones first.
    pub const ALL: [Feature; 9] = [
        Feature::TpBtf,
        Feature::TaskStorage,
        Feature::Ring,
        Feature::Loop,
        Feature::Iterator,
        Feature::Flush,
        Feature::Fentry,
        Feature::SockFentry,
        Feature::Uprobe,
    ];

    /// Without this `attach` cannot run.
    pub fn is_required(self) -> bool {
        !matches!(
            self,
            Feature::Fentry | Feature::SockFentry | Feature::Uprobe | Feature::Flush
        )
    }

    /// Name in the field's terms.
    pub fn name(self) -> &'static str {
        match self {
            Feature::TpBtf => "BTF tracepoints (tp_btf)",
            Feature::TaskStorage => "BPF task storage",
            Feature::Ring => "BPF ring buffer",
            Feature::Loop => "bpf_loop",
            Feature::Iterator => "BPF task iterators",
            Feature::Fentry => "fentry/fexit",
            Feature::SockFentry => "fentry/fexit of stream sockets",
            Feature::Uprobe => "uprobes (USDT)",
            Feature::Flush => "flush_to_ldisc symbol",
        }
    }

    /// What a report lacks without it.
    pub fn lost(self) -> &'static str {
        match self {
            Feature::Fentry => {
                "PTY calls through io_uring and of processes that open a PTY later; every syscall \
                 of the host costs some ns more meanwhile"
            }
            Feature::SockFentry => {
                "sends and receives through io_uring; every such syscall of the host costs some ns \
                 more meanwhile"
            }
            Feature::Flush => "the kworker's hop and the reader's wait",
            Feature::Uprobe => "the hops inside the target",
            _ => "everything: attach cannot run",
        }
    }

    /// What would bring it.
    pub fn fix(self) -> &'static str {
        match self {
            Feature::Fentry | Feature::SockFentry => "a kernel that allows fentry",
            Feature::Flush => {
                "root, or CAP_SYSLOG; kernel.kptr_restrict below 2; a kernel with CONFIG_KALLSYMS"
            }
            Feature::Uprobe => {
                "a kernel with CONFIG_UPROBES; before Linux 6.6 also root, or CAP_SYS_ADMIN"
            }
            _ => "a kernel from 6.1 with BTF, as distributions build it",
        }
    }
}

/// Where phux-trace itself stands among the pid namespaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PidNamespace {
    /// Depth; 0 is the initial one.
    pub level: u32,
    /// Kernel address of it, to compare with.
    pub addr: u64,
}

/// The answer to one trial: `Err` holds the kernel's reason.
pub type Answer = Result<(), String>;

/// Tries these features, all of them in one load where the kernel allows them all: each load reads
/// the whole of the kernel's BTF. The answers are in the order of `features`.
pub fn try_features(features: &[Feature]) -> Vec<(Feature, Answer)> {
    attempt(features).0
}

/// Tries what nothing works without, and asks the kernel for phux-trace's own pid namespace.
pub fn try_required() -> (Vec<(Feature, Answer)>, PidNamespace) {
    let required: Vec<Feature> = Feature::ALL
        .into_iter()
        .filter(|f| f.is_required())
        .collect();
    attempt(&required)
}

fn attempt(features: &[Feature]) -> (Vec<(Feature, Answer)>, PidNamespace) {
    let mut ns = PidNamespace::default();
    if load(features, &mut ns).is_ok() {
        return (features.iter().map(|f| (*f, Ok(()))).collect(), ns);
    }
    // Which of them it was, only one at a time can tell.
    let mut single = |feature: &Feature| (*feature, load(&[*feature], &mut ns));
    let answers = features.iter().map(&mut single).collect();
    (answers, ns)
}

fn load(features: &[Feature], ns: &mut PidNamespace) -> Answer {
    if features.contains(&Feature::Flush) {
        // A hidden address would load, and then match no work at all.
        system::shows_addresses()?;
    }
    // As libbpf does for USDT: many probes by one link where the kernel has that (6.6), else each by
    // a perf event of its own.
    if features.contains(&Feature::Uprobe) && load_by(features, true, ns).is_ok() {
        return Ok(());
    }
    load_by(features, false, ns)
}

fn load_by(features: &[Feature], multi: bool, ns: &mut PidNamespace) -> Answer {
    let (result, said) = log::listening(|| {
        let mut object = MaybeUninit::uninit();
        let mut open = TrialSkelBuilder::default().open(&mut object)?;
        only(&mut open, features, multi);
        let skel = open.load()?;
        for feature in features {
            // That it can be attached is all there is to know.
            drop(attach(&skel, *feature, multi, ns)?);
        }
        Ok::<_, libbpf_rs::Error>(())
    });
    result.map_err(|e| explain(&e, &said))
}

/// The error with its reason, in one line.
pub(crate) fn explain(error: &libbpf_rs::Error, said: &[String]) -> String {
    if error.kind() == ErrorKind::PermissionDenied {
        return match log::reason(said) {
            Some(reason) => format!("permission denied ({reason})"),
            None => "permission denied".into(),
        };
    }
    match log::reason(said) {
        Some(reason) => format!("{error} ({reason})"),
        None => error.to_string(),
    }
}

/// Leaves the programs of these features and the maps that they need.
fn only(open: &mut OpenTrialSkel<'_>, features: &[Feature], multi: bool) {
    let p = &mut open.progs;
    for (program, feature) in [
        (&mut p.try_tp_btf, Feature::TpBtf),
        (&mut p.try_storage, Feature::TaskStorage),
        (&mut p.try_ring, Feature::Ring),
        (&mut p.try_loop, Feature::Loop),
        (&mut p.try_iter, Feature::Iterator),
        (&mut p.try_fentry, Feature::Fentry),
        (&mut p.try_fentry_unix, Feature::SockFentry),
        (&mut p.try_fentry_tcp, Feature::SockFentry),
        (&mut p.try_flush, Feature::Flush),
    ] {
        program.set_autoload(features.contains(&feature));
    }
    let uprobe = features.contains(&Feature::Uprobe);
    p.try_uprobe.set_autoload(uprobe && !multi);
    p.try_uprobe_multi.set_autoload(uprobe && multi);
    // A map that the kernel does not know would fail every other trial.
    for (map, feature) in [
        (&mut open.maps.storage, Feature::TaskStorage),
        (&mut open.maps.ring, Feature::Ring),
    ] {
        let _ = map.set_autocreate(features.contains(&feature));
    }
}

fn attach(
    skel: &TrialSkel<'_>,
    feature: Feature,
    multi: bool,
    ns: &mut PidNamespace,
) -> libbpf_rs::Result<Link> {
    let p = &skel.progs;
    match feature {
        Feature::TpBtf => p.try_tp_btf.attach_trace(),
        Feature::TaskStorage => p.try_storage.attach_trace(),
        Feature::Ring => p.try_ring.attach_trace(),
        Feature::Loop => p.try_loop.attach_trace(),
        Feature::Fentry => p.try_fentry.attach_trace(),
        Feature::SockFentry => {
            let _tcp = p.try_fentry_tcp.attach_trace()?;
            p.try_fentry_unix.attach_trace()
        }
        Feature::Flush => p.try_flush.attach_trace(),
        Feature::Iterator => {
            let link = p.try_iter.attach()?;
            let mut all = Vec::new();
            Iter::new(&link)?.read_to_end(&mut all)?;
            if let Some(bss) = &skel.maps.bss_data {
                *ns = PidNamespace {
                    level: bss.self_level,
                    addr: bss.self_ns,
                };
            }
            Ok(link)
        }
        Feature::Uprobe => {
            let (path, offset) = own_function().ok_or_else(|| {
                libbpf_rs::Error::from(std::io::Error::other("own code is not in /proc/self/maps"))
            })?;
            let me = std::process::id() as i32;
            if multi {
                let opts = UprobeMultiOpts {
                    offsets: vec![offset],
                    cookies: vec![1],
                    ..UprobeMultiOpts::default()
                };
                return p
                    .try_uprobe_multi
                    .attach_uprobe_multi_with_opts(me, path, "", opts);
            }
            p.try_uprobe.attach_uprobe(false, me, path, offset)
        }
    }
}

/// File and offset of one function of this very program, to try a uprobe on.
fn own_function() -> Option<(std::path::PathBuf, usize)> {
    let address = own_function as *const () as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (range, _perms, offset) = (fields.next()?, fields.next()?, fields.next()?);
        let (from, to) = range.split_once('-')?;
        let from = usize::from_str_radix(from, 16).ok()?;
        let to = usize::from_str_radix(to, 16).ok()?;
        if (from..to).contains(&address) {
            let offset = usize::from_str_radix(offset, 16).ok()?;
            return Some(("/proc/self/exe".into(), address - from + offset));
        }
    }
    None
}
