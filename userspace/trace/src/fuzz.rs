//! Where foreign bytes come in: entrances for the fuzz targets of `tests/tests/fuzz.rs`. Each takes any
//! bytes and returns; what it panics on is a promise that did not hold.

use std::io::Cursor;

use crate::escape::{is_harmless, visible};
use crate::source::Event;
use crate::target::{binary, listening, notes, proc, pty};

/// A whole file that claims to be an ELF file.
pub fn elf(bytes: &[u8]) {
    let Ok(notes) = notes::read(Cursor::new(bytes)) else {
        return;
    };
    assert!(notes.damage.len() <= 16, "damage is told in few lines");
    for probe in &notes.probes {
        assert!(!probe.provider.is_empty() && !probe.name.is_empty());
        assert!(probe.args.len() <= 12);
        let texts = probe.args.iter().map(|a| &a.text);
        texts
            .chain([&probe.provider, &probe.name])
            .for_each(|t| assert_harmless(t));
    }
    // Every probe costs bytes of the file: none is made up.
    assert!(notes.probes.len() * 12 <= bytes.len());
}

/// A record of a ring.
pub fn event(bytes: &[u8]) {
    if let Some(event) = Event::decode(bytes) {
        let _ = event.ts();
        assert!(bytes.len() >= 16, "a record has a header");
        assert_harmless(&format!("{event:?}"));
    }
}

/// Any of the files of `/proc` that are read.
pub fn proc_file(bytes: &[u8]) {
    proc::fuzz(bytes);
    pty::fuzz(bytes);
    let _ = crate::target::account::Account::parse(bytes, bytes);
    for (_, path) in listening::listening(bytes) {
        assert!(path.is_absolute(), "{path:?}");
    }
    for path in binary::executable_mappings(bytes).into_keys() {
        assert!(path.is_absolute(), "{path:?}");
        assert_harmless(&path.to_string_lossy());
    }
}

fn assert_harmless(text: &str) {
    assert!(visible(text).chars().all(is_harmless), "{text:?}");
}
