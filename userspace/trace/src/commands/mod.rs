//! The commands, one a file.

use std::process::ExitCode;

use crate::cli::{Cli, Command};

pub mod attach;
pub mod completions;
pub mod diff;
pub mod doctor;
pub mod echo;
pub mod export;
pub mod list;
pub mod man;
pub mod probes;
pub mod query;
pub mod report;
pub mod schema;
mod style;
pub mod top;

/// Runs the command that was typed.
///
/// # Errors
/// Whatever made it fail; a broken pipe of the output is among it.
pub fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Attach(args) => attach::run(&args),
        Command::Echo(args) => echo::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Record(args) => crate::record::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Query(args) => query::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Daemon(args) => crate::daemon::run(&args),
        Command::Ctl(args) => crate::daemon::ctl(&args),
        Command::List(args) => list::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Probes(args) => probes::run(&args),
        Command::Schema(args) => schema::run(args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Shim(args) => Ok(crate::attach::wrapped::shim(args.fd, &args.command)),
    }
}
