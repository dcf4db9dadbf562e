//! The command line: every command, its options and their help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand};

mod daemon;
mod record;
mod recording;

pub use daemon::{CtlArgs, CtlCommand, DaemonArgs, StartArgs, WhichArgs};
pub use record::RecordArgs;
pub use recording::{DiffArgs, ExportArgs, Format, QueryArgs, ReportArgs};

/// Exit codes, as `--help` and the man page tell them.
pub const EXIT_CODES: &str = "\
Exit codes:
  0        done
  1        it failed; of doctor: attach could not trace here; of diff: a regression
  2        wrong usage
  124      of attach -- CMD: the duration (-d) ended CMD
  128+n    of attach -- CMD: signal n ended CMD; 141: who read the output closed it
  126, 127 of attach -- CMD: CMD could not be executed, was not found
  other    of attach -- CMD: CMD's own exit status";

/// Examples of the whole program, for `--help` and the man page.
pub const EXAMPLES: &str = "\
Examples:
  sudo phux-trace attach                  the multiplexer that runs, until Ctrl-C
  sudo phux-trace attach tmux -d 10s      ten seconds of tmux, server and clients
  sudo phux-trace attach -p 4242 --json   one process, as JSON lines
  sudo phux-trace echo                    each echo as it happens, and its longest step
  sudo phux-trace record tmux -o DIR      record it all, to be asked later
  sudo phux-trace top                     all of it while it happens, on the whole terminal
  phux-trace list                         who holds which PTY
  sudo phux-trace doctor                  what works here, and what would bring the rest";

/// The profiler for terminals that lag: which hop, which thread, and who had the CPU instead.
#[derive(Debug, Parser)]
#[command(name = "phux-trace", version, about, max_term_width = 100)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
#[command(arg_required_else_help = true, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Profile a live process, and say where its time goes
    Attach(AttachArgs),
    /// Show each echo as it happens: how long it took, and which step took longest
    Echo(EchoArgs),
    /// Watch a live process: verdict, echoes, waits, PTYs and a flame graph, on the whole terminal
    Top(TopArgs),
    /// Record the system calls of a live process: how many, how long, on which files
    Record(RecordArgs),
    /// Say what a recording says: its echoes and their verdict, as attach did
    Report(ReportArgs),
    /// Ask a recording by SQL
    Query(QueryArgs),
    /// Compare two recordings: what has become slower
    Diff(DiffArgs),
    /// Write a recording for other tools: Perfetto, speedscope, flame graphs, CSV
    Export(ExportArgs),
    /// Run for good: captures that ctl starts and stops, figures for Prometheus
    Daemon(DaemonArgs),
    /// Start, stop and look at the captures of the daemon
    Ctl(CtlArgs),
    /// List the processes that hold PTYs
    List(ListArgs),
    /// Say what this kernel, these privileges and this target allow
    Doctor(DoctorArgs),
    /// Show the USDT probes of a program, with ready bpftrace and dtrace lines
    Probes(ProbesArgs),
    /// Print the JSON schema of the output of attach --json
    Schema(SchemaArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
    /// Print the man page
    Man(ManArgs),
    /// Waits for a word on a descriptor, then becomes a command: how attach -- CMD starts it
    #[command(name = crate::attach::wrapped::SHIM, hide = true)]
    Shim(ShimArgs),
}

/// Arguments of the hidden shim.
#[derive(Debug, Clone, Args)]
pub struct ShimArgs {
    /// Descriptor to wait on
    pub fd: i32,
    /// What to become
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// Arguments of `attach`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  sudo phux-trace attach                       phux, or the only multiplexer that runs
  sudo phux-trace attach tmux -d 10s           server and clients of tmux
  sudo phux-trace attach -p 4242 --interval 1s
  sudo phux-trace attach -d 30s -- make check  start a command and trace it")]
#[command(after_long_help = format!("\
TARGET is a pid, or a name: the comm or the executable of a process. A multiplexer's
name means all its processes of one user, server and clients. Without TARGET it is the
invoking user's phux, else the only multiplexer that runs.

The target is never stopped, signalled or written to. Ctrl-C ends the run with its
report.

Examples:
  sudo phux-trace attach                       phux, or the only multiplexer that runs
  sudo phux-trace attach tmux -d 10s           server and clients of tmux
  sudo phux-trace attach -p 4242 --interval 1s
  sudo phux-trace attach -d 30s -- make check  start a command and trace it

{EXIT_CODES}"))]
pub struct AttachArgs {
    /// Pid or name of what to trace
    #[arg(value_name = "TARGET", conflicts_with_all = ["pid", "command"])]
    pub target: Option<OsString>,
    /// Trace this process
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<u32>,
    /// Stop after this time (10s, 2min, 500ms; a plain number is seconds, 0.3 as well)
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Print JSON, one report a line (see phux-trace schema)
    #[arg(long)]
    pub json: bool,
    /// Report each time this has passed, besides at the end (at least 100ms)
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub interval: Option<Duration>,
    /// Print each PTY read and write, flush and hop as it happens, as JSON lines (implies --json)
    #[arg(long)]
    pub events: bool,
    /// List single echoes that took at least this long, with their time of day
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "no_echoes")]
    pub slow: Option<Duration>,
    /// Do not follow echoes from process to process: less work for the kernel at each switch of a traced thread
    #[arg(long)]
    pub no_echoes: bool,
    /// Group the waits of echoes by scheduling class
    #[arg(long, value_name = "WHAT", value_enum)]
    pub by: Option<By>,
    /// CPUs that share one ring buffer, rounded up to a power of two
    #[arg(long, value_name = "N", hide = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub cpus_per_ring: Option<u32>,
    /// Show it on the whole terminal while it runs, as top does; the report comes at the end
    #[arg(long, conflicts_with_all = ["json", "events", "command"])]
    pub tui: bool,
    /// Start this command and trace it
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// What the figures of echoes can be grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// Policy, nice, slice, cgroup of who waits
    Class,
}

