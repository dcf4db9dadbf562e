//! The waterfall: a typical and a slow echo side by side, link by link.
//!
//! Each bar begins where the one above ends, in the scale of its own echo; what a part of a bar is
//! made of is its character, so that no colour is needed.

use unicode_width::UnicodeWidthStr;

use super::page::{Page, Span, Tone, glued, left, listed, right};
use crate::echo::{LinkKind, Parts};
use crate::escape::visible;
use crate::report::model::{ChainRow, Echoes, LinkRow, Report, Rival, SleepKind};
use crate::report::units::{count, duration};
use crate::report::words;

/// Columns of a link's name, of who had it, and of a time.
const LINK: usize = 16;
const WHO: usize = 15;
const TIME: usize = 7;
/// Below this there is room for one bar, and below that for none.
const TWO_BARS: usize = 60;
const ONE_BAR: usize = 40;
/// Rows; threads that have a step in turn are a few.
const ROWS: usize = 40;
/// A link of one part in so many of the slow echo is told in words as well.
const WORTH: u64 = 10;
/// Who ran instead told by name.
const RIVALS: usize = 3;

pub(super) fn waterfall(page: &mut Page<'_>, report: &Report) {
    let Some(echoes) = &report.echoes else { return };
    page.section("ECHO", "where the time of a keystroke goes");
    page.text(Tone::Plain, "  ", &figures(echoes));
    let example = |g: &Option<crate::report::model::Group>| g.as_ref().map(|g| g.example.clone());
    let (typical, slow) = (example(&echoes.typical), example(&echoes.slow));
    let unanswered = echoes.unanswered.iter().max_by_key(|u| u.group.count);
    let (Some(typical), Some(slow)) = (typical, slow) else {
        // Nothing came back: where the inputs stayed is all that there is to show.
        if let Some(u) = unanswered {
            table(page, None, &u.group.example);
        }
        return;
    };
    table(page, Some(&typical), &slow);
}

/// `1,213 echoes: p50 412µs …; of 1,240 inputs 27 had none: 20 taken in silence, 7 not read`.
fn figures(echoes: &Echoes) -> String {
    let l = &echoes.length;
    let ends = &echoes.ends;
    let mut text = match l.count {
        0 => "no input was echoed".to_owned(),
        n => format!(
            "{} of {} inputs echoed: p50 {}, p90 {}, p99 {}, max {}",
            count(n),
            count(echoes.inputs),
            duration(l.p50),
            duration(l.p90),
            duration(l.p99),
            duration(l.max)
        ),
    };
    let kinds = [
        (ends.silent, "taken in silence (a password)"),
        (ends.unread, "not read"),
        (ends.late, "read and not answered"),
        (ends.undelivered, "answered and not delivered"),
        (ends.lost, "lost sight of"),
        (ends.open, "under way at the end"),
    ];
    for (n, what) in kinds.iter().filter(|(n, _)| *n > 0) {
        text.push_str(&format!("; {} {what}", count(*n)));
    }
    if echoes.inexact > 0 {
        text.push_str(&format!(
            "; of {} which answer is theirs was told by time alone",
            count(echoes.inexact)
        ));
    }
    if echoes.confirmed + echoes.contradicted > 0 {
        let of = echoes.confirmed + echoes.contradicted;
        let told = format!(
            "; the hops tell the same of {} of {}",
            count(echoes.confirmed),
            count(of)
        );
        text.push_str(&told);
    }
    text
}

/// Columns, from the width of the page.
struct Layout {
    who: bool,
    /// Columns of each bar; the typical one's is 0 where there is room for one.
    typical: usize,
    slow: usize,
}

impl Layout {
    fn of(width: usize, both: bool) -> Layout {
        let times = 1 + TIME;
        if !both {
            let who = width >= TWO_BARS;
            let used = LINK + times + 1 + if who { WHO + 1 } else { 0 };
            let slow = if width >= ONE_BAR { width - used } else { 0 };
            return Layout {
                who,
                typical: 0,
                slow,
            };
        }
        if width >= TWO_BARS {
            let who = width >= super::page::WIDTH;
            let used = LINK + 2 * times + 2 + if who { WHO + 1 } else { 0 };
            let bars = width - used;
            return Layout {
                who,
                typical: bars / 2,
                slow: bars - bars / 2,
            };
        }
        let slow = if width >= ONE_BAR {
            width - LINK - 2 * times - 1
        } else {
            0
        };
        Layout {
            who: false,
            typical: 0,
            slow,
        }
    }
}

