//! Executables with hostile `.note.stapsdt` sections, for the parsers of them.
//!
//! On x86-64 each file also runs: it does nothing but sleep in `pause(2)`, so that `attach` can be
//! tried on a live process of it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Where the file is loaded.
const LOAD: u64 = 0x40_0000;
/// Size of the ELF header, of a program header and of a section header.
const EHDR: u64 = 64;
const PHDR: u64 = 56;
const SHDR: u64 = 64;
/// `mov eax, 34 (pause); syscall; jmp` back to the start.
const CODE: [u8; 9] = [0xb8, 34, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7];
const SECTION_NAMES: &[u8] = b"\0.note.stapsdt\0.stapsdt.base\0.shstrtab\0.text\0";

/// One note of version 3.
#[derive(Debug, Clone)]
pub struct Note {
    /// Address of the probe.
    pub address: u64,
    /// Address of the semaphore, 0 for none.
    pub semaphore: u64,
    /// Provider, without its NUL.
    pub provider: Vec<u8>,
    /// Probe name, without its NUL.
    pub name: Vec<u8>,
    /// Argument string, without its NUL.
    pub arguments: Vec<u8>,
}

impl Default for Note {
    fn default() -> Self {
        Note {
            address: LOAD + EHDR + PHDR,
            semaphore: 0,
            provider: b"phux".to_vec(),
            name: b"pty__read__size".to_vec(),
            arguments: b"8@%rax".to_vec(),
        }
    }
}

impl Note {
    /// The note's bytes as they stand in the section.
    pub fn bytes(&self) -> Vec<u8> {
        let mut desc = Vec::new();
        for word in [self.address, LOAD, self.semaphore] {
            desc.extend(word.to_le_bytes());
        }
        for text in [&self.provider, &self.name, &self.arguments] {
            desc.extend(text);
            desc.push(0);
        }
        raw_note(8, desc.len() as u32, b"stapsdt\0", &desc)
    }
}

/// A note whose sizes may lie.
fn raw_note(namesz: u32, descsz: u32, name: &[u8], desc: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [namesz, descsz, 3] {
        out.extend(word.to_le_bytes());
    }
    for part in [name, desc] {
        out.extend(part);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}

/// A whole ELF file with `section` as its `.note.stapsdt`.
pub fn elf(section: &[u8]) -> Vec<u8> {
    let code_at = EHDR + PHDR;
    let notes_at = (code_at + CODE.len() as u64).next_multiple_of(8);
    let names_at = notes_at + section.len() as u64;
    let headers_at = (names_at + SECTION_NAMES.len() as u64).next_multiple_of(8);
    let mut out = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    half(
        &mut out,
        &[
            2,
            if cfg!(target_arch = "aarch64") {
                183
            } else {
                62
            },
        ],
    );
    out.extend(1_u32.to_le_bytes());
    long(&mut out, &[LOAD + code_at, EHDR, headers_at]);
    out.extend(0_u32.to_le_bytes());
    half(&mut out, &[EHDR as u16, PHDR as u16, 1, SHDR as u16, 5, 3]);
    // The one program header: the code, readable and executable.
    out.extend([1_u32, 5].map(u32::to_le_bytes).concat());
    let loaded = code_at + CODE.len() as u64;
    long(&mut out, &[0, LOAD, LOAD, loaded, loaded, 4096]);
    out.extend(CODE);
    out.resize(notes_at as usize, 0);
    out.extend(section);
    out.extend(SECTION_NAMES);
    out.resize(headers_at as usize, 0);
    out.extend([0; SHDR as usize]);
    let rows: [(u32, u32, u64, u64, u64, u64); 4] = [
        (1, 7, 0, 0, notes_at, section.len() as u64),
        (15, 1, 2, LOAD, 0, 1),
        (29, 3, 0, 0, names_at, SECTION_NAMES.len() as u64),
        (39, 1, 6, LOAD + code_at, code_at, CODE.len() as u64),
    ];
    for (name, kind, flags, address, offset, size) in rows {
        out.extend([name, kind].map(u32::to_le_bytes).concat());
        long(&mut out, &[flags, address, offset, size]);
        out.extend([0_u32, 0].map(u32::to_le_bytes).concat());
        long(&mut out, &[4, 0]);
    }
    out
}

fn half(out: &mut Vec<u8>, words: &[u16]) {
    out.extend(words.iter().flat_map(|w| w.to_le_bytes()));
}

fn long(out: &mut Vec<u8>, words: &[u64]) {
    out.extend(words.iter().flat_map(|w| w.to_le_bytes()));
}

/// Writes an executable file.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(path, bytes)?;
    fs::set_permissions(path, PermissionsExt::from_mode(0o755))
}

