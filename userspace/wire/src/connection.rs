//! A blocking connection of a client: handshake and requests, each with a deadline.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::{
    ClientCaps, ClientMessage, Command, CommandOutcome, DecodeError, Deframer, Hello, HelloOk,
    ServerMessage, Version, error_code,
};

/// Why a server could not be talked to.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// No server listens there.
    #[error("no server listens on the socket")]
    NoServer(#[source] std::io::Error),
    /// It did not answer in time.
    #[error("the server did not answer in time")]
    Timeout,
    /// It closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// It speaks neither 0.9 nor 0.8.
    #[error("the server speaks another version: {0}")]
    Version(String),
    /// It refused.
    #[error("the server refused (code {code}): {text}")]
    Refused {
        /// See [`error_code`].
        code: u16,
        /// The server's words.
        text: String,
    },
    /// It sent something that is not a frame of this protocol.
    #[error("the server sent a malformed frame: {0}")]
    Malformed(#[from] DecodeError),
    /// The socket failed.
    #[error("the socket failed")]
    Io(#[source] std::io::Error),
}

impl From<std::io::Error> for ConnectionError {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind as K;
        match error.kind() {
            K::WouldBlock | K::TimedOut => Self::Timeout,
            K::BrokenPipe | K::ConnectionReset | K::UnexpectedEof => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

/// A connection after HELLO.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    deframer: Deframer,
    hello: HelloOk,
    last_request: u32,
}

impl Connection {
    /// Connects and says hello: as 0.9, then, where the server does not admit that, as 0.8 over a
    /// new connection, since HELLO cannot be said twice. `timeout` is for all of it.
    ///
    /// # Errors
    /// See [`ConnectionError`]; it never starts a server.
    pub fn open(path: &Path, name: &str, timeout: Duration) -> Result<Self, ConnectionError> {
        let deadline = Instant::now() + timeout;
        match Self::open_as(path, name, Version::V0_9, deadline) {
            Err(ConnectionError::Version(_)) => Self::open_as(path, name, Version::V0_8, deadline),
            other => other,
        }
    }

    fn open_as(
        path: &Path,
        name: &str,
        version: Version,
        deadline: Instant,
    ) -> Result<Self, ConnectionError> {
        let mut stream = connect(path, deadline)?;
        let caps = ClientCaps {
            profiles: crate::profile::RAW,
            ..ClientCaps::default()
        };
        let hello = ClientMessage::Hello(Hello {
            name: name.to_owned(),
            version,
            caps,
        });
        stream.set_write_timeout(Some(left(deadline)?))?;
        stream.write_all(&hello.encode())?;
        let mut deframer = Deframer::new();
        loop {
            match receive(&mut stream, &mut deframer, deadline)? {
                ServerMessage::HelloOk(hello) => {
                    return Ok(Self {
                        stream,
                        deframer,
                        hello,
                        last_request: 0,
                    });
                }
                ServerMessage::Error {
                    code: error_code::VERSION_INCOMPATIBLE,
                    text,
                    ..
                } => {
                    return Err(ConnectionError::Version(text));
                }
                ServerMessage::Error { code, text, .. } => {
                    return Err(ConnectionError::Refused { code, text });
                }
                _ => {}
            }
        }
    }

    /// What the server said about itself.
    pub fn hello(&self) -> &HelloOk {
        &self.hello
    }

    /// The user who runs the server, where the system tells.
    pub fn peer_uid(&self) -> Option<u32> {
        peer_uid(&self.stream)
    }

    /// Sends a command and waits for its result; other frames that arrive meanwhile are skipped.
    ///
    /// # Errors
    /// See [`ConnectionError`]. A command that the server carried out and that failed is not an
    /// error here, but a [`CommandOutcome::Error`].
    pub fn request(
        &mut self,
        command: Command,
        timeout: Duration,
    ) -> Result<CommandOutcome, ConnectionError> {
        let deadline = Instant::now() + timeout;
        self.last_request += 1;
        let wanted = self.last_request;
        self.stream.set_write_timeout(Some(left(deadline)?))?;
        self.stream.write_all(
            &ClientMessage::Command {
                request: wanted,
                command,
            }
            .encode(),
        )?;
        loop {
            match receive(&mut self.stream, &mut self.deframer, deadline)? {
                ServerMessage::CommandResult { request, outcome } if request == wanted => {
                    return Ok(outcome);
                }
                ServerMessage::Error {
                    request,
                    code,
                    text,
                } if request.is_none() || request == Some(wanted) => {
                    return Err(ConnectionError::Refused { code, text });
                }
                ServerMessage::Detached { .. } => return Err(ConnectionError::Closed),
                _ => {}
            }
        }
    }

    /// Hands over the socket, without timeouts, and what was read from it and not yet used.
    ///
    /// # Errors
    /// Where the timeouts cannot be lifted.
    pub fn into_parts(self) -> std::io::Result<(UnixStream, Deframer)> {
        self.stream.set_read_timeout(None)?;
        self.stream.set_write_timeout(None)?;
        Ok((self.stream, self.deframer))
    }
}

#[cfg(target_os = "linux")]
fn peer_uid(stream: &UnixStream) -> Option<u32> {
    rustix::net::sockopt::socket_peercred(stream)
        .ok()
        .map(|peer| peer.uid.as_raw())
}

#[cfg(not(target_os = "linux"))]
fn peer_uid(_stream: &UnixStream) -> Option<u32> {
    None
}

/// What is left until `deadline`.
fn left(deadline: Instant) -> Result<Duration, ConnectionError> {
    deadline
        .checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
        .ok_or(ConnectionError::Timeout)
}

/// Connects without waiting longer than `deadline` in a full backlog, as a blocking connect would.
fn connect(path: &Path, deadline: Instant) -> Result<UnixStream, ConnectionError> {
    let no_server = |e: Errno| ConnectionError::NoServer(e.into());
    let address = SocketAddrUnix::new(path).map_err(no_server)?;
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
    .map_err(|e| ConnectionError::Io(e.into()))?;
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::AGAIN | Errno::INTR) => {
                std::thread::sleep(left(deadline)?.min(Duration::from_millis(5)));
            }
            Err(e) => return Err(no_server(e)),
        }
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Waits for the next message.
fn receive(
    stream: &mut UnixStream,
    deframer: &mut Deframer,
    deadline: Instant,
) -> Result<ServerMessage, ConnectionError> {
    let mut buf = [0; 16 * 1024];
    loop {
        if let Some(frame) = deframer.next_frame()? {
            return Ok(ServerMessage::decode(frame)?);
        }
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut buf) {
            Ok(0) => return Err(ConnectionError::Closed),
            Ok(n) => deframer.feed(&buf[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
}
