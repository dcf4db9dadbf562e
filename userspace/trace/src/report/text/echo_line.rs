//! One echo in one line: `echo`, as they come.

use crate::echo::Parts;
use crate::escape::visible;
use crate::report::clock;
use crate::report::model::{ChainRow, EndKind, LinkRow};
use crate::report::{units, words};

/// The head over the lines of [`echo_line`].
pub const ECHO_HEAD: &str = "time of day   pty       in   took    longest step";

/// When, where, how long; the longest step and where its time went; and what is unusual.
pub fn echo_line(row: &ChainRow) -> String {
    let mut line = format!(
        "{}  {:<8} {:>4}  {:<7}",
        clock::time(
            row.unix_ns,
            clock::local_offset(row.unix_ns / 1_000_000_000)
        ),
        format!("pts/{}", row.index),
        units::bytes(row.bytes),
        units::duration(row.length_ns),
    );
    let step = longest_step(row);
    if !step.is_empty() {
        line += &format!(" {step}");
    }
    let end = match row.end {
        EndKind::Echoed => "",
        EndKind::Silent => "; no echo",
        EndKind::Unread => "; nobody reads it",
        EndKind::Late => "; no answer so far",
        EndKind::Undelivered => "; the answer is not shown",
        EndKind::Lost => "; records of it were lost",
        EndKind::Open => "; under way",
    };
    line += end;
    if row.inexact && row.end == EndKind::Echoed {
        line += "; inexact";
    }
    line
}

/// The longest step and where its time went; nothing where there is none.
pub(crate) fn longest_step(row: &ChainRow) -> String {
    let longest = row.links.iter().max_by_key(|l| l.length_ns);
    longest.map_or_else(String::new, step)
}

fn step(link: &LinkRow) -> String {
    let (what, ns) = longest(&link.parts);
    let why = match what {
        "waited" => link
            .ran_instead
            .first()
            .map(|r| format!(" for {}", visible(&r.name))),
        "asleep" => {
            let sleep = link.blocked_on.first().and_then(|s| s.syscall.as_deref());
            sleep.map(|s| format!(" in {}", visible(s)))
        }
        _ => None,
    };
    format!(
        "{} {}: {} {what}{}",
        words::link(link.link),
        units::duration(link.length_ns),
        units::duration(ns),
        why.unwrap_or_default()
    )
}

fn longest(p: &Parts) -> (&'static str, u64) {
    let parts = [
        ("on CPU", p.on_cpu_ns),
        ("waited", p.run_queue_ns),
        ("throttled", p.throttled_ns),
        ("asleep", p.blocked_ns),
        ("in interrupts", p.interrupt_ns),
        ("not known", p.unknown_ns),
    ];
    let mut longest = parts[0];
    for part in parts {
        if part.1 > longest.1 {
            longest = part;
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::echo::synthetic::{Known, Population, ms};
    use crate::echo::{LinkKind, rows};

    #[test]
    fn the_longest_step_and_who_ran_instead() {
        let mut population = Population::quiet(3);
        let mut chain = population.next();
        population.wait(&mut chain, LinkKind::MasterRead, ms(12), &["ru\x1bstc"]);
        let mut row = rows::chain(&chain, &Known);
        let line = echo_line(&row);
        assert!(line.contains("server reads 12."), "{line}");
        assert!(line.contains("waited for ru"), "{line}");
        assert!(!line.contains('\x1b') && !line.contains('\n'), "{line}");
        row.end = EndKind::Unread;
        assert!(echo_line(&row).ends_with("; nobody reads it"));
        row.links.clear();
        assert!(echo_line(&row).contains("pts/"));
    }
}
