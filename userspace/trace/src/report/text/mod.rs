//! The report as a person reads it: 80 columns, the verdict first.

mod classes;
mod echo_line;
mod head;
mod hops;
mod inside;
mod interval;
mod page;
mod ptys;
mod slow;
#[cfg(test)]
mod tests;
mod threads;
mod waterfall;

use super::model::{Backend, Culprit, Report};
use super::units::duration;
use super::words;
use page::{Page, glued, listed};

pub(crate) use echo_line::longest_step;
pub use echo_line::{ECHO_HEAD, echo_line};
pub use interval::render_interval;

/// How the report is written.
#[derive(Debug, Clone)]
pub struct Style {
    /// Bold and dim by ANSI sequences; plain text otherwise.
    pub color: bool,
    /// Rows that a table shows before the rest is summed up in one line.
    pub rows: usize,
    /// Columns of the terminal; more than 80 are not used, and with fewer the bars shrink.
    pub columns: usize,
    /// Group the waits of echoes by scheduling class.
    pub by_class: bool,
    /// Seconds east of UTC at a moment in seconds since the Unix epoch.
    pub offset: fn(u64) -> i64,
}

impl Default for Style {
    fn default() -> Self {
        Style {
            color: false,
            rows: 12,
            columns: page::WIDTH,
            by_class: false,
            offset: |_| 0,
        }
    }
}

/// The whole report. No line is wider than 80 columns, and no name can do more than be read.
#[must_use]
pub fn render(report: &Report, style: &Style) -> String {
    let mut page = Page::new(style);
    head::limited(&mut page, report);
    head::verdict(&mut page, &report.verdict);
    waterfall::waterfall(&mut page, report);
    slow::slow(&mut page, report);
    if let Some(echoes) = report.echoes.as_ref().filter(|_| style.by_class) {
        classes::classes(&mut page, echoes);
    }
    head::target(&mut page, report);
    head::measured(&mut page, report);
    head::notes(&mut page, report);
    threads::threads(&mut page, report);
    ptys::ptys(&mut page, report);
    hops::hops(&mut page, report);
    inside::inside(&mut page, report);
    page.finish()
}

/// What a person who looks on wants of it: the verdict's sentence, what to do, the waterfall, and the
/// evidence behind it.
#[must_use]
pub(crate) fn render_echo(report: &Report, style: &Style) -> String {
    let mut page = Page::new(style);
    head::limited(&mut page, report);
    head::sentence(&mut page, &report.verdict);
    head::advice(&mut page, &report.verdict);
    waterfall::waterfall(&mut page, report);
    if !report.verdict.evidence.is_empty() {
        page.section("EVIDENCE", "the figures behind the verdict");
        head::evidence(&mut page, &report.verdict);
    }
    page.finish()
}

/// The three that had the CPU longest, with their times, and the sum of the others.
pub(crate) fn ran_instead(culprits: &[Culprit]) -> String {
    let mut sorted: Vec<&Culprit> = culprits.iter().filter(|c| c.ns > 0).collect();
    sorted.sort_by_key(|c| std::cmp::Reverse(c.ns));
    let (top, others) = sorted.split_at(sorted.len().min(3));
    let mut items: Vec<String> = top
        .iter()
        .map(|c| glued(&format!("{} {}", words::culprit(c), duration(c.ns))))
        .collect();
    let rest = others.iter().fold(0u64, |sum, c| sum.saturating_add(c.ns));
    if rest > 0 {
        items.push(glued(&format!("others {}", duration(rest))));
    }
    listed(items.into_iter(), 4)
}

/// Whether `capability` was measured. One that the report does not name counts as measured.
fn measured(backends: &[Backend], capability: &str) -> bool {
    let mut named = backends
        .iter()
        .filter(|b| b.capability == capability)
        .peekable();
    named.peek().is_none() || named.any(|b| b.used.is_some())
}
