//! Real programs that own PTYs, each on a socket and in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::machine::output_of;
use crate::procfs;
use crate::running::Running;
use crate::terminal::Terminal;
use crate::wait::wait_for;

const SOON: Duration = Duration::from_secs(20);

/// A tmux server of its own, ended on drop.
#[derive(Debug)]
pub struct Tmux {
    dir: TempDir,
    pid: u32,
}

impl Tmux {
    /// Starts a server with one 80×24 session that runs `shell_command`, without the user's
    /// configuration.
    pub fn start(shell_command: &str) -> Tmux {
        Tmux::start_with(shell_command, &[])
    }

    /// The same, with more in the environment of the server and of what runs in it.
    pub fn start_with(shell_command: &str, environment: &[(String, String)]) -> Tmux {
        let dir = TempDir::new().expect("a folder");
        let mut tmux = Tmux { dir, pid: 0 };
        let mut new = tmux.command(&["new-session", "-d", "-x", "80", "-y", "24", shell_command]);
        output_of(new.envs(environment.iter().cloned()));
        let pid = tmux.run(&["display-message", "-p", "#{pid}"]);
        tmux.pid = pid
            .trim()
            .parse()
            .unwrap_or_else(|e| panic!("pid of tmux: {e}: {pid}"));
        tmux
    }

    /// Process id of the server.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its socket, for a client of one's own.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    /// The PTY of the first pane: N of `/dev/pts/N`.
    pub fn pane_tty(&self) -> u32 {
        let tty = self.run(&["display-message", "-p", "#{pane_tty}"]);
        tty.trim()
            .rsplit('/')
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or_else(|| panic!("{tty}"))
    }

    /// A client of it, in a terminal. Without a status line: its date (Nov) and the machine's name
    /// hold letters that are typed, and would be taken for their echo.
    pub fn attach(&self) -> Terminal {
        self.run(&["set-option", "-g", "status", "off"]);
        Terminal::start(&mut self.command(&["attach-session"]))
    }

    /// Runs a tmux command against this server; gives its output.
    pub fn run(&self, args: &[&str]) -> String {
        output_of(&mut self.command(args))
    }

    /// Waits until the first pane shows `text`.
    pub fn wait_for_text(&self, text: &str) {
        wait_for(SOON, || {
            self.run(&["capture-pane", "-p"])
                .contains(text)
                .then_some(())
        })
        .unwrap_or_else(|| panic!("pane never showed {text:?}"));
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command
            .arg("-S")
            .arg(self.dir.path().join("s"))
            .args(["-f", "/dev/null"])
            .args(args);
        command.env_remove("TMUX").env("TERM", "xterm");
        command
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self
            .command(&["kill-server"])
            .stderr(Stdio::null())
            .status();
    }
}

/// A GNU screen session of its own, ended on drop.
#[derive(Debug)]
pub struct Screen {
    dir: TempDir,
    pid: u32,
}

impl Screen {
    const NAME: &str = "phux-trace-test";

