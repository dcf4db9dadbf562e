//! The verdict on echoes: where the slow ones lose their time against the typical ones.
//!
//! The slow group's time is cut into pieces ([`piece`]), each piece has a cause ([`wait`], [`sleep`],
//! [`work`], with [`flood`] beside them), and the cause with most time beyond the typical is the
//! verdict. Ranking, not thresholds, decides between causes, so none of them begins at a cliff.

mod advice;
mod calm;
#[cfg(test)]
mod cases;
mod cgroup;
mod evidence;
mod flood;
mod piece;
mod sentence;
mod sleep;
#[cfg(test)]
mod tests;
mod wait;
mod weight;
mod work;

use std::cmp::Reverse;

use phux_perf::bucket_bounds;

use crate::echo::Role;
use crate::report::model::{
    Cause, Dist, Echoes, EndKind, Group, LinkRow, Report, Rival, Unanswered, Verdict,
};
pub(super) use cgroup::lift;
use flood::Flood;
use piece::{Piece, What, pieces};

/// A p99 from here on is lag, ns. Source: the echo p99 that people complained of in phux's ADR 0096
/// was 14.8 ms, and 2.1 ms the state after the repair; this is twice the good state.
const LAG_NS: u64 = 4_000_000;
/// One echo from here on is seen as a freeze, ns; as with waits.
const FREEZE_NS: u64 = super::felt::FREEZE_NS;
/// So many slow echoes at least; one or two are chance.
const MIN_SLOW: u64 = super::felt::MIN_SLOW;
/// With fewer echoes than this, their being quick proves little.
const FEW: u64 = super::felt::FEW;
/// Unanswered inputs matter from one in so many.
const UNANSWERED: u64 = 100;
/// The largest cause must have one part in so many of what is lost; else none stands out. There are
/// some ten causes, and noise spreads over all of them.
const STANDS_OUT: u64 = 4;

/// Those who are known to have had the CPU stand for the others from one part in so many of the wait on,
/// where more than half of theirs has one cause.
const SAMPLE: u64 = 5;

/// What the rules look at besides the piece itself.
struct Scene<'a> {
    report: &'a Report,
    echoes: &'a Echoes,
    group: &'a Group,
    /// How the inputs of the group ended.
    end: EndKind,
    flood: Option<Flood<'a>>,
    /// Processes that have the multiplexer's own steps.
    servers: Vec<u32>,
}

/// Everything that has one cause.
struct Found<'a> {
    cause: Cause,
    /// Beyond the typical, ns.
    excess_ns: u64,
    /// Most time first.
    pieces: Vec<Piece<'a>>,
}

/// The verdict on the echoes of the window; `None` where too few were seen to say anything.
pub(super) fn judge(report: &Report) -> Option<Verdict> {
    let echoes = report.echoes.as_ref()?;
    let (group, end) = match unanswered(echoes) {
        Some(u) => (&u.group, u.end),
        None if lags(echoes) => (echoes.slow.as_ref()?, EndKind::Echoed),
        None if echoes.length.count >= FEW => return Some(calm::nothing_wrong(report, echoes)),
        None => return None,
    };
    let scene = Scene {
        report,
        echoes,
        group,
        end,
        flood: flood::largest(report),
        servers: servers(&group.links),
    };
    let found = scene.rank(&group.links);
    let cause = scene.decide(&found);
    Some(Verdict {
        cause,
        sentence: sentence::sentence(&scene, cause),
        evidence: evidence::evidence(&scene, cause, &found),
        advice: advice::advice(&scene, cause, &found),
    })
}

/// The inputs without an answer, if there are enough of them to matter: the most frequent end.
fn unanswered(echoes: &Echoes) -> Option<&Unanswered> {
    let most = echoes.unanswered.iter().max_by_key(|u| u.group.count)?;
    let n = most.group.count;
    let many = n >= MIN_SLOW && n.saturating_mul(UNANSWERED) >= echoes.inputs;
    (many || n.saturating_mul(2) >= echoes.inputs).then_some(most)
}

/// Whether a person could feel it.
fn lags(echoes: &Echoes) -> bool {
    let slow = at_least(&echoes.length, LAG_NS);
    echoes.length.max >= FREEZE_NS || slow >= MIN_SLOW && echoes.length.p99 >= LAG_NS
}

/// How many are at least so long, by their buckets' lower bounds: never too many.
fn at_least(dist: &Dist, ns: u64) -> u64 {
    let long = dist
        .buckets
        .iter()
        .filter(|b| bucket_bounds(usize::from(b.idx)).0 >= ns);
    long.map(|b| b.count).sum()
}

