//! What a killed recorder left becomes finished parts.
//!
//! Its rows are in row groups of the unfinished part, whose footer the journal has, or in the
//! journal itself. The journal's rows are written first and the journal goes last, so that a
//! recovery that is killed too can be done again and no row comes twice.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use parquet::file::metadata::{ParquetMetaDataReader, RowGroupMetaData};
use rustix::fs::{FileType, FlockOperation, flock};

use super::encode::{Codec, Encoder, schema};
use super::folder::Folder;
use super::journal::Left;
use super::layout::{self, PartName, RunId};
use super::walk;
use super::whole::{self, How};
use crate::Error;
use crate::rows::{Record, Run, Visit, each_table};

/// Length of the magic number and the footer's length at a Parquet file's end.
const TAIL: usize = 8;

/// What [`recover`] found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Recordings whose recorder had been killed.
    pub runs: usize,
    /// Parts that were finished.
    pub parts: usize,
    /// Rows in them.
    pub rows: u64,
}

/// Finishes what killed recorders left in this folder. Recorders that still run are left alone.
///
/// # Errors
/// When the folder cannot be read or written; what could not be finished then stays as it is.
pub fn recover(dir: &Path) -> Result<Recovered, Error> {
    let root = Folder::open(dir)?;
    // Two at the same time would write the same parts.
    root.lock()?;
    let mut recovery = Recovery {
        living: living(&root)?,
        root: &root,
        dead: BTreeSet::new(),
        done: Recovered::default(),
    };
    each_table(&mut recovery)?;
    let Recovery {
        dead, done, living, ..
    } = recovery;
    for run in &dead {
        close_run(&root, *run)?;
    }
    tidy(&root, &living)?;
    Ok(Recovered {
        runs: dead.len(),
        ..done
    })
}

/// Recordings whose recorder holds its lock.
pub(crate) fn living(root: &Folder) -> Result<BTreeSet<RunId>, Error> {
    let mut living = BTreeSet::new();
    for (name, _) in root.list()? {
        let Some(run) = layout::run_of_lock(&name) else {
            continue;
        };
        // One that has just ended took its lock with it.
        if let Ok(file) = root.open_file(&name, false)
            && flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
        {
            living.insert(run);
        }
    }
    Ok(living)
}

/// Removes locks and ballast of recorders that are gone.
fn tidy(root: &Folder, living: &BTreeSet<RunId>) -> Result<(), Error> {
    for (name, _) in root.list()? {
        let run = layout::run_of_lock(&name).or_else(|| layout::run_of_ballast(&name));
        if run.is_some_and(|run| !living.contains(&run)) {
            root.remove(&name)
                .map_err(|e| Error::io(format!("cannot remove {name}"), e))?;
        }
    }
    Ok(())
}

struct Recovery<'a> {
    root: &'a Folder,
    living: BTreeSet<RunId>,
    dead: BTreeSet<RunId>,
    done: Recovered,
}

impl Visit for Recovery<'_> {
    fn table<T: Record>(&mut self) -> Result<(), Error> {
        for folder in walk::folders(self.root, T::TABLE)? {
            let mut parts = BTreeSet::new();
            for (name, kind) in folder.list()? {
                let part =
                    PartName::from_in_progress(&name).or_else(|| PartName::from_journal(&name));
                if kind == FileType::RegularFile
                    && let Some(part) = part
                    && !self.living.contains(&part.run)
                {
                    parts.insert(part);
                }
            }
            for part in parts {
                self.dead.insert(part.run);
                self.part::<T>(&folder, part)?;
            }
        }
        Ok(())
    }
}

