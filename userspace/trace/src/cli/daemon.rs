//! `daemon` and `ctl`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

use super::duration;
use crate::recording::trigger::Condition;

/// Arguments of `daemon`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  sudo systemctl start phux-trace             contrib/systemd/phux-trace.service
  sudo phux-trace daemon --dir /srv/rec --max-size 2G --max-age 7d
  sudo phux-trace ctl start tmux --ring 60s --on 'echo.p99>10ms'
  curl http://127.0.0.1:9871/metrics

It records nothing by itself: captures are started and stopped with phux-trace ctl. Each
is a recording in a folder of its own, for phux-trace report, echo, query, diff and export.
SIGTERM ends all of them as they should end.")]
pub struct DaemonArgs {
    /// Folder of the recordings [default: $STATE_DIRECTORY, else /var/lib/phux-trace]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Socket for phux-trace ctl, in a folder that only we may enter
    /// [default: $RUNTIME_DIRECTORY/ctl.sock, else /run/phux-trace/ctl.sock]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Port on 127.0.0.1 for Prometheus; 0: one that is free
    #[arg(long, value_name = "N", default_value_t = 9871)]
    pub port: u16,
    /// No port for Prometheus
    #[arg(long, conflicts_with = "port")]
    pub no_metrics: bool,
    /// Remove the oldest recordings when all take more (500M, 4G, a plain number is bytes)
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4G")]
    pub max_size: u64,
    /// Remove recordings that ended longer ago
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30d")]
    pub max_age: Duration,
}

/// Arguments of `ctl`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  sudo phux-trace ctl start tmux -d 10min
  sudo phux-trace ctl start tmux --name lag --ring 60s --on 'echo.p99>10ms'
  sudo phux-trace ctl trigger lag             write out what the ring holds, now
  sudo phux-trace ctl status
  sudo phux-trace ctl stop lag

Root and the daemon's own user may.")]
pub struct CtlArgs {
    /// Socket of the daemon [default: /run/phux-trace/ctl.sock]
    #[arg(long, value_name = "PATH", global = true)]
    pub socket: Option<PathBuf>,
    /// Print what the daemon answers, as a JSON line
    #[arg(long, global = true)]
    pub json: bool,
    /// What it is to do.
    #[command(subcommand)]
    pub command: CtlCommand,
}

/// The commands of `ctl`; and what goes over the socket, a JSON line each.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum CtlCommand {
    /// Start a capture
    Start(Box<StartArgs>),
    /// End a capture; its recording is complete when this returns
    Stop(WhichArgs),
    /// Write out what the ring of a capture holds
    Trigger(WhichArgs),
    /// Captures and recordings
    Status,
}

/// Which capture.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WhichArgs {
    /// Its name; not needed where only one runs
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// What to capture; as with `record`. Times are kept as they were typed.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StartArgs {
    /// Pid or name of what to record
    #[arg(value_name = "TARGET", conflicts_with = "pid")]
    pub target: Option<String>,
    /// Record this process
    #[arg(short, long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Only what is in this cgroup; without TARGET all processes in it
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Name of the capture and of its folder [default: the target's and the time]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Stop after this time
    #[arg(short, long, value_name = "TIME", value_parser = typed_duration)]
    pub duration: Option<String>,
    /// Families of system calls, or all
    #[arg(long, value_name = "FAMILIES", value_delimiter = ',')]
    pub families: Vec<String>,
    /// Only these system calls
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        conflicts_with = "families"
    )]
    pub syscall: Vec<String>,
    /// Families to sum up in the kernel, or all
    #[arg(long, value_name = "FAMILIES", value_delimiter = ',')]
    pub aggregate: Vec<String>,
    /// Only threads of this name
    #[arg(long, value_name = "NAME")]
    pub comm: Option<String>,
    /// Only these threads
    #[arg(long, value_name = "TID", value_delimiter = ',')]
    pub tid: Vec<u32>,
    /// Keep only the last moments, in memory
    #[arg(long, value_name = "TIME", value_parser = typed_duration)]
    pub ring: Option<String>,
    /// When to write them out, besides phux-trace ctl trigger: echo.p99>10ms
    #[arg(long, value_name = "CONDITION", value_parser = typed_condition, requires = "ring")]
    pub on: Vec<String>,
}

fn typed_duration(text: &str) -> Result<String, String> {
    duration(text).map(|_| text.to_owned())
}

fn typed_condition(text: &str) -> Result<String, String> {
    text.parse::<Condition>().map(|_| text.to_owned())
}

/// Bytes: a plain number, or one with K, M, G or T (powers of 1024; `GiB` is understood too).
fn size(text: &str) -> Result<u64, String> {
    const FORM: &str = "is no size: 500M, 4G";
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().map_err(|_| FORM)?;
    let shift = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(FORM.into()),
    };
    match number.checked_mul(1 << shift) {
        Some(0) | None => Err(FORM.into()),
        Some(bytes) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("500"), Ok(500));
        assert_eq!(size("4G"), Ok(4 << 30));
        assert_eq!(size("16 MiB"), Ok(16 << 20));
        for bad in ["", "0", "G", "-1", "4X", "99999999999T", "1.5G"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_command_goes_over_the_socket_and_back() {
        let line = r#"{"command":"start","target":"tmux","ring":"60s","on":["echo.p99>10ms"]}"#;
        let Ok(CtlCommand::Start(start)) = serde_json::from_str(line) else {
            panic!("{line}")
        };
        assert_eq!(start.target.as_deref(), Some("tmux"));
        let again = serde_json::to_string(&CtlCommand::Start(start)).expect("JSON");
        assert!(again.contains(r#""ring":"60s""#), "{again}");
        assert!(serde_json::from_str::<CtlCommand>(r#"{"command":"status"}"#).is_ok());
        for bad in [
            r#"{"command":"start","targett":"tmux"}"#,
            r#"{"command":"leave"}"#,
            r#"{}"#,
            "",
        ] {
            assert!(serde_json::from_str::<CtlCommand>(bad).is_err(), "{bad}");
        }
    }
}
