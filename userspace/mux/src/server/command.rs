//! What a client can ask of the server besides attaching.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use phux_perf::PerfReport;
use phux_wire::{Command, CommandOutcome, DecodeError, ResourceId, ResultValue, error_code};

use super::client::{Client, Stop};
use super::input_lane::{self, Event};
use super::pane::Control;
use super::state::{Server, Session};
use crate::perf::server::METRICS;

/// Carries out a command.
///
/// # Errors
/// A command that this server does not know: the client is sent away, as upstream does.
pub(super) async fn carry_out(client: &Client, command: Command) -> Result<CommandOutcome, Stop> {
    let server = &client.server;
    Ok(match command {
        Command::GetPerf { .. } if server.config.old_server => {
            return Err(DecodeError::UnknownValue {
                what: "Command",
                value: 0x18,
            }
            .into());
        }
        Command::GetPerf { reset } => perf(reset),
        Command::GetState => CommandOutcome::OkWith(ResultValue::Snapshot(server.snapshot())),
        Command::Kill(resource) => match find(server, &resource) {
            Some(session) => {
                // A pane that has ended meanwhile needs no killing.
                let _ = session.pane.control.send(Control::Kill).await;
                CommandOutcome::Ok
            }
            None => not_found(&resource),
        },
        Command::RouteInput(event) => match find(server, &event.resource) {
            Some(session) => {
                let subscribed = Arc::new(AtomicBool::new(true));
                let pane = &session.pane;
                let event = Event::Key(event);
                input_lane::send(&server.lane, pane.id, &pane.input, event, subscribed).await;
                CommandOutcome::Ok
            }
            None => not_found(&event.resource),
        },
        Command::ShutDown => {
            server.shutdown.notify_one();
            CommandOutcome::Ok
        }
    })
}

/// The report first, then the reset: nothing falls between two readings.
fn perf(reset: bool) -> CommandOutcome {
    let json = PerfReport::capture("server", METRICS).to_json();
    if reset {
        PerfReport::reset(METRICS);
    }
    match json {
        Ok(json) => CommandOutcome::OkWith(ResultValue::Json(json)),
        Err(e) => CommandOutcome::Error {
            code: error_code::INTERNAL,
            text: e.to_string(),
        },
    }
}

fn find(server: &Server, resource: &ResourceId) -> Option<std::rc::Rc<Session>> {
    match resource {
        ResourceId::Local(id) => server.sessions.borrow().get(id).cloned(),
        ResourceId::Satellite(..) => None,
    }
}

fn not_found(resource: &ResourceId) -> CommandOutcome {
    let text = format!("no pane {resource:?}");
    CommandOutcome::Error {
        code: error_code::RESOURCE_NOT_FOUND,
        text,
    }
}
