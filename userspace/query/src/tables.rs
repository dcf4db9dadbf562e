//! The tables of a recording, as the engine sees them: one per folder, with the folders' `date` and `host` as columns.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::prelude::SessionContext;
use phux_recording::{Dataset, Table};
use url::Url;

const PARTITIONS: [&str; 2] = ["date", "host"];

/// Makes each table known. One that the recording has no file of is there, and empty.
pub(crate) async fn register(context: &SessionContext, dataset: &Dataset) -> anyhow::Result<()> {
    let root = dataset
        .path()
        .canonicalize()
        .with_context(|| format!("cannot find {}", dataset.path().display()))?;
    for table in Table::ALL {
        if dataset.files(*table)?.is_empty() {
            let mut fields = schema(*table).fields().to_vec();
            fields.extend(PARTITIONS.map(|p| Arc::new(Field::new(p, DataType::Utf8, false))));
            let schema = Arc::new(Schema::new(fields));
            let empty = MemTable::try_new(schema, vec![vec![]])?;
            context.register_table(table.name(), Arc::new(empty))?;
            continue;
        }
        // As a URL: a folder's name may hold what would be a pattern in a path.
        let url = Url::from_directory_path(root.join(table.name()))
            .map_err(|()| anyhow!("{} cannot be a URL", root.display()))?;
        let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
            .with_file_extension(".parquet")
            .with_table_partition_cols(PARTITIONS.map(|p| (p.to_owned(), DataType::Utf8)).to_vec());
        let config = ListingTableConfig::new(ListingTableUrl::try_new(url, None)?)
            .with_listing_options(options)
            .with_schema(schema(*table));
        context.register_table(table.name(), Arc::new(ListingTable::try_new(config)?))?;
    }
    Ok(())
}

/// As in the files: the table's columns and the id of the recording.
fn schema(table: Table) -> SchemaRef {
    let mut fields: Vec<Field> = table
        .columns()
        .into_iter()
        .map(|c| Field::new(c.name, c.data_type, c.nullable))
        .collect();
    fields.push(Field::new("run", DataType::Int64, false));
    Arc::new(Schema::new(fields))
}

/// Lists the tables with their columns.
pub(crate) fn describe(out: &mut impl Write) -> io::Result<()> {
    for table in Table::ALL {
        writeln!(out, "{}", table.name())?;
        for field in schema(*table).fields() {
            let kind = match field.data_type() {
                DataType::Dictionary(_, of) => of.to_string(),
                other => other.to_string(),
            };
            writeln!(out, "    {:<22}{kind}", field.name())?;
        }
        for partition in PARTITIONS {
            writeln!(out, "    {partition:<22}{}", DataType::Utf8)?;
        }
    }
    Ok(())
}
