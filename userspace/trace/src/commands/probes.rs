//! `phux-trace probes`: the USDT probes of a file or a process, with ready one-liners.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

use super::style::{DIM, HEAD, NAME, WARN, wrap};
use crate::cli::ProbesArgs;
use crate::escape::visible;
use crate::say;
use crate::target::binary::{Binaries, Binary};
use crate::target::notes::{self, Notes, Probe};
use crate::target::operand::Operand;
use crate::target::{Ask, Invoker, ResolveError, Survey, resolve};

/// Columns.
const WIDTH: usize = 80;
/// Lines for the names of files without probes: a desktop program maps a hundred libraries.
const EMPTY_LINES: usize = 3;

/// A file with its probes, and the process that runs it.
struct Source {
    path: String,
    pid: Option<u32>,
    notes: Notes,
}

/// A probe with all its sites, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Row<'a> {
    file: &'a str,
    pid: Option<u32>,
    provider: &'a str,
    name: &'a str,
    /// How many places in the code it stands at.
    sites: usize,
    /// How many of them have a semaphore.
    semaphores: usize,
    /// Arguments of the first site.
    args: &'a [Operand],
    bpftrace: Option<String>,
    dtrace: Option<String>,
    places: &'a [&'a Probe],
}

/// Prints the probes.
///
/// # Errors
/// There is no such target or file, it is no ELF file, or the output cannot be written.
pub fn run(args: &ProbesArgs) -> anyhow::Result<ExitCode> {
    let (sources, remarks) = sources(args.target.as_deref())?;
    if args.json {
        let mut out = io::BufWriter::new(io::stdout().lock());
        for source in &sources {
            for places in grouped(&source.notes).values() {
                if let Some(row) = row(source, places) {
                    serde_json::to_writer(&mut out, &row)?;
                    writeln!(out)?;
                }
            }
        }
        out.flush()?;
        remarks.iter().for_each(|remark| say::complain(remark));
    } else {
        anstream::stdout()
            .lock()
            .write_all(text(&sources, &remarks).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The files to show, and what could not be read.
fn sources(target: Option<&OsStr>) -> anyhow::Result<(Vec<Source>, Vec<String>)> {
    if let Some(file) = target.filter(|t| t.as_bytes().contains(&b'/')) {
        return of_file(file);
    }
    let survey = Survey::take().context("cannot read /proc")?;
    match (
        resolve(&Ask::parse(target), &survey, Invoker::current()),
        target,
    ) {
        (Ok(found), _) => of_processes(found.processes.iter().map(|p| p.pid)),
        (Err(ResolveError::UnknownName { .. }), Some(name)) if Path::new(name).exists() => {
            of_file(name)
        }
        (Err(error), _) => Err(error.into()),
    }
}

fn of_file(file: &OsStr) -> anyhow::Result<(Vec<Source>, Vec<String>)> {
    let shown = file.to_string_lossy();
    let read = || notes::open_regular(Path::new(file)).and_then(notes::read);
    let notes = read().with_context(|| visible(&shown).into_owned())?;
    let remarks = notes
        .damage
        .iter()
        .map(|d| format!("{shown}: {d}"))
        .collect();
    // The one-liners must work from any directory.
    let path = std::fs::canonicalize(file)
        .map_or_else(|_| shown.into_owned(), |p| p.to_string_lossy().into_owned());
    Ok((
        vec![Source {
            path,
            pid: None,
            notes,
        }],
        remarks,
    ))
}

fn of_processes(pids: impl Iterator<Item = u32>) -> anyhow::Result<(Vec<Source>, Vec<String>)> {
    let mut binaries = Binaries::default();
    let mut sources: Vec<Source> = Vec::new();
    let mut remarks = Vec::new();
    for pid in pids {
        let files = match binaries.of_process(pid) {
            Ok(files) => files,
            Err(e) => {
                let sudo = e.kind() == io::ErrorKind::PermissionDenied;
                let hint = if sudo { "; run as root (sudo)" } else { "" };
                remarks.push(format!(
                    "pid {pid}: cannot see what it has mapped: {e}{hint}"
                ));
                continue;
            }
        };
        for file in files {
            let path = path_from_here(&file);
            match file.notes {
                // Several processes run the same file: one of them stands for all.
                Ok(_) if sources.iter().any(|s| s.path == path) => {}
                Ok(notes) => {
                    remarks.extend(notes.damage.iter().map(|d| format!("{path}: {d}")));
                    sources.push(Source {
                        path,
                        pid: Some(pid),
                        notes: (*notes).clone(),
                    });
                }
                Err(e) => remarks.push(format!("{path}: {e}")),
            }
        }
    }
    if sources.is_empty() {
        anyhow::bail!("{}", remarks.join("\n"));
    }
    Ok((sources, remarks))
}

/// A path that leads a tracer to the file that runs: its own, unless that is another file (or none)
/// in our mount namespace, or was replaced since.
fn path_from_here(file: &Binary) -> String {
    let id = |path: &Path| std::fs::metadata(path).map(|m| (m.dev(), m.ino())).ok();
    let same = id(&file.path).is_some_and(|here| Some(here) == id(&file.reach));
    let path = if same { &file.path } else { &file.reach };
    path.to_string_lossy().into_owned()
}

/// Sites by provider and name.
fn grouped(notes: &Notes) -> BTreeMap<(&str, &str), Vec<&Probe>> {
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for probe in &notes.probes {
        groups
            .entry((probe.provider.as_str(), probe.name.as_str()))
            .or_default()
            .push(probe);
    }
    groups
}

fn row<'a>(source: &'a Source, places: &'a [&'a Probe]) -> Option<Row<'a>> {
    let first = places.first()?;
    Some(Row {
        file: &source.path,
        pid: source.pid,
        provider: &first.provider,
        name: &first.name,
        sites: places.len(),
        semaphores: places.iter().filter(|p| p.semaphore.is_some()).count(),
        args: &first.args,
        bpftrace: bpftrace(source, first),
        dtrace: dtrace(source, first),
        places,
    })
}

