//! What ends a run with its report, and what ends it without.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Poll;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_default};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask for the report.
pub(crate) struct Signals(Vec<Signal>);

impl Signals {
    /// From now on the first of them ends the run with its report, and a second one ends the program as
    /// if it had no handler: the kernel takes down what we loaded with the descriptors that it closes.
    /// Whatever was ignored when we started (nohup, a job in a script's background) stays ignored.
    pub(crate) fn new() -> Result<Signals> {
        // Without /proc nothing goes; whoever reads it next says so.
        let ignored = ignored().unwrap_or(0);
        let asked = Arc::new(AtomicBool::new(false));
        let mut streams = Vec::new();
        for number in [SIGINT, SIGTERM, SIGHUP] {
            if ignored & (1 << (number - 1)) != 0 {
                continue;
            }
            // In this order: the first one finds the flag down, and then raises it.
            register_conditional_default(number, Arc::clone(&asked))
                .and_then(|_| register(number, Arc::clone(&asked)))
                .and_then(|_| signal(SignalKind::from_raw(number)))
                .map(|stream| streams.push(stream))
                .context("a signal handler")?;
        }
        Ok(Signals(streams))
    }

    /// Waits for one; for ever where all are ignored.
    pub(crate) async fn any(&mut self) {
        std::future::poll_fn(|cx| {
            // All are asked, so that each can wake us.
            let mut came = Poll::Pending;
            for signal in &mut self.0 {
                if signal.poll_recv(cx).is_ready() {
                    came = Poll::Ready(());
                }
            }
            came
        })
        .await;
    }
}

/// Signals that this process was started to ignore, signal n as bit n - 1.
fn ignored() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no SigIgn"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rust_itself_ignores_is_seen() {
        // SIGPIPE (13): the runtime ignores it before main().
        assert_ne!(ignored().expect("status") & (1 << 12), 0);
    }
}
