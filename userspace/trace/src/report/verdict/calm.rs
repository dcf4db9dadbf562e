//! What to say when nothing delays the terminal, or nothing is known.

use super::evidence::limits;
use super::felt::{FEW, MIN_SLOW, SLOW_NS, Waits};
use super::sentence::{figures, thread};
use crate::escape::visible;
use crate::report::model::{Cause, Relation, Report, Verdict};
use crate::report::units::{count, duration};

pub(super) fn no_data(report: &Report) -> Verdict {
    let sched = report
        .backends
        .iter()
        .find(|b| b.capability == "sched" && b.used.is_none());
    let window = duration(report.window.duration_ns);
    let sentence = match sched.map(|b| b.missing.as_deref().unwrap_or("no backend worked")) {
        Some(why) => format!("No wait was measured in {window}: {}.", visible(why)),
        None if ended(report) => {
            format!("The target ended within {window}, before anything was seen of it.")
        }
        None => format!("The target did not run in {window}: use the terminal while it is traced."),
    };
    Verdict {
        cause: Cause::NoData,
        sentence,
        evidence: limits(report),
    }
}

fn ended(report: &Report) -> bool {
    let mut target = report
        .target
        .processes
        .iter()
        .filter(|p| p.relation == Relation::Target)
        .peekable();
    target.peek().is_some() && target.all(|p| p.ended.is_some())
}

/// Every kind of wait with its figures: "nothing" is a claim that needs them.
pub(super) fn nothing_wrong(report: &Report) -> Verdict {
    let mut threads = Waits::default();
    let own = || {
        report
            .threads
            .iter()
            .filter(|t| t.relation == Relation::Target)
    };
    own().for_each(|t| threads.add_thread(t));
    let mut worker = Waits::default();
    let mut readers = Waits::default();
    for flush in report
        .ptys
        .iter()
        .flat_map(|p| [&p.flush_output, &p.flush_input])
    {
        worker.add(&flush.wait);
        readers.add(&flush.reader_wait);
    }
    let kinds = [
        ("threads of the target for a CPU", &threads),
        ("flush workers of its PTYs", &worker),
        ("readers of its PTYs, once woken", &readers),
    ];
    let mut evidence: Vec<String> = kinds
        .iter()
        .filter(|(_, w)| w.any())
        .map(|(what, w)| format!("{what}: {}{}", figures(w), slow(w)))
        .collect();
    let longest = own().max_by_key(|t| Waits::of_thread(t).longest());
    if let Some(t) = longest.filter(|t| t.account.is_none() && Waits::of_thread(t).any()) {
        evidence.push(format!("longest wait of a thread: {}", thread(report, t)));
    }
    if !report.threads.is_empty() && report.threads.iter().all(|t| t.exited) {
        evidence.push("every traced thread ended within the window".to_owned());
    }
    let limits = limits(report);
    let proviso = if limits.is_empty() {
        ""
    } else {
        ", as far as could be measured"
    };
    evidence.extend(limits);

    let seen = kinds.iter().map(|(_, w)| w.count()).max().unwrap_or(0);
    let sentence = if seen < FEW {
        let waits = match seen {
            0 => "no wait was seen".to_owned(),
            1 => "only 1 wait was seen".to_owned(),
            n => format!("only {} waits were seen", count(n)),
        };
        format!(
            "Nothing is wrong{proviso}, but {waits}, too few to say more: use the terminal \
             while it is traced.",
        )
    } else {
        let longest = kinds.iter().map(|(_, w)| w.longest()).max().unwrap_or(0);
        if threads.account.0 > 0 {
            return Verdict {
                cause: Cause::NothingWrong,
                sentence: format!(
                    "Nothing is wrong, as far as sums can tell: {}.",
                    figures(&threads)
                ),
                evidence,
            };
        }
        format!(
            "Nothing is wrong{proviso}: no wait was long or frequent enough to feel (longest {}, \
             p99 {} of {} waits for a CPU).",
            duration(longest),
            duration(threads.all.percentile(99.0)),
            count(threads.all.count),
        )
    };
    Verdict {
        cause: Cause::NothingWrong,
        sentence,
        evidence,
    }
}

/// How many were slow, and that it does not matter.
fn slow(w: &Waits) -> String {
    match w.slow {
        0 => String::new(),
        n => {
            let few = if n < MIN_SLOW {
                ", too few to feel"
            } else {
                ", too short in all to feel"
            };
            format!("; {} over {}{few}", count(n), duration(SLOW_NS))
        }
    }
}
