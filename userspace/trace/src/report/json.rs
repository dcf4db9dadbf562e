//! The report as NDJSON: one object a line, each with a `type`; [`super::schema`] describes them.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

use super::model::{ChainRow, EventRow, Report, Thinned};
use super::schema::{Line, Run};
use crate::echo::Counts;
use crate::escape::is_harmless;

/// Writes the lines of one report: `run`, then `thread`, `pty`, `hop`, `in_process`, `echo`, `chain` (with
/// `--slow`), `loss` as many as there are, `cost`, and `verdict` last. With `--interval` the reports follow each other, each from `run` to
/// `verdict`.
///
/// Values are exact: names are not altered. Characters that a terminal would act on are written as
/// `\uXXXX`, which a parser undoes.
///
/// # Errors
/// Those of the writer.
pub fn write_ndjson(report: &Report, out: &mut impl Write) -> io::Result<()> {
    lines(report).try_for_each(|line| write_line(&line, out))
}

/// Writes one line of `--events`.
///
/// # Errors
/// Those of the writer.
pub fn write_event(event: &EventRow, out: &mut impl Write) -> io::Result<()> {
    write_line(&Line::Event(event), out)
}

/// Writes one echo: a line of `echo --json`.
///
/// # Errors
/// Those of the writer.
pub fn write_echo(row: &ChainRow, out: &mut impl Write) -> io::Result<()> {
    write_line(&Line::Chain(row), out)
}

/// Writes what became of all echoes: the last line of `echo --json`.
///
/// # Errors
/// Those of the writer.
pub fn write_echo_counts(counts: &Counts, out: &mut impl Write) -> io::Result<()> {
    write_line(&Line::EchoCounts(counts), out)
}

/// Writes that the run has made itself cheaper.
///
/// # Errors
/// Those of the writer.
pub fn write_thinned(step: &Thinned, out: &mut impl Write) -> io::Result<()> {
    write_line(&Line::Thinned(step), out)
}

fn write_line(line: &Line<'_>, out: &mut impl Write) -> io::Result<()> {
    write_value(line, out)
}

/// Writes one line of compact JSON that is harmless on a terminal.
///
/// # Errors
/// Those of the writer.
pub(crate) fn write_value(line: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    line.serialize(&mut Serializer::with_formatter(&mut *out, Plain))?;
    out.write_all(b"\n")
}

/// The lines in their order.
fn lines(report: &Report) -> impl Iterator<Item = Line<'_>> {
    let Report {
        threads,
        ptys,
        hops,
        in_process,
        echoes,
        slow_echoes,
        losses,
        ..
    } = report;
    std::iter::once(Line::Run(Run::from(report)))
        .chain(threads.iter().map(Line::Thread))
        .chain(ptys.iter().map(Line::Pty))
        .chain(hops.iter().map(Line::Hop))
        .chain(in_process.iter().map(Line::InProcess))
        .chain(echoes.iter().map(Line::Echo))
        .chain(slow_echoes.iter().map(Line::Chain))
        .chain(losses.iter().map(Line::Loss))
        .chain([Line::Cost(&report.cost), Line::Verdict(&report.verdict)])
}

/// Compact JSON that is harmless on a terminal.
struct Plain;

impl Formatter for Plain {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        part: &str,
    ) -> io::Result<()> {
        let mut rest = part;
        while let Some((at, c)) = rest.char_indices().find(|&(_, c)| !is_harmless(c)) {
            let (before, after) = rest.split_at(at);
            CompactFormatter.write_string_fragment(out, before)?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = after.get(c.len_utf8()..).unwrap_or_default();
        }
        CompactFormatter.write_string_fragment(out, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{sample, sample_echoes};
    use serde_json::Value;

    fn written(report: &Report) -> String {
        let mut out = Vec::new();
        write_ndjson(report, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn one_object_a_line_run_first_verdict_last() {
        let report = sample::rich();
        let text = written(&report);
        let lines: Vec<Value> = text
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        let types: Vec<&str> = lines.iter().map(|l| l["type"].as_str().unwrap()).collect();
        assert_eq!(types.first(), Some(&"run"));
        assert_eq!(types.last(), Some(&"verdict"));
        assert_eq!(
            types.iter().filter(|t| **t == "thread").count(),
            report.threads.len()
        );
        assert_eq!(
            types.iter().filter(|t| **t == "pty").count(),
            report.ptys.len()
        );
        assert_eq!(
            types.iter().filter(|t| **t == "hop").count(),
            report.hops.len()
        );
        assert_eq!(
            types.iter().filter(|t| **t == "loss").count(),
            report.losses.len()
        );
        assert!(!types.contains(&"echo"), "echoes were not followed");
        assert_eq!(lines[0]["schema_version"], 1);
        let first = &report.threads[0];
        assert_eq!(lines[1]["wait"]["sum"], first.wait.sum);
    }

    #[test]
    fn echoes_are_one_line_and_each_slow_one_is_another() {
        let report = sample_echoes::rich();
        let text = written(&report);
        let lines: Vec<Value> = text
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        let of =
            |kind: &str| -> Vec<&Value> { lines.iter().filter(|l| l["type"] == kind).collect() };
        let (echo, chains) = (of("echo"), of("chain"));
        assert_eq!((echo.len(), chains.len()), (1, report.slow_echoes.len()));
        let link = &echo[0]["slow"]["example"]["links"][0];
        for field in ["policy", "nice", "rt_priority"] {
            assert!(!link["actor"]["place"]["sched"][field].is_null(), "{link}");
        }
        for chain in chains {
            let links = chain["links"].as_array().unwrap().iter();
            let sum: u64 = links.map(|l| l["length_ns"].as_u64().unwrap()).sum();
            assert_eq!(chain["length_ns"], sum);
        }
    }

    #[test]
    fn names_survive_exactly_and_stay_harmless() {
        let mut report = sample::rich();
        let name = "a\x1b[2J\u{9b}31m\u{202e}\u{e0041}é\"\\";
        report.threads[0].comm = name.to_owned();
        let text = written(&report);
        assert!(
            text.lines().all(|l| l.chars().all(is_harmless)),
            "nothing raw for a terminal"
        );
        let line = text.lines().nth(1).unwrap();
        let back: Value = serde_json::from_str(line).unwrap();
        assert_eq!(back["comm"], name);
    }

    #[test]
    fn a_full_disk_is_an_error() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = write_ndjson(&sample::rich(), &mut Full).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
