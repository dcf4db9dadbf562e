//! From rows to batches of Arrow and to Parquet, and how the columns are laid out there.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowSchemaConverter, encode_arrow_schema};
use parquet::basic::{Compression, Encoding as Layout, ZstdLevel};
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData, SortingColumn,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use super::layout::RunId;
use crate::Error;
use crate::rows::{ColumnSet, Encoding, Record};

/// The column that says which recording a row is of.
pub(crate) const RUN: &str = "run";

/// Rows that become one batch: more need more memory, fewer cost more allocations per row.
pub(crate) const BATCH: usize = 65_536;

/// Rows that are turned into columns at a time: a chunk of them stays in the second-level cache
/// while it is gone over column by column.
const CHUNK: usize = 512;

/// The compression that `benches/parquet.rs` chose; others for that benchmark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Codec {
    /// None.
    None,
    /// LZ4, raw blocks.
    Lz4,
    /// Zstandard, level 1, where a column says that it pays.
    #[default]
    Zstd,
}

/// How the rows of one table become Parquet. Holds the columns, which are reused.
pub(crate) struct Encoder<T: Record> {
    schema: SchemaRef,
    properties: WriterProperties,
    columns: T::Columns,
    run: RunId,
    order: Vec<u32>,
}

impl<T: Record> Encoder<T> {
    pub(crate) fn new(run: RunId, codec: Codec) -> Encoder<T> {
        let schema = schema::<T>();
        Encoder {
            properties: properties::<T>(run, codec, &schema),
            schema,
            columns: T::Columns::default(),
            run,
            order: Vec::new(),
        }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn properties(&self) -> &WriterProperties {
        &self.properties
    }

    /// The rows in the order in which they are.
    pub(crate) fn batch(&mut self, rows: &[T]) -> Result<RecordBatch, Error> {
        for chunk in rows.chunks(CHUNK) {
            self.columns.push_all(chunk.iter());
        }
        self.finish(rows.len())
    }

    /// The rows by `ts`, batch by batch.
    pub(crate) fn sorted(
        &mut self,
        rows: &[T],
        mut each: impl FnMut(RecordBatch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if rows.is_sorted_by_key(T::ts) {
            for rows in rows.chunks(BATCH) {
                each(self.batch(rows)?)?;
            }
            return Ok(());
        }
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(0..rows.len() as u32);
        // Nearly sorted: what a merge sort likes. Stable: equal times stay in order of arrival.
        order.sort_by_key(|i| rows[*i as usize].ts());
        for batch in order.chunks(BATCH) {
            for chunk in batch.chunks(CHUNK) {
                self.columns
                    .push_all(chunk.iter().map(|i| &rows[*i as usize]));
            }
            each(self.finish(batch.len())?)?;
        }
        self.order = order;
        Ok(())
    }

    fn finish(&mut self, rows: usize) -> Result<RecordBatch, Error> {
        let mut arrays = self.columns.finish();
        let run: ArrayRef = Arc::new(Int64Array::from_value(self.run, rows));
        arrays.push(run);
        Ok(RecordBatch::try_new(self.schema.clone(), arrays)?)
    }

    /// The footer of a file that holds these row groups and nothing else.
    pub(crate) fn footer(&self, row_groups: &[RowGroupMetaData]) -> Result<Vec<u8>, Error> {
        let failed = |e| Error::parquet("cannot make a footer", e);
        let schema = ArrowSchemaConverter::new()
            .convert(&self.schema)
            .map_err(failed)?;
        let mut keys = self
            .properties
            .key_value_metadata()
            .cloned()
            .unwrap_or_default();
        keys.push(KeyValue::new(
            ARROW_SCHEMA_META_KEY.to_owned(),
            encode_arrow_schema(&self.schema),
        ));
        let file = FileMetaData::new(
            1,
            row_groups.iter().map(RowGroupMetaData::num_rows).sum(),
            Some(self.properties.created_by().to_owned()),
            Some(keys),
            Arc::new(schema),
            None,
        );
        let metadata = ParquetMetaData::new(file, row_groups.to_vec());
        let mut bytes = Vec::new();
        ParquetMetaDataWriter::new(&mut bytes, &metadata)
            .finish()
            .map_err(failed)?;
        bytes
            .flush()
            .map_err(|e| Error::io("cannot make a footer", e))?;
        Ok(bytes)
    }
}

pub(crate) fn schema<T: Record>() -> SchemaRef {
    let mut fields: Vec<Field> = T::columns()
        .into_iter()
        .map(|c| Field::new(c.name, c.data_type, c.nullable))
        .collect();
    fields.push(Field::new(RUN, DataType::Int64, false));
    Arc::new(Schema::new(fields))
}

fn is_name(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(_, values) if **values == DataType::Utf8)
}

fn properties<T: Record>(run: RunId, codec: Codec, schema: &Schema) -> WriterProperties {
    let compression = match codec {
        Codec::None => Compression::UNCOMPRESSED,
        Codec::Lz4 => Compression::LZ4_RAW,
        Codec::Zstd => Compression::ZSTD(ZstdLevel::default()),
    };
    let ts = schema.index_of("ts").unwrap_or_default() as i32;
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_created_by(concat!("phux-trace ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_dictionary_enabled(false)
        // The recorder decides when a row group ends.
        .set_max_row_group_row_count(None)
        .set_data_page_row_count_limit(usize::MAX)
        // What a column is encoded in one go: each go allocates.
        .set_write_batch_size(BATCH)
        .set_key_value_metadata(Some(vec![
            KeyValue::new("phux.table".to_owned(), T::TABLE.name().to_owned()),
            KeyValue::new("phux.run".to_owned(), run.to_string()),
        ]))
        .set_sorting_columns(Some(vec![SortingColumn {
            column_idx: ts,
            descending: false,
            nulls_first: false,
        }]));
    for column in T::columns() {
        let path = || ColumnPath::new(vec![column.name.to_owned()]);
        builder = match column.encoding {
            Encoding::Delta | Encoding::Amount => {
                builder.set_column_encoding(path(), Layout::DELTA_BINARY_PACKED)
            }
            // What comes when a dictionary is full; any other would have its buffers of 1 MiB made at once.
            Encoding::Dictionary | Encoding::Text => builder
                .set_column_dictionary_enabled(path(), true)
                .set_column_encoding(path(), Layout::PLAIN),
            Encoding::Plain => builder,
        };
        // What is packed already gets hardly smaller, and each column that is compressed needs a
        // context of its own, which costs more than a small file's rows.
        if matches!(column.encoding, Encoding::Amount | Encoding::Text) {
            builder = builder.set_column_compression(path(), compression);
        }
        // Smallest and largest name of a row group rule out nothing, and cost a comparison a row each.
        if is_name(&column.data_type) {
            builder = builder.set_column_statistics_enabled(path(), EnabledStatistics::None);
        }
    }
    builder
        .set_column_encoding(
            ColumnPath::new(vec![RUN.to_owned()]),
            Layout::DELTA_BINARY_PACKED,
        )
        .build()
}
