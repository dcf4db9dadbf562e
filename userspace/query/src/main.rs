//! `phux-trace-query DIR 'SQL'`: SQL over a recording. `phux-trace query` runs this program.
//!
//! Reads the dataset and nothing else: statements that write, or that bring in other files, are refused.

mod output;
mod tables;

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use datafusion::execution::context::SQLOptions;
use datafusion::prelude::{SessionConfig, SessionContext};
use phux_recording::Dataset;

use output::Format;

/// SQL over a recording.
#[derive(Debug, Parser)]
#[command(name = "phux-trace-query", version, about)]
struct Arguments {
    /// Folder of the recording.
    dir: PathBuf,
    /// The query; without one the tables and their columns are listed.
    sql: Option<String>,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) if is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            // An error quotes the query, and with it whatever was pasted.
            eprintln!("phux-trace query: {}", output::harmless(&format!("{e:#}")));
            ExitCode::FAILURE
        }
    }
}

/// Who reads the answer has seen enough.
fn is_broken_pipe(e: &anyhow::Error) -> bool {
    e.chain().any(|e| {
        e.downcast_ref::<io::Error>()
            .is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
    })
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let dataset = Dataset::open(&arguments.dir)?;
    let recovered = dataset.recovered();
    if recovered.runs != 0 {
        eprintln!(
            "phux-trace query: picked up {} rows that a killed recorder had left",
            recovered.rows
        );
    }
    let mut out = BufWriter::new(io::stdout().lock());
    match &arguments.sql {
        None => tables::describe(&mut out)?,
        Some(sql) => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .build()
                .context("cannot start the query's threads")?;
            runtime.block_on(query(&dataset, sql, arguments.format, &mut out))?;
        }
    }
    out.flush()?;
    Ok(())
}

async fn query(
    dataset: &Dataset,
    sql: &str,
    format: Format,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let config = SessionConfig::new().with_information_schema(true);
    let context = SessionContext::new_with_config(config);
    tables::register(&context, dataset).await?;
    let only_read = SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false);
    let answer = context.sql_with_options(sql, only_read).await?;
    output::write(answer, format, out).await
}
