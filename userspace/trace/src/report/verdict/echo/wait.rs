//! Waits for a CPU: by who had it, and by the class of who waited.

use super::Scene;
use super::weight::outranked;
use crate::echo::Role;
use crate::report::model::{Cause, LinkRow, Rival};

pub(super) fn cause(scene: &Scene<'_>, link: &LinkRow, rival: Option<&Rival>) -> Cause {
    let role = scene.role(link);
    let Some(rival) = rival else {
        return match role {
            Role::FlushWorker => Cause::FlushWorker,
            _ => Cause::RunQueue,
        };
    };
    // Who makes, carries and shows a flood competes with itself: not a stranger's hog.
    if let Some(flood) = scene
        .flood
        .as_ref()
        .filter(|f| f.has_part(rival, scene.report))
    {
        return flood.cause();
    }
    match role {
        // On the way to the program and back nobody but the multiplexer has the CPU.
        Role::FlushWorker | Role::Child if scene.is_server(rival) => Cause::ServerBusy,
        Role::FlushWorker => Cause::FlushWorker,
        Role::Server if rival.own => scene
            .flood
            .as_ref()
            .map_or(Cause::ServerBusy, |f| f.cause()),
        Role::Child if rival.own => Cause::SlowChild,
        Role::Client if rival.own => Cause::SlowClient,
        _ if outranked(&link.actor.place, rival).is_some() => Cause::LowPriority,
        Role::Server => Cause::HogOnServer,
        Role::Child => Cause::HogOnChild,
        Role::Client => Cause::HogOnClient,
    }
}
