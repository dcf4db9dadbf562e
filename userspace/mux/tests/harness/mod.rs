//! Runs real clients in real PTYs, and waits for what they show.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Term, TermMode};
use alacritty_terminal::vte::ansi::Processor;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal};
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, Winsize};

/// Longer than anything takes on a machine that is busy with other things.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Waits until `condition` holds.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A world of its own: a runtime directory with a socket in it, and a server if started.
pub struct World {
    pub dir: tempfile::TempDir,
    server: Option<Child>,
    /// The program that is run: the one that was built, or a copy of it.
    pub program: PathBuf,
}

impl World {
    /// Without a server.
    pub fn empty() -> Self {
        Self {
            dir: tempfile::tempdir().expect("temporary directory"),
            server: None,
            program: env!("CARGO_BIN_EXE_phux").into(),
        }
    }

    /// With a copy of the program that no other test runs: uprobes belong to a file, not to a process.
    #[allow(dead_code)] // the harness is compiled into each suite
    pub fn with_own_program() -> Self {
        let mut world = Self::empty();
        let own = world.dir.path().join("phux");
        std::fs::copy(&world.program, &own).expect("copy");
        world.program = own;
        world
    }

    /// With a server that was started with these arguments and is ready.
    pub fn with_server(args: &[&str]) -> Self {
        let mut world = Self::empty();
        world.start_server(args);
        world
    }

    pub fn start_server(&mut self, args: &[&str]) {
        let log = File::create(self.dir.path().join("server.log")).expect("log");
        let mut command = self.command(&["server"]);
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.server = Some(command.spawn().expect("server"));
        wait_until("the server listens", || self.socket().exists());
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("run/phux.sock")
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("server.log")).unwrap_or_default()
    }

    /// The client's log lines, of all clients.
    pub fn client_logs(&self) -> String {
        let dir = self.dir.path().join("state/phux");
        let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
        files
            .filter_map(|f| std::fs::read_to_string(f.path()).ok())
            .collect()
    }

    pub fn server_pid(&self) -> Pid {
        Pid::from_child(self.server.as_ref().expect("a server"))
    }

    /// Waits until the server has ended.
    pub fn wait_server(&mut self) -> ExitStatus {
        self.server.take().expect("a server").wait().expect("wait")
    }

    /// Resident memory of the server, in bytes.
    pub fn server_rss(&self) -> u64 {
        let path = format!("/proc/{}/status", self.server_pid().as_raw_nonzero());
        let status = std::fs::read_to_string(path).expect("status");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("VmRSS");
        let kib: u64 = line
            .trim_end_matches("kB")
            .trim()
            .parse()
            .expect("a number");
        kib * 1024
    }

    /// phux with these arguments, in this world.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin");
        command
            .env("PHUX_SOCKET", self.socket())
            .env("SHELL", "/bin/sh")
            .env("LANG", "C.UTF-8");
        command
            .env("HOME", self.dir.path())
            .env("XDG_STATE_HOME", self.dir.path().join("state"));
        command.args(args);
        command
    }

    /// Runs phux and returns what it printed.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args)
            .stdin(Stdio::null())
            .output()
            .expect("phux runs")
    }

    /// Runs phux, which must succeed, and returns its standard output.
    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        let error = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "phux {args:?}: {error}");
        String::from_utf8(out.stdout).expect("UTF-8")
    }

    /// Sessions by `phux ls --json`.
    pub fn sessions(&self) -> Vec<serde_json::Value> {
        serde_json::from_str(&self.ok(&["ls", "--json"])).expect("JSON")
    }

    /// The server's report.
    pub fn perf(&self) -> phux_perf::PerfReport {
        phux_perf::PerfReport::from_json(&self.ok(&["perf", "--json"])).expect("a report")
    }

    /// phux with these arguments in a terminal of 80 by 24.
    pub fn client(&self, args: &[&str]) -> Terminal {
        Terminal::start(self.command(args), 80, 24)
    }

    /// A new session that runs a shell with the prompt `$ `, shown at 80 by 24.
    pub fn shell(&self, name: &str) -> Terminal {
        let client = self.client(&["new", "-s", name, "--", "/bin/sh", "-i"]);
        client.line("PS1='$ '; printf '\\033[2J\\033[H'; echo re''ady");
        client.wait_for_row("ready");
        client.wait_for_row("$");
        client
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        } else {
            // One that a client started, if any.
            let timeout = Duration::from_secs(5);
            if let Ok(mut server) = phux_wire::Connection::open(&self.socket(), "test", timeout) {
                let _ = server.request(phux_wire::Command::ShutDown, timeout);
            }
        }
    }
}

