//! The phux-trace command.

use std::io;
use std::process::ExitCode;

use clap::Parser;
use phux_trace::{cli::Cli, commands};

/// What a shell reports for a program that SIGPIPE (13) ended.
const BROKEN_PIPE: u8 = 128 + 13;

fn main() -> ExitCode {
    match commands::run(Cli::parse()) {
        Ok(code) => code,
        // `phux-trace list | head`: who reads has had enough. No message, no panic.
        Err(error) if is_broken_pipe(&error) => ExitCode::from(BROKEN_PIPE),
        Err(error) => {
            use io::Write as _;
            // A closed stderr must not turn an error into a panic.
            let _ = writeln!(io::stderr(), "phux-trace: {error:#}");
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
