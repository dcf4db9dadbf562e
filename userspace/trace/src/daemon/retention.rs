//! The folder of recordings stays within its bounds: the oldest that nobody records go first.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use phux_recording::Stored;

use crate::report::units::count;
use crate::say;

/// The bounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// What all recordings may take.
    pub(super) max_bytes: u64,
    /// How long one is kept after its end.
    pub(super) max_age: Duration,
}

/// What has to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Recordings that go, oldest first.
    pub(super) remove: Vec<String>,
    /// Even without them it is too much: this one, the largest that is being recorded, has to end.
    pub(super) end: Option<String>,
}

/// What these bounds ask for, of these recordings.
pub(super) fn judge(all: &[Stored], limits: Limits, now_ns: i64) -> Verdict {
    let age_ns = i64::try_from(limits.max_age.as_nanos()).unwrap_or(i64::MAX);
    let mut bytes = all.iter().fold(0u64, |sum, s| sum.saturating_add(s.bytes));
    let mut ended: Vec<&Stored> = all.iter().filter(|s| !s.living).collect();
    ended.sort_by_key(|s| s.written_ns);
    // The last one is not thrown away for its own size: it ended because of that. Room is made for the next.
    let idle = ended.len() == all.len();
    let last = ended.len().saturating_sub(1);
    let mut verdict = Verdict::default();
    for (nth, one) in ended.into_iter().enumerate() {
        let old = now_ns.saturating_sub(one.written_ns) > age_ns;
        let spared = idle && nth == last;
        if old || (bytes > limits.max_bytes && !spared) {
            bytes = bytes.saturating_sub(one.bytes);
            verdict.remove.push(one.name.clone());
        }
    }
    if bytes > limits.max_bytes {
        let living = all.iter().filter(|s| s.living);
        verdict.end = living.max_by_key(|s| s.bytes).map(|s| s.name.clone());
    }
    verdict
}

/// Finishes what a killed daemon left.
///
/// # Errors
/// When the folder cannot be read. A recording that cannot be finished is told and left.
pub(super) fn pick_up(dir: &Path) -> Result<()> {
    for one in phux_recording::stored(dir).with_context(|| dir.display().to_string())? {
        match phux_recording::recover(&dir.join(&one.name)) {
            Ok(found) if found.runs != 0 => say::complain(&format!(
                "picked up {}, whose recorder had been killed: {} rows",
                one.name,
                count(found.rows)
            )),
            Ok(_) => {}
            Err(e) => say::complain(&format!(
                "{} could not be picked up: {:#}",
                one.name,
                anyhow::Error::from(e)
            )),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(name: u32, bytes: u64, written_ns: i64, living: bool) -> Stored {
        Stored {
            name: name.to_string(),
            bytes,
            written_ns,
            living,
        }
    }

    #[test]
    fn the_oldest_go_first_and_what_is_recorded_never() {
        let all = [
            one(1, 40, 100, false),
            one(2, 40, 50, true),
            one(3, 40, 300, false),
            one(4, 40, 200, false),
        ];
        let limits = |max_bytes, ns| Limits {
            max_bytes,
            max_age: Duration::from_nanos(ns),
        };
        assert_eq!(judge(&all, limits(200, 1000), 400), Verdict::default());
        assert_eq!(judge(&all, limits(120, 1000), 400).remove, ["1"]);
        assert_eq!(judge(&all, limits(90, 1000), 400).remove, ["1", "4"]);
        assert_eq!(judge(&all, limits(200, 250), 400).remove, ["1"], "too old");
        let idle = [one(1, 40, 100, false), one(2, 40, 300, false)];
        assert_eq!(
            judge(&idle, limits(30, 1000), 400).remove,
            ["1"],
            "the last stays"
        );
        let too_much = judge(&all, limits(30, 1000), 400);
        assert_eq!(too_much.remove, ["1", "4", "3"]);
        assert_eq!(too_much.end.as_deref(), Some("2"));
    }

    proptest! {
        #[test]
        fn what_stays_is_within_the_bounds_or_all_of_it_is_recorded(
            sizes in proptest::collection::vec((0u64..1000, 0i64..1000, any::<bool>()), 0..20),
            max_bytes in 1u64..5000,
            max_age in 0u64..1000,
        ) {
            let all: Vec<Stored> = (0..).zip(&sizes).map(|(n, (b, w, l))| one(n, *b, *w, *l)).collect();
            let limits = Limits { max_bytes, max_age: Duration::from_nanos(max_age) };
            let verdict = judge(&all, limits, 1000);
            let stays: Vec<&Stored> = all.iter().filter(|s| !verdict.remove.contains(&s.name)).collect();
            let bytes: u64 = stays.iter().map(|s| s.bytes).sum();
            prop_assert!(all.iter().filter(|s| s.living).all(|s| !verdict.remove.contains(&s.name)));
            if bytes > max_bytes {
                let recorded = stays.iter().all(|s| s.living) && verdict.end.is_some();
                let the_last = stays.len() == 1 && verdict.end.is_none();
                prop_assert!(recorded || the_last);
            }
            for s in &stays {
                prop_assert!(s.living || 1000 - s.written_ns <= max_age as i64);
            }
        }
    }
}