/// What is wrong, and a file that has it. All of them load as programs.
pub fn hostile() -> Vec<(&'static str, Vec<u8>)> {
    let good = Note::default().bytes();
    let with = |change: fn(&mut Note)| {
        let mut note = Note::default();
        change(&mut note);
        [note.bytes(), good.clone()].concat()
    };
    let desc = good.get(20..).unwrap_or_default();
    let sections: Vec<(&str, Vec<u8>)> = vec![
        ("empty section", Vec::new()),
        ("half a note header", good[..7].to_vec()),
        ("note cut in its description", good[..40].to_vec()),
        (
            "name size beyond the section",
            raw_note(u32::MAX, 8, b"stapsdt\0", desc),
        ),
        (
            "description size beyond the section",
            raw_note(8, u32::MAX, b"stapsdt\0", desc),
        ),
        (
            "description size wraps when aligned",
            raw_note(8, u32::MAX - 2, b"stapsdt\0", desc),
        ),
        ("description of no bytes", raw_note(8, 0, b"stapsdt\0", &[])),
        (
            "description without a NUL",
            raw_note(8, 30, b"stapsdt\0", &[b'a'; 30]),
        ),
        ("foreign owner", raw_note(4, 24, b"GNU\0", &[0; 24])),
        ("probe at address 0", with(|n| n.address = 0)),
        ("probe outside the file", with(|n| n.address = u64::MAX - 3)),
        (
            "semaphore outside the file",
            with(|n| n.semaphore = 0x7fff_ffff_f000),
        ),
        (
            "arguments that do not parse",
            with(|n| n.arguments = b"8@%%%(-)@@ 99@".to_vec()),
        ),
        (
            "arguments without end",
            with(|n| n.arguments = b"8@%rax ".repeat(10_000)),
        ),
        (
            "name with terminal control",
            with(|n| n.name = b"a\x1b]0;owned\x07\x1b[2J".to_vec()),
        ),
        ("name not UTF-8", with(|n| n.name = vec![0xff, 0xfe, 0x80])),
        (
            "name of 100,000 bytes",
            with(|n| n.name = vec![b'n'; 100_000]),
        ),
        (
            "no name and no provider",
            with(|n| (n.name, n.provider) = Default::default()),
        ),
        ("20,000 notes", good.repeat(20_000)),
    ];
    let mut all: Vec<_> = sections
        .into_iter()
        .map(|(what, s)| (what, elf(&s)))
        .collect();
    let whole = elf(&good);
    let headers_at = u64::from_le_bytes(whole[40..48].try_into().unwrap_or_default()) as usize;
    let patched = |at: usize, bytes: &[u8]| {
        let mut file = whole.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    let notes_row = headers_at + SHDR as usize;
    all.push((
        "file cut in its section table",
        whole[..headers_at + 100].to_vec(),
    ));
    all.push((
        "section table beyond the file",
        patched(40, &u64::MAX.to_le_bytes()),
    ));
    all.push((
        "65,535 sections claimed",
        patched(60, &u16::MAX.to_le_bytes()),
    ));
    all.push((
        "name table is no section",
        patched(62, &9_u16.to_le_bytes()),
    ));
    all.push((
        "notes beyond the file",
        patched(notes_row + 24, &u64::MAX.to_le_bytes()),
    ));
    all.push((
        "notes of 2^63 bytes",
        patched(notes_row + 32, &(1_u64 << 63).to_le_bytes()),
    ));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{need_tool, output_of};
    use std::process::Command;

    fn readelf(bytes: &[u8]) -> String {
        let dir = tempfile::TempDir::new().expect("a folder");
        let path = dir.path().join("elf");
        write(&path, bytes).expect("written");
        output_of(Command::new("readelf").args(["-W", "-n"]).arg(&path))
    }

    #[test]
    fn readelf_reads_the_good_note() {
        if !need_tool("readelf") {
            return;
        }
        let text = readelf(&elf(&Note::default().bytes()));
        for part in [
            "Provider: phux",
            "Name: pty__read__size",
            "Arguments: 8@%rax",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_hostile_file_runs() {
        let dir = tempfile::TempDir::new().expect("a folder");
        for (nth, (what, bytes)) in hostile().into_iter().enumerate() {
            let path = dir.path().join(format!("hostile-{nth}"));
            write(&path, &bytes).expect("written");
            let mut running = crate::Running::start(&mut Command::new(&path));
            let pid = running.pid();
            let asleep = || crate::procfs::sleeps(pid, pid).then_some(());
            crate::wait_for(std::time::Duration::from_secs(10), asleep)
                .unwrap_or_else(|| panic!("{what}: does not sleep"));
            assert!(running.is_running(), "{what}: ended");
        }
    }
}
