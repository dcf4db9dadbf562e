//! One table as CSV.

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use crate::rows::{Record, Table, Visit, each_table};
use crate::store::RunId;
use crate::store::encode::{Codec, Encoder};
use crate::{Dataset, Error};

/// Rows that are turned into text at a time.
const ROWS: usize = 4096;

/// Writes a table with a header, in order of arrival.
///
/// # Errors
/// When the recording cannot be read, or `out` not written.
pub fn csv(dataset: &Dataset, run: RunId, table: Table, out: impl Write) -> Result<(), Error> {
    let mut export = Export {
        dataset,
        run,
        table,
        out: ::csv::Writer::from_writer(out),
    };
    each_table(&mut export)?;
    export
        .out
        .flush()
        .map_err(|e| Error::io("cannot write the table", e))
}

struct Export<'a, W: Write> {
    dataset: &'a Dataset,
    run: RunId,
    table: Table,
    out: ::csv::Writer<W>,
}

impl<W: Write> Visit for Export<'_, W> {
    fn table<T: Record>(&mut self) -> Result<(), Error> {
        if T::TABLE != self.table {
            return Ok(());
        }
        let names = T::columns();
        self.out
            .write_record(names.iter().map(|c| c.name))
            .map_err(failed)?;
        let mut encoder = Encoder::<T>::new(self.run, Codec::default());
        let mut rows = self.dataset.rows::<T>(self.run)?;
        loop {
            let chunk: Vec<T> = rows.by_ref().take(ROWS).collect::<Result<_, _>>()?;
            if chunk.is_empty() {
                return Ok(());
            }
            let batch = encoder.batch(&chunk)?;
            for row in 0..batch.num_rows() {
                // The last column is `run`, which is the same in all rows.
                for column in batch.columns().iter().take(names.len()) {
                    self.out.write_field(cell(column, row)).map_err(failed)?;
                }
                self.out.write_record(None::<&[u8]>).map_err(failed)?;
            }
        }
    }
}

fn failed(e: ::csv::Error) -> Error {
    let source = match e.into_kind() {
        ::csv::ErrorKind::Io(e) => e,
        other => std::io::Error::other(format!("{other:?}")),
    };
    Error::io("cannot write the table", source)
}

/// The types that rows have (`rows/column.rs`); a missing value is an empty field.
fn cell(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return String::new();
    }
    match column.data_type() {
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int8 => column.as_primitive::<Int8Type>().value(row).to_string(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).to_string(),
        DataType::UInt16 => column.as_primitive::<UInt16Type>().value(row).to_string(),
        DataType::UInt8 => column.as_primitive::<UInt8Type>().value(row).to_string(),
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        _ => {
            let dictionary = column.as_dictionary::<Int32Type>();
            let texts = dictionary.values().as_string::<i32>();
            dictionary
                .key(row)
                .map_or_else(String::new, |key| texts.value(key).to_owned())
        }
    }
}