    /// Starts a detached session that runs `shell_command`.
    pub fn start(shell_command: &str) -> Screen {
        let dir = TempDir::new().expect("a folder");
        let sockets = dir.path().join("s");
        std::fs::create_dir(&sockets).expect("socket folder");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&sockets, mode).expect("chmod");
        let mut screen = Screen { dir, pid: 0 };
        output_of(&mut screen.command(&["-dmS", Screen::NAME, "sh", "-c", shell_command]));
        // The socket's name is PID.NAME.
        screen.pid = wait_for(SOON, || {
            std::fs::read_dir(screen.sockets())
                .ok()?
                .flatten()
                .find_map(|entry| entry.file_name().to_str()?.split('.').next()?.parse().ok())
        })
        .expect("screen made its socket");
        screen
    }

    /// Process id of the session's server.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    fn sockets(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("screen");
        command.args(["-c", "/dev/null"]).args(args);
        command
            .env("SCREENDIR", self.sockets())
            .env("TERM", "xterm")
            .env_remove("STY");
        command
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self
            .command(&["-S", Screen::NAME, "-X", "quit"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// `script(1)` running a shell command, its record thrown away.
#[derive(Debug)]
pub struct Script(pub Running);

impl Script {
    /// Starts it and waits until its child is there.
    pub fn start(shell_command: &str) -> Script {
        let running = Running::start(Command::new("script").args([
            "--quiet",
            "--command",
            shell_command,
            "/dev/null",
        ]));
        wait_for(SOON, || {
            (!procfs::children(running.pid()).is_empty()).then_some(())
        })
        .expect("script started its child");
        Script(running)
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::need_tool;

    #[test]
    fn tmux_lives_and_dies_with_its_guard() {
        if !need_tool("tmux") {
            return;
        }
        let tmux = Tmux::start("echo hello; exec cat");
        tmux.wait_for_text("hello");
        let pid = tmux.pid();
        assert!(procfs::is_alive(pid));
        assert!(std::path::Path::new(&format!("/dev/pts/{}", tmux.pane_tty())).exists());
        drop(tmux);
        wait_for(SOON, || (!procfs::is_alive(pid)).then_some(())).expect("server ended");
    }

    #[test]
    fn screen_lives_and_dies_with_its_guard() {
        if !need_tool("screen") {
            return;
        }
        let screen = Screen::start("exec cat");
        let pid = screen.pid();
        assert!(procfs::is_alive(pid));
        drop(screen);
        wait_for(SOON, || (!procfs::is_alive(pid)).then_some(())).expect("session ended");
    }
}

/// A phux server of its own with one session, shown by a client inside a tmux of its own; both end
/// on drop.
#[derive(Debug)]
pub struct Phux {
    _dir: TempDir,
    outer: Tmux,
    socket: PathBuf,
    server: Running,
}

impl Phux {
    /// Starts a session that runs `shell_command`, and waits until the client shows `shows`.
    pub fn start(shell_command: &str, shows: &str) -> Phux {
        let phux = crate::bins::bin("phux").display().to_string();
        let dir = TempDir::new().expect("a folder");
        let run = dir.path().join("run");
        std::fs::create_dir(&run).expect("socket folder");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&run, mode).expect("chmod");
        let socket = run.join("s.sock");
        // Not left to the client, which waits 5 s for it: less than it takes in an emulated machine.
        let mut server = Command::new(&phux);
        let server = Running::start(server.arg("--socket").arg(&socket).arg("server"));
        wait_for(SOON, || socket.exists().then_some(())).expect("the server listens");
        let outer = Tmux::start(&format!(
            "exec {phux} --socket {} new -s t -- sh -c '{shell_command}'",
            socket.display()
        ));
        outer.wait_for_text(shows);
        Phux {
            _dir: dir,
            outer,
            socket,
            server,
        }
    }

    /// Process id of the server.
    pub fn server(&self) -> u32 {
        self.server.pid()
    }

    /// What the server measured so far.
    pub fn perf(&self) -> serde_json::Value {
        perf(&self.socket)
    }

    /// Process id of the client.
    pub fn client(&self) -> u32 {
        let pid = self.outer.run(&["display-message", "-p", "#{pane_pid}"]);
        pid.trim()
            .parse()
            .unwrap_or_else(|e| panic!("pid of the client: {e}: {pid}"))
    }

    /// Types into the client's terminal.
    pub fn type_text(&self, text: &str) {
        self.outer.run(&["send-keys", "-l", text]);
    }

    /// Waits until the client shows `text`.
    pub fn wait_for_text(&self, text: &str) {
        self.outer.wait_for_text(text);
    }
}

fn perf(socket: &Path) -> serde_json::Value {
    let mut command = Command::new(crate::bins::bin("phux"));
    let report = output_of(command.arg("--socket").arg(socket).args(["perf", "--json"]));
    serde_json::from_str(&report).expect("a report")
}

impl Drop for Phux {
    fn drop(&mut self) {
        // What runs in it ends with its session, and the server when its guard goes.
        let _ = Command::new(crate::bins::bin("phux"))
            .arg("--socket")
            .arg(&self.socket)
            .args(["kill", "t"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// A phux server of its own, and a client of it in a terminal; both end on drop.
#[derive(Debug)]
pub struct PhuxInTerminal {
    /// The client's terminal.
    pub terminal: Terminal,
    server: Running,
    _dir: TempDir,
}

impl PhuxInTerminal {
    /// Starts a session that runs `shell_command`, with more in the environment of the server and
    /// of the client.
    pub fn start(
        shell_command: &str,
        server: &[(String, String)],
        client: &[(String, String)],
    ) -> PhuxInTerminal {
        let phux = crate::bins::bin("phux");
        let dir = TempDir::new().expect("a folder");
        let run = dir.path().join("run");
        std::fs::create_dir(&run).expect("socket folder");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&run, mode).expect("chmod");
        let socket = run.join("s.sock");
        let command = |environment: &[(String, String)]| {
            let mut command = Command::new(&phux);
            command.arg("--socket").arg(&socket);
            command.envs(environment.iter().cloned());
            command
        };
        let server = Running::start(command(server).arg("server"));
        wait_for(SOON, || socket.exists().then_some(())).expect("the server listens");
        let terminal = Terminal::start(command(client).args([
            "new",
            "-s",
            "t",
            "--",
            "sh",
            "-c",
            shell_command,
        ]));
        PhuxInTerminal {
            terminal,
            server,
            _dir: dir,
        }
    }

    /// Process id of the server.
    pub fn server(&self) -> u32 {
        self.server.pid()
    }
}
