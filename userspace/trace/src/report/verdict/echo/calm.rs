//! What to say when echoes are quick.

use super::evidence::{echoed, limits, unanswered};
use crate::report::model::{Cause, Echoes, EndKind, Report, Verdict};
use crate::report::units::{count, duration};
use crate::report::words::link;

pub(super) fn nothing_wrong(report: &Report, echoes: &Echoes) -> Verdict {
    let l = &echoes.length;
    let mut evidence = vec![echoed(echoes)];
    let longest = echoes.slow.as_ref().and_then(|g| {
        let links = g.links.iter();
        links.max_by_key(|l| l.length_ns)
    });
    if let Some(l) = longest {
        evidence.push(format!(
            "the longest step of the slow ones: {}, {} on average",
            link(l.link),
            duration(l.length_ns)
        ));
    }
    evidence.extend(unanswered(&echoes.ends, EndKind::Echoed));
    let limits = limits(report);
    let proviso = if limits.is_empty() {
        ""
    } else {
        ", as far as could be measured"
    };
    evidence.extend(limits);
    Verdict {
        cause: Cause::NothingWrong,
        sentence: format!(
            "Nothing is wrong{proviso}: {} echoes took {} (p50) to {} (p99), {} at most.",
            count(l.count),
            duration(l.p50),
            duration(l.p99),
            duration(l.max),
        ),
        evidence,
        advice: Vec::new(),
    }
}