/// Arguments of `echo`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  sudo phux-trace echo                  each key that is typed in the multiplexer
  sudo phux-trace echo tmux --slow 10ms
  sudo phux-trace echo --json | jq -c 'select(.type == \"chain\") | {length_ns, end}'
  phux-trace echo ./recording           those that were recorded

TARGET is as with attach. An echo is shown when it has ended; one that never comes is
given up after a second. Sizes and times only: what was typed is not looked at. Ctrl-C
ends it and tells how many there were.")]
pub struct EchoArgs {
    /// Pid or name of what to trace, or the directory of a recording (with a slash in it)
    #[arg(value_name = "TARGET|DIR", conflicts_with = "pid")]
    pub target: Option<OsString>,
    /// Trace this process
    #[arg(short, long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Stop after this time (10s, 2min, 500ms; a plain number is seconds)
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Print JSON: the whole chain, link by link, a line (see phux-trace schema)
    #[arg(long)]
    pub json: bool,
    /// Only echoes that took at least this long, and those that never came
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub slow: Option<Duration>,
}

impl EchoArgs {
    /// The run behind it.
    pub fn attach(&self) -> AttachArgs {
        AttachArgs {
            target: self.target.clone(),
            pid: self.pid,
            duration: self.duration,
            json: self.json,
            interval: None,
            events: false,
            slow: None,
            by: None,
            no_echoes: false,
            cpus_per_ring: None,
            tui: false,
            command: Vec::new(),
        }
    }
}

/// Arguments of `top`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  sudo phux-trace top                   the multiplexer that runs
  sudo phux-trace top tmux
  sudo phux-trace top -p 4242 --interval 500ms
  sudo phux-trace top -d 1min           leave after a minute

TARGET is as with attach. Keys: tab and digits open a tab, ? shows all keys, q leaves.
The mouse opens tabs and moves through rows; shift with it selects text in most
terminals. attach --tui shows the same and prints its report when it ends.")]
pub struct TopArgs {
    /// Pid or name of what to watch
    #[arg(value_name = "TARGET", conflicts_with = "pid")]
    pub target: Option<OsString>,
    /// Watch this process
    #[arg(short, long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Stop after this time (10s, 2min, 500ms; a plain number is seconds)
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// How often the figures are made anew (at least 100ms)
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "1s")]
    pub interval: Duration,
    /// Families of system calls to follow, or all (see record)
    #[arg(
        long,
        value_name = "FAMILIES",
        value_delimiter = ',',
        default_value = "fs"
    )]
    pub families: Vec<String>,
    /// Where R records to [default: phux-trace-SECONDS in the current directory]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

impl TopArgs {
    /// The run behind it.
    pub fn attach(&self) -> AttachArgs {
        AttachArgs {
            interval: Some(self.interval),
            tui: true,
            ..EchoArgs {
                target: self.target.clone(),
                pid: self.pid,
                duration: self.duration,
                json: false,
                slow: None,
            }
            .attach()
        }
    }
}

/// Arguments of `list`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  phux-trace list
  sudo phux-trace list --json | jq -r 'select(.master_of > 0) | .pid'

