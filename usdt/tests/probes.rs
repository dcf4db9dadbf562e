//! The hops of `examples/hops.rs` from outside: their notes in the file, and what a tracer counts.
#![cfg(all(target_os = "linux", not(feature = "disabled")))]

use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};
use phux_perf::{PerfReport, Snapshot, Value};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Builds the example, in this test's profile, and says where it is.
fn example() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "build",
        "-p",
        "phux-perf",
        "--example",
        "hops",
        "--message-format=json",
    ]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let built = succeeded(cargo.stderr(Stdio::inherit()).output());
    let messages = String::from_utf8(built.stdout).expect("JSON is UTF-8");
    let executable = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Json>(line).ok())
        .filter_map(|message| message.get("executable")?.as_str().map(PathBuf::from))
        .next_back();
    executable.expect("cargo names the executable that it built")
}

fn succeeded(output: std::io::Result<Output>) -> Output {
    let output = output.expect("the program starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", output.status);
    output
}

/// The report that the example prints at its end.
fn report(stdout: &[u8]) -> PerfReport {
    let stdout = std::str::from_utf8(stdout).expect("the example prints UTF-8");
    let json = stdout
        .lines()
        .find(|line| line.starts_with("{\"schema_version\""))
        .expect("a line of JSON");
    PerfReport::from_json(json).expect("a report")
}

fn histograms(report: &PerfReport) -> Vec<(String, &Snapshot)> {
    let histograms = report
        .metrics
        .iter()
        .filter_map(|reading| match &reading.value {
            Value::Histogram(snapshot) => Some((reading.name.replace('.', "__"), snapshot)),
            _ => None,
        });
    histograms.collect()
}

struct Note {
    provider: String,
    semaphore: u64,
    arguments: String,
}

/// Type of the notes that describe probes.
const NT_STAPSDT: u32 = 3;

/// Every SDT note of the file by the probe's name, read from the bytes by the format's definition.
fn notes(file: &[u8]) -> BTreeMap<String, Vec<Note>> {
    let mut notes: BTreeMap<String, Vec<Note>> = BTreeMap::new();
    let header = FileHeader64::<object::Endianness>::parse(file).expect("an ELF file");
    let endian = header.endian().expect("an ELF file");
    let sections = header.sections(endian, file).expect("sections");
    let (_, section) = sections
        .section_by_name(endian, b".note.stapsdt")
        .expect("the file has probes");
    let mut iterator = section.notes(endian, file).expect("notes").expect("notes");
    while let Some(note) = iterator.next().expect("a whole note") {
        assert_eq!(
            (note.name(), note.n_type(endian)),
            (&b"stapsdt"[..], NT_STAPSDT)
        );
        // Three addresses (site, base, semaphore), then three strings with a NUL each.
        let (addresses, strings) = note.desc().split_at(24);
        let semaphore = u64::from_le_bytes(addresses[16..].try_into().expect("8 bytes"));
        let strings: Vec<String> = strings
            .split(|&byte| byte == 0)
            .map(|string| String::from_utf8(string.to_vec()).expect("ASCII"))
            .collect();
        let [provider, name, arguments, ..] = &strings[..] else {
            panic!("three strings")
        };
        notes.entry(name.clone()).or_default().push(Note {
            provider: provider.clone(),
            semaphore,
            arguments: arguments.clone(),
        });
    }
    notes
}

#[test]
fn every_hop_is_a_probe_of_provider_phux_with_three_arguments_in_registers() {
    let hops = example();
    let output = succeeded(Command::new(&hops).args(["--count", "1"]).output());
    let report = report(&output.stdout);
    let notes = notes(&std::fs::read(&hops).expect("the example is there"));
    let names: Vec<&str> = notes.keys().map(String::as_str).collect();
    let mut expected: Vec<String> = histograms(&report)
        .into_iter()
        .map(|(probe, _)| probe)
        .collect();
    expected.sort();
    assert_eq!(
        names, expected,
        "one probe for each histogram of the table, and no other"
    );
    assert!(
        notes["pty__read__size"].len() >= 2,
        "it is inlined into more than one place"
    );
    for note in notes.values().flatten() {
        assert_eq!((note.provider.as_str(), note.semaphore), ("phux", 0));
        // Eight bytes each, in a register: whatever the type of the expression at the site was.
        let arguments: Vec<&str> = note.arguments.split(' ').collect();
        assert_eq!(arguments.len(), 3, "{}", note.arguments);
        for argument in arguments {
            let (size, place) = argument.split_once('@').expect("size@place");
            assert_eq!(size, "-8", "{argument}");
            #[cfg(target_arch = "x86_64")]
            assert!(place.starts_with("%r"), "{argument}");
            assert!(!place.is_empty());
        }
    }
}

