//! Every hop seen from outside: its probe is in the program, and fires as often as its histogram
//! counts, while real sessions run through all of the hot path.
#![cfg(all(target_os = "linux", not(feature = "no-telemetry")))]

mod harness;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use harness::{World, count, wait_until};
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use phux_perf::{PerfReport, Value};

const TRACEFS: &str = "/sys/kernel/tracing";

/// Where in the file each probe's sites are, by the probe's name.
fn sites(program: &Path) -> BTreeMap<String, Vec<u64>> {
    let file = std::fs::read(program).expect("the program is there");
    let file = &file[..];
    let header = FileHeader64::<object::Endianness>::parse(file).expect("ELF");
    let endian = header.endian().expect("ELF");
    let segments = header.program_headers(endian, file).expect("segments");
    let offset_of = |address: u64| {
        let holds = |s: &&object::elf::ProgramHeader64<object::Endianness>| {
            let start = s.p_vaddr(endian);
            s.p_type(endian) == PT_LOAD && (start..start + s.p_memsz(endian)).contains(&address)
        };
        let segment = segments
            .iter()
            .find(holds)
            .expect("the site is in a segment");
        address - segment.p_vaddr(endian) + segment.p_offset(endian)
    };
    let sections = header.sections(endian, file).expect("sections");
    let (_, section) = sections
        .section_by_name(endian, b".note.stapsdt")
        .expect("probes");
    let mut notes = section.notes(endian, file).expect("notes").expect("notes");
    let mut sites = BTreeMap::<String, Vec<u64>>::new();
    while let Some(note) = notes.next().expect("a whole note") {
        let (addresses, strings) = note.desc().split_at(24);
        let address = u64::from_le_bytes(addresses[..8].try_into().expect("8 bytes"));
        let mut strings = strings.split(|byte| *byte == 0);
        assert_eq!(strings.next(), Some(&b"phux"[..]));
        let name = strings
            .next()
            .and_then(|s| std::str::from_utf8(s).ok())
            .expect("a name");
        sites
            .entry(name.to_owned())
            .or_default()
            .push(offset_of(address));
    }
    sites
}

/// Histograms of a report with their numbers of samples, by the name of their probe.
fn histograms(report: &PerfReport) -> BTreeMap<String, u64> {
    let histograms = report
        .metrics
        .iter()
        .filter_map(|reading| match &reading.value {
            Value::Histogram(h) => Some((reading.name.replace('.', "__"), h.count)),
            _ => None,
        });
    histograms.collect()
}

/// The kernel's own counters at every site, while it lives.
struct Uprobes {
    group: String,
    names: Vec<String>,
    program: String,
}

impl Uprobes {
    /// `None`, with a word to the reader, where this user may not.
    fn set(program: &Path, sites: &BTreeMap<String, Vec<u64>>) -> Option<Self> {
        if !rustix::process::geteuid().is_root()
            || !Path::new(TRACEFS).join("uprobe_events").exists()
        {
            assert!(std::env::var_os("CI").is_none(), "needs root and tracefs");
            println!("skipped: needs root and tracefs");
            return None;
        }
        let mut probes = Self {
            group: format!("phux_{}", std::process::id()),
            names: vec![],
            program: program.display().to_string(),
        };
        for (name, offsets) in sites {
            for (n, offset) in offsets.iter().enumerate() {
                let event = format!("{name}_{n}");
                probes.control(&format!(
                    "p:{}/{event} {}:{offset:#x}",
                    probes.group, probes.program
                ));
                probes.names.push(event);
            }
        }
        let enable = format!("{TRACEFS}/events/{}/enable", probes.group);
        std::fs::write(enable, "1").expect("uprobes can be enabled");
        Some(probes)
    }

    fn control(&self, line: &str) {
        let events = OpenOptions::new()
            .append(true)
            .open(format!("{TRACEFS}/uprobe_events"));
        events
            .expect("uprobe_events")
            .write_all(line.as_bytes())
            .expect(line);
    }

