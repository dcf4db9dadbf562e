//! The command line.

use std::path::{Path, PathBuf};
use std::process::{Command as Process, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use phux_wire::socket::Env;
use phux_wire::{
    Command, CommandOutcome, Connection, ConnectionError, ResultValue, Snapshot, Target, Version,
};

use crate::client::{self, End};
use crate::{log_file, perf, perf_command, server};

/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A small terminal multiplexer with always-on telemetry.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// The server's socket [default: $PHUX_SOCKET, or phux.sock in the runtime directory]
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// How the threads of the hot path are scheduled
    #[arg(long, global = true, value_enum, default_value = "interactive")]
    scheduler: Scheduler,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scheduler {
    /// Ask for a shorter wait for the CPU; the gauge proc.sched_interactive says what came of it
    Interactive,
    /// As every other program
    Normal,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start a session, and a server if there is none, and attach to it
    New {
        /// Name of the session [default: the lowest number that is free]
        #[arg(short, long)]
        session: Option<String>,
        /// Do not attach
        #[arg(short, long)]
        detached: bool,
        #[command(flatten)]
        keys: Keys,
        /// Program to run [default: $SHELL]
        #[arg(last = true, value_name = "CMD")]
        command: Vec<String>,
    },
    /// Attach to a session
    Attach {
        /// Its name [default: the session attached to last]
        name: Option<String>,
        #[command(flatten)]
        keys: Keys,
    },
    /// List the sessions
    Ls {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// End a session and what runs in it
    Kill {
        /// Its name
        name: String,
    },
    /// Run a server in the foreground; it logs to standard error
    Server {
        /// Lines kept above each screen
        #[arg(long, default_value_t = server::DEFAULT_HISTORY)]
        scrollback: usize,
        /// End with the last session
        #[arg(long)]
        exit_empty: bool,
        /// Started by a client: log to a file
        #[arg(long, hide = true)]
        background: bool,
        /// Version to speak, for tests
        #[arg(long, hide = true, default_value = "0.9")]
        protocol: String,
        /// Have no GET_PERF, for tests
        #[arg(long, hide = true)]
        old_server: bool,
    },
    /// Show what a server measures about itself; never starts one
    Perf(perf_command::Args),
}

#[derive(Debug, clap::Args)]
struct Keys {
    /// Key that detaches: Ctrl and a letter or one of [ \ ] ^ _
    #[arg(long, default_value = r"C-\", value_name = "KEY", value_parser = control_key)]
    detach_key: u8,
}

/// The byte that a key such as `C-a` or `^a` sends.
fn control_key(text: &str) -> Result<u8, String> {
    let name = text.strip_prefix("C-").or_else(|| text.strip_prefix('^'));
    match name.map(str::as_bytes) {
        Some([c @ (b'a'..=b'z' | b'A'..=b'Z' | b'\\'..=b'_')]) => Ok(c & 0x1f),
        _ => Err(r"expected a key such as C-a or C-\".to_owned()),
    }
}

/// Does what the command line says.
///
/// # Errors
/// What could not be done, for the person to read.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let socket = Env::current().path(cli.socket.as_deref());
    perf::set_promotion(cli.scheduler == Scheduler::Interactive);
    match cli.action {
        Action::New {
            session,
            detached,
            keys,
            command,
        } => {
            let mut connection = connect_or_start(&socket, cli.scheduler)?;
            let snapshot = snapshot(&mut connection)?;
            let taken = |name: &str| snapshot.sessions.iter().any(|s| s.name == name);
            let name = match session {
                Some(name) => {
                    ensure!(!taken(&name), "session {name} exists; see phux attach");
                    name
                }
                None => (0..)
                    .map(|n: u32| n.to_string())
                    .find(|n| !taken(n))
                    .unwrap_or_default(),
            };
            let cwd = std::env::current_dir()
                .ok()
                .and_then(|dir| dir.into_os_string().into_string().ok());
            let argv = (!command.is_empty()).then_some(command);
            let target = Target::Create { name, argv, cwd };
            if detached {
                client::create_detached(connection, target)?;
                return Ok(ExitCode::SUCCESS);
            }
            show(connection, target, keys.detach_key)
        }
        Action::Attach { name, keys } => {
            let connection = connect(&socket)?;
            show(
                connection,
                name.map_or(Target::Last, Target::Name),
                keys.detach_key,
            )
        }
        Action::Ls { json } => {
            list(&snapshot(&mut connect(&socket)?)?, json);
            Ok(ExitCode::SUCCESS)
        }
        Action::Kill { name } => kill(&mut connect(&socket)?, &name),
        Action::Server {
            scrollback,
            exit_empty,
            background,
            protocol,
            old_server,
        } => {
            if background {
                // No signal of the terminal that happened to start it.
                let _ = rustix::process::setsid();
                log_file::to_file("server.log")?;
            } else {
                log_file::to_stderr();
            }
            let version = match protocol.as_str() {
                "0.9" => Version::V0_9,
                "0.8" => Version::V0_8,
                other => bail!("this server speaks 0.8 or 0.9, not {other}"),
            };
            let history = scrollback;
            server::run(server::Config {
                socket,
                version,
                old_server,
                history,
                exit_empty,
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Perf(args) => perf_command::run(&args, &socket),
    }
}

/// Attaches, says how it ended, and hands on the child's exit status.
fn show(connection: Connection, target: Target, detach: u8) -> anyhow::Result<ExitCode> {
    log_file::to_file(&format!("client-{}.log", std::process::id()))?;
    let end = client::attach(connection, client::Options { target, detach })?;
    Ok(match end {
        End::Detached => {
            println!("[detached]");
            ExitCode::SUCCESS
        }
        End::Exited(status) => {
            match status {
                Some(status) => println!("[exited with status {status}]"),
                None => println!("[exited]"),
            }
            status.map_or(ExitCode::SUCCESS, |status| {
                ExitCode::from(status.to_be_bytes()[3])
            })
        }
        End::Shutdown => bail!("the server has ended"),
        End::Lost => bail!("the server is gone"),
        End::Terminated => ExitCode::from(128 + 15),
    })
}

fn connect(socket: &Path) -> anyhow::Result<Connection> {
    let connection = Connection::open(socket, "phux", TIMEOUT)
        .with_context(|| format!("cannot talk to a server on {}", socket.display()))?;
    // The directory's mode should see to it; what is typed is worth a second look.
    let ours = rustix::process::geteuid().as_raw();
    match connection.peer_uid() {
        Some(uid) if uid != ours && uid != 0 && ours != 0 => {
            bail!("the server on {} belongs to user {uid}", socket.display())
        }
        _ => Ok(connection),
    }
}

fn connect_or_start(socket: &Path, scheduler: Scheduler) -> anyhow::Result<Connection> {
    match Connection::open(socket, "phux", TIMEOUT) {
        Err(ConnectionError::NoServer(_)) => {}
        _ => return connect(socket),
    }
    let scheduler = if scheduler == Scheduler::Normal {
        "normal"
    } else {
        "interactive"
    };
    let mut server = Process::new(std::env::current_exe().context("where is this program?")?)
        .arg("--socket")
        .arg(socket)
        .args([
            "--scheduler",
            scheduler,
            "server",
            "--background",
            "--exit-empty",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start a server")?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match Connection::open(socket, "phux", TIMEOUT) {
            // There, or another one that was started at the same moment.
            Ok(_) => return connect(socket),
            Err(ConnectionError::NoServer(_)) if Instant::now() < deadline => {}
            Err(e) => return Err(e).context("the server that was started does not answer"),
        }
        if let Some(status) = server.try_wait()?
            && !status.success()
            && Connection::open(socket, "phux", TIMEOUT).is_err()
        {
            let mut text = String::new();
            if let Some(mut stderr) = server.stderr.take() {
                use std::io::Read;
                // What it said is only to help.
                let _ = stderr.read_to_string(&mut text);
            }
            bail!("the server did not start: {}", text.trim());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn snapshot(connection: &mut Connection) -> anyhow::Result<Snapshot> {
    match connection.request(Command::GetState, TIMEOUT)? {
        CommandOutcome::OkWith(ResultValue::Snapshot(snapshot)) => Ok(snapshot),
        other => bail!("unexpected answer: {other:?}"),
    }
}

fn kill(connection: &mut Connection, name: &str) -> anyhow::Result<ExitCode> {
    let snapshot = snapshot(connection)?;
    let session = snapshot.sessions.iter().find(|s| s.name == name);
    let session = session.with_context(|| format!("no session {name}"))?;
    let windows = snapshot.windows.iter().filter(|w| w.session == session.id);
    for pane in windows.flat_map(|w| snapshot.panes.iter().filter(|p| p.window == w.id)) {
        let killed = connection.request(Command::Kill(pane.resource.clone()), TIMEOUT)?;
        if let CommandOutcome::Error { text, .. } = killed {
            bail!("{text}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(snapshot: &Snapshot, json: bool) {
    let pane_of = |session: u32| {
        let window = snapshot.windows.iter().find(|w| w.session == session)?;
        snapshot.panes.iter().find(|p| p.window == window.id)
    };
    let rows = snapshot.sessions.iter().map(|s| (s, pane_of(s.id)));
    if json {
        let list: Vec<_> = rows
            .map(|(s, pane)| {
                serde_json::json!({
                    "name": s.name,
                    "id": s.id,
                    "created": s.created,
                    "attached": s.attached,
                    "cols": pane.map(|p| p.cols),
                    "rows": pane.map(|p| p.rows),
                    "title": pane.and_then(|p| p.title.clone()),
                })
            })
            .collect();
        println!("{}", serde_json::Value::from(list));
        return;
    }
    for (s, pane) in rows {
        let size = pane.map_or_else(String::new, |p| format!("{}x{}", p.cols, p.rows));
        let title = pane.and_then(|p| p.title.as_deref()).unwrap_or_default();
        println!("{:16} {size:>9}  {} attached  {title}", s.name, s.attached);
    }
}
