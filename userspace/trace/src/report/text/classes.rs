//! Waits within echoes by scheduling class: for `--by class`.

use super::page::{Page, Tone, left, right};
use super::waterfall::cut;
use crate::escape::visible;
use crate::report::model::Echoes;
use crate::report::units::{count, duration, percent};
use crate::report::words;

/// Waits of echoes by how those who had the links are scheduled.
pub(super) fn classes(page: &mut Page<'_>, echoes: &Echoes) {
    page.section(
        "BY CLASS",
        "waits for a CPU within echoes, by how the waiting are scheduled",
    );
    if echoes.classes.is_empty() {
        page.line(Tone::Plain, "  no echo was seen");
        return;
    }
    page.line(
        Tone::Dim,
        "class                slice  links     p50     p99  share  cgroup",
    );
    let total = echoes
        .classes
        .iter()
        .fold(0u64, |s, c| s.saturating_add(c.wait.sum));
    for row in &echoes.classes {
        let place = row.place.clone().unwrap_or_default();
        let class = match (&row.place, row.kworker) {
            (None, _) => "others".to_owned(),
            (Some(p), true) => format!("kworker {}", words::class(&p.sched)),
            (Some(p), false) => words::class(&p.sched),
        };
        let class = match place.autogroup_nice {
            Some(nice) if nice != 0 => format!("{class} [{nice}]"),
            _ => class,
        };
        let slice = place
            .slice_us
            .map_or("-".to_owned(), |us| duration(u64::from(us) * 1000));
        let start = format!(
            "{} {} {} {} {} {}  ",
            left(&cut(&class, 18), 18),
            right(&slice, 7),
            right(&count(row.links), 6),
            right(&duration(row.wait.p50), 7),
            right(&duration(row.wait.p99), 7),
            right(&percent(row.wait.sum, total), 5),
        );
        let group = match place.cgroup.as_ref() {
            Some(g) if g.path.is_empty() => format!("id {}", g.id),
            Some(g) => {
                let weight = g
                    .weight
                    .map_or_else(String::new, |w| format!(" weight {w}"));
                format!("{}{weight}", visible(&g.path))
            }
            None => "-".to_owned(),
        };
        let clamp = match (place.uclamp_min, place.uclamp_max) {
            (0, 0 | 1024) => String::new(),
            (least, most) => format!(" uclamp {least}-{most}"),
        };
        page.text(Tone::Plain, &start, &format!("{group}{clamp}"));
    }
}
