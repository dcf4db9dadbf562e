//! What an unfinished part lacks: the footer for its row groups so far, and the rows that are in no row group yet.
//!
//! One file: [`MAGIC`], the footer's length (u32, little endian), the footer, then a stream of Arrow
//! IPC, one batch a tick. Written without fsync: a killed process loses nothing that it has given
//! to the kernel, and against a power cut finished parts are synced.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use arrow_array::RecordBatch;
use arrow_ipc::MetadataVersion;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, SchemaRef};

use super::folder::Folder;
use super::layout::PartName;
use crate::Error;

const MAGIC: &[u8; 8] = b"phuxjrn1";

/// A journal that is written.
pub(crate) struct Journal {
    /// Batches come by [`StreamWriter`]; the schema goes out with the first.
    writer: Option<StreamWriter<BufWriter<File>>>,
    file: Option<File>,
}

impl Journal {
    /// Starts a journal for a part with this footer, over the older one in one step.
    pub(crate) fn start(folder: &Folder, part: &PartName, footer: &[u8]) -> Result<Journal, Error> {
        let name = part.next_journal();
        let failed = |e| Error::io(format!("cannot write {name}"), e);
        folder.remove(&name).map_err(failed)?;
        let mut file = folder.create_file(&name)?;
        let mut head = Vec::with_capacity(MAGIC.len() + 4 + footer.len());
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&(footer.len() as u32).to_le_bytes());
        head.extend_from_slice(footer);
        file.write_all(&head).map_err(failed)?;
        folder
            .rename(&name, &part.journal(), true)
            .map_err(failed)?;
        Ok(Journal {
            writer: None,
            file: Some(file),
        })
    }

    /// Adds rows and hands them to the kernel.
    pub(crate) fn append(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let writer = match (&mut self.writer, self.file.take()) {
            (Some(writer), _) => writer,
            (None, Some(file)) => {
                let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?;
                let out = BufWriter::with_capacity(64 * 1024, file);
                let writer = StreamWriter::try_new_with_options(out, &batch.schema(), options)
                    .map_err(failed)?;
                self.writer.insert(writer)
            }
            (None, None) => return Err(Error::Ended),
        };
        writer.write(batch).map_err(failed)?;
        writer.flush().map_err(failed)
    }
}

fn failed(e: ArrowError) -> Error {
    match e {
        ArrowError::IoError(what, e) => Error::io(format!("cannot write the journal: {what}"), e),
        e => Error::Arrow(e),
    }
}

/// A journal that was left.
pub(crate) struct Left {
    /// The footer for the part's row groups; empty where there is none yet.
    pub(crate) footer: Vec<u8>,
    /// Rows in no row group, as far as they are whole.
    pub(crate) batches: Vec<RecordBatch>,
}

impl Left {
    /// Reads what is whole of it. `None`: not a journal, or its head is torn.
    pub(crate) fn read(file: File, schema: &SchemaRef) -> io::Result<Option<Left>> {
        let length = file.metadata()?.len();
        let mut file = BufReader::new(file);
        let mut head = [0; 12];
        match file.read_exact(&mut head) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let (magic, size) = head.split_at(8);
        let size = u64::from(u32::from_le_bytes(size.try_into().unwrap_or_default()));
        if magic != MAGIC || size > length {
            return Ok(None);
        }
        let mut footer = Vec::new();
        (&mut file).take(size).read_to_end(&mut footer)?;
        if footer.len() as u64 != size {
            return Ok(None);
        }
        let mut batches = Vec::new();
        if file.stream_position()? < length
            && let Ok(reader) = StreamReader::try_new(file, None)
        {
            // The first batch that is not whole is where the recorder was killed.
            for batch in reader.map_while(Result::ok) {
                if batch.schema().fields() == schema.fields() {
                    batches.push(batch);
                }
            }
        }
        Ok(Some(Left { footer, batches }))
    }
}
