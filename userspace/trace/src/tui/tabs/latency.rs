//! Latencies: every series of times there is, and the histogram of the selected one.

use phux_perf::bucket_bounds;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::super::app::App;
use super::super::table::{Cell, Column, figure, words as word_column};
use super::Page;
use crate::escape::name;
use crate::report::model::{Dist, Report};
use crate::report::units::{count, duration, percent};
use crate::report::words;
use crate::syscalls::view::{Filter, holds};

/// Columns beside a bar.
const LABELS: usize = 24;

const COLUMNS: [Column; 6] = [
    word_column("series", 34),
    figure("times", 6),
    figure("p50", 6),
    figure("p90", 6),
    figure("p99", 6),
    figure("max", 6),
];

/// A name and the times behind it.
type Series<'a> = (String, std::borrow::Cow<'a, Dist>);

pub(super) fn page(app: &App, report: &Report, width: usize, height: usize) -> Page {
    let mut all = series(app, report);
    sort(&mut all, app);
    let selected = app.view().window(all.len(), 1).row;
    let mut head = Vec::new();
    if let Some((name, dist)) = all.get(selected) {
        head.push(Line::from(format!("{name}:")));
        // The list below keeps half of the room.
        head.extend(histogram(dist, width, height.saturating_sub(4) / 2));
    }
    let rows = all.iter().map(|(name, d)| {
        vec![
            Cell::words(name),
            Cell::count(d.count),
            Cell::time(d.p50),
            Cell::time(d.p90),
            Cell::time(d.p99),
            Cell::time(d.max),
        ]
    });
    Page::table(app, head, &COLUMNS, rows.collect(), "no times yet")
}

/// As the table below will have them, so that the selected row is the one drawn.
fn sort(all: &mut [Series<'_>], app: &App) {
    let view = app.view();
    all.sort_by(|(a, x), (b, y)| {
        let order = match view.sort % COLUMNS.len() {
            0 => a.cmp(b),
            1 => y.count.cmp(&x.count),
            2 => y.p50.cmp(&x.p50),
            3 => y.p90.cmp(&x.p90),
            4 => y.p99.cmp(&x.p99),
            _ => y.max.cmp(&x.max),
        };
        if view.reversed {
            order.reverse()
        } else {
            order
        }
    });
}

fn series<'a>(app: &App, report: &'a Report) -> Vec<Series<'a>> {
    use std::borrow::Cow;
    let mut all: Vec<Series<'a>> = Vec::new();
    let mut add = |name: String, dist: &'a Dist| {
        if dist.count > 0 {
            all.push((name, Cow::Borrowed(dist)));
        }
    };
    if let Some(e) = &report.echoes {
        add("echo, whole".into(), &e.length);
        for l in &e.links {
            add(format!("echo, {}", words::link(l.link)), &l.length);
        }
    }
    for t in &report.threads {
        add(format!("wait of {}({})", name(&t.comm), t.tid), &t.wait);
    }
    for p in &report.ptys {
        let n = p.index;
        add(format!("pts/{n} key flush wait"), &p.flush_input.wait);
        add(
            format!("pts/{n} key reader wait"),
            &p.flush_input.reader_wait,
        );
        add(format!("pts/{n} output flush wait"), &p.flush_output.wait);
        add(
            format!("pts/{n} output reader wait"),
            &p.flush_output.reader_wait,
        );
        add(format!("pts/{n} output writes"), &p.slave_writes.duration);
    }
    if !app.gaps.is_empty() {
        let gaps = Cow::Owned(Dist::from(&app.gaps));
        all.push(("gap between inputs".into(), gaps));
    }
    if let Some((calls, gaps)) = &app.seen.series {
        for (call, durations) in calls {
            all.push((format!("call {call}"), Cow::Owned(Dist::from(durations))));
        }
        if gaps.length.count > 0 {
            // How much of it was no work of the program's own, no gap can tell.
            let off = percent(gaps.off_cpu_ns, gaps.length.sum);
            let name = format!("gap between calls, {off}% off CPU");
            all.push((name, Cow::Owned(Dist::from(&gaps.length))));
        }
    }
    all.retain(|(name, _)| {
        app.filters.iter().all(|f| match f {
            Filter::Words(words) => holds(name, words),
            _ => true,
        })
    });
    all
}

/// A bar for each power of two, empty ones between included; the rarest ends share a bar where there
/// is no room.
fn histogram(dist: &Dist, width: usize, most: usize) -> Vec<Line<'static>> {
    let mut powers: std::collections::BTreeMap<u32, u64> = Default::default();
    for b in &dist.buckets {
        if usize::from(b.idx) < phux_perf::BUCKETS {
            let (low, _) = bucket_bounds(usize::from(b.idx));
            let sum = powers.entry(low.max(1).ilog2()).or_default();
            *sum = sum.saturating_add(b.count);
        }
    }
    let (Some((&low, _)), Some((&high, _))) = (powers.first_key_value(), powers.last_key_value())
    else {
        return Vec::new();
    };
    // Wider steps where the powers do not fit.
    let step = (high - low + 1).div_ceil(u32::try_from(most).unwrap_or(1).max(1));
    let mut bars = Vec::new();
    let mut from = low;
    while from <= high {
        let until = from.saturating_add(step);
        let sum = powers
            .range(from..until)
            .fold(0u64, |s, (_, n)| s.saturating_add(*n));
        bars.push((from, until, sum));
        from = until;
    }
    let max = bars.iter().map(|b| b.2).max().unwrap_or(0).max(1);
    let room = width.saturating_sub(LABELS).max(1);
    let bar = |&(from, until, sum): &(u32, u32, u64)| {
        let cells = u128::from(sum) * room as u128 / u128::from(max);
        let cells = usize::try_from(cells)
            .unwrap_or(0)
            .max(usize::from(sum > 0));
        let low = if from == 0 { 0 } else { 1u64 << from };
        let high = 1u64.checked_shl(until).map_or(u64::MAX, |n| n - 1);
        Line::from(vec![
            Span::raw(format!("{:>6} – {:<6} ", duration(low), duration(high))),
            Span::styled("█".repeat(cells), Style::new().fg(Color::Cyan)),
            Span::raw(format!(" {}", count(sum))),
        ])
    };
    bars.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use phux_perf::Snapshot;

    #[test]
    fn every_sample_is_in_a_bar_and_bars_fit() {
        let mut snapshot = Snapshot::new();
        for n in [0, 1, 700, 900, 1 << 20, u64::MAX] {
            snapshot.record(n);
        }
        let dist = Dist::from(&snapshot);
        for most in 0..70 {
            let lines = histogram(&dist, 60, most);
            assert!(lines.len() <= most.max(1), "{most}: {}", lines.len());
            let last = |l: &Line<'_>| l.spans.last().map(|s| s.content.trim().to_owned());
            let counts = lines.iter().filter_map(last);
            let sum: u64 = counts.map(|c| c.parse::<u64>().expect("a count")).sum();
            assert_eq!(sum, dist.count, "{most}");
        }
        assert!(histogram(&Dist::default(), 60, 9).is_empty());
    }
}
