//! Finds the parts of a dataset. Links are not followed, and what is not ours is passed over.

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::statistics::Statistics;
use rustix::fs::FileType;

use super::folder::Folder;
use super::layout::{PartName, RunId};
use crate::Error;
use crate::rows::Table;

/// The innermost folders of a table.
pub(crate) fn folders(root: &Folder, table: Table) -> Result<Vec<Folder>, Error> {
    let mut found = Vec::new();
    let is_folder =
        |(name, kind): &(String, FileType)| *kind == FileType::Directory && name == table.name();
    if !root.list()?.iter().any(is_folder) {
        return Ok(found);
    }
    let table = root.open_in(table.name())?;
    for date in inner(&table, "date=")? {
        found.append(&mut inner(&date, "host=")?);
    }
    Ok(found)
}

fn inner(folder: &Folder, prefix: &str) -> Result<Vec<Folder>, Error> {
    folder
        .list()?
        .into_iter()
        .filter(|(name, kind)| *kind == FileType::Directory && name.starts_with(prefix))
        .map(|(name, _)| folder.open_in(&name))
        .collect()
}

/// The finished parts of a table, by recording and number.
pub(crate) fn parts(root: &Folder, table: Table) -> Result<Vec<(PartName, Folder)>, Error> {
    let mut found = Vec::new();
    for folder in folders(root, table)? {
        for (name, kind) in folder.list()? {
            if let Some(part) = PartName::from_finished(&name)
                && kind == FileType::RegularFile
            {
                let folder = folder.again()?;
                found.push((part, folder));
            }
        }
    }
    found.sort_by_key(|(part, _)| *part);
    Ok(found)
}

/// How far a recording reaches.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extent {
    pub(crate) rows: u64,
    /// The last `ts`.
    pub(crate) end: u64,
}

/// From the metadata of its parts, the row of the run itself left out.
pub(crate) fn extent(root: &Folder, run: RunId) -> Result<Extent, Error> {
    let mut extent = Extent::default();
    for table in Table::ALL.iter().filter(|t| **t != Table::run) {
        for (part, folder) in parts(root, *table)? {
            if part.run != run {
                continue;
            }
            let name = part.finished();
            let Ok(file) = folder.open_file(&name, false) else {
                continue;
            };
            let builder = ParquetRecordBatchReaderBuilder::try_new(file)
                .map_err(|e| Error::parquet(format!("cannot read {name}"), e))?;
            for group in builder.metadata().row_groups() {
                extent.rows += group.num_rows() as u64;
                let ts = group.columns().first().and_then(|c| c.statistics());
                if let Some(Statistics::Int64(ts)) = ts {
                    let last = ts.max_opt().copied().unwrap_or(0);
                    extent.end = extent.end.max(last as u64);
                }
            }
        }
    }
    Ok(extent)
}
