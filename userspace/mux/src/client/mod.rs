//! The client: shows a session in the terminal that it runs in.
//!
//! The main thread waits for the terminal and the socket, keeps a screen of its own from what the
//! server sends, and paints the difference; the thread `phux-stdout` writes what the terminal does
//! not take at once.

mod input;
mod mirror;
mod pacer;
mod paint;
mod report;
mod session;
mod stdout;
mod tty;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use phux_wire::{
    Attach, ClientMessage, Connection, Deframer, DetachReason, ServerMessage, Target, Viewport,
};

use crate::perf;
pub(crate) use mirror::End;

/// How long the server may take to answer ATTACH.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);
/// The only attach of a connection.
const ATTACH_ID: u32 = 1;
/// Lines above the screen that are asked for and kept.
const HISTORY: u16 = 1000;

/// What the client is to do.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) target: Target,
    /// The byte that the detach key sends.
    pub(crate) detach: u8,
}

/// Attaches to a session, and returns how it ended.
///
/// # Errors
/// Where there is no such session, no terminal, or the server cannot be talked to.
pub(crate) fn attach(connection: Connection, options: Options) -> anyhow::Result<End> {
    perf::promote("phux");
    let size = tty::size();
    let viewport = Viewport::cells(size.cols, size.rows);
    let (stream, deframer) = request_attach(connection, options.target, viewport)?;
    // Signals are caught before the terminal is changed, so that none leaves it so.
    let session = session::Session::new(stream, deframer, size, options.detach)?;
    let tty = tty::Tty::enter()?;
    let result = session.run();
    drop(tty);
    report::session_perf();
    result
}

/// Makes a session without showing it.
///
/// # Errors
/// Where the server refuses or cannot be talked to.
pub(crate) fn create_detached(connection: Connection, target: Target) -> anyhow::Result<()> {
    let (mut stream, mut deframer) = request_attach(connection, target, Viewport::cells(80, 24))?;
    stream.write_all(&ClientMessage::Detach.encode())?;
    loop {
        match receive(&mut stream, &mut deframer)? {
            // The session may be that short.
            ServerMessage::Detached {
                reason: DetachReason::Asked,
                ..
            }
            | ServerMessage::Detached {
                reason: DetachReason::SessionKilled,
                ..
            } => return Ok(()),
            ServerMessage::Detached { .. } => bail!("the server ended the connection"),
            _ => {}
        }
    }
}

/// Sends ATTACH and waits until it is accepted.
fn request_attach(
    connection: Connection,
    target: Target,
    viewport: Viewport,
) -> anyhow::Result<(UnixStream, Deframer)> {
    let (mut stream, mut deframer) = connection.into_parts()?;
    stream.set_read_timeout(Some(ATTACH_TIMEOUT))?;
    stream.set_write_timeout(Some(ATTACH_TIMEOUT))?;
    let attach = Attach {
        target,
        viewport,
        want_scrollback: true,
        scrollback_limit: HISTORY.into(),
        attach_id: ATTACH_ID,
    };
    stream.write_all(&ClientMessage::Attach(attach).encode())?;
    loop {
        match receive(&mut stream, &mut deframer)? {
            ServerMessage::Attached(attached) if attached.attach_id == ATTACH_ID => {
                return Ok((stream, deframer));
            }
            ServerMessage::Error { text, .. } => bail!("{text}"),
            _ => {}
        }
    }
}

fn receive(stream: &mut UnixStream, deframer: &mut Deframer) -> anyhow::Result<ServerMessage> {
    let start = Instant::now();
    let mut buf = [0; 16 * 1024];
    loop {
        if let Some(frame) = deframer.next_frame()? {
            return Ok(ServerMessage::decode(frame)?);
        }
        if start.elapsed() > ATTACH_TIMEOUT {
            bail!("the server does not answer");
        }
        match stream
            .read(&mut buf)
            .context("the server does not answer")?
        {
            0 => bail!("the server closed the connection"),
            len => deframer.feed(&buf[..len]),
        }
    }
}