/// A name that may stand unquoted in both languages. Others come from hostile or odd files: no line
/// is made of them.
fn plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The histogram of arg0, or the count of a probe without arguments.
fn bpftrace(source: &Source, probe: &Probe) -> Option<String> {
    // A path with one of these cannot be written in a bpftrace probe inside single quotes.
    // The replacement character stands for bytes that the path really has.
    let odd =
        |c: char| c.is_whitespace() || c == '\u{fffd}' || c.is_control() || ":'\"{}*,".contains(c);
    if !plain(&probe.provider) || !plain(&probe.name) || source.path.contains(odd) {
        return None;
    }
    let action = if probe.args.is_empty() {
        "@ = count();"
    } else {
        "@ = hist(arg0);"
    };
    let of = source
        .pid
        .map(|pid| format!("-p {pid} "))
        .unwrap_or_default();
    let Probe { provider, name, .. } = probe;
    Some(format!(
        "bpftrace {of}-e 'usdt:{}:{provider}:{name} {{ {action} }}'",
        source.path
    ))
}

/// The same for DTrace on Linux, which wants the pid in the provider's name and writes `__` as `-`.
fn dtrace(source: &Source, probe: &Probe) -> Option<String> {
    if !plain(&probe.provider) || !plain(&probe.name) {
        return None;
    }
    let action = if probe.args.is_empty() {
        "@ = count();"
    } else {
        "@ = quantize(arg0);"
    };
    let pid = source.pid.map_or("PID".to_owned(), |pid| pid.to_string());
    let name = probe.name.replace("__", "-");
    Some(format!(
        "dtrace -p {pid} -n '{}$target:::{name} {{ {action} }}'",
        probe.provider
    ))
}