impl Recovery<'_> {
    fn part<T: Record>(&mut self, folder: &Folder, part: PartName) -> Result<(), Error> {
        let failed = |e| Error::io(format!("cannot recover {}", part.finished()), e);
        let unfinished = folder.open_file(&part.in_progress(), true).ok();
        let left = match folder.open_file(&part.journal(), false) {
            Ok(file) => Left::read(file, &schema::<T>()).map_err(failed)?,
            Err(_) => None,
        };
        let mut encoder = Encoder::<T>::new(part.run, Codec::default());
        // Without the part the journal is what a recorder had not come to remove.
        if let (Some(mut file), Some(left)) = (unfinished, left) {
            self.rest(folder, part, &mut encoder, &left)?;
            let groups = whole_groups(&left.footer, file.metadata().map_err(failed)?.len());
            if let Some(end) = groups.iter().map(end_of).max() {
                let footer = encoder.footer(&groups)?;
                finish(&mut file, end, &footer).map_err(failed)?;
                folder
                    .rename(&part.in_progress(), &part.finished(), false)
                    .and_then(|()| folder.sync())
                    .map_err(failed)?;
                self.done.parts += 1;
                self.done.rows += groups.iter().map(|g| g.num_rows() as u64).sum::<u64>();
            }
        }
        for name in [part.in_progress(), part.journal(), part.next_journal()] {
            folder.remove(&name).map_err(failed)?;
        }
        Ok(())
    }

    /// The journal's rows, as a part that comes after the one that they were meant for.
    fn rest<T: Record>(
        &mut self,
        folder: &Folder,
        part: PartName,
        encoder: &mut Encoder<T>,
        left: &Left,
    ) -> Result<(), Error> {
        let mut rows: Vec<T> = Vec::new();
        for batch in &left.batches {
            rows.append(&mut T::read(batch)?);
        }
        let rest = PartName { rest: true, ..part };
        if rows.is_empty() || folder.open_file(&rest.finished(), false).is_ok() {
            return Ok(());
        }
        whole::write(folder, &rest, encoder, &rows, how(false))?;
        self.done.parts += 1;
        self.done.rows += rows.len() as u64;
        Ok(())
    }
}

fn how(replace: bool) -> How {
    How {
        replace,
        sync: true,
    }
}

/// The row groups of a footer that the file has in full.
fn whole_groups(footer: &[u8], length: u64) -> Vec<RowGroupMetaData> {
    let Some(metadata) = footer.len().checked_sub(TAIL).and_then(|n| footer.get(..n)) else {
        return Vec::new();
    };
    match ParquetMetaDataReader::decode_metadata(metadata) {
        Ok(metadata) => metadata
            .row_groups()
            .iter()
            .take_while(|g| end_of(g) <= length)
            .cloned()
            .collect(),
        Err(_) => Vec::new(),
    }
}

fn end_of(group: &RowGroupMetaData) -> u64 {
    let ends = group.columns().iter().map(|c| {
        let (start, length) = c.byte_range();
        start.saturating_add(length)
    });
    ends.max().unwrap_or(0)
}

fn finish(file: &mut File, end: u64, footer: &[u8]) -> std::io::Result<()> {
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end))?;
    file.write_all(footer)?;
    file.sync_all()
}

/// Says in the run's row how it ended, unless it says so already.
fn close_run(root: &Folder, run: RunId) -> Result<(), Error> {
    let extent = walk::extent(root, run)?;
    for folder in walk::folders(root, crate::Table::run)? {
        for (name, _) in folder.list()? {
            let Some(part) = PartName::from_finished(&name).filter(|p| p.run == run) else {
                continue;
            };
            let Ok(file) = folder.open_file(&name, false) else {
                continue;
            };
            let mut rows: Vec<Run> = whole::Batches::of_file(file, name)?
                .next()?
                .unwrap_or_default();
            for row in &mut rows {
                if &*row.outcome == super::RUNNING {
                    row.outcome = crate::Name::fixed(super::KILLED);
                }
                row.end = Some(extent.end);
                row.rows = extent.rows;
            }
            let mut encoder = Encoder::<Run>::new(run, Codec::default());
            whole::write(&folder, &part, &mut encoder, &rows, how(true))?;
        }
    }
    Ok(())
}
