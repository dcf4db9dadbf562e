//! A file that is written, or read, as a whole: the run's row, what recovery rescues, a block of the ring.

use std::fs::File;
use std::io::Write;

use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::reader::ChunkReader;

use super::encode::Encoder;
use super::folder::Folder;
use super::layout::PartName;
use crate::Error;
use crate::rows::Record;

/// The rows as a Parquet file.
pub(crate) fn encode<T: Record>(encoder: &mut Encoder<T>, rows: &[T]) -> Result<Vec<u8>, Error> {
    let failed = |e| Error::parquet("cannot encode rows", e);
    let mut writer = ArrowWriter::try_new(
        Vec::new(),
        encoder.schema().clone(),
        Some(encoder.properties().clone()),
    )
    .map_err(failed)?;
    encoder.sorted(rows, |batch| writer.write(&batch).map_err(failed))?;
    writer.into_inner().map_err(failed)
}

/// How a file is put in its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    /// Over an older one.
    pub(crate) replace: bool,
    /// So that a power cut does not take it back.
    pub(crate) sync: bool,
}

/// Writes a finished part in one step: it is there whole, or not at all.
pub(crate) fn write<T: Record>(
    folder: &Folder,
    part: &PartName,
    encoder: &mut Encoder<T>,
    rows: &[T],
    how: How,
) -> Result<(), Error> {
    let bytes = encode(encoder, rows)?;
    let name = part.in_progress();
    let failed = |e| Error::io(format!("cannot write {}", part.finished()), e);
    folder.remove(&name).map_err(failed)?;
    let mut file = folder.create_file(&name)?;
    let written = file
        .write_all(&bytes)
        .and_then(|()| if how.sync { file.sync_all() } else { Ok(()) })
        .and_then(|()| folder.rename(&name, &part.finished(), how.replace))
        .and_then(|()| if how.sync { folder.sync() } else { Ok(()) });
    written.map_err(|e| {
        let _ = folder.remove(&name);
        failed(e)
    })
}

/// Rows of a finished part, batch by batch: one batch is one row group.
#[derive(Debug)]
pub(crate) struct Batches {
    reader: Groups,
    name: String,
}

/// One reader a row group: a batch must not span two.
#[derive(Debug)]
struct Groups {
    file: Input,
    count: usize,
    next: usize,
}

#[derive(Debug)]
enum Input {
    File(File),
    Memory(Bytes),
}

impl Batches {
    pub(crate) fn of_file(file: File, name: String) -> Result<Batches, Error> {
        Batches::new(Input::File(file), name)
    }

    pub(crate) fn of_bytes(bytes: Vec<u8>) -> Result<Batches, Error> {
        Batches::new(Input::Memory(bytes.into()), "a block of the ring".into())
    }

    fn new(file: Input, name: String) -> Result<Batches, Error> {
        let count = match &file {
            Input::File(f) => groups(clone(f, &name)?, &name)?,
            Input::Memory(b) => groups(b.clone(), &name)?,
        };
        let reader = Groups {
            file,
            count,
            next: 0,
        };
        Ok(Batches { reader, name })
    }

    /// The rows of the next row group, in order of arrival.
    pub(crate) fn next<T: Record>(&mut self) -> Result<Option<Vec<T>>, Error> {
        let groups = &mut self.reader;
        if groups.next >= groups.count {
            return Ok(None);
        }
        let group = groups.next;
        groups.next += 1;
        let reader = match &groups.file {
            Input::File(f) => open(clone(f, &self.name)?, group),
            Input::Memory(b) => open(b.clone(), group),
        }
        .map_err(|e| Error::parquet(format!("cannot read {}", self.name), e))?;
        let mut rows = Vec::new();
        for batch in reader {
            rows.append(&mut T::read(&batch?)?);
        }
        rows.sort_by_key(T::seq);
        Ok(Some(rows))
    }
}

fn clone(file: &File, name: &str) -> Result<File, Error> {
    file.try_clone()
        .map_err(|e| Error::io(format!("cannot read {name}"), e))
}

fn groups(input: impl ChunkReader + 'static, name: &str) -> Result<usize, Error> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(input)
        .map_err(|e| Error::parquet(format!("cannot read {name}"), e))?;
    Ok(builder.metadata().num_row_groups())
}

fn open(
    input: impl ChunkReader + 'static,
    group: usize,
) -> parquet::errors::Result<ParquetRecordBatchReader> {
    ParquetRecordBatchReaderBuilder::try_new(input)?
        .with_row_groups(vec![group])
        .with_batch_size(super::encode::BATCH)
        .build()
}
