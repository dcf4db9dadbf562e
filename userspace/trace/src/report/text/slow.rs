//! Slow echoes one by one, with their time of day: for `--slow`.

use std::cmp::Reverse;

use super::page::{Page, Tone, listed, right};
use super::waterfall::rival;
use crate::escape::visible;
use crate::report::model::{ChainRow, EndKind, LinkRow, Report, SleepKind};
use crate::report::units::{count, duration};
use crate::report::words;

/// Lines for each row of a table: a list is what was asked for.
const TIMES: usize = 5;
/// Who ran instead told by name.
const RIVALS: usize = 2;

pub(super) fn slow(page: &mut Page<'_>, report: &Report) {
    let Some(from) = report.echoes.as_ref().and_then(|e| e.slow_from_ns) else {
        return;
    };
    let caption = format!("one by one, from {} on; local time of day", duration(from));
    page.section("SLOW ECHOES", &caption);
    if report.slow_echoes.is_empty() {
        page.line(Tone::Plain, "  none");
        return;
    }
    let mut shown: Vec<&ChainRow> = report.slow_echoes.iter().collect();
    shown.sort_by_key(|c| Reverse(c.length_ns));
    shown.truncate(page.rows().saturating_mul(TIMES));
    shown.sort_by_key(|c| (c.unix_ns, c.id));
    for chain in &shown {
        let start = format!(
            "{}  {} ",
            page.time_of_day(chain.unix_ns),
            right(&duration(chain.length_ns), 6)
        );
        page.text(Tone::Plain, &start, &one(chain));
    }
    let left_out = report.echoes.as_ref().map_or(0, |e| e.slow_left_out);
    let more = left_out + (report.slow_echoes.len() - shown.len()) as u64;
    if more > 0 {
        page.line(Tone::Dim, &format!("… and {} quicker ones", count(more)));
    }
}

/// Pane, how it ended if not with an echo, worst link, and who ran instead.
fn one(chain: &ChainRow) -> String {
    let mut text = format!("/dev/pts/{}", chain.index);
    let end = match chain.end {
        EndKind::Unread => " not read",
        EndKind::Late => " not answered",
        EndKind::Undelivered => " not delivered",
        _ => "",
    };
    text.push_str(end);
    if let Some(worst) = chain.links.iter().max_by_key(|l| l.length_ns) {
        text.push_str(&format!(": {}", link(worst)));
    }
    text
}

/// `server reads, tmux: server(100), waited 12.6ms while rustc(7) 8.10ms ran`.
fn link(l: &LinkRow) -> String {
    let name = visible(&l.actor.name);
    let p = &l.parts;
    let most = p.as_array().into_iter().max().unwrap_or(0);
    let what = if most == p.run_queue_ns {
        let names = listed(l.ran_instead.iter().map(rival), RIVALS);
        let ran = if names.is_empty() {
            names
        } else {
            format!("; meanwhile ran {names}")
        };
        format!("waited {}{ran}", duration(most))
    } else if most == p.throttled_ns {
        format!("throttled {}", duration(most))
    } else if most == p.blocked_ns {
        let call = l
            .blocked_on
            .first()
            .map_or_else(String::new, |s| match s.what {
                SleepKind::PageFault => " in a page fault".to_owned(),
                _ => s
                    .syscall
                    .as_deref()
                    .map_or_else(String::new, |c| format!(" in {}", visible(c))),
            });
        format!("slept {}{call}", duration(most))
    } else if most == p.on_cpu_ns {
        format!("ran {}", duration(most))
    } else if most == p.interrupt_ns {
        format!("interrupted for {}", duration(most))
    } else {
        format!("{} not known", duration(most))
    };
    format!("{}, {name}({}), {what}", words::link(l.link), l.actor.tid)
}
