//! `phux-trace ctl`: says one thing to the daemon, and shows what it answers.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

use super::answer::{Answer, CaptureRow, RecordingRow};
use super::place;
use crate::cli::CtlArgs;
use crate::escape::visible;
use crate::report::units::{bytes, count, duration};

/// Runs `ctl`.
///
/// # Errors
/// No daemon, or it did not do it.
pub fn run(args: &CtlArgs) -> Result<ExitCode> {
    let path = place::socket(args.socket.as_deref());
    let mut stream = UnixStream::connect(&path).with_context(|| {
        format!(
            "no daemon at {} that may be reached (sudo systemctl start phux-trace, or phux-trace daemon)",
            path.display()
        )
    })?;
    let mut line = serde_json::to_vec(&args.command).context("the command")?;
    line.push(b'\n');
    stream.write_all(&line).context("asking the daemon")?;
    let mut said = String::new();
    BufReader::new(stream)
        .read_line(&mut said)
        .context("the daemon's answer")?;
    if said.is_empty() {
        bail!("the daemon ended without an answer");
    }
    let answer = serde_json::from_str(&said).context("the daemon's answer")?;
    let mut out = io::stdout().lock();
    match answer {
        Answer::Error { message } if !args.json => bail!("{message}"),
        Answer::Error { .. } => {
            out.write_all(said.as_bytes())
                .context("writing the answer")?;
            return Ok(ExitCode::FAILURE);
        }
        _ if args.json => out.write_all(said.as_bytes()),
        Answer::Capture(row) => out.write_all(one(&row).as_bytes()),
        Answer::Status {
            captures,
            recordings,
            max_bytes,
            metrics,
        } => {
            let mut text = status(&captures, &recordings, max_bytes);
            if let Some(url) = metrics {
                text += &format!("metrics at {}\n", visible(&url));
            }
            out.write_all(text.as_bytes())
        }
    }
    .and_then(|()| out.flush())
    .context("writing the answer")?;
    Ok(ExitCode::SUCCESS)
}

fn one(row: &CaptureRow) -> String {
    let mut text = format!(
        "{}  {}  {}, {} rows",
        visible(&row.name),
        row.state.word(),
        visible(&row.target),
        count(row.rows)
    );
    if row.lost != 0 {
        text += &format!(", {} lost", count(row.lost));
    }
    if row.ring_bytes != 0 {
        text += &format!(", {} in the ring", bytes(row.ring_bytes));
    }
    if row.dumps != 0 {
        text += &format!(", written out {} times", row.dumps);
    }
    if let Some(error) = &row.error {
        text += &format!(": {}", visible(error));
    }
    text += &format!("\n  in {}\n", visible(&row.dir));
    text
}

fn status(captures: &[CaptureRow], recordings: &[RecordingRow], max_bytes: u64) -> String {
    let mut text = String::new();
    if captures.is_empty() {
        text.push_str("no captures\n");
    }
    captures.iter().for_each(|row| text.push_str(&one(row)));
    let all: u64 = recordings.iter().map(|r| r.bytes).sum();
    text += &format!(
        "{} recordings, {} of {}\n",
        recordings.len(),
        bytes(all),
        bytes(max_bytes)
    );
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now_ms = now.map_or(0, |t| i64::try_from(t.as_millis()).unwrap_or(0));
    for row in recordings {
        let age = u64::try_from(now_ms.saturating_sub(row.written_unix_ms)).unwrap_or(0);
        let when = match row.living {
            true => "being recorded".to_owned(),
            false => format!("{} ago", duration(age.saturating_mul(1_000_000))),
        };
        text += &format!("  {}  {}, {when}\n", visible(&row.name), bytes(row.bytes));
    }
    text
}
