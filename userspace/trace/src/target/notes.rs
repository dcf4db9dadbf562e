//! USDT probes of an ELF file: the notes of `.note.stapsdt`.
//!
//! The file belongs to somebody else and may lie in every field, be cut, grow or shrink while it is
//! read, or be no file at all. So: only regular files are opened, reads go through a budget (a
//! section that claims 10 GB is refused before memory is taken), nothing is mapped (a mapped file
//! that is cut kills the reader), and a bad note costs that note only.
//!
//! Layout of a note: <https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation>.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use object::elf::{self, FileHeader32, FileHeader64};
use object::endian::Endianness;
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader, SectionHeader};
use object::read::{ReadCache, ReadRef};
use rustix::fs::{FileType, Mode, OFlags};
use serde::Serialize;

use super::operand::{self, Operand};

/// Type of a probe's note (`NT_STAPSDT`).
const NT_STAPSDT: u32 = 3;

/// Bytes that may be read of one file: headers and notes, not code. A note takes some 80 bytes, so
/// this is room for [`MAX_PROBES`] many times over.
const READ_BUDGET: u64 = 64 << 20;

/// What a string costs of the budget: the most that is read to find its end.
const STRING_COST: u64 = 4096;

/// Probes kept of one file.
const MAX_PROBES: usize = 65_536;

/// One site of a USDT probe. The same provider and name can stand at many sites (inlining).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// Provider, lossily decoded; not to be trusted.
    pub provider: String,
    /// Name as in the note (`pty__read__size`).
    pub name: String,
    /// Virtual address of the site in the file's own address space, prelink adjusted.
    pub address: u64,
    /// Offset of the site in the file: where a uprobe goes.
    pub offset: u64,
    /// Its semaphore, if it has one.
    pub semaphore: Option<Semaphore>,
    /// Arguments.
    pub args: Vec<Operand>,
}

/// The counter that a tracer raises so that the site computes its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Semaphore {
    /// Virtual address in the file's own address space.
    pub address: u64,
    /// Offset in the file, as uprobes take it (`ref_ctr_offset`); `None` where the address is in no
    /// loaded segment.
    pub offset: Option<u64>,
}

/// What was found in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// The probes, in the file's order.
    pub probes: Vec<Probe>,
    /// What was wrong with the notes, one line each; the probes that could be read are there all
    /// the same.
    pub damage: Vec<String>,
}

/// Why a file has no readable notes.
#[derive(Debug, thiserror::Error)]
pub enum NotesError {
    /// It could not be opened or read.
    #[error("cannot open")]
    Open(#[from] io::Error),
    /// It is a directory, FIFO, device or socket.
    #[error("not a regular file but a {0}")]
    NotAFile(&'static str),
    /// It is no ELF file.
    #[error("no ELF file")]
    NotElf,
    /// An ELF file whose headers make no sense.
    #[error("damaged ELF file")]
    Damaged(#[from] object::read::Error),
}

/// Opens a path if, and only if, a regular file is there. A FIFO does not block it and a device is
/// not touched.
///
/// # Errors
/// It is not there, may not be read, or is something else.
pub fn open_regular(path: &Path) -> Result<File, NotesError> {
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(io::Error::from)?;
    reopen_regular(&place)
}

/// Turns an `O_PATH` descriptor into a readable file, if it is a regular one: what was checked is
/// what is opened.
///
/// # Errors
/// It is no regular file, or may not be read.
pub fn reopen_regular(place: &OwnedFd) -> Result<File, NotesError> {
    let st = rustix::fs::fstat(place).map_err(io::Error::from)?;
    match FileType::from_raw_mode(st.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(NotesError::NotAFile("directory")),
        FileType::Fifo => return Err(NotesError::NotAFile("FIFO")),
        FileType::Socket => return Err(NotesError::NotAFile("socket")),
        FileType::CharacterDevice | FileType::BlockDevice => {
            return Err(NotesError::NotAFile("device"));
        }
        _ => return Err(NotesError::NotAFile("special file")),
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let path = format!("/proc/self/fd/{}", place.as_fd().as_raw_fd());
    let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from)?;
    Ok(File::from(fd))
}

/// Reads the probes of an ELF file.
///
/// # Errors
/// It is no ELF file, or its headers are damaged. Damage further in ends up in [`Notes::damage`].
pub fn read<R: Read + Seek>(file: R) -> Result<Notes, NotesError> {
    let cache = ReadCache::new(file);
    let left = Cell::new(READ_BUDGET);
    let data = Budget {
        cache: &cache,
        left: &left,
    };
    let ident = data.read_bytes_at(0, 5).map_err(|()| NotesError::NotElf)?;
    match ident {
        [0x7f, b'E', b'L', b'F', 2] => parse::<FileHeader64<Endianness>, _>(data),
        [0x7f, b'E', b'L', b'F', 1] => parse::<FileHeader32<Endianness>, _>(data),
        _ => Err(NotesError::NotElf),
    }
}

fn parse<'d, E: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    data: R,
) -> Result<Notes, NotesError> {
    let header = E::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let segments: Vec<Segment> = header
        .program_headers(endian, data)?
        .iter()
        .filter(|s| s.p_type(endian) == elf::PT_LOAD)
        .map(|s| Segment {
            address: s.p_vaddr(endian).into(),
            offset: s.p_offset(endian).into(),
            file_size: s.p_filesz(endian).into(),
        })
        .collect();
    // `.stapsdt.base` is one byte whose address tells how far a prelinker has moved the file.
    let base = sections
        .iter()
        .filter(|s| s.sh_size(endian).into() == 1)
        .find(|s| {
            sections
                .section_name(endian, s)
                .is_ok_and(|n| n == b".stapsdt.base")
        })
        .map(|s| -> u64 { s.sh_addr(endian).into() });
    let mut notes = Notes::default();
    let mut outside = 0_usize;
    let mut unreadable = 0_usize;
    'sections: for section in sections
        .iter()
        .filter(|s| s.sh_type(endian) == elf::SHT_NOTE)
    {
        let iterator: NoteIterator<'_, E> = match section.notes(endian, data) {
            Ok(Some(iterator)) => iterator,
            Ok(None) => continue,
            Err(e) => {
                notes.damage.push(format!("a note section: {e}"));
                continue;
            }
        };
        for note in iterator {
            let note = match note {
                Ok(note) => note,
                Err(e) => {
                    notes.damage.push(format!("a note section breaks off: {e}"));
                    break;
                }
            };
            if note.name() != b"stapsdt" || note.n_type(endian).0 != NT_STAPSDT {
                continue;
            }
            let Some(raw) = RawNote::parse(note.desc(), endian, header.is_type_64()) else {
                unreadable += 1;
                continue;
            };
            match raw.probe(base, &segments) {
                Some(probe) if notes.probes.len() < MAX_PROBES => notes.probes.push(probe),
                Some(_) => {
                    notes.damage.push(format!(
                        "more than {MAX_PROBES} probes: the rest is left out"
                    ));
                    break 'sections;
                }
                None => outside += 1,
            }
        }
    }
    if unreadable > 0 {
        notes
            .damage
            .push(format!("{unreadable} probe notes are cut or not text"));
    }
    if outside > 0 {
        notes
            .damage
            .push(format!("{outside} probes lie in no loaded segment"));
    }
    notes.damage.truncate(16);
    Ok(notes)
}

/// A loaded segment.
struct Segment {
    address: u64,
    offset: u64,
    file_size: u64,
}

fn file_offset(address: u64, segments: &[Segment]) -> Option<u64> {
    let segment = segments.iter().find(|s| {
        address
            .checked_sub(s.address)
            .is_some_and(|within| within < s.file_size)
    })?;
    (address - segment.address).checked_add(segment.offset)
}

/// A probe note before its addresses are put right.
struct RawNote<'d> {
    address: u64,
    base: u64,
    semaphore: u64,
    provider: &'d [u8],
    name: &'d [u8],
    args: &'d [u8],
}

