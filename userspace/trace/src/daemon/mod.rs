//! The long-running phux-trace: captures that others start and stop, and figures for Prometheus.
//!
//! [`socket`] takes commands from root and from our own user, a JSON line each; [`captures`] is all
//! captures, [`capture`] one of them, a recording on a thread of its own, driven as `record` drives
//! its; [`retention`] keeps the folder of recordings within its bounds; [`metrics`] is what Prometheus
//! asks for. [`client`] is `phux-trace ctl`, [`answer`] what goes back to it.

mod answer;
mod capture;
mod captures;
mod client;
mod metrics;
mod place;
mod retention;
mod socket;
mod systemd;

use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval};

use crate::attach::limits;
use crate::attach::signals::Signals;
use crate::cli::DaemonArgs;
use crate::privileges::{self, Need};
use crate::probes::system::System;
use crate::say;

use captures::Captures;
use retention::Limits;

pub use client::run as ctl;

/// How often it is looked whether the recordings have grown too large or too old.
const TIDY: Duration = Duration::from_secs(2);

/// Runs `daemon`.
///
/// # Errors
/// A folder, socket or port that cannot be had, or is another daemon's.
pub fn run(args: &DaemonArgs) -> Result<ExitCode> {
    // Sockets and folders are ours alone from the moment when they are there.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    limits::raise_open_files()?;
    privileges::keep(Need {
        kernel: System::look().version,
        load: true,
        ..Need::default()
    })
    .context("giving up privileges")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime")?;
    LocalSet::new().block_on(&runtime, serve(args))
}

async fn serve(args: &DaemonArgs) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    let dir = place::recordings(args.dir.as_deref());
    let _only_one = place::claim(&dir)?;
    retention::pick_up(&dir)?;
    let limits = Limits {
        max_bytes: args.max_size,
        max_age: args.max_age,
    };
    let control = socket::listen(&place::socket(args.socket.as_deref()))?;
    let metrics = match args.no_metrics {
        true => None,
        false => Some(metrics::listen(args.port).await?),
    };
    let address = metrics.as_ref().map(|(_, address)| *address);
    let captures = Rc::new(Captures::new(dir, limits, address));
    if let Some((listener, address)) = metrics {
        say::complain(&format!("metrics at http://{address}/metrics"));
        spawn_local(metrics::serve(listener, captures.clone()));
    }
    say::complain(&format!("ready: {}", control.path().display()));
    systemd::notify("READY=1");

    let mut tidy = interval(TIDY);
    tidy.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = signals.any() => break,
            _ = tidy.tick() => captures.tidy(),
            () = control.serve_next(&captures) => {}
        }
    }
    systemd::notify("STOPPING=1");
    captures.stop_all().await;
    Ok(ExitCode::SUCCESS)
}
