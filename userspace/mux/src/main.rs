//! A small terminal multiplexer whose hot path carries always-on telemetry.
//!
//! One process is the server, which owns the sessions and their PTYs; others are clients, which
//! attach to a session over a Unix socket. `server` and `client` follow the hot path hop by hop;
//! `perf` has what each hop measures.

mod cli;
mod client;
mod log_file;
mod perf;
mod perf_command;
mod server;
mod socket_dir;
mod term;

fn main() -> std::process::ExitCode {
    if let Err(error) = phux_perf::register_probes() {
        eprintln!("phux: the probes cannot be registered: {error}");
    }
    match cli::run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("phux: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