impl<'d> RawNote<'d> {
    fn parse(desc: &'d [u8], endian: Endianness, wide: bool) -> Option<Self> {
        let word = if wide { 8 } else { 4 };
        let (words, strings) = desc.split_at_checked(3 * word)?;
        let value = |at: usize| -> Option<u64> {
            let bytes = words.get(at * word..(at + 1) * word)?;
            Some(match (endian, wide) {
                (Endianness::Little, true) => u64::from_le_bytes(bytes.try_into().ok()?),
                (Endianness::Big, true) => u64::from_be_bytes(bytes.try_into().ok()?),
                (Endianness::Little, false) => u32::from_le_bytes(bytes.try_into().ok()?).into(),
                (Endianness::Big, false) => u32::from_be_bytes(bytes.try_into().ok()?).into(),
            })
        };
        let mut parts = strings.split(|&b| b == 0);
        let (provider, name, args) = (parts.next()?, parts.next()?, parts.next()?);
        parts.next()?; // the third string must be ended too
        if provider.is_empty() || name.is_empty() {
            return None;
        }
        Some(Self {
            address: value(0)?,
            base: value(1)?,
            semaphore: value(2)?,
            provider,
            name,
            args,
        })
    }

    fn probe(&self, base: Option<u64>, segments: &[Segment]) -> Option<Probe> {
        let moved = base.map_or(0, |base| base.wrapping_sub(self.base));
        let address = self.address.wrapping_add(moved);
        let semaphore = (self.semaphore != 0).then(|| {
            let address = self.semaphore.wrapping_add(moved);
            Semaphore {
                address,
                offset: file_offset(address, segments),
            }
        });
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Some(Probe {
            provider: text(self.provider),
            name: text(self.name),
            address,
            offset: file_offset(address, segments)?,
            semaphore,
            args: operand::parse(&text(self.args)),
        })
    }
}

/// A file that may only be read up to a budget: `ReadCache` keeps all it has read, and believes
/// every size.
struct Budget<'a, R: object::read::ReadCacheOps> {
    cache: &'a ReadCache<R>,
    left: &'a Cell<u64>,
}

impl<R: object::read::ReadCacheOps> Clone for Budget<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: object::read::ReadCacheOps> Copy for Budget<'_, R> {}

impl<R: object::read::ReadCacheOps> Budget<'_, R> {
    fn spend(self, bytes: u64) -> Result<(), ()> {
        self.left.set(self.left.get().checked_sub(bytes).ok_or(())?);
        Ok(())
    }
}

impl<'a, R: object::read::ReadCacheOps> ReadRef<'a> for Budget<'a, R> {
    fn len(self) -> Result<u64, ()> {
        self.cache.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.spend(size)?;
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.spend(STRING_COST)?;
        self.cache.read_bytes_at_until(range, delimiter)
    }
}

#[cfg(test)]
#[path = "notes_tests.rs"]
mod tests;
