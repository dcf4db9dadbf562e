//! The time of a group of echoes, cut into pieces that have one cause each.

use crate::report::model::{LinkRow, Rival, Sleep};

/// What a part of a link takes on a quiet machine at most, ns: so much is no cause, even if every
/// echo has it. Own choice: an echo of a dozen links is 0.3–0.7 ms there, and 2.1 ms was good.
const HEALTHY_NS: u64 = 300_000;

/// Some time of one link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) link: &'a LinkRow,
    pub(super) what: What<'a>,
    /// All of it, ns.
    pub(super) ns: u64,
    /// Beyond what the typical echo has there, ns.
    pub(super) excess_ns: u64,
}

/// What the time went to.
#[derive(Debug, Clone, Copy)]
pub(super) enum What<'a> {
    /// On a CPU.
    Ran,
    /// Waiting for a CPU that somebody else had; `None`: not known who.
    Waited(Option<&'a Rival>),
    /// The quota was used up.
    Throttled,
    /// Asleep; `None`: not known in what.
    Slept(Option<&'a Sleep>),
    /// Interrupts.
    Interrupted,
    /// Not known.
    Unknown,
}

/// Every piece of these links.
pub(super) fn pieces<'a>(links: &'a [LinkRow], typical: &[LinkRow]) -> Vec<Piece<'a>> {
    let mut out = Vec::new();
    for link in links {
        let usual = typical.iter().find(|t| t.link == link.link);
        let usual = usual.map(|t| t.parts).unwrap_or_default();
        let parts = link.parts;
        let mut one = |what, ns: u64, usual: u64| {
            push(&mut out, link, &[(what, ns)], ns, usual);
        };
        one(What::Ran, parts.on_cpu_ns, usual.on_cpu_ns);
        one(What::Throttled, parts.throttled_ns, usual.throttled_ns);
        one(What::Interrupted, parts.interrupt_ns, usual.interrupt_ns);
        one(What::Unknown, parts.unknown_ns, usual.unknown_ns);
        let mut waits: Vec<_> = link
            .ran_instead
            .iter()
            .map(|r| (What::Waited(Some(r)), r.ns))
            .collect();
        rest(&mut waits, What::Waited(None), parts.run_queue_ns);
        push(
            &mut out,
            link,
            &waits,
            parts.run_queue_ns,
            usual.run_queue_ns,
        );
        let mut sleeps: Vec<_> = link
            .blocked_on
            .iter()
            .map(|s| (What::Slept(Some(s)), s.ns))
            .collect();
        rest(&mut sleeps, What::Slept(None), parts.blocked_ns);
        push(&mut out, link, &sleeps, parts.blocked_ns, usual.blocked_ns);
    }
    out
}

/// What of the whole no piece tells.
fn rest<'a>(pieces: &mut Vec<(What<'a>, u64)>, what: What<'a>, whole: u64) {
    let told: u64 = pieces.iter().map(|(_, ns)| ns).sum();
    if whole > told {
        pieces.push((what, whole - told));
    }
}

/// The excess of the whole goes to its pieces by their share.
fn push<'a>(
    out: &mut Vec<Piece<'a>>,
    link: &'a LinkRow,
    pieces: &[(What<'a>, u64)],
    whole: u64,
    usual: u64,
) {
    let excess = whole.saturating_sub(usual.min(HEALTHY_NS));
    for &(what, ns) in pieces.iter().filter(|(_, ns)| *ns > 0) {
        let share = u128::from(excess) * u128::from(ns) / u128::from(whole.max(1));
        out.push(Piece {
            link,
            what,
            ns,
            excess_ns: u64::try_from(share).unwrap_or(u64::MAX).min(ns),
        });
    }
}
