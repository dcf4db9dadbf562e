//! One table's file that is written: row groups, and a journal that covers what no row group has yet.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parquet::arrow::ArrowWriter;

use super::encode::{Codec, Encoder};
use super::folder::Folder;
use super::journal::Journal;
use super::layout::{PartName, RunId, date_folder, host_folder};
use crate::Error;
use crate::rows::Record;

/// A part ends at this size.
const PART_BYTES: u64 = 256 << 20;

/// What all tables of one recording share.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) root: Folder,
    pub(crate) run: RunId,
    pub(crate) host: String,
    pub(crate) codec: Codec,
    /// Sync a part when it is finished.
    pub(crate) sync: bool,
    /// Rows of a row group.
    pub(crate) row_group: usize,
}

impl Place {
    /// The folder of a table on the day of this Unix time (ns).
    pub(crate) fn folder(&self, table: &str, unix_ns: i64) -> Result<Folder, Error> {
        self.root
            .create_in(table)?
            .create_in(&date_folder(unix_ns))?
            .create_in(&host_folder(&self.host))
    }
}

/// One table, as far as it is not finished.
pub(crate) struct Segment<T: Record> {
    place: Arc<Place>,
    encoder: Encoder<T>,
    /// The rows of the row group to come.
    rows: Vec<T>,
    /// How many of them the journal has.
    journaled: usize,
    part: Option<Part>,
    next: u32,
}

struct Part {
    folder: Folder,
    name: PartName,
    date: String,
    opened: Instant,
    writer: ArrowWriter<Counted>,
    journal: Journal,
    /// Up to here the file is whole row groups.
    good: u64,
    /// A write failed half-way: what comes after `good` cannot be built on.
    broken: bool,
}

impl<T: Record> Segment<T> {
    pub(crate) fn new(place: Arc<Place>) -> Segment<T> {
        Segment {
            encoder: Encoder::new(place.run, place.codec),
            place,
            rows: Vec::new(),
            journaled: 0,
            part: None,
            next: 0,
        }
    }

    /// Takes the rows; `now` (Unix, ns) names the day.
    pub(crate) fn append(&mut self, rows: &mut Vec<T>, now: i64) -> Result<(), Error> {
        while !rows.is_empty() {
            let limit = self.place.row_group;
            let room = limit.saturating_sub(self.rows.len()).min(rows.len());
            if self.rows.capacity() == 0 && room == rows.len() {
                // The first ones, and of a short recording all: not copied.
                self.rows = std::mem::take(rows);
            } else if room == rows.len() {
                self.rows.append(rows);
            } else {
                self.rows.extend(rows.drain(..room));
            }
            if self.rows.len() >= limit {
                self.row_group(now, true)?;
            }
        }
        Ok(())
    }

    /// Gives to the kernel what it does not have yet: from here on, kill -9 does not lose it.
    pub(crate) fn save(&mut self, now: i64) -> Result<(), Error> {
        if self.journaled == self.rows.len() {
            return Ok(());
        }
        self.open(now)?;
        let (Some(part), Some(new)) = (&mut self.part, self.rows.get(self.journaled..)) else {
            return Ok(());
        };
        part.journal.append(&self.encoder.batch(new)?)?;
        self.journaled = self.rows.len();
        Ok(())
    }

    /// Ends the part if it is old, large, or of yesterday.
    pub(crate) fn rotate(&mut self, now: i64, age: Duration) -> Result<(), Error> {
        let due = self.part.as_ref().is_some_and(|p| {
            p.good >= PART_BYTES || p.opened.elapsed() >= age || p.date != date_folder(now)
        });
        if due { self.finish(now) } else { Ok(()) }
    }

    fn open(&mut self, now: i64) -> Result<(), Error> {
        if self.part.is_some() {
            return Ok(());
        }
        let name = PartName {
            run: self.place.run,
            number: self.next,
            rest: false,
        };
        let folder = self.place.folder(T::TABLE.name(), now)?;
        let file = folder.create_file(&name.in_progress())?;
        let out = Counted::new(file);
        let writer = ArrowWriter::try_new(
            out,
            self.encoder.schema().clone(),
            Some(self.encoder.properties().clone()),
        )
        .map_err(|e| Error::parquet("cannot begin a part", e))?;
        self.part = Some(Part {
            journal: Journal::start(&folder, &name, &[])?,
            folder,
            name,
            date: date_folder(now),
            opened: Instant::now(),
            good: writer.inner().written,
            broken: false,
            writer,
        });
        self.next += 1;
        Ok(())
    }

    /// Writes the gathered rows as a row group; `go_on`: the part is not to end now.
    fn row_group(&mut self, now: i64, go_on: bool) -> Result<(), Error> {
        if self.rows.is_empty() {
            return Ok(());
        }
        self.open(now)?;
        let Some(part) = self.part.as_mut().filter(|p| !p.broken) else {
            return Err(Error::Ended);
        };
        part.broken = true;
        let writer = &mut part.writer;
        let failed = |e| Error::parquet("cannot write a row group", e);
        self.encoder
            .sorted(&self.rows, |batch| writer.write(&batch).map_err(failed))?;
        writer.flush().map_err(failed)?;
        writer
            .sync()
            .map_err(|e| Error::io("cannot write a row group", e))?;
        if go_on {
            let footer = self.encoder.footer(writer.flushed_row_groups())?;
            part.journal = Journal::start(&part.folder, &part.name, &footer)?;
        }
        part.good = part.writer.inner().written;
        part.broken = false;
        self.rows.clear();
        self.journaled = 0;
        Ok(())
    }

    /// Ends the part: footer, sync, its name.
    pub(crate) fn finish(&mut self, now: i64) -> Result<(), Error> {
        self.row_group(now, false)?;
        let Some(part) = &mut self.part else {
            return Ok(());
        };
        if std::mem::replace(&mut part.broken, true) {
            return Err(Error::Ended);
        }
        let name = part.name.finished();
        let failed = |e| Error::io(format!("cannot finish {name}"), e);
        part.writer
            .finish()
            .map_err(|e| Error::parquet(format!("cannot finish {name}"), e))?;
        part.writer.sync().map_err(failed)?;
        if self.place.sync {
            part.writer.inner().file.sync_all().map_err(failed)?;
        }
        part.folder
            .rename(&part.name.in_progress(), &name, false)
            .map_err(failed)?;
        if self.place.sync {
            part.folder.sync().map_err(failed)?;
        }
        part.folder.remove(&part.name.journal()).map_err(failed)?;
        self.part = None;
        Ok(())
    }

    /// After an error: lets go of the part and leaves it as a killed recorder would, for recovery.
    pub(crate) fn abandon(&mut self) {
        self.rows = Vec::new();
        self.journaled = 0;
        if let Some(part) = self.part.take() {
            // Half a row group, or half a footer, may be at the end: it takes room that others need.
            let _ = part.writer.inner().file.set_len(part.good);
            drop_unwritten(part.writer);
        }
    }
}

/// Lets go of a writer without its trying to write what it still holds.
fn drop_unwritten(writer: ArrowWriter<Counted>) {
    writer.inner().closed.set(true);
    drop(writer);
}

/// A file that knows how much of it was written.
struct Counted {
    file: File,
    written: u64,
    closed: std::cell::Cell<bool>,
}

impl Counted {
    fn new(file: File) -> Counted {
        Counted {
            file,
            written: 0,
            closed: std::cell::Cell::new(false),
        }
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed.get() {
            return Ok(bytes.len());
        }
        let n = self.file.write(bytes)?;
        self.written += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Counted {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}
