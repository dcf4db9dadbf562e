//! The answer, as a table, as CSV or as JSON lines.

use std::io::Write;

use arrow_cast::pretty::pretty_format_batches;
use clap::ValueEnum;
use datafusion::dataframe::DataFrame;
use futures::StreamExt;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// With a header.
    Csv,
    /// One object a line.
    Json,
}

pub(crate) async fn write(
    answer: DataFrame,
    format: Format,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    if format == Format::Table {
        let schema = answer.schema().inner().clone();
        let mut batches = answer.collect().await?;
        if batches.is_empty() {
            batches.push(arrow_array::RecordBatch::new_empty(schema));
        }
        let table = pretty_format_batches(&batches)?.to_string();
        writeln!(out, "{}", harmless(&table))?;
        return Ok(());
    }
    // Row by row as they come: an answer may be larger than the memory.
    let schema = answer.schema().inner().clone();
    let mut batches = answer.execute_stream().await?;
    match format {
        Format::Csv => {
            let mut csv = arrow_csv::WriterBuilder::new().with_header(true).build(out);
            csv.write(&arrow_array::RecordBatch::new_empty(schema))?;
            while let Some(batch) = batches.next().await {
                csv.write(&batch?)?;
            }
        }
        _ => {
            let mut json = arrow_json::LineDelimitedWriter::new(out);
            while let Some(batch) = batches.next().await {
                json.write(&batch?)?;
            }
            json.finish()?;
        }
    }
    Ok(())
}

/// Names of files and commands are chosen by others: what would steer a terminal is shown as `\u{1b}`.
pub(crate) fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        let steers = c.is_control() && c != '\n'
            // Characters that reorder what is around them (Unicode's Bidi_Control).
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if steers {
            safe.extend(c.escape_unicode());
        } else {
            safe.push(c);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn what_would_steer_a_terminal_is_shown() {
        assert_eq!(
            harmless("a\u{1b}]0;x\u{7}\n\u{202e}é"),
            "a\\u{1b}]0;x\\u{7}\n\\u{202e}é"
        );
    }
}
