//! What became of all inputs: how long echoes take, and where the slow ones lose it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ChainRow, Dist, EndKind, LinkRow, PlaceRow};
use crate::echo::LinkKind;

/// What became of the inputs of a window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Echoes {
    /// Inputs whose end came within the window.
    pub inputs: u64,
    /// How they ended.
    pub ends: Ends,
    /// Of the echoed: which answer was theirs had to be concluded by time alone.
    pub inexact: u64,
    /// Where a phux's own hops tell the same.
    pub confirmed: u64,
    /// Where they tell something else.
    pub contradicted: u64,
    /// How long those took that were echoed, ns.
    pub length: Dist,
    /// The same by link, over all echoed inputs.
    pub links: Vec<LinkDist>,
    /// The middle half of the echoed; `None` if there were none.
    pub typical: Option<Group>,
    /// The slowest 1 % of the echoed, at least five.
    pub slow: Option<Group>,
    /// Those that got no answer where one was due (unread, late, undelivered), by end.
    pub unanswered: Vec<Unanswered>,
    /// By PTY.
    pub panes: Vec<PaneRow>,
    /// Links by the scheduling class of who had them, most waiting first.
    pub classes: Vec<ClassRow>,
    /// From which length on single inputs are told (`--slow`).
    pub slow_from_ns: Option<u64>,
    /// Such that there was no room for: the slowest are kept.
    pub slow_left_out: u64,
}

/// How many inputs ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ends {
    /// Answered, and the answer delivered.
    pub echoed: u64,
    /// Taken without an answer: a password prompt.
    pub silent: u64,
    /// Not read within the limit.
    pub unread: u64,
    /// Read, and not answered within the limit.
    pub late: u64,
    /// Answered, and not taken by a client within the limit.
    pub undelivered: u64,
    /// Not known: records were lost.
    pub lost: u64,
    /// Under way when the run ended.
    pub open: u64,
}

impl Ends {
    /// All together.
    pub fn all(&self) -> u64 {
        let Ends {
            echoed,
            silent,
            unread,
            late,
            undelivered,
            lost,
            open,
        } = *self;
        [echoed, silent, unread, late, undelivered, lost, open]
            .iter()
            .fold(0, |s, n| s.saturating_add(*n))
    }

    /// The count of one kind.
    pub fn of(&self, kind: EndKind) -> u64 {
        let Ends {
            echoed,
            silent,
            unread,
            late,
            undelivered,
            lost,
            open,
        } = *self;
        match kind {
            EndKind::Echoed => echoed,
            EndKind::Silent => silent,
            EndKind::Unread => unread,
            EndKind::Late => late,
            EndKind::Undelivered => undelivered,
            EndKind::Lost => lost,
            EndKind::Open => open,
        }
    }
}

/// One link over all echoed inputs that passed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkDist {
    /// Which.
    pub link: LinkKind,
    /// Its length, ns.
    pub length: Dist,
    /// Of it: on a CPU.
    pub on_cpu: Dist,
    /// Of it: waiting for a CPU, throttling aside.
    pub run_queue: Dist,
    /// Of it: runnable, the quota used up.
    pub throttled: Dist,
    /// Of it: asleep.
    pub blocked: Dist,
    /// Of it: on its CPU, but interrupts had it.
    pub interrupt: Dist,
    /// Of it: not known.
    pub unknown: Dist,
}

/// Some of the inputs, as the mean of each link and as one real example.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Inputs that it stands for.
    pub count: u64,
    /// Of these were kept whole, and the means made from.
    pub kept: u64,
    /// The shortest of them, ns.
    pub from_ns: u64,
    /// The longest of them, ns.
    pub until_ns: u64,
    /// Mean, ns; of the slow ones as if none were longer than the p99 or their own median, the longer
    /// of these, so that one freeze does not hide the others.
    pub length_ns: u64,
    /// The mean of each link, in order; sums to `length_ns`.
    pub links: Vec<LinkRow>,
    /// The real one that is nearest to these means.
    pub example: ChainRow,
}

/// Inputs that got no answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unanswered {
    /// How they ended.
    pub end: EndKind,
    /// How many, and where they stayed.
    pub group: Group,
}

/// One PTY's inputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaneRow {
    /// Device number of the devpts instance.
    pub devpts: u64,
    /// The number in `/dev/pts/N`; `None`: the sum of PTYs beyond those told one by one.
    pub index: Option<u32>,
    /// How its inputs ended.
    pub ends: Ends,
    /// How long the echoed ones took, ns.
    pub length: Dist,
}

/// Links by how those who had them are scheduled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassRow {
    /// Kernel workers, else threads of processes.
    pub kworker: bool,
    /// How they are scheduled; `None`: the sum of classes beyond those told one by one.
    pub place: Option<PlaceRow>,
    /// Links of echoed inputs that they had.
    pub links: u64,
    /// Their waits for a CPU, throttling included, ns.
    pub wait: Dist,
    /// Of these: throttled.
    pub throttled_ns: u64,
    /// On a CPU.
    pub on_cpu_ns: u64,
    /// Asleep.
    pub blocked_ns: u64,
}
