//! The target's USDT probes of provider `phux`: found, attached once a file, and remembered by id.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;

use crate::probes::{HopProbe, Probes};
use crate::target::binary::Binaries;

/// The provider whose probes are hops.
const PROVIDER: &str = "phux";
/// Probes of one run; a program with more is not a multiplexer with hops.
const MAX_HOPS: usize = 1024;

/// One attached probe.
#[derive(Debug, Clone)]
pub(crate) struct Hop {
    pub(crate) probe: String,
    /// Sites of that name in its file.
    pub(crate) sites: u32,
}

impl Hop {
    /// `pty__read__size` → `pty.read.size`: the naming rule of phux-perf.
    pub(crate) fn metric(&self) -> String {
        self.probe.replace("__", ".")
    }
}

/// All attached probes; an id is a place in `hops`.
#[derive(Debug, Default)]
pub(crate) struct Hops {
    hops: Vec<Hop>,
    known: HashMap<(u64, u64, String), u32>,
    binaries: Binaries,
    /// For the report: what could not be attached, and why.
    pub(crate) notes: Vec<String>,
}

impl Hops {
    pub(crate) fn get(&self, id: u32) -> Option<&Hop> {
        self.hops.get(usize::try_from(id).ok()?)
    }

    /// Attaches to the hops of a process that is new, or has become another program.
    pub(crate) fn follow(&mut self, pid: u32, probes: &mut Probes) {
        // Vanished, or somebody else's: no hops, and the report has its threads all the same.
        let Ok(binaries) = self.binaries.of_process(pid) else {
            return;
        };
        for binary in binaries {
            let notes = match &binary.notes {
                Ok(notes) => notes,
                Err(_) => continue,
            };
            for damage in &notes.damage {
                self.note(format!("{}: {damage}", binary.path.display()));
            }
            let mut sites: Vec<(&str, u32)> = Vec::new();
            for probe in notes.probes.iter().filter(|p| p.provider == PROVIDER) {
                match sites.iter_mut().find(|(name, _)| *name == probe.name) {
                    Some((_, n)) => *n += 1,
                    None => sites.push((&probe.name, 1)),
                }
            }
            if sites.is_empty() {
                continue;
            }
            let Ok(file) = std::fs::metadata(&binary.reach) else {
                continue;
            };
            for (name, sites) in sites {
                let key = (file.dev(), file.ino(), name.to_owned());
                if self.known.contains_key(&key) {
                    continue;
                }
                if self.hops.len() >= MAX_HOPS {
                    self.note(format!("more than {MAX_HOPS} probes: the rest is left out"));
                    return;
                }
                let id = self.hops.len() as u32;
                let hop = HopProbe {
                    path: binary.reach.clone(),
                    provider: PROVIDER.into(),
                    name: name.to_owned(),
                };
                match probes.attach_hop(id, &hop) {
                    Ok(()) => {
                        self.hops.push(Hop {
                            probe: name.to_owned(),
                            sites,
                        });
                        self.known.insert(key, id);
                    }
                    Err(e) => {
                        let path = binary.path.display();
                        self.note(format!("{path}: {name}: {e}{}", held(&e.to_string())));
                    }
                }
            }
        }
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Two tracers share a probe only if both or neither tell the kernel of its semaphore, and old ones
/// (bpftrace before 0.21, bcc) raise it themselves.
fn held(refusal: &str) -> &'static str {
    if refusal.contains("EINVAL") {
        ". Another tracer may hold this probe without its semaphore: end that one first"
    } else {
        ""
    }
}
