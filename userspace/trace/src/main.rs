//! The phux-trace command.

use std::io;
use std::process::ExitCode;

use phux_trace::{cli, commands, say};

/// What a shell reports for a program that SIGPIPE (13) ended.
const BROKEN_PIPE: u8 = 128 + 13;

fn main() -> ExitCode {
    match commands::run(cli::parse()) {
        Ok(code) => code,
        // `phux-trace list | head`: who reads has had enough. No message, no panic.
        Err(error) if is_broken_pipe(&error) => ExitCode::from(BROKEN_PIPE),
        Err(error) => {
            say::complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let json = cause
            .downcast_ref::<serde_json::Error>()
            .and_then(|e| e.io_error_kind());
        io.or(json) == Some(io::ErrorKind::BrokenPipe)
    })
}