    /// Hits by the probe's name.
    fn hits(&self) -> BTreeMap<String, u64> {
        let profile = std::fs::read_to_string(format!("{TRACEFS}/uprobe_profile"));
        let mut hits = BTreeMap::new();
        for line in profile.expect("uprobe_profile").lines() {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let [path, event, hit, ..] = columns[..] else {
                continue;
            };
            let ours = path == self.program && self.names.iter().any(|name| name == event);
            if let (true, Some((name, _)), Ok(hit)) =
                (ours, event.rsplit_once('_'), hit.parse::<u64>())
            {
                *hits.entry(name.to_owned()).or_default() += hit;
            }
        }
        hits
    }
}

impl Drop for Uprobes {
    fn drop(&mut self) {
        let _ = std::fs::write(format!("{TRACEFS}/events/{}/enable", self.group), "0");
        for name in &self.names {
            self.control(&format!("-:{}/{name}", self.group));
        }
    }
}

/// Runs sessions that go through every hop, and returns the server's and the client's report.
fn run_everything(world: &World) -> (PerfReport, PerfReport) {
    let client = world.shell("all");
    client.line("seq 20000; echo al''l");
    client.wait_for_row("all");
    // Output that costs the parser more than the reader: bursts are cut short.
    client.line(
        "yes \"$(printf '\\033[999S\\033[2J\\033[999T%080d' 0)\" | head -c 300000; clear; echo he''avy",
    );
    client.wait_for_row("heavy");
    // Frames that come in a row, so that paints are held back.
    client.line("for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.06; done; echo pa''ced");
    client.wait_for_row("paced");
    let deaf = world.client(&[
        "new",
        "-s",
        "deaf",
        "--",
        "sh",
        "-c",
        "stty raw -echo; echo go; exec sleep 1000",
    ]);
    deaf.wait_for("go");
    for _ in 0..40 {
        deaf.keys(&format!("\x1b[200~{}\x1b[201~", "x".repeat(4000)));
        deaf.keys(&"\x1b[A\x1b[B".repeat(8));
    }
    wait_until("input waits for credit", || {
        count(&world.perf(), "input.credit_wait") > 0
    });
    drop(deaf);
    world.ok(&["kill", "deaf"]);
    wait_until("the deaf one is gone", || world.sessions().len() == 1);
    client.detach();
    wait_until("the client's report is written", || {
        world.client_logs().contains("session perf:")
    });
    let logs = world.client_logs();
    let json = logs
        .split("perf={")
        .nth(1)
        .and_then(|rest| rest.lines().next());
    let json = json.map(|rest| format!("{{{rest}")).expect("a report");
    (world.perf(), PerfReport::from_json(&json).expect("JSON"))
}

#[test]
fn every_hop_is_hit_and_its_probe_fires_as_often_as_its_histogram_counts() {
    let mut world = World::with_own_program();
    let sites = sites(&world.program);
    let probes = Uprobes::set(&world.program, &sites);
    world.start_server(&[]);
    let (server, client) = run_everything(&world);
    let (server, client) = (histograms(&server), histograms(&client));
    let named: Vec<&String> = server.keys().chain(client.keys()).collect();
    assert_eq!(
        named.len(),
        sites.len(),
        "one probe for each histogram, and no other"
    );
    for (name, count) in server.iter().chain(&client) {
        assert!(sites.contains_key(name), "{name} has no probe");
        assert!(*count > 0, "{name} was not hit");
    }
    let Some(probes) = probes else { return };
    let hits = probes.hits();
    for (name, count) in &server {
        let hit = hits.get(name).copied().unwrap_or_default();
        // Handing out the report is a command and a write that it cannot count yet.
        let after = if name.starts_with("wire__") || name.starts_with("cmd__") {
            4
        } else {
            0
        };
        assert!(
            (*count..=count + after).contains(&hit),
            "{name}: {count} samples, {hit} hits"
        );
    }
    for (name, count) in &client {
        // The client whose terminal was closed on it has left no report.
        let hit = hits.get(name).copied().unwrap_or_default();
        assert!(hit >= *count, "{name}: {count} samples, {hit} hits");
    }
}