/// The value of a counter or gauge, or the number of samples of a histogram.
pub fn count(report: &phux_perf::PerfReport, name: &str) -> u64 {
    match &report
        .get(name)
        .unwrap_or_else(|| panic!("no metric {name}"))
        .value
    {
        phux_perf::Value::Histogram(h) => h.count,
        phux_perf::Value::Counter(n) => *n,
        phux_perf::Value::Gauge(n) => n.unsigned_abs(),
        other => panic!("{name}: {other:?}"),
    }
}

/// The sum of a histogram's samples.
pub fn sum(report: &phux_perf::PerfReport, name: &str) -> u64 {
    match &report
        .get(name)
        .unwrap_or_else(|| panic!("no metric {name}"))
        .value
    {
        phux_perf::Value::Histogram(h) => h.sum,
        other => panic!("{name}: {other:?}"),
    }
}

struct Size(u16, u16);

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        self.1.into()
    }
    fn screen_lines(&self) -> usize {
        self.1.into()
    }
    fn columns(&self) -> usize {
        self.0.into()
    }
}

/// What a terminal shows, and the raw bytes that made it so.
struct Emulator {
    term: Term<VoidListener>,
    parser: Processor,
    raw: Vec<u8>,
    paused: bool,
    ended: bool,
}

/// A terminal emulator with a program in it.
pub struct Terminal {
    master: File,
    slave: OwnedFd,
    pub child: Child,
    shared: Arc<(Mutex<Emulator>, Condvar)>,
}

