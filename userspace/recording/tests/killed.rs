//! A recorder that is killed loses at most its last second, and what it left is picked up.
mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{call, files, run, small, wait_until};
use phux_recording::*;
use proptest::prelude::ProptestConfig;

const DIR: &str = "PHUX_RECORDING_CHILD_DIR";
const PACE: &str = "PHUX_RECORDING_CHILD_PACE_US";

fn mono() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Not a test: what the children of the tests below do. Records until it is killed.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else {
        return;
    };
    let pace = std::env::var(PACE).ok().and_then(|p| p.parse().ok());
    let pace = pace.map(Duration::from_micros).filter(|p| !p.is_zero());
    let recorder = Recorder::create(Path::new(&dir), run(), small()).expect("begin");
    for i in 0.. {
        let row = Syscall {
            ts: mono(),
            ..call(i)
        };
        recorder.push(row).expect("a row");
        if i % 5 == 0 {
            let row = PtyIo {
                ts: mono(),
                ret: i as i64,
                ..PtyIo::default()
            };
            recorder.push(row).expect("a row");
        }
        if let Some(pace) = pace {
            std::thread::sleep(pace);
        }
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn record(dir: &Path, pace_us: u64) -> Killed {
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["child", "--exact", "--nocapture"])
        .env(DIR, dir)
        .env(PACE, pace_us.to_string())
        .stdout(Stdio::null())
        .spawn()
        .expect("a child");
    Killed(child)
}

/// The size of all journals and unfinished parts of calls.
fn unfinished(dir: &Path) -> u64 {
    files(dir)
        .iter()
        .filter(|f| f.to_string_lossy().contains("/syscalls/"))
        .filter_map(|f| f.metadata().ok())
        .map(|m| m.len())
        .sum()
}

/// All rows of what was recovered; each once, in order, without a hole.
fn whole(dir: &Path) -> Vec<Row> {
    let dataset = Dataset::open(dir).expect("a recording");
    let (id, row) = dataset.latest().expect("its row");
    assert_eq!(&*row.outcome, "killed");
    let rows: Vec<Row> = dataset
        .replay(id)
        .expect("a replay")
        .collect::<Result<_, _>>()
        .expect("all rows");
    let rows: Vec<Row> = rows
        .into_iter()
        .filter(|r| r.table() != Table::run)
        .collect();
    assert_eq!(row.rows, rows.len() as u64);
    for table in [Table::syscalls, Table::pty] {
        let mut last = None;
        let of_table = rows.iter().filter(|r| r.table() == table);
        for (row, number) in of_table.zip(0..) {
            assert!(last < Some(row.seq()), "{last:?} then {row:?}");
            last = Some(row.seq());
            match row {
                Row::Syscall(r) => assert_eq!(r.bytes, number * 3, "a hole before {r:?}"),
                Row::PtyIo(r) => assert_eq!(r.ret as u64, number * 5, "a hole before {r:?}"),
                other => panic!("{other:?}"),
            }
        }
    }
    for file in files(dir) {
        let name = file
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        assert!(name.starts_with("part-"), "left over: {name}");
    }
    rows
}

#[test]
fn at_most_the_last_second_is_lost() {
    // A machine under load can keep the recorder from running at all: then another try counts.
    let mut lost = Vec::new();
    for _ in 0..10 {
        let dir = tempfile::tempdir().expect("a folder");
        let mut child = record(dir.path(), 1_000);
        wait_until("something is saved", || unfinished(dir.path()) > 20_000);
        std::thread::sleep(Duration::from_millis(700));
        let killed = mono();
        child.0.kill().expect("SIGKILL");
        child.0.wait().expect("its end");
        let rows = whole(dir.path());
        let last = rows.iter().map(Row::ts).max().expect("rows");
        lost.push(killed.saturating_sub(last));
        if killed.saturating_sub(last) < 1_000_000_000 {
            return;
        }
    }
    panic!("lost, ns: {lost:?}");
}

#[test]
fn a_recorder_killed_at_full_speed_leaves_whole_row_groups() {
    for round in 0..6 {
        let dir = tempfile::tempdir().expect("a folder");
        let child = record(dir.path(), 0);
        // From the first bytes to several row groups.
        let size = [1, 20_000, 100_000, 200_000, 400_000, 800_000][round];
        wait_until("something is written", || unfinished(dir.path()) > size);
        drop(child);
        whole(dir.path());
    }
}

#[test]
fn a_living_recorder_is_left_alone_and_a_recovery_done_twice_is_done_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let child = record(dir.path(), 100);
    // More than one row group: the first can be there in part before anything says that it is.
    wait_until("something is saved", || unfinished(dir.path()) > 100_000);
    assert_eq!(
        recover(dir.path()).expect("a recovery"),
        Recovered::default()
    );
    assert!(unfinished(dir.path()) > 100_000, "still there");
    drop(child);
    let found = recover(dir.path()).expect("a recovery");
    assert!(
        found.runs == 1 && found.parts >= 1 && found.rows > 0,
        "{found:?}"
    );
    assert_eq!(recover(dir.path()).expect("again"), Recovered::default());
    assert_eq!(whole(dir.path()).len() as u64, found.rows);
}

proptest::proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// A journal and a part that were cut anywhere (a power cut does that) give what is whole.
    #[test]
    fn torn_files_give_what_is_whole(cut in 0.0..1.0_f64, journal in proptest::bool::ANY) {
        let dir = torn();
        let ending = if journal { ".journal" } else { ".inprogress" };
        let file = files(dir.path()).into_iter().find(|f| {
            f.to_string_lossy().contains("syscalls") && f.to_string_lossy().ends_with(ending)
        }).expect("an unfinished file");
        let length = file.metadata().expect("its length").len();
        let open = std::fs::OpenOptions::new().write(true).open(&file).expect("open");
        open.set_len((length as f64 * cut) as u64).expect("cut");
        let dataset = Dataset::open(dir.path()).expect("a recording");
        let (id, _) = dataset.latest().expect("its row");
        for row in dataset.rows::<Syscall>(id).expect("rows") {
            let row = row.expect("a row");
            let n = row.bytes / 3;
            let wanted = Syscall { ts: row.ts, seq: row.seq, ..call(n) };
            proptest::prop_assert_eq!(row, wanted);
        }
    }
}

/// The folder of a killed recorder with row groups and a journal; made once, copied.
fn torn() -> tempfile::TempDir {
    static MADE: std::sync::OnceLock<tempfile::TempDir> = std::sync::OnceLock::new();
    let made = MADE.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a folder");
        let child = record(dir.path(), 100);
        wait_until("a row group and a journal", || {
            files(dir.path()).iter().any(|f| {
                f.to_string_lossy().ends_with(".parquet.inprogress")
                    && f.to_string_lossy().contains("syscalls")
                    && f.metadata().is_ok_and(|m| m.len() > 10_000)
            }) && unfinished(dir.path()) > 150_000
        });
        drop(child);
        dir
    });
    let copy = tempfile::tempdir().expect("a folder");
    for file in files(made.path()) {
        let to = copy
            .path()
            .join(file.strip_prefix(made.path()).expect("below"));
        std::fs::create_dir_all(to.parent().expect("a folder")).expect("folders");
        std::fs::copy(&file, to).expect("a copy");
    }
    copy
}
