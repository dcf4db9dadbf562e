//! The server: owns the sessions and their PTYs.
//!
//! The main thread runs everything that is a task: accepting, a reader and a writer per client,
//! an actor per pane, a pump per client and pane. Threads of their own are the input lane and, per
//! pane, what blocks on the PTY: a reader and a writer. Between them stand queues of fixed size,
//! so that a stall shows at the hop where it arises. Where a queue is empty and its consumer idle,
//! the producer does the work itself: an echo in a quiet session wakes one thread of the server.

mod client;
mod command;
mod input_lane;
mod keys;
mod pane;
mod pty;
mod pty_reader;
mod pty_writer;
mod pump;
mod socket;
mod state;
mod writer;

use std::fs::File;
use std::io::Read;
use std::os::unix::net::UnixListener as StdListener;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use phux_wire::{DetachReason, ServerMessage};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};

use crate::perf::{self, warn_throttled};
use crate::socket_dir;
use state::Server;

pub(crate) use state::Config;

/// Lines kept above each screen, unless told otherwise.
pub(crate) const DEFAULT_HISTORY: usize = 1000;
/// How long the children may take to end when the server ends.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
/// How long a server that a client started waits for somebody to ask for a session: many times what
/// that client takes on a machine under load.
const START_GRACE: Duration = Duration::from_secs(10);

/// Runs a server until it is told to end.
///
/// # Errors
/// Where the socket cannot be bound or the system has no room for a server.
pub(crate) fn run(config: Config) -> anyhow::Result<()> {
    let bound = socket_dir::bind(&config.socket)?;
    bound.listener.set_nonblocking(true)?;
    perf::promote("phux");
    let lane = input_lane::start().context("cannot start the input lane")?;
    let mut incarnation = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut incarnation))
        .context("cannot read /dev/urandom")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let path = config.socket.clone();
    let server = Rc::new(Server::new(config, incarnation, lane));
    log::info!("listening on {}", path.display());
    let tasks = tokio::task::LocalSet::new();
    let result = tasks.block_on(&runtime, async {
        // A task of its own: what is awaited here is looked at whenever anything has happened.
        tokio::task::spawn_local(accept(Rc::clone(&server), bound.listener)).await??;
        // Nobody is to connect to a server that ends.
        let _ = std::fs::remove_file(&path);
        end_sessions(&server).await;
        anyhow::Ok(())
    });
    log::info!("ended");
    result
}

/// Accepts clients until the server is told to end.
async fn accept(server: Rc<Server>, listener: StdListener) -> anyhow::Result<()> {
    let listener = UnixListener::from_std(listener)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let begin = tokio::time::sleep(START_GRACE);
    tokio::pin!(begin);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => admit(&server, stream),
                Err(e) => {
                    warn_throttled!("cannot accept: {e}");
                    // Out of descriptors: some may come free.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            () = &mut begin, if !begin.is_elapsed() => server.begin(),
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            () = server.shutdown.notified() => return Ok(()),
        }
    }
}

/// Serves a client if it is the same user, or root.
fn admit(server: &Rc<Server>, stream: UnixStream) {
    let ours = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == ours || peer.uid() == 0 => match stream.into_std() {
            Ok(stream) => {
                tokio::task::spawn_local(client::serve(Rc::clone(server), stream));
            }
            Err(e) => warn_throttled!("cannot serve a client: {e}"),
        },
        Ok(peer) => warn_throttled!("refused a client of user {}", peer.uid()),
        Err(e) => warn_throttled!("refused a client without credentials: {e}"),
    }
}

/// Tells the clients, hangs up on the children, and waits a moment for both.
async fn end_sessions(server: &Rc<Server>) {
    let clients: Vec<_> = server.clients.borrow().values().cloned().collect();
    for mailbox in clients {
        // One that does not read learns it from the end of the stream.
        let text = Some("the server has ended".to_owned());
        let _ = mailbox.try_send(ServerMessage::Detached {
            reason: DetachReason::Shutdown,
            text,
        });
    }
    let sessions: Vec<_> = server.sessions.borrow().values().cloned().collect();
    for session in sessions {
        let _ = session.pane.control.try_send(pane::Control::Kill);
    }
    let deadline = tokio::time::Instant::now() + SHUTDOWN_GRACE;
    while !server.sessions.borrow().is_empty() && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
