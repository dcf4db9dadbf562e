//! A client's socket. Tokio's own would ask to be told when there is room for writing as well, and
//! then each frame that a client takes wakes the server for nothing.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The end that is read.
pub(super) struct Incoming(AsyncFd<Arc<UnixStream>>);

/// The end that is written.
pub(super) struct Outgoing(Arc<UnixStream>);

/// Both ends of a socket that does not block.
///
/// # Errors
/// Where the runtime's poll has no room for it.
pub(super) fn split(stream: UnixStream) -> std::io::Result<(Incoming, Outgoing)> {
    let stream = Arc::new(stream);
    let incoming = register(Arc::clone(&stream), Interest::READABLE)?;
    Ok((Incoming(incoming), Outgoing(stream)))
}

fn register(stream: Arc<UnixStream>, what: Interest) -> std::io::Result<AsyncFd<Arc<UnixStream>>> {
    // SAFETY: an `Arc<UnixStream>` always gives the same descriptor, and the one that is moved
    // into the AsyncFd keeps it open for as long as it is registered.
    Ok(unsafe { AsyncFd::register_with_interest(stream, what) }?)
}

impl Incoming {
    /// Reads what is there, once there is something; 0 at the end.
    ///
    /// # Errors
    /// The connection is lost.
    pub(super) async fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let mut ready = self.0.ready(Interest::READABLE).await?;
            match (&**self.0.get_ref()).read(buf) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => ready.clear_ready(),
                Ok(len) => {
                    if len < buf.len() {
                        // All of it: what comes now is told anew.
                        ready.clear_ready();
                    }
                    return Ok(len);
                }
                Err(e) => return Err(e),
            }
        }
    }
}

impl Outgoing {
    /// Writes all of it, however long the client takes.
    ///
    /// # Errors
    /// The client is gone.
    pub(super) async fn write_all(&mut self, mut bytes: &[u8]) -> std::io::Result<()> {
        while !bytes.is_empty() {
            match (&*self.0).write(bytes) {
                Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    // One descriptor cannot be registered twice.
                    let another = Arc::new(self.0.try_clone()?);
                    let room = register(another, Interest::WRITABLE)?;
                    room.ready(Interest::WRITABLE).await?.retain_ready();
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Tells the client that no more comes.
    pub(super) fn end(&self) {
        // The client may have closed its end already.
        let _ = self.0.shutdown(std::net::Shutdown::Write);
    }
}
