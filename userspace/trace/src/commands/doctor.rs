//! `phux-trace doctor`: what this kernel, these privileges and this target allow.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use super::style::{BAD, DIM, HEAD, NAME, WARN, wrap};
use crate::cli::DoctorArgs;
use crate::doctor::{Check, Status, blocking, checks};
use crate::escape::visible;

/// Columns.
const WIDTH: usize = 80;
/// Where the text of a check begins.
const INDENT: usize = 10;

/// Checks, and prints what was found. The exit status is 1 when `attach` could not trace.
///
/// # Errors
/// `/proc` cannot be read, or the output not written.
pub fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let checks = checks(args.target.as_deref())?;
    if args.json {
        let mut out = io::BufWriter::new(io::stdout().lock());
        for check in &checks {
            serde_json::to_writer(&mut out, check)?;
            writeln!(out)?;
        }
        out.flush()?;
    } else {
        anstream::stdout()
            .lock()
            .write_all(text(&checks).as_bytes())?;
    }
    Ok(if blocking(&checks).is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn text(checks: &[Check]) -> String {
    let mut out = String::new();
    for check in checks {
        let (style, word) = match check.status {
            Status::Ok => (NAME, "ok"),
            Status::Degraded => (WARN, "degraded"),
            Status::Missing => (BAD, "missing"),
        };
        let said = format!("{}: {}", check.check, check.detail);
        let _ = writeln!(out, "{style}{word:<INDENT$}{style:#}{}", paragraph(&said));
        for (label, said) in [("lost", &check.lost), ("fix", &check.fix)] {
            if let Some(said) = said {
                let said = paragraph(&format!("{label}: {said}"));
                let _ = writeln!(out, "{:INDENT$}{DIM}{said}{DIM:#}", "");
            }
        }
    }
    let blocking = blocking(checks);
    let verdict = if blocking.is_empty() {
        match checks.iter().filter(|c| c.status != Status::Ok).count() {
            0 => "attach can run here, with everything.".to_owned(),
            1 => "attach can run here; 1 thing is less than it could be.".to_owned(),
            n => format!("attach can run here; {n} things are less than they could be."),
        }
    } else {
        let names: Vec<&str> = blocking.iter().map(|c| c.check.as_str()).collect();
        // Of a target that is not there nothing can be told at all.
        let rest = if names.contains(&"target") {
            ""
        } else {
            " Of your own processes it reports what /proc and they themselves tell."
        };
        format!(
            "attach cannot trace here. Missing: {}.{rest}",
            names.join(", ")
        )
    };
    let verdict = wrap(words(&verdict), 0, WIDTH);
    let _ = writeln!(out, "\n{HEAD}{verdict}{HEAD:#}");
    out
}

/// Text at [`INDENT`]; its own lines stay lines.
fn paragraph(text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .map(|line| wrap(words(line), INDENT, WIDTH))
        .collect();
    lines.join(&format!("\n{:INDENT$}", ""))
}

fn words(line: &str) -> Vec<String> {
    line.split_ascii_whitespace()
        .map(|word| visible(word).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: Status, required: bool) -> Check {
        let failed = (status != Status::Ok).then(|| "the kworker's hop and much more ".repeat(4));
        Check {
            check: "flush_to_ldisc symbol".into(),
            status,
            detail: "a \u{1b}[2J name\n  and a line of its own".into(),
            lost: failed.clone(),
            fix: failed,
            required,
        }
    }

    fn plain(checks: &[Check]) -> String {
        anstream::adapter::strip_str(&text(checks)).to_string()
    }

    #[test]
    fn lines_fit_and_names_are_harmless() {
        let all = [Status::Ok, Status::Degraded, Status::Missing].map(|s| check(s, false));
        let text = plain(&all);
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
        assert!(!text.contains('\u{1b}') && text.contains("\\x1b[2J name\n          and a line"));
        assert_eq!(text.matches("lost: the kworker's hop").count(), 2, "{text}");
        assert_eq!(text.matches("fix: the kworker's hop").count(), 2, "{text}");
        assert!(text.ends_with("attach can run here; 2 things are less than they could be.\n"));
    }

    #[test]
    fn the_verdict_names_what_blocks() {
        let fine = plain(&[check(Status::Ok, true)]);
        assert!(
            fine.ends_with("attach can run here, with everything.\n"),
            "{fine}"
        );
        let blocked = plain(&[check(Status::Missing, true), check(Status::Missing, false)]);
        assert!(
            blocked
                .contains("attach cannot trace here. Missing: flush_to_ldisc symbol. Of your own")
                && blocked.ends_with("tell.\n"),
            "{blocked}"
        );
    }
}
