//! Where things are: `DIR/<table>/date=YYYY-MM-DD/host=NAME/part-<run>-<n>.parquet`, the layout that
//! DuckDB, Spark, pandas and DataFusion read as one dataset. What is not finished has a leading
//! dot, so that none of them looks at it.

use std::fmt::Write;

/// Id of a recording: Unix time of its start, ns. Rows have it as column `run`.
pub type RunId = i64;

/// A part of a table, from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartName {
    pub(crate) run: RunId,
    /// Parts of a recording's table are numbered.
    pub(crate) number: u32,
    /// From a journal that a killed recorder left: comes after the part of the same number.
    pub(crate) rest: bool,
}

impl PartName {
    /// The finished part.
    pub(crate) fn finished(&self) -> String {
        format!("part-{}.parquet", self.stem())
    }

    /// The part that is written.
    pub(crate) fn in_progress(&self) -> String {
        format!(".part-{}.parquet.inprogress", self.stem())
    }

    /// What the part lacks yet.
    pub(crate) fn journal(&self) -> String {
        format!(".part-{}.journal", self.stem())
    }

    /// The journal that will replace it.
    pub(crate) fn next_journal(&self) -> String {
        format!(".part-{}.journal.next", self.stem())
    }

    fn stem(&self) -> String {
        let rest = if self.rest { "r" } else { "" };
        format!("{}-{:05}{rest}", self.run, self.number)
    }

    pub(crate) fn from_finished(name: &str) -> Option<PartName> {
        Self::from_stem(name.strip_prefix("part-")?.strip_suffix(".parquet")?)
    }

    pub(crate) fn from_in_progress(name: &str) -> Option<PartName> {
        let stem = name.strip_prefix(".part-")?;
        Self::from_stem(stem.strip_suffix(".parquet.inprogress")?)
    }

    pub(crate) fn from_journal(name: &str) -> Option<PartName> {
        let stem = name.strip_prefix(".part-")?;
        Self::from_stem(
            stem.strip_suffix(".journal")
                .or_else(|| stem.strip_suffix(".journal.next"))?,
        )
    }

    fn from_stem(stem: &str) -> Option<PartName> {
        let (stem, rest) = match stem.strip_suffix('r') {
            Some(stem) => (stem, true),
            None => (stem, false),
        };
        let (run, number) = stem.rsplit_once('-')?;
        Some(PartName {
            run: run.parse().ok()?,
            number: number.parse().ok()?,
            rest,
        })
    }
}

/// A living recorder holds this file locked.
pub(crate) fn lock(run: RunId) -> String {
    format!(".run-{run}.lock")
}

pub(crate) fn run_of_lock(name: &str) -> Option<RunId> {
    name.strip_prefix(".run-")?
        .strip_suffix(".lock")?
        .parse()
        .ok()
}

/// Room for footers, kept for the day that the disk is full.
pub(crate) fn ballast(run: RunId) -> String {
    format!(".run-{run}.ballast")
}

pub(crate) fn run_of_ballast(name: &str) -> Option<RunId> {
    name.strip_prefix(".run-")?
        .strip_suffix(".ballast")?
        .parse()
        .ok()
}

/// `host=NAME`, whatever a host calls itself.
pub(crate) fn host_folder(host: &str) -> String {
    let mut folder = String::from("host=");
    for c in host.chars().take(200) {
        folder.push(match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '_' => c,
            _ => '_',
        });
    }
    if host.is_empty() {
        folder.push_str("unknown");
    }
    folder
}

/// `date=YYYY-MM-DD`, UTC, of a Unix time in ns.
pub(crate) fn date_folder(unix_ns: i64) -> String {
    let (y, m, d) = civil(unix_ns.div_euclid(86_400_000_000_000));
    let mut folder = String::new();
    let _ = write!(folder, "date={y:04}-{m:02}-{d:02}");
    folder
}

/// Days since 1970 to year, month, day (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let day = 86_400_000_000_000;
        assert_eq!(date_folder(0), "date=1970-01-01");
        assert_eq!(date_folder(-1), "date=1969-12-31");
        assert_eq!(date_folder(11_016 * day), "date=2000-02-29");
        assert_eq!(date_folder(1_773_396_000_000_000_000), "date=2026-03-13");
    }

    #[test]
    fn a_host_cannot_leave_its_folder() {
        assert_eq!(host_folder("../a b/ü"), "host=.._a_b__");
        assert_eq!(host_folder(""), "host=unknown");
    }

    #[test]
    fn names_are_read_back_and_others_are_not_ours() {
        for rest in [false, true] {
            let part = PartName {
                run: 1_773_396_000_000_000_000,
                number: 7,
                rest,
            };
            assert_eq!(PartName::from_finished(&part.finished()), Some(part));
            assert_eq!(PartName::from_in_progress(&part.in_progress()), Some(part));
            assert_eq!(PartName::from_journal(&part.journal()), Some(part));
            assert_eq!(PartName::from_journal(&part.next_journal()), Some(part));
        }
        for foreign in ["part-.parquet", "part-1-x.parquet", "part-1-1.csv", "x"] {
            assert_eq!(PartName::from_finished(foreign), None, "{foreign}");
        }
        assert_eq!(run_of_lock(&lock(5)), Some(5));
    }
}
