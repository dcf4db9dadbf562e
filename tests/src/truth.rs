//! How a ground-truth program talks, and how a test talks to it.
//!
//! The program prints `ready <pid>`, waits for a line, works, prints one JSON line with what it
//! really did, and stays until its standard input closes. So a tracer can be attached before the
//! first counted thing and detached after the last.

use std::io::{self, BufRead, Read, Write};
use std::process::Command;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::running::Running;

/// In the program: says that it is ready, then waits for the word to start.
pub fn ready() -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "ready {}", std::process::id())?;
    out.flush()?;
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "nobody said go",
        ));
    }
    Ok(())
}

/// In the program: prints what it did, then stays until standard input closes.
pub fn done(truth: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, truth)?;
    writeln!(out)?;
    out.flush()?;
    io::stdin().lock().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// In the test: a ground-truth program that is ready.
#[derive(Debug)]
pub struct Program(Running);

impl Program {
    /// Starts it and waits for its `ready`.
    pub fn start(command: &mut Command) -> Program {
        let mut running = Running::start(command);
        let line = running.line(Duration::from_secs(30));
        assert_eq!(
            line,
            format!("ready {}", running.pid()),
            "first line of {command:?}"
        );
        Program(running)
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Lets it work and gives what it says that it did. It stays alive until dropped.
    pub fn work<T: DeserializeOwned>(&mut self, deadline: Duration) -> T {
        self.0.say("go");
        let line = self.0.line(deadline);
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    /// Lets it work without waiting for what it says.
    pub fn go(&mut self) {
        self.0.say("go");
    }

    /// Lets it end by itself.
    pub fn finish(mut self) {
        self.0.close_stdin();
        let ended = self.0.end(Duration::from_secs(30));
        assert!(ended.status.success(), "{}\n{}", ended.status, ended.stderr);
    }
}
