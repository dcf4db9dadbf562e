//! The verdict: the largest cause of delay in one sentence, or that there is none.
//!
//! A pure function of the report. Where echoes were followed and enough were seen, `echo` judges them;
//! else the waits of threads and flush workers tell: `felt` says what counts as delay and why; here the candidates
//! are gathered and ranked; `sentence` and `evidence` put it in words.

mod calm;
mod echo;
mod evidence;
mod felt;
mod quota;
mod sentence;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::model::{Cause, Flush, PtyRow, Relation, Report, ThreadRow, Verdict};
use felt::{Waits, is_hog, takes_keys};

/// Judges everything in `report` except its `verdict`, which it does not look at.
#[must_use]
pub fn verdict(report: &Report) -> Verdict {
    let waits = || by_waits(report);
    let Some(mut verdict) = echo::judge(report) else {
        return waits();
    };
    if verdict.cause == Cause::NothingWrong {
        // Typing was quick; still, something may have waited that nobody typed at.
        let waits = waits();
        if !matches!(waits.cause, Cause::NothingWrong | Cause::NoData) {
            verdict
                .evidence
                .push(format!("besides: {}", waits.sentence));
        }
    }
    verdict
}

/// The verdict where no echoes tell.
fn by_waits(report: &Report) -> Verdict {
    let mut findings = findings(report);
    if !findings.iter().any(|f| f.waits.any()) && !ran(report) {
        return calm::no_data(report);
    }
    findings.retain(|f| f.waits.felt(report.window.duration_ns));
    // Stable: of equal ones the thread's own waits stay before the reader's, which are part of them.
    findings.sort_by_key(|f| (f.tier, Reverse(f.waits.delay())));
    match findings.split_first() {
        None => calm::nothing_wrong(report),
        Some((worst, others)) => Verdict {
            cause: worst.cause(),
            sentence: sentence::sentence(worst, report),
            evidence: evidence::evidence(worst, others, report),
            advice: Vec::new(),
        },
    }
}

/// Whether any thread ran or waited at all.
fn ran(report: &Report) -> bool {
    report
        .threads
        .iter()
        .any(|t| t.on_cpu_ns > 0 || t.voluntary > 0 || t.involuntary > 0)
}

/// Whose delay it is. The target's own comes first, however long its peers wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    Target,
    Peer,
}

/// Something that may delay the terminal.
struct Finding<'a> {
    tier: Tier,
    waits: Waits,
    who: Subject<'a>,
}

/// Who waits.
enum Subject<'a> {
    /// Threads of one process; the one that lost most first.
    Threads(&'a ThreadRow, Vec<&'a ThreadRow>),
    /// The flush worker of a PTY, in one direction.
    Worker(&'a PtyRow, &'a Flush, Way),
    /// The reader that it wakes.
    Reader(&'a PtyRow, Way),
}

/// Direction of a PTY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Output,
    Input,
}

impl Finding<'_> {
    fn cause(&self) -> Cause {
        match self.who {
            Subject::Threads(..) if quota::used_up(self).is_some() => Cause::QuotaThrottling,
            Subject::Threads(..) => Cause::RunQueue,
            Subject::Worker(..) => Cause::FlushWorker,
            Subject::Reader(..) => Cause::ReaderWait,
        }
    }
}

/// Every candidate, felt or not.
fn findings(report: &Report) -> Vec<Finding<'_>> {
    let mut found = threads(report);
    for pty in &report.ptys {
        for (way, flush) in [
            (Way::Output, &pty.flush_output),
            (Way::Input, &pty.flush_input),
        ] {
            // Both workers serve the target. Output is read by the target, input by the program inside.
            let reader = if way == Way::Output {
                Tier::Target
            } else {
                Tier::Peer
            };
            found.push(Finding {
                tier: Tier::Target,
                waits: Waits::of(&flush.wait),
                who: Subject::Worker(pty, flush, way),
            });
            found.push(Finding {
                tier: reader,
                waits: Waits::of(&flush.reader_wait),
                who: Subject::Reader(pty, way),
            });
        }
    }
    found
}

/// Waits of threads. Those of a target process are judged together, since work moves among the
/// threads of a pool. Peers are judged one by one, and only those that somebody types at: a compile
/// in the pane waits because it uses all the CPU, which is not the multiplexer's lag.
fn threads(report: &Report) -> Vec<Finding<'_>> {
    let mut groups: BTreeMap<(Relation, u32, u32), Vec<&ThreadRow>> = BTreeMap::new();
    for t in &report.threads {
        match t.relation {
            Relation::Target => groups.entry((t.relation, t.pid, 0)).or_default().push(t),
            // Many short lives in one row: no one of them waited so long.
            Relation::Peer if t.tid == 0 => {}
            Relation::Peer if is_hog(t) || !takes_keys(t) => {}
            Relation::Peer => groups
                .entry((t.relation, t.pid, t.tid))
                .or_default()
                .push(t),
        }
    }
    let mut found = Vec::new();
    for ((relation, ..), mut group) in groups {
        let delay = |t: &ThreadRow| {
            let waits = Waits::of_thread(t);
            (waits.delay(), waits.total())
        };
        group.sort_by_cached_key(|t| Reverse(delay(t)));
        let mut waits = Waits::default();
        group.iter().for_each(|t| waits.add_thread(t));
        if let Some((&worst, others)) = group.split_first() {
            found.push(Finding {
                tier: if relation == Relation::Target {
                    Tier::Target
                } else {
                    Tier::Peer
                },
                waits,
                who: Subject::Threads(worst, others.to_vec()),
            });
        }
    }
    found
}