fn text(sources: &[Source], remarks: &[String]) -> String {
    let mut out = String::new();
    for source in sources {
        let groups = grouped(&source.notes);
        if groups.is_empty() {
            continue;
        }
        let of = source
            .pid
            .map(|pid| format!(" (pid {pid})"))
            .unwrap_or_default();
        let _ = writeln!(out, "{HEAD}{}{of}{HEAD:#}", visible(&source.path));
        for places in groups.values() {
            let Some(row) = row(source, places) else {
                continue;
            };
            probe_text(&mut out, &row);
        }
    }
    let empty: Vec<String> = sources
        .iter()
        .filter(|s| s.notes.probes.is_empty())
        .map(|s| visible(&s.path).into_owned())
        .collect();
    if !empty.is_empty() {
        let _ = writeln!(out, "{DIM}{}{DIM:#}", without_probes(&empty));
    }
    for remark in remarks {
        let _ = writeln!(out, "{WARN}{}{WARN:#}", visible(remark));
    }
    out
}

/// The files without probes, as far as they fit [`EMPTY_LINES`] lines, and how many more there are.
fn without_probes(files: &[String]) -> String {
    let words = |shown: usize| {
        let more = files.len() - shown;
        let more = (more > 0).then(|| ["and".to_owned(), more.to_string(), "more".to_owned()]);
        let head = "No USDT probes in".split(' ').map(String::from);
        head.chain(files.iter().take(shown).cloned())
            .chain(more.into_iter().flatten())
    };
    let text = |shown| wrap(words(shown), 2, WIDTH);
    let shown = (1..=files.len())
        .rev()
        .find(|n| text(*n).lines().count() <= EMPTY_LINES);
    text(shown.unwrap_or(files.len().min(1)))
}

fn probe_text(out: &mut String, row: &Row<'_>) {
    let (provider, name) = (visible(row.provider), visible(row.name));
    let sites = if row.sites == 1 {
        "1 site".into()
    } else {
        format!("{} sites", row.sites)
    };
    let semaphore = if row.semaphores > 0 {
        ", semaphore"
    } else {
        ""
    };
    let _ = writeln!(out, "  {NAME}{provider}:{name}{NAME:#}  {sites}{semaphore}");
    let args: Vec<String> = row.args.iter().enumerate().map(argument).collect();
    if !args.is_empty() {
        let _ = writeln!(out, "    {DIM}{}{DIM:#}", args.join("  "));
    }
    for line in row.bpftrace.iter().chain(&row.dtrace) {
        let _ = writeln!(out, "    {line}");
    }
    if row.dtrace.is_none() {
        let _ = writeln!(
            out,
            "    {WARN}no ready line: the name is no plain word{WARN:#}"
        );
    }
}

/// `arg0 u64 %rax`.
fn argument((i, operand): (usize, &Operand)) -> String {
    let kind = match (operand.float, operand.signed) {
        (true, _) => 'f',
        (_, true) => 'i',
        _ => 'u',
    };
    let bits = operand
        .size
        .map_or("?".to_owned(), |bytes| (u32::from(bytes) * 8).to_string());
    format!("arg{i} {kind}{bits} {}", visible(&operand.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_libraries_is_cut() {
        let files: Vec<String> = (0..200).map(|n| format!("/usr/lib/lib{n}.so")).collect();
        let text = without_probes(&files);
        assert!(text.lines().count() <= EMPTY_LINES, "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
        let shown = text.matches(".so").count();
        assert!(
            shown > 5 && text.ends_with(&format!("and {} more", 200 - shown)),
            "{text}"
        );
        assert_eq!(
            without_probes(&files[..2]),
            "No USDT probes in /usr/lib/lib0.so /usr/lib/lib1.so"
        );
        let long = "/x".repeat(300);
        assert!(without_probes(&[long.clone(), long.clone()]).contains(&long));
    }
}
