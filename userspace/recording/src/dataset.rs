//! A recording read back: table by table, or all tables in the order in which things came.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::path::{Path, PathBuf};

use crate::rows::{Record, Row, Run, Table, Visit, each_table};
use crate::store::folder::Folder;
use crate::store::layout::PartName;
use crate::store::whole::Batches;
use crate::store::{Recovered, RunId, recover, walk};
use crate::{Error, Name};

/// A folder with recordings.
#[derive(Debug)]
pub struct Dataset {
    root: Folder,
    recovered: Recovered,
}

impl Dataset {
    /// Opens a folder; what a killed recorder left there is finished first, where we may write.
    ///
    /// # Errors
    /// When it is no folder, or has no recording.
    pub fn open(dir: &Path) -> Result<Dataset, Error> {
        let recovered = match recover(dir) {
            Ok(recovered) => recovered,
            // What is finished can be read from a full disk, or another's folder.
            Err(Error::Full(_)) => Recovered::default(),
            Err(Error::Io { source, .. })
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                Recovered::default()
            }
            Err(e) => return Err(e),
        };
        let root = Folder::open(dir)?;
        let found = Dataset { root, recovered };
        for table in Table::ALL {
            if !walk::parts(&found.root, *table)?.is_empty() {
                return Ok(found);
            }
        }
        Err(Error::Empty(dir.to_path_buf()))
    }

    /// What had to be finished when it was opened.
    pub fn recovered(&self) -> Recovered {
        self.recovered
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// The recordings in it, oldest first. One whose row of table `run` was lost has a row that
    /// says nothing but its id.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn runs(&self) -> Result<Vec<(RunId, Run)>, Error> {
        let mut runs: Vec<(RunId, Run)> = Vec::new();
        for table in Table::ALL.iter().rev() {
            for (part, folder) in walk::parts(&self.root, *table)? {
                if runs.iter().any(|(id, _)| *id == part.run) {
                    continue;
                }
                let row = match table {
                    Table::run => first_row::<Run>(&folder, &part)?,
                    _ => None,
                };
                let lost = || Run {
                    unix_ns: part.run as u64,
                    outcome: Name::fixed("unknown"),
                    ..Run::default()
                };
                runs.push((part.run, row.unwrap_or_else(lost)));
            }
        }
        runs.sort_by_key(|(id, _)| *id);
        Ok(runs)
    }

    /// The last recording in it.
    ///
    /// # Errors
    /// When there is none, or a file cannot be read.
    pub fn latest(&self) -> Result<(RunId, Run), Error> {
        let last = self.runs()?.pop();
        last.ok_or_else(|| Error::Empty(self.path().to_path_buf()))
    }

    /// The rows of one table of one recording, in order of arrival. One row group at a time is in memory.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn rows<T: Record>(&self, run: RunId) -> Result<Rows<T>, Error> {
        let mut parts: VecDeque<_> = walk::parts(&self.root, T::TABLE)?.into();
        parts.retain(|(part, _)| part.run == run);
        Ok(Rows {
            parts,
            open: None,
            rows: Vec::new().into_iter(),
        })
    }

    /// All rows of a recording in the order in which they were recorded: what analysed them live
    /// comes to the same result from these.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn replay(&self, run: RunId) -> Result<Replay, Error> {
        let mut open = OpenAll {
            dataset: self,
            run,
            tables: Vec::new(),
        };
        each_table(&mut open)?;
        let mut replay = Replay {
            heads: open.tables.iter().map(|_| None).collect(),
            tables: open.tables,
            next: BinaryHeap::new(),
            failed: None,
        };
        for table in 0..replay.tables.len() {
            replay.advance(table);
        }
        Ok(replay)
    }

    /// The files of a table: for who reads Parquet itself.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn files(&self, table: Table) -> Result<Vec<PathBuf>, Error> {
        let parts = walk::parts(&self.root, table)?;
        Ok(parts
            .iter()
            .map(|(part, folder)| folder.path().join(part.finished()))
            .collect())
    }
}

fn first_row<T: Record>(folder: &Folder, part: &PartName) -> Result<Option<T>, Error> {
    let rows: Option<Vec<T>> = open(folder, part)?.next()?;
    Ok(rows.and_then(|rows| rows.into_iter().next()))
}

fn open(folder: &Folder, part: &PartName) -> Result<Batches, Error> {
    let name = part.finished();
    let file = folder
        .open_file(&name, false)
        .map_err(|e| Error::io(format!("cannot open {name}"), e))?;
    Batches::of_file(file, name)
}

/// Rows of one table; see [`Dataset::rows`].
#[derive(Debug)]
pub struct Rows<T: Record> {
    parts: VecDeque<(PartName, Folder)>,
    open: Option<Batches>,
    rows: std::vec::IntoIter<T>,
}

impl<T: Record> Rows<T> {
    fn more(&mut self) -> Result<bool, Error> {
        if self.open.is_none() {
            let Some((part, folder)) = self.parts.pop_front() else {
                return Ok(false);
            };
            self.open = Some(open(&folder, &part)?);
        }
        match self.open.as_mut().map(Batches::next) {
            Some(rows) => match rows? {
                Some(rows) => self.rows = rows.into_iter(),
                None => self.open = None,
            },
            None => return Ok(false),
        }
        Ok(true)
    }
}

impl<T: Record> Iterator for Rows<T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.rows.next() {
                return Some(Ok(row));
            }
            match self.more() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(e) => {
                    // A file that cannot be read would fail again for ever.
                    self.open = None;
                    self.parts.clear();
                    return Some(Err(e));
                }
            }
        }
    }
}

type AnyRows = Box<dyn Iterator<Item = Result<Row, Error>>>;

struct OpenAll<'a> {
    dataset: &'a Dataset,
    run: RunId,
    tables: Vec<AnyRows>,
}

impl Visit for OpenAll<'_> {
    fn table<T: Record>(&mut self) -> Result<(), Error> {
        let rows = self.dataset.rows::<T>(self.run)?;
        self.tables
            .push(Box::new(rows.map(|r| r.map(Record::into_row))));
        Ok(())
    }
}

/// Rows of all tables; see [`Dataset::replay`].
pub struct Replay {
    tables: Vec<AnyRows>,
    heads: Vec<Option<Row>>,
    next: BinaryHeap<Reverse<(u64, usize)>>,
    failed: Option<Error>,
}

impl Replay {
    fn advance(&mut self, table: usize) {
        match self.tables.get_mut(table).and_then(Iterator::next) {
            Some(Ok(row)) => {
                self.next.push(Reverse((row.seq(), table)));
                if let Some(head) = self.heads.get_mut(table) {
                    *head = Some(row);
                }
            }
            Some(Err(e)) => self.failed = Some(e),
            None => {}
        }
    }
}

impl Iterator for Replay {
    type Item = Result<Row, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(e) = self.failed.take() {
            self.next.clear();
            return Some(Err(e));
        }
        let Reverse((_, table)) = self.next.pop()?;
        let row = self.heads.get_mut(table)?.take()?;
        self.advance(table);
        Some(Ok(row))
    }
}
