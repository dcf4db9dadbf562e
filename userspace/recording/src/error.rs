//! What can go wrong.

use std::io;
use std::path::PathBuf;

/// An error of the recorder, of a recording's files, or of what is made of them.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk, or a quota or limit, is full. All that was written before is intact.
    #[error("no space left for the recording ({0}): what was written is intact")]
    Full(#[source] io::Error),
    /// Something other than a folder, or another user's folder, is where a folder must be.
    #[error("{}: {why}", path.display())]
    Unsafe {
        /// Where.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A file could not be opened, read or written.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// A file that is not what it should be.
    #[error("{what}")]
    Parquet {
        /// Which file, or what was tried.
        what: String,
        /// What is wrong with it.
        #[source]
        source: parquet::errors::ParquetError,
    },
    /// A batch that Arrow refuses.
    #[error("the recorder's own columns do not fit together")]
    Arrow(#[from] arrow_schema::ArrowError),
    /// A column of a foreign type.
    #[error("column {column} is of type {found}")]
    Column {
        /// Its name.
        column: &'static str,
        /// What was found.
        found: String,
    },
    /// The recorder has ended already; [`crate::Recorder::finish`] says why.
    #[error("the recording has ended")]
    Ended,
    /// A folder without a recording.
    #[error("{}: no recording here", .0.display())]
    Empty(PathBuf),
}

impl Error {
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Error {
        if is_full(&source) {
            Error::Full(source)
        } else {
            Error::Io {
                what: what.into(),
                source,
            }
        }
    }

    pub(crate) fn parquet(what: impl Into<String>, source: parquet::errors::ParquetError) -> Error {
        // Parquet wraps what the file said.
        match source {
            parquet::errors::ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(inner) => Error::io(what, *inner),
                Err(inner) => Error::Parquet {
                    what: what.into(),
                    source: parquet::errors::ParquetError::External(inner),
                },
            },
            source => Error::Parquet {
                what: what.into(),
                source,
            },
        }
    }
}

fn is_full(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge
            | io::ErrorKind::ReadOnlyFilesystem
    )
}