fn table(page: &mut Page<'_>, typical: Option<&ChainRow>, slow: &ChainRow) {
    let layout = Layout::of(page.width(), typical.is_some());
    let cell = |bar: usize, title: &str, length: u64| {
        let bar = if bar > 0 {
            format!(" {}", left(title, bar))
        } else {
            String::new()
        };
        format!("{bar} {}", right(&duration(length), TIME))
    };
    let who = if layout.who {
        left(" who", WHO + 1)
    } else {
        String::new()
    };
    let typical_head = typical.map_or_else(String::new, |t| {
        cell(layout.typical, "typical", t.length_ns)
    });
    let slow_title = if typical.is_some() {
        "slow"
    } else {
        "no answer"
    };
    page.line(
        Tone::Dim,
        &format!(
            "{}{who}{typical_head}{}",
            left("link", LINK),
            cell(layout.slow, slow_title, slow.length_ns)
        ),
    );
    for (link, t, s) in rows(typical, slow).into_iter().take(ROWS) {
        let mut spans = vec![Span::plain(left(words::link(link), LINK))];
        if layout.who {
            let name = s
                .or(t)
                .map_or_else(String::new, |l| cut(&l.actor.name, WHO));
            spans.push(Span::plain(format!(" {}", left(&name, WHO))));
        }
        if let Some(chain) = typical {
            spans.extend(bar(t, chain.length_ns, layout.typical));
        }
        spans.extend(bar(s, slow.length_ns, layout.slow));
        page.spans(&spans);
        if let Some(s) = s.filter(|s| s.length_ns.saturating_mul(WORTH) >= slow.length_ns) {
            let text = detail(s);
            if !text.is_empty() {
                page.text(Tone::Plain, "    ", &text);
            }
        }
    }
    let used = used(typical, slow);
    let legend = PARTS.iter().zip(used).filter(|(_, used)| *used);
    let legend: Vec<String> = legend
        .map(|(p, _)| format!("{} {}", p.mark, p.means))
        .collect();
    page.text(Tone::Dim, "", &legend.join("   "));
}

/// Links of the same kind beside each other; a kind that several threads had in turn has a row each.
fn rows<'a>(
    typical: Option<&'a ChainRow>,
    slow: &'a ChainRow,
) -> Vec<(LinkKind, Option<&'a LinkRow>, Option<&'a LinkRow>)> {
    let mut out = Vec::new();
    for kind in LinkKind::ALL {
        let of = |c: &'a ChainRow| c.links.iter().filter(move |l| l.link == kind);
        let mut typical = typical.into_iter().flat_map(of);
        let mut slow = of(slow);
        loop {
            match (typical.next(), slow.next()) {
                (None, None) => break,
                (t, s) => out.push((kind, t, s)),
            }
        }
    }
    out
}

/// One kind of time.
struct Part {
    mark: char,
    means: &'static str,
    /// ANSI colour.
    color: u8,
}

/// In the order of [`Parts::as_array`].
const PARTS: [Part; 6] = [
    Part {
        mark: '█',
        means: "on a CPU",
        color: 32,
    },
    Part {
        mark: '░',
        means: "waits for a CPU",
        color: 31,
    },
    Part {
        mark: 'x',
        means: "throttled",
        color: 35,
    },
    Part {
        mark: '-',
        means: "asleep",
        color: 34,
    },
    Part {
        mark: '!',
        means: "interrupted",
        color: 33,
    },
    Part {
        mark: '?',
        means: "not known",
        color: 36,
    },
];
/// The order in which a bar shows them: a thread waits before it runs.
const ORDER: [usize; 6] = [3, 2, 1, 4, 0, 5];

/// Which kinds of time occur.
fn used(typical: Option<&ChainRow>, slow: &ChainRow) -> [bool; 6] {
    let links = typical.into_iter().chain([slow]).flat_map(|c| &c.links);
    let mut used = [false; 6];
    for link in links {
        for (used, ns) in used.iter_mut().zip(link.parts.as_array()) {
            *used |= ns > 0;
        }
    }
    used
}

