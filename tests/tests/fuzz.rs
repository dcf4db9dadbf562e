//! Bytes of others: whatever they are, phux-trace reads them or refuses them, soon and without harm.

use std::time::Duration;

use phux_trace::fuzz;
use phux_trace_tests::fuzz::fuzz;
use phux_trace_tests::notes;

/// Of one input, on a loaded machine without optimisation.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn elf() {
    fuzz("elf", PATIENCE, fuzz::elf);
}

/// The notes alone, in a file that is sound.
#[test]
fn sdt_notes() {
    fuzz("sdt-notes", PATIENCE, |section| {
        fuzz::elf(&notes::elf(section))
    });
}

#[test]
fn event_records() {
    fuzz("events", PATIENCE, fuzz::event);
}

#[test]
fn proc_files() {
    fuzz("proc", PATIENCE, fuzz::proc_file);
}

/// The corpora reach what lies behind the first checks.
#[test]
fn the_corpora_are_understood() {
    let kept = |name: &str| {
        let path = format!("{}/fuzz/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
    };
    let read = |bytes| phux_trace::target::notes::read(std::io::Cursor::new(bytes));
    let two = read(notes::elf(&kept("sdt-notes/two"))).expect("an ELF file");
    assert_eq!((two.probes.len(), two.damage.len()), (2, 0), "{two:?}");
    let decoded = (0..9)
        .filter(|t| {
            phux_trace::source::Event::decode(&kept(&format!("events/type-{t}-9000"))).is_some()
        })
        .count();
    assert!(decoded >= 6, "{decoded} types of event");
    let account =
        phux_trace::target::account::Account::parse(&kept("proc/schedstat"), &kept("proc/status"));
    assert_eq!(account.map(|a| (a.slices, a.voluntary)), Some((12, 7)));
}
