//! The ways into a run: `attach`, `echo`, `top`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::Output;
use super::session::attach;
use crate::cli::{AttachArgs, EchoArgs, TopArgs};

/// What a live view does besides.
#[derive(Debug, Clone)]
pub(super) struct Besides {
    /// Families of system calls that are followed.
    pub(super) families: Vec<String>,
    /// Where a recording goes that the person begins.
    pub(super) record_to: Option<PathBuf>,
}

impl Default for Besides {
    fn default() -> Besides {
        Besides {
            families: vec!["fs".into()],
            record_to: None,
        }
    }
}

/// Runs `attach`.
///
/// # Errors
/// Unknown target, missing privileges, a kernel that refuses, output that cannot be written.
pub fn run(args: &AttachArgs) -> Result<ExitCode> {
    in_runtime(args, Output::of(args), Besides::default())
}

/// Runs `echo`: the same, but each echo is shown instead of a report.
///
/// # Errors
/// Those of [`run`].
pub fn run_echo(args: &EchoArgs) -> Result<ExitCode> {
    in_runtime(&args.attach(), Output::of_echo(args), Besides::default())
}

/// Runs `top`: the same on the whole terminal, and no report.
///
/// # Errors
/// Those of [`run`], and no terminal.
pub fn run_top(args: &TopArgs) -> Result<ExitCode> {
    let besides = Besides {
        families: args.families.clone(),
        record_to: args.output.clone(),
    };
    let args = args.attach();
    let output = Output {
        quiet: true,
        ..Output::of(&args)
    };
    in_runtime(&args, output, besides)
}

fn in_runtime(args: &AttachArgs, output: Output, besides: Besides) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime")?;
    runtime.block_on(attach(args, output, besides))
}
