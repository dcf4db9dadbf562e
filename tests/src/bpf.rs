//! What is loaded in the kernel: for "nothing is left behind".

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::machine::find_tool;
use crate::wait::wait_for;

/// Ids of all BPF programs, maps and links, and what is pinned or registered by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BpfObjects {
    /// Programs, with their names.
    pub programs: BTreeSet<(u64, String)>,
    /// Maps, with their names.
    pub maps: BTreeSet<(u64, String)>,
    /// Links, with their types.
    pub links: BTreeSet<(u64, String)>,
    /// Files under `/sys/fs/bpf`.
    pub pins: BTreeSet<String>,
    /// Lines of `uprobe_events` and `kprobe_events`.
    pub probes: BTreeSet<String>,
}

impl BpfObjects {
    /// What there is now. Needs root and bpftool.
    pub fn now() -> BpfObjects {
        let mut pins = BTreeSet::new();
        files_under(Path::new("/sys/fs/bpf"), &mut pins);
        let probes = ["uprobe_events", "kprobe_events"]
            .iter()
            .filter_map(|f| fs::read_to_string(format!("/sys/kernel/tracing/{f}")).ok())
            .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        BpfObjects {
            programs: listed("prog", "name"),
            maps: listed("map", "name"),
            links: listed("link", "type"),
            pins,
            probes,
        }
    }

    /// What is there in `self` but not in `before`.
    pub fn beyond(&self, before: &BpfObjects) -> BpfObjects {
        fn minus<T: Ord + Clone>(a: &BTreeSet<T>, b: &BTreeSet<T>) -> BTreeSet<T> {
            a.difference(b).cloned().collect()
        }
        BpfObjects {
            programs: minus(&self.programs, &before.programs),
            maps: minus(&self.maps, &before.maps),
            links: minus(&self.links, &before.links),
            pins: minus(&self.pins, &before.pins),
            probes: minus(&self.probes, &before.probes),
        }
    }

    /// Panics when something that was not there in `self` stays. The kernel frees programs and
    /// maps some time after their last user went, hence the wait.
    pub fn assert_nothing_left(&self) {
        let mut left = BpfObjects::default();
        wait_for(Duration::from_secs(20), || {
            left = BpfObjects::now().beyond(self);
            (left == BpfObjects::default()).then_some(())
        })
        .unwrap_or_else(|| panic!("left in the kernel: {left:?}"));
    }
}

/// `bpftool -j KIND show`, as (id, field) pairs.
fn listed(kind: &str, field: &str) -> BTreeSet<(u64, String)> {
    let bpftool = find_tool("bpftool").expect("bpftool is installed");
    // It fails when an object goes away between two of its calls, as those of the test before do.
    let text = wait_for(Duration::from_secs(20), || {
        let output = Command::new(&bpftool)
            .args(["-j", kind, "show"])
            .output()
            .ok()?;
        output.status.success().then_some(output.stdout)
    })
    .unwrap_or_else(|| panic!("bpftool {kind} show keeps failing"));
    let text = String::from_utf8_lossy(&text);
    if text.trim().is_empty() {
        return BTreeSet::new();
    }
    let all: Vec<serde_json::Value> =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("bpftool {kind}: {e}: {text}"));
    all.iter()
        .filter_map(|o| {
            Some((
                o["id"].as_u64()?,
                o[field].as_str().unwrap_or_default().to_owned(),
            ))
        })
        .collect()
}

fn files_under(dir: &Path, into: &mut BTreeSet<String>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            files_under(&path, into);
        }
        into.insert(path.display().to_string());
    }
}
