//! Time on a CPU: by whose step it is.

use super::Scene;
use crate::echo::Role;
use crate::report::model::{Cause, LinkRow};

pub(super) fn cause(scene: &Scene<'_>, link: &LinkRow) -> Cause {
    let flood = scene.flood.as_ref();
    match link.link.role() {
        Role::Server => flood.map_or(Cause::ServerBusy, |f| f.cause()),
        Role::Child => Cause::SlowChild,
        Role::Client => Cause::SlowClient,
        Role::FlushWorker => flood.map_or(Cause::SlowEcho, |f| f.cause()),
    }
}