#[test]
fn readelf_sees_the_same_probes() {
    let hops = example();
    let Ok(output) = Command::new("readelf").arg("-n").arg(&hops).output() else {
        return skip("readelf is not installed");
    };
    let text = String::from_utf8(succeeded(Ok(output)).stdout).expect("UTF-8");
    let values = |key| -> Vec<&str> {
        text.lines()
            .filter_map(|line| line.trim().strip_prefix(key))
            .map(str::trim)
            .collect()
    };
    let notes = notes(&std::fs::read(&hops).expect("the example is there"));
    let mut seen = values("Name:");
    seen.sort_unstable();
    let own: Vec<&str> = notes
        .iter()
        .flat_map(|(name, sites)| std::iter::repeat_n(name.as_str(), sites.len()))
        .collect();
    assert_eq!(seen, own);
    assert!(
        values("Provider:")
            .iter()
            .all(|&provider| provider == "phux")
    );
}

/// What a tracer counts from the probe is what the process counted itself, bucket for bucket.
#[test]
fn a_tracer_counts_what_the_process_counts() {
    const COUNT: u64 = 600;
    const THREADS: u64 = 3;
    // SAFETY: takes nothing and returns an integer.
    if unsafe { libc::geteuid() } != 0 {
        return skip("not root");
    }
    if Command::new("bpftrace").arg("--version").output().is_err() {
        return skip("bpftrace is not installed");
    }
    let hops = example();
    let path = hops.to_str().expect("a path of UTF-8");
    let probes = [
        "pty__read__size",
        "pty__queue_wait",
        "pty__burst__chunks",
        "vt_apply",
    ];
    let program: String = probes
        .iter()
        .map(|probe| {
            format!(
                "usdt:{path}:phux:{probe} {{ @{probe}[arg0] = count(); \
                 @{probe}_id[arg1] = count(); @{probe}_sequence = sum(arg2); }} "
            )
        })
        .collect();
    let command = format!("{path} --count {COUNT} --threads {THREADS}");
    let output = Command::new("bpftrace")
        .args(["-f", "json", "-e", &program, "-c", &command])
        .output();
    let output = succeeded(output);
    let mut maps: BTreeMap<String, Json> = BTreeMap::new();
    for line in output.stdout.split(|&byte| byte == b'\n') {
        let Ok(Json::Object(mut line)) = serde_json::from_slice(line) else {
            continue;
        };
        if let (Some("map"), Some(Json::Object(data))) = (
            line.get("type")
                .and_then(Json::as_str)
                .map(str::to_owned)
                .as_deref(),
            line.remove("data"),
        ) {
            maps.extend(data);
        }
    }
    let numbers = |map: &str| -> BTreeMap<u64, u64> {
        let entries = maps
            .get(map)
            .and_then(Json::as_object)
            .into_iter()
            .flatten();
        let entries = entries.map(|(key, n)| {
            (
                key.parse().expect("a number"),
                n.as_u64().expect("a number"),
            )
        });
        entries.collect()
    };

    let report = report(&output.stdout);
    let histograms = histograms(&report);
    assert_eq!(histograms.len(), probes.len());
    for (probe, inside) in histograms {
        let mut outside = Snapshot::new();
        for (value, n) in numbers(&format!("@{probe}")) {
            (0..n).for_each(|_| outside.record(value));
        }
        assert_eq!(inside.count, COUNT * THREADS, "{probe}");
        assert_eq!(&outside, inside, "{probe}");

        let ids = numbers(&format!("@{probe}_id"));
        let sequence = maps
            .get(&format!("@{probe}_sequence"))
            .and_then(Json::as_u64);
        if probe == "pty__burst__chunks" {
            assert_eq!(
                ids,
                BTreeMap::from([(0, COUNT * THREADS)]),
                "left out, so 0"
            );
            assert_eq!(sequence, Some(0));
        } else {
            assert_eq!(
                ids,
                (0..THREADS).map(|thread| (thread, COUNT)).collect(),
                "{probe}"
            );
            assert_eq!(sequence, Some(THREADS * (0..COUNT).sum::<u64>()), "{probe}");
        }
    }
}

/// A test that this machine cannot run is skipped aloud; in CI it must run.
fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{why}");
    println!("skipped: {why}");
}
