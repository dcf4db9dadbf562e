//! Names for things that several views speak of. All are harmless to show.

use super::model::{Culprit, CulpritKind, SchedClass};
use crate::escape::{name, visible};

/// The task's name with its pid or the number of its pids; or what the time was if no task had it.
pub(crate) fn culprit(c: &Culprit) -> String {
    let name = name(&c.name);
    match (c.kind, c.pids.as_slice()) {
        (CulpritKind::Idle, _) => "(idle CPU waking)".to_owned(),
        (CulpritKind::Unknown, _) => "(not known)".to_owned(),
        (CulpritKind::Task, []) => name.into_owned(),
        (CulpritKind::Task, pids) if c.more_pids => format!("{name} ×{}+", pids.len()),
        (CulpritKind::Task, [pid]) => format!("{name}({pid})"),
        (CulpritKind::Task, pids) => format!("{name} ×{}", pids.len()),
    }
}

/// `OTHER 0`, `FIFO 50`, `IDLE`: the policy and the number that counts within it.
pub(crate) fn class(sched: &SchedClass) -> String {
    let policy = sched.policy.strip_prefix("SCHED_").unwrap_or(&sched.policy);
    match policy {
        "" => "?".to_owned(),
        "OTHER" | "BATCH" | "EXT" => format!("{policy} {}", sched.nice),
        "FIFO" | "RR" => format!("{policy} {}", sched.rt_priority),
        _ => visible(policy).into_owned(),
    }
}

/// The same in full, for prose: `SCHED_OTHER nice 0`, `SCHED_FIFO priority 50`.
pub(crate) fn class_in_full(sched: &SchedClass) -> String {
    let policy = visible(&sched.policy);
    match policy.as_ref() {
        "" => "class not known".to_owned(),
        "SCHED_OTHER" | "SCHED_BATCH" | "SCHED_EXT" => format!("{policy} nice {}", sched.nice),
        "SCHED_FIFO" | "SCHED_RR" => format!("{policy} priority {}", sched.rt_priority),
        _ => policy.into_owned(),
    }
}