/// A bar of `width` columns and the time behind it; the time alone where there is no room for a bar.
fn bar(link: Option<&LinkRow>, whole: u64, width: usize) -> Vec<Span> {
    let time = link.map_or_else(String::new, |l| duration(l.length_ns));
    let time = Span::plain(format!(" {}", right(&time, TIME)));
    if width == 0 {
        return vec![time];
    }
    let mut spans = vec![Span::plain(" ".to_owned())];
    let mut filled = 0;
    if let Some(l) = link.filter(|l| l.length_ns > 0) {
        let at = |ns: u64| {
            let cells = u128::from(ns) * width as u128 / u128::from(whole.max(1));
            usize::try_from(cells).unwrap_or(width).min(width)
        };
        // At least one column, however short it is.
        let begin = at(l.from_ns).min(width - 1);
        let end = at(l.from_ns.saturating_add(l.length_ns)).max(begin + 1);
        spans.push(Span::plain(" ".repeat(begin)));
        for index in cells(&l.parts, end - begin) {
            if let Some(part) = PARTS.get(index) {
                spans.push(Span::colored(part.mark.to_string(), part.color));
            }
        }
        filled = end;
    }
    spans.push(Span::plain(" ".repeat(width - filled)));
    spans.push(time);
    spans
}

/// Which part each of `n` columns shows: the one at its middle, and of a single one the largest.
fn cells(parts: &Parts, n: usize) -> Vec<usize> {
    let ns = parts.as_array();
    let total = u128::from(parts.total_ns());
    if n == 1 {
        let largest = (0..6).max_by_key(|i| ns.get(*i));
        return largest.into_iter().collect();
    }
    let part_at = |middle: u128| {
        let mut until = 0;
        ORDER
            .into_iter()
            .find(|i| {
                until += ns.get(*i).map_or(0, |n| u128::from(*n));
                middle < until
            })
            .unwrap_or(0)
    };
    (0..n as u128)
        .map(|i| part_at(total * (2 * i + 1) / (2 * n as u128)))
        .collect()
}

/// What a large link is made of, in words.
fn detail(l: &LinkRow) -> String {
    let mut parts = Vec::new();
    let p = &l.parts;
    if p.run_queue_ns.saturating_mul(WORTH) >= l.length_ns {
        let mut text = format!("waited {}", duration(p.run_queue_ns));
        let class = words::class_in_full(&l.actor.place.sched);
        text.push_str(&format!(" as {}", glued(&class)));
        if !l.ran_instead.is_empty() {
            let names = l.ran_instead.iter().map(rival);
            text.push_str(&format!("; meanwhile ran {}", listed(names, RIVALS)));
        }
        parts.push(text);
    }
    if p.throttled_ns > 0 {
        let group = l
            .actor
            .place
            .cgroup
            .as_ref()
            .map(|g| visible(&g.path).into_owned());
        parts.push(format!(
            "throttled {} in {}",
            duration(p.throttled_ns),
            group.unwrap_or_default()
        ));
    }
    for s in l
        .blocked_on
        .iter()
        .filter(|s| s.ns.saturating_mul(WORTH) >= l.length_ns)
    {
        let call = s.syscall.as_deref().map(visible).unwrap_or_default();
        let what = match s.what {
            SleepKind::Syscall => format!("in {call}"),
            SleepKind::Disk => format!("in {call} (a disk)"),
            SleepKind::PageFault => "in page faults".to_owned(),
            SleepKind::Unknown => "somewhere".to_owned(),
        };
        parts.push(format!("asleep {} {what}", duration(s.ns)));
    }
    if l.major_faults > 0 {
        parts.push(format!("{} major page faults", count(l.major_faults)));
    }
    parts.join("; ")
}

/// `rustc(15102) 8.10ms`.
pub(super) fn rival(r: &Rival) -> String {
    let who = match r.pids.as_slice() {
        [pid] => format!("{}({pid})", r.name),
        [] => r.name.clone(),
        pids => format!("{} ×{}", r.name, pids.len()),
    };
    glued(&format!("{who} {}", duration(r.ns)))
}

/// `name` harmless and at most `width` columns.
pub(super) fn cut(name: &str, width: usize) -> String {
    let name = visible(name);
    if name.width() <= width {
        return name.into_owned();
    }
    let mut out = String::new();
    for c in name.chars() {
        let next = format!("{out}{c}");
        if next.width() >= width {
            break;
        }
        out = next;
    }
    out + "…"
}