Without root only your own processes can be looked into; a last line says how many
were left out. A terminal that is only a process's controlling terminal, or is held
through /dev/tty, is not counted.")]
pub struct ListArgs {
    /// Print JSON, one process a line
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `doctor`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Exit status 1 when attach could not trace.

Examples:
  sudo phux-trace doctor
  sudo phux-trace doctor tmux --json")]
pub struct DoctorArgs {
    /// Pid or name of a target to look at besides
    #[arg(value_name = "TARGET")]
    pub target: Option<OsString>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `probes`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  phux-trace probes /usr/local/bin/phux   the probes of a file
  phux-trace probes phux                  of a running process, its libraries included
  phux-trace probes 4242 --json

Anything with a slash in it is a file; a pid or a name is a process; a name that no
process has is tried as a file.")]
pub struct ProbesArgs {
    /// Pid, name or file; as with attach when absent
    #[arg(value_name = "TARGET|FILE")]
    pub target: Option<OsString>,
    /// Print JSON, one probe a line
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `schema`.
#[derive(Debug, Clone, Args)]
pub struct SchemaArgs {}

/// Arguments of `completions`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  phux-trace completions bash > ~/.local/share/bash-completion/completions/phux-trace
  phux-trace completions fish > ~/.config/fish/completions/phux-trace.fish")]
pub struct CompletionsArgs {
    /// Shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  phux-trace man | man -l -
  phux-trace man --dir /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Write a page for each command into this directory instead
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// The command line of this process. Wrong usage ends it with status 2, `--help` with 0.
#[must_use]
pub fn parse() -> Cli {
    match parse_from(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    }
}

fn parse_from(args: Vec<OsString>) -> Result<Cli, clap::Error> {
    // clap does not tell `attach --` from `attach`; who wrote a script that expands to it meant a
    // command, and would get a trace of something else.
    let nothing_to_start = args.last().is_some_and(|a| a == "--");
    let cli = Cli::try_parse_from(args)?;
    match &cli.command {
        Command::Attach(attach) if nothing_to_start && attach.command.is_empty() => {
            let mut command = Cli::command();
            command.build();
            let why = "a command is missing after --";
            let kind = clap::error::ErrorKind::MissingRequiredArgument;
            Err(match command.find_subcommand_mut("attach") {
                Some(attach) => attach.error(kind, why),
                None => command.error(kind, why),
            })
        }
        _ => Ok(cli),
    }
}

/// A length of time: `10s`, `1m 30s`, `500ms`; a plain number is seconds, fractions included, as
/// sleep(1) and timeout(1) have it.
///
/// # Errors
/// Not understood, or zero.
pub fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    // f64 would also take "inf", "1e3" and "-0".
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let parsed = match text.parse::<f64>() {
        Ok(seconds) if plain => Duration::try_from_secs_f64(seconds).map_err(|e| e.to_string())?,
        _ => humantime::parse_duration(text).map_err(|e| e.to_string())?,
    };
    if parsed.is_zero() {
        return Err("must be longer than nothing".into());
    }
    Ok(parsed)
}

fn interval(text: &str) -> Result<Duration, String> {
    let parsed = duration(text)?;
    if parsed < Duration::from_millis(100) {
        return Err("at least 100ms: shorter ones would measure themselves".into());
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("0.3"), Ok(Duration::from_millis(300)));
        assert_eq!(duration(".5"), Ok(Duration::from_millis(500)));
        for bad in [
            "",
            "0",
            "0s",
            "-1s",
            "soon",
            "99999999999999999999",
            "0.0",
            ".",
            "1.2.3",
            "inf",
            "1e3",
        ] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert!(interval("99ms").is_err());
        assert!(interval("100ms").is_ok());
    }

    #[test]
    fn a_command_that_is_missing_is_wrong_usage() {
        let parse = |args: &[&str]| parse_from(args.iter().map(OsString::from).collect());
        for args in [
            &["phux-trace", "attach", "--"][..],
            &["phux-trace", "attach", "-d", "1", "--"],
            &["phux-trace", "attach", "tmux", "--"],
        ] {
            let error = parse(args).expect_err("nothing to start");
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains("after --"), "{error}");
        }
        let cli = parse(&["phux-trace", "attach", "--", "--"]).expect("a command named --");
        assert!(matches!(cli.command, Command::Attach(a) if a.command == ["--"]));
        assert!(parse(&["phux-trace", "attach"]).is_ok());
    }

    #[test]
    fn attach_takes_a_target_or_a_pid_or_a_command() {
        let parse = |args: &[&str]| {
            let words = ["phux-trace", "attach"].iter().chain(args);
            Cli::try_parse_from(words).map(|cli| match cli.command {
                Command::Attach(args) => args,
                other => panic!("{other:?}"),
            })
        };
        let args = parse(&["-d", "2s", "--", "sh", "-c", "exit 3", "--json"]).expect("a command");
        assert_eq!(args.command, ["sh", "-c", "exit 3", "--json"]);
        assert!(!args.json, "what stands behind -- is the command's");
        assert_eq!(
            parse(&["tmux"]).expect("a name").target.as_deref(),
            Some("tmux".as_ref())
        );
        assert_eq!(parse(&["-p", "7"]).expect("a pid").pid, Some(7));
        for bad in [
            &["tmux", "-p", "7"][..],
            &["tmux", "--", "true"],
            &["-p", "7", "--", "true"],
            &["-p", "x"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_help_fits_80_columns_and_names_its_parts() {
        let mut root = Cli::command();
        root.build();
        for command in root.get_subcommands_mut() {
            for line in command
                .clone()
                .term_width(80)
                .render_long_help()
                .to_string()
                .lines()
            {
                assert!(line.chars().count() <= 88, "{}: {line}", command.get_name());
            }
        }
        let help = Cli::command().render_long_help().to_string();
        for wanted in ["124", "128+n", "Examples:", "attach"] {
            assert!(help.contains(wanted), "{wanted}");
        }
    }
}