impl Terminal {
    pub fn start(mut command: Command, cols: u16, rows: u16) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = rustix::pty::openpt(flags).expect("PTY");
        rustix::pty::grantpt(&master).expect("grantpt");
        rustix::pty::unlockpt(&master).expect("unlockpt");
        let name = rustix::pty::ptsname(&master, Vec::new()).expect("ptsname");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(&*name, flags, Mode::empty()).expect("slave");
        set_size(&master, cols, rows);
        let stdio = || Stdio::from(slave.try_clone().expect("dup"));
        command
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio())
            .env("TERM", "xterm-256color");
        // SAFETY: two system calls between fork and exec, which touch no memory.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        let child = command.spawn().expect("the program runs");
        let config = Config {
            scrolling_history: 2000,
            ..Config::default()
        };
        let emulator = Emulator {
            term: Term::new(config, &Size(cols, rows), VoidListener),
            parser: Processor::new(),
            raw: Vec::new(),
            paused: false,
            ended: false,
        };
        let shared = Arc::new((Mutex::new(emulator), Condvar::new()));
        let master = File::from(master);
        let mut reader = master.try_clone().expect("dup");
        let for_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            let (emulator, changed) = &*for_thread;
            let mut buf = [0; 4096];
            loop {
                let guard = emulator.lock().expect("no panic");
                drop(
                    changed
                        .wait_while(guard, |e| e.paused && !e.ended)
                        .expect("no panic"),
                );
                let len = reader.read(&mut buf).unwrap_or(0);
                let mut guard = emulator.lock().expect("no panic");
                let emulator = &mut *guard;
                if len == 0 || emulator.ended {
                    emulator.ended = true;
                    changed.notify_all();
                    return;
                }
                emulator.parser.advance(&mut emulator.term, &buf[..len]);
                emulator.raw.extend_from_slice(&buf[..len]);
                changed.notify_all();
            }
        });
        Self {
            master,
            slave,
            child,
            shared,
        }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).expect("the client lives");
    }

    /// Types.
    pub fn keys(&self, keys: &str) {
        (&self.master)
            .write_all(keys.as_bytes())
            .expect("the terminal takes keys");
    }

    /// Types a line.
    pub fn line(&self, line: &str) {
        self.keys(&format!("{line}\r"));
    }

    /// Stops or goes on reading what the program shows: a terminal that hangs.
    pub fn pause(&self, paused: bool) {
        self.shared.0.lock().expect("no panic").paused = paused;
        self.shared.1.notify_all();
    }

    pub fn resize(&self, cols: u16, rows: u16) {
        self.shared
            .0
            .lock()
            .expect("no panic")
            .term
            .resize(Size(cols, rows));
        set_size(&self.master, cols, rows);
    }

    /// Waits until `condition` holds for the screen.
    #[track_caller]
    pub fn wait(&self, what: &str, mut condition: impl FnMut(&Term<VoidListener>) -> bool) {
        let (emulator, changed) = &*self.shared;
        let guard = emulator.lock().expect("no panic");
        let (guard, timeout) = changed
            .wait_timeout_while(guard, DEADLINE, |e| !condition(&e.term))
            .expect("no panic");
        if timeout.timed_out() {
            let shown = text(&guard.term).join("\n");
            drop(guard);
            panic!("waited in vain for {what}; the screen shows:\n{shown}");
        }
    }

    /// Waits until the screen shows `text` anywhere.
    #[track_caller]
    pub fn wait_for(&self, wanted: &str) {
        self.wait(wanted, |term| {
            text(term).iter().any(|row| row.contains(wanted))
        });
    }

    /// Waits until a row of the screen is `wanted`, or that behind a prompt: what is typed while a
    /// shell is busy is echoed before the prompt, and the output then begins behind it.
    #[track_caller]
    pub fn wait_for_row(&self, wanted: &str) {
        let is = |row: &String| row == wanted || row.trim_start_matches("$ ") == wanted;
        self.wait(wanted, |term| text(term).iter().any(is));
    }

    /// The rows of the screen, without blanks at the end.
    pub fn screen(&self) -> Vec<String> {
        text(&self.shared.0.lock().expect("no panic").term)
    }

    /// Every cell of the screen with its attributes, and the cursor.
    pub fn cells(&self) -> (Vec<Vec<Cell>>, (i32, usize)) {
        cells(&self.shared.0.lock().expect("no panic").term)
    }

    pub fn mode(&self) -> TermMode {
        *self.shared.0.lock().expect("no panic").term.mode()
    }

    /// All that the program has written so far.
    pub fn raw(&self) -> Vec<u8> {
        self.shared.0.lock().expect("no panic").raw.clone()
    }

    /// Whether the terminal is in the state that a shell expects: lines edited by the kernel.
    pub fn is_cooked(&self) -> bool {
        let modes = rustix::termios::tcgetattr(&self.slave)
            .expect("termios")
            .local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Waits until the program has ended.
    #[track_caller]
    pub fn wait_exit(&mut self) -> ExitStatus {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "it does not end: {:#?}",
                self.screen()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Detaches and waits until the client has ended.
    #[track_caller]
    pub fn detach(mut self) {
        self.keys("\x1c");
        assert!(self.wait_exit().success());
        self.wait_for("[detached]");
        assert!(self.is_cooked());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Ok(mut emulator) = self.shared.0.lock() {
            emulator.ended = true;
        }
        self.shared.1.notify_all();
    }
}

fn set_size(fd: impl std::os::fd::AsFd, cols: u16, rows: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(fd, size).expect("the size is set");
}

/// The rows of a screen, without blanks at the end.
pub fn text(term: &Term<VoidListener>) -> Vec<String> {
    let row = |line| {
        let cells = &term.grid()[Line(line)];
        let shown = (0..term.columns()).map(|c| &cells[Column(c)]);
        let shown = shown.filter(|cell| {
            !cell
                .flags
                .intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER)
        });
        let mut row: String = shown
            .flat_map(|cell| {
                let c = if cell.c == '\t' { ' ' } else { cell.c };
                std::iter::once(c).chain(cell.zerowidth().unwrap_or_default().iter().copied())
            })
            .collect();
        row.truncate(row.trim_end().len());
        row
    };
    let rows = i32::try_from(term.screen_lines()).expect("few rows");
    (0..rows).map(row).collect()
}

fn cells(term: &Term<VoidListener>) -> (Vec<Vec<Cell>>, (i32, usize)) {
    let rows = i32::try_from(term.screen_lines()).expect("few rows");
    let row = |line| {
        let cells = &term.grid()[Line(line)];
        let look = |c| {
            let mut cell = cells[Column(c)].clone();
            // A tab leaves a note of itself, and a wrap too: neither can be seen.
            cell.c = if cell.c == '\t' { ' ' } else { cell.c };
            cell.flags.remove(Flags::WRAPLINE);
            cell
        };
        (0..term.columns()).map(look).collect()
    };
    let point = term.grid().cursor.point;
    ((0..rows).map(row).collect(), (point.line.0, point.column.0))
}
