//! A `phux-trace daemon` of a test's own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::bins::bin;
use crate::machine::slowness;
use crate::running::{Ended, Running};
use crate::wait::wait_for;

const SOON: Duration = Duration::from_secs(60);

/// A daemon that takes commands.
#[derive(Debug)]
pub struct Daemon {
    running: Running,
    socket: PathBuf,
}

/// What an HTTP server answered.
#[derive(Debug)]
pub struct Response {
    /// Status line and headers.
    pub head: String,
    /// The rest.
    pub body: Vec<u8>,
}

impl Daemon {
    /// Starts one whose folders are in `dir`, which is the test's own, and waits until it is ready.
    pub fn start(dir: &Path, args: &[&str]) -> Daemon {
        let socket = dir.join("run/ctl.sock");
        let mut command = Command::new(bin("phux-trace"));
        command.args(["daemon", "--port", "0", "--dir"]);
        command.arg(dir.join("recordings"));
        command.arg("--socket").arg(&socket).args(args);
        let run = dir.join("run");
        std::fs::create_dir_all(&run).expect("a folder");
        std::fs::set_permissions(&run, PermissionsExt::from_mode(0o700)).expect("chmod");
        Daemon::of(&mut command, &socket)
    }

    /// One that this command starts, with its socket there.
    pub fn of(command: &mut Command, socket: &Path) -> Daemon {
        let mut running = Running::start(command);
        let mut ready = || UnixStream::connect(socket).is_ok() || !running.is_running();
        wait_for(SOON * slowness(), || ready().then_some(())).expect("it is ready");
        Daemon {
            running,
            socket: socket.to_owned(),
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Says one line, whatever it is; the answer.
    pub fn say(&self, line: &str) -> Value {
        let mut stream = UnixStream::connect(&self.socket).expect("it listens");
        let patience = Some(SOON * slowness());
        stream.set_read_timeout(patience).expect("a time");
        writeln!(stream, "{line}").expect("it reads");
        let mut answer = String::new();
        BufReader::new(stream)
            .read_line(&mut answer)
            .expect("it answers");
        serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{e}: {answer:?}"))
    }

    /// The same, which must be done.
    pub fn done(&self, line: &str) -> Value {
        let answer = self.say(line);
        assert_ne!(answer["type"], "error", "{line}: {answer}");
        answer
    }

    /// Asks for the metrics, with this header `Accept`.
    pub fn scrape(&self, accept: &str) -> Response {
        let status = self.done(r#"{"command":"status"}"#);
        let url = status["metrics"].as_str().expect("an address").to_owned();
        let address = url
            .trim_start_matches("http://")
            .trim_end_matches("/metrics");
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
        );
        http(address, &request)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    /// Waits for its end.
    pub fn end(self) -> Ended {
        self.running.end(SOON * slowness())
    }
}

/// Says it to a server that closes the connection when it has answered.
pub fn http(address: &str, request: &str) -> Response {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(SOON)).expect("a time");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("it answers");
    let end = all
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .expect("a head");
    let body = all.split_off(end + 4);
    let head = String::from_utf8_lossy(&all).into_owned();
    let length = body.len();
    assert!(
        head.to_ascii_lowercase()
            .contains(&format!("content-length: {length}")),
        "{length} bytes: {head}"
    );
    Response { head, body }
}