/// Who has the steps that only a multiplexer has.
fn servers(links: &[LinkRow]) -> Vec<u32> {
    let own = links.iter().filter(|l| l.link.role() == Role::Server);
    own.map(|l| l.actor.pid).filter(|pid| *pid != 0).collect()
}

impl<'a> Scene<'a> {
    /// Whose step it is. A tmux server reads and writes its clients' terminals itself, and where the
    /// kernel echoes its worker does the program's write.
    fn role(&self, link: &LinkRow) -> Role {
        match link.link.role() {
            _ if link.actor.kworker => Role::FlushWorker,
            Role::Client if self.servers.contains(&link.actor.pid) => Role::Server,
            role => role,
        }
    }

    /// Whether who ran is the multiplexer itself.
    fn is_server(&self, rival: &Rival) -> bool {
        let own = |pid: &u32| self.servers.contains(pid);
        !rival.own && !rival.pids.is_empty() && rival.pids.iter().all(own)
    }

    fn typical(&self) -> &'a [LinkRow] {
        self.echoes.typical.as_ref().map_or(&[], |g| &g.links)
    }

    /// The time of these links by cause, most first.
    fn rank<'b>(&self, links: &'b [LinkRow]) -> Vec<Found<'b>> {
        let mut found: Vec<Found<'b>> = Vec::new();
        let all = pieces(links, self.typical());
        for piece in &all {
            let piece = *piece;
            let cause = match piece.what {
                What::Waited(None) => self.sampled(&piece, &all),
                _ => self.cause(&piece),
            };
            let at = match found.iter().position(|f| f.cause == cause) {
                Some(at) => at,
                None => {
                    found.push(Found {
                        cause,
                        excess_ns: 0,
                        pieces: vec![],
                    });
                    found.len() - 1
                }
            };
            if let Some(f) = found.get_mut(at) {
                f.excess_ns += piece.excess_ns;
                f.pieces.push(piece);
            }
        }
        for f in &mut found {
            f.pieces.sort_by_key(|p| Reverse(p.excess_ns));
        }
        found.sort_by_key(|f| Reverse(f.excess_ns));
        found
    }

    /// The cause of a wait for who is not known, from those who are known on the same link. The kernel
    /// side keeps a CPU's last slices: of a long wait behind many they are a sample, the latest part.
    fn sampled(&self, rest: &Piece<'_>, all: &[Piece<'_>]) -> Cause {
        let mut known: Vec<(Cause, u64)> = Vec::new();
        let same = |p: &&Piece<'_>| {
            std::ptr::eq(p.link, rest.link) && matches!(p.what, What::Waited(Some(_)))
        };
        for piece in all.iter().filter(same) {
            let cause = self.cause(piece);
            match known.iter_mut().find(|(c, _)| *c == cause) {
                Some((_, ns)) => *ns += piece.ns,
                None => known.push((cause, piece.ns)),
            }
        }
        let sum: u64 = known.iter().map(|(_, ns)| ns).sum();
        let most = known.into_iter().max_by_key(|(_, ns)| *ns);
        let large = sum.saturating_mul(SAMPLE) >= rest.ns.saturating_add(sum);
        match most.filter(|(_, ns)| large && ns.saturating_mul(2) > sum) {
            Some((cause, _)) => cause,
            None => self.cause(rest),
        }
    }

    fn cause(&self, piece: &Piece<'_>) -> Cause {
        match piece.what {
            What::Ran => work::cause(self, piece.link),
            What::Waited(rival) => wait::cause(self, piece.link, rival),
            What::Throttled => Cause::QuotaThrottling,
            What::Slept(sleep) => sleep::cause(self, piece.link, sleep),
            What::Interrupted => Cause::Interrupts,
            What::Unknown => Cause::SlowEcho,
        }
    }

    /// The largest cause, if it stands out. Of inputs that got no answer it must explain half of the
    /// time; else what stayed away is the cause.
    fn decide(&self, found: &[Found<'_>]) -> Cause {
        let total: u64 = found.iter().map(|f| f.excess_ns).sum();
        let largest = found.first().filter(|f| f.excess_ns > 0);
        let share = if self.end == EndKind::Echoed {
            STANDS_OUT
        } else {
            2
        };
        let clear = largest.filter(|f| f.excess_ns.saturating_mul(share) >= total);
        match (clear.map(|f| f.cause), self.end) {
            (Some(cause), _) if cause != Cause::SlowEcho => cause,
            (_, EndKind::Undelivered) => Cause::ClientNotReading,
            (_, EndKind::Unread | EndKind::Late) => Cause::SlowChild,
            _ => Cause::SlowEcho,
        }
    }
}
