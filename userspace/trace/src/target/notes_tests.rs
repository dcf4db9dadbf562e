use std::io::Cursor;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

const BASE: u64 = 0x40_0300;

/// A note section's entry: name `stapsdt`, type 3, and the given content.
fn note(pc: u64, base: u64, semaphore: u64, strings: &[u8]) -> Vec<u8> {
    let mut desc = Vec::new();
    for word in [pc, base, semaphore] {
        desc.extend(word.to_le_bytes());
    }
    desc.extend(strings);
    let mut note = Vec::new();
    for word in [8, u32::try_from(desc.len()).expect("short"), NT_STAPSDT] {
        note.extend(word.to_le_bytes());
    }
    note.extend(b"stapsdt\0");
    note.extend(&desc);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

/// A 64-bit ELF file with one loaded segment (address 0x400000 at offset 0, 4 KiB), `.note.stapsdt`
/// and `.stapsdt.base`.
fn elf(notes: &[u8]) -> Vec<u8> {
    const NAMES: &[u8] = b"\0.note.stapsdt\0.stapsdt.base\0.shstrtab\0";
    let notes_at = 64 + 56;
    let names_at = notes_at + notes.len();
    let sections_at = (names_at + NAMES.len()).next_multiple_of(8);
    let mut file = vec![0; sections_at + 4 * 64];
    let put = |file: &mut Vec<u8>, at: usize, bytes: &[u8]| {
        file[at..at + bytes.len()].copy_from_slice(bytes);
    };
    let at = |value: usize| (value as u64).to_le_bytes();
    put(&mut file, 0, b"\x7fELF\x02\x01\x01");
    put(&mut file, 16, &[2, 0, 62, 0, 1, 0, 0, 0]); // executable, x86-64, version 1
    put(&mut file, 32, &at(64));
    put(&mut file, 40, &at(sections_at));
    put(&mut file, 52, &[64, 0, 56, 0, 1, 0, 64, 0, 4, 0, 3, 0]);
    put(&mut file, 64, &[1, 0, 0, 0, 5, 0, 0, 0]); // PT_LOAD, r-x
    for (i, word) in [0, 0x40_0000, 0x40_0000, 0x1000, 0x1000, 0x1000_u64]
        .iter()
        .enumerate()
    {
        put(&mut file, 72 + 8 * i, &word.to_le_bytes());
    }
    put(&mut file, notes_at, notes);
    put(&mut file, names_at, NAMES);
    let section = |file: &mut Vec<u8>,
                   i: usize,
                   name: u32,
                   kind: u32,
                   address: u64,
                   from: usize,
                   size: usize| {
        let start = sections_at + 64 * i;
        put(file, start, &name.to_le_bytes());
        put(file, start + 4, &kind.to_le_bytes());
        put(file, start + 16, &address.to_le_bytes());
        put(file, start + 24, &at(from));
        put(file, start + 32, &at(size));
        put(file, start + 48, &at(4));
    };
    section(&mut file, 1, 1, 7, 0, notes_at, notes.len());
    section(&mut file, 2, 15, 1, BASE, 0x300, 1);
    section(&mut file, 3, 29, 3, 0, names_at, NAMES.len());
    file
}

fn read_bytes(bytes: Vec<u8>) -> Result<Notes, NotesError> {
    read(Cursor::new(bytes))
}

fn two_probes() -> Vec<u8> {
    let mut notes = note(
        0x40_0100,
        BASE,
        0,
        b"phux\0pty__read__size\x008@%rax -4@$3\0",
    );
    notes.extend(note(0x40_0200, BASE, 0x40_0400, b"phux\0echo__server\0\0"));
    notes
}

#[test]
fn probes_with_offsets_semaphores_and_arguments() {
    let notes = read_bytes(elf(&two_probes())).expect("a sound file");
    assert_eq!(notes.damage, [] as [String; 0]);
    let [first, second] = notes.probes.as_slice() else {
        panic!("{notes:?}")
    };
    assert_eq!(
        (first.provider.as_str(), first.name.as_str()),
        ("phux", "pty__read__size")
    );
    assert_eq!(
        (first.address, first.offset, first.semaphore),
        (0x40_0100, 0x100, None)
    );
    assert_eq!(first.args.len(), 2);
    let semaphore = Semaphore {
        address: 0x40_0400,
        offset: Some(0x400),
    };
    assert_eq!((second.offset, second.semaphore), (0x200, Some(semaphore)));
    assert!(second.args.is_empty());
}

#[test]
fn a_moved_file_is_put_right_by_its_base() {
    // The notes were written when the base was 0x1000 lower: everything has moved up since.
    let old = BASE - 0x1000;
    let notes = note(0x40_0100 - 0x1000, old, 0x40_0400 - 0x1000, b"p\0n\0\0");
    let notes = read_bytes(elf(&notes)).expect("a sound file");
    let probe = notes.probes.first().expect("the probe");
    assert_eq!((probe.address, probe.offset), (0x40_0100, 0x100));
    assert_eq!(probe.semaphore.map(|s| s.offset), Some(Some(0x400)));
}

#[test]
fn a_bad_note_costs_only_itself() {
    let mut notes = note(0x40_0100, BASE, 0, b"no terminator");
    notes.extend(note(0x40_0100, BASE, 0, b"\0\0\0"));
    notes.extend(note(0xdead_0000_0000, BASE, 0, b"p\0outside\0\0"));
    notes.extend(two_probes());
    notes.extend([0xff; 8]); // and the section breaks off
    let notes = read_bytes(elf(&notes)).expect("the file is sound");
    assert_eq!(notes.probes.len(), 2);
    assert_eq!(notes.damage.len(), 3, "{:?}", notes.damage);
}

#[test]
fn counts_that_cannot_be() {
    // e_shnum = 0: the count stands in section 0, here 2^32 − 1 sections.
    let mut file = elf(&two_probes());
    file[60..62].copy_from_slice(&[0, 0]);
    let sections_at =
        usize::try_from(u64::from_le_bytes(file[40..48].try_into().expect("8"))).expect("small");
    file[sections_at + 32..sections_at + 40].copy_from_slice(&0xffff_ffff_u64.to_le_bytes());
    assert!(matches!(read_bytes(file), Err(NotesError::Damaged(_))));
}

#[test]
fn more_probes_than_anybody_has_are_bounded() {
    let one = note(0x40_0100, BASE, 0, b"p\0n\0\0");
    let notes = read_bytes(elf(&one.repeat(MAX_PROBES + 10))).expect("a sound file");
    assert_eq!(notes.probes.len(), MAX_PROBES);
    assert!(notes.damage.iter().any(|d| d.contains("left out")));
}

/// A sparse file of a terabyte whose note section claims half of it: refused before any memory is
/// taken.
#[test]
fn a_huge_section_of_a_sparse_file() {
    let mut bytes = elf(&two_probes());
    let sections_at =
        usize::try_from(u64::from_le_bytes(bytes[40..48].try_into().expect("8"))).expect("small");
    bytes[sections_at + 64 + 32..sections_at + 64 + 40]
        .copy_from_slice(&(1_u64 << 39).to_le_bytes());
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("huge");
    std::fs::write(&path, &bytes).expect("written");
    let file = File::options().write(true).open(&path).expect("open");
    file.set_len(1 << 40).expect("sparse");
    let notes = read(open_regular(&path).expect("regular")).expect("the headers are sound");
    assert!(notes.probes.is_empty());
    assert_eq!(notes.damage.len(), 1, "{:?}", notes.damage);
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let begun = Instant::now();
    let dir = tempfile::tempdir().expect("a directory");
    let fifo = dir.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::from_raw_mode(0o600)).expect("a FIFO");
    let kind = |path: &Path| match open_regular(path) {
        Err(NotesError::NotAFile(kind)) => kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(kind(&fifo), "FIFO");
    assert_eq!(kind(dir.path()), "directory");
    assert_eq!(kind(Path::new("/dev/zero")), "device");
    assert!(matches!(
        open_regular(&dir.path().join("none")),
        Err(NotesError::Open(_))
    ));
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn no_elf() {
    for bytes in [&b""[..], b"\x7fEL", b"#!/bin/sh\n", &[0; 4096]] {
        assert!(
            matches!(read_bytes(bytes.to_vec()), Err(NotesError::NotElf)),
            "{bytes:?}"
        );
    }
    assert!(matches!(
        read_bytes(b"\x7fELF\x02".to_vec()),
        Err(NotesError::Damaged(_))
    ));
    assert!(matches!(
        read_bytes(b"\x7fELF\x09".to_vec()),
        Err(NotesError::NotElf)
    ));
}

/// Cut at every byte: an error or fewer probes, never more.
#[test]
fn cut_anywhere() {
    let file = elf(&two_probes());
    for end in 0..file.len() {
        if let Ok(notes) = read_bytes(file[..end].to_vec()) {
            assert!(notes.probes.len() <= 2);
        }
    }
}

/// A real file with notes: the running C library, where it has some; else this test.
fn real_file() -> Vec<u8> {
    let mut binaries = super::super::binary::Binaries::default();
    let found = binaries.of_process(std::process::id()).expect("own maps");
    let libc = found
        .iter()
        .find(|b| b.path.to_string_lossy().contains("libc.so"));
    let path = libc.map_or_else(|| "/proc/self/exe".into(), |b| b.path.clone());
    std::fs::read(path).expect("readable")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn mutated_headers_and_notes_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let mut file = elf(&two_probes());
        for (at, value) in changes {
            let at = at.index(file.len());
            file[at] = value;
        }
        if let Ok(notes) = read_bytes(file) {
            prop_assert!(notes.probes.len() <= MAX_PROBES);
        }
    }
}

#[test]
fn a_mutated_real_file_never_panics() {
    let file = real_file();
    let sound = read_bytes(file.clone()).expect("a real file").probes.len();
    // Where the structure is: the headers at the start and the sections at the end, notes between.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let marks: Vec<usize> = file
        .windows(7)
        .enumerate()
        .filter(|w| w.1 == b"stapsdt")
        .map(|w| w.0)
        .collect();
    let mut rewound = file;
    for _ in 0..300 {
        let rng = runner.rng();
        let mut changed = Vec::new();
        for _ in 0..6 {
            let spread = 256;
            let near = match rng.next_u32() % 3 {
                0 => 0,
                1 => rewound.len() - spread.min(rewound.len()) * 8,
                _ if marks.is_empty() => 0,
                _ => marks[rng.next_u32() as usize % marks.len()].saturating_sub(16),
            };
            let at = (near + rng.next_u32() as usize % (spread * 8)) % rewound.len();
            changed.push((at, rewound[at]));
            rewound[at] = u8::try_from(rng.next_u32() & 0xff).expect("a byte");
        }
        if let Ok(notes) = read(Cursor::new(&rewound)) {
            assert!(notes.probes.len() <= sound + 64);
        }
        for (at, old) in changed.into_iter().rev() {
            rewound[at] = old;
        }
    }
    assert_eq!(read_bytes(rewound).expect("as before").probes.len(), sound);
}
