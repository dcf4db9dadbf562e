//! The socket of `phux-trace ctl`: JSON lines, from root and from our own user.

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use super::answer::Answer;
use super::captures::Captures;
use super::place;
use crate::cli::CtlCommand;

/// Longest command, bytes.
const LINE: u64 = 64 << 10;
/// Who is connected at once; others wait.
const CONNECTIONS: usize = 16;
/// A connection that says nothing for so long is closed.
const SILENCE: Duration = Duration::from_secs(60);

/// The socket, while it lives.
pub(super) struct Control {
    listener: UnixListener,
    path: PathBuf,
    connections: Arc<Semaphore>,
    /// Its folder, which this daemon holds locked.
    _folder: OwnedFd,
}

/// Makes the socket, in a folder that only we may enter. One that a dead daemon left goes.
///
/// # Errors
/// The folder is not ours alone, another daemon has it, or something else stands there.
pub(super) fn listen(path: &Path) -> Result<Control> {
    let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) else {
        bail!("{}: a socket is in a folder of its own", path.display())
    };
    let folder = place::private(dir)?;
    place::only(&folder, dir)?;
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            bail!("{} is no socket", path.display())
        }
        Ok(_) => std::fs::remove_file(path).context("the socket that another daemon left")?,
        Err(_) => {}
    }
    let listener = UnixListener::bind(path);
    Ok(Control {
        listener: listener.with_context(|| format!("cannot listen at {}", path.display()))?,
        path: path.to_owned(),
        connections: Arc::new(Semaphore::new(CONNECTIONS)),
        _folder: folder,
    })
}

impl Control {
    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the next connection, and serves it beside the others.
    pub(super) async fn serve_next(&self, captures: &Rc<Captures>) {
        let Ok(free) = self.connections.clone().acquire_owned().await else {
            return;
        };
        match self.listener.accept().await {
            Ok((stream, _)) => {
                let captures = captures.clone();
                spawn_local(async move {
                    // Who hangs up in the middle has had enough.
                    let _ = serve(stream, &captures).await;
                    drop(free);
                });
            }
            // Out of descriptors, as a rule: not in a circle.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether this user may command us.
fn may(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

async fn serve(stream: UnixStream, captures: &Captures) -> std::io::Result<()> {
    let uid = stream.peer_cred()?.uid();
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut stream).take(LINE);
        match timeout(SILENCE, limited.read_until(b'\n', &mut line)).await {
            Ok(Ok(0)) | Err(_) => return Ok(()),
            Ok(Ok(_)) => {}
            Ok(Err(e)) => return Err(e),
        }
        // Not before something was asked: who is still writing then would not get to read the answer.
        if !may(uid) {
            let message = format!("user {uid} may not: only root and the daemon's own user");
            return say(&mut stream, &Answer::Error { message }).await;
        }
        let whole = line.ends_with(b"\n");
        let answer = match serde_json::from_slice::<CtlCommand>(&line) {
            Ok(command) if whole => captures.answer(command).await,
            Ok(_) => error("a command is a line"),
            Err(_) if !whole => error("a command is a line of at most 64 KiB"),
            Err(e) => error(&format!("not understood: {e}")),
        };
        say(&mut stream, &answer).await?;
        if !whole {
            return Ok(());
        }
    }
}

fn error(message: &str) -> Answer {
    Answer::Error {
        message: message.into(),
    }
}

async fn say(stream: &mut BufReader<UnixStream>, answer: &Answer) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    match timeout(SILENCE, stream.get_mut().write_all(&line)).await {
        Ok(result) => result,
        Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
    }
}
