//! Who may read a recording, what is refused, and what a full disk does.
mod common;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{call, files, run, small, wait_until};
use phux_recording::*;

fn record(dir: &Path, rows: u64) -> Result<Run, Error> {
    let recorder = Recorder::create(dir, run(), Options::default())?;
    for i in 0..rows {
        recorder.push(call(i))?;
    }
    recorder.finish()
}

#[test]
fn all_is_the_owners_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path().join("new");
    let recorder = Recorder::create(&dir, run(), Options::default()).expect("a recorder");
    recorder.push(call(1)).expect("a row");
    wait_until("a journal", || {
        files(&dir)
            .iter()
            .any(|f| f.extension().is_some_and(|e| e == "journal"))
    });
    let private = |dir: &Path| {
        for file in files(dir) {
            // The writer renames and removes meanwhile.
            let Ok(meta) = file.metadata() else { continue };
            assert_eq!(meta.permissions().mode() & 0o777, 0o600, "{file:?}");
            for folder in file.ancestors().skip(1).take_while(|f| f.starts_with(dir)) {
                let mode = folder.metadata().expect("its mode").permissions().mode();
                assert_eq!(mode & 0o777, 0o700, "{folder:?}");
            }
        }
    };
    private(&dir);
    recorder.finish().expect("the end");
    private(&dir);
    assert_eq!(files(&dir).len(), 2);
}

#[test]
fn links_are_refused_and_what_they_lead_to_is_untouched() {
    let base = tempfile::tempdir().expect("a folder");
    let other = base.path().join("other");
    std::fs::create_dir(&other).expect("a folder");

    let link = base.path().join("link");
    symlink(&other, &link).expect("a link");
    let refused = record(&link, 1).expect_err("the folder is a link");
    assert!(matches!(refused, Error::Unsafe { .. }), "{refused}");
    let refused = Dataset::open(&link).expect_err("the folder is a link");
    assert!(matches!(refused, Error::Unsafe { .. }), "{refused}");

    for table in ["syscalls", "run"] {
        let dir = base.path().join(format!("dir-{table}"));
        std::fs::create_dir(&dir).expect("a folder");
        symlink(&other, dir.join(table)).expect("a link");
        let refused = record(&dir, 1).expect_err("a table's folder is a link");
        assert!(matches!(refused, Error::Unsafe { .. }), "{refused}");
    }
    assert_eq!(files(&other), Vec::<PathBuf>::new());
}

#[test]
fn a_planted_link_in_the_place_of_a_file_is_not_written_through() {
    let base = tempfile::tempdir().expect("a folder");
    let victim = base.path().join("victim");
    std::fs::write(&victim, "precious").expect("a file");
    let dir = base.path().join("dir");
    // The folder of the run's row, whose file names can be guessed.
    let folder = dir.join("run/date=2026-03-13/host=testhost");
    std::fs::create_dir_all(&folder).expect("folders");
    for name in [
        "part-1773396000000000000-00000.parquet",
        ".part-1773396000000000000-00000.parquet.inprogress",
    ] {
        symlink(&victim, folder.join(name)).expect("a link");
    }
    let _ = record(&dir, 3);
    assert_eq!(std::fs::read(&victim).expect("the file"), b"precious");
}

#[test]
fn what_is_no_recording_is_told_as_such() {
    let dir = tempfile::tempdir().expect("a folder");
    let none = Dataset::open(dir.path()).expect_err("nothing here");
    assert!(matches!(none, Error::Empty(_)), "{none}");
}

/// A small file system of its own; `None` where only root may have one.
struct Small(tempfile::TempDir);

impl Small {
    fn new(size: &str) -> Option<Small> {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("CI").is_none(), "this test needs root");
            println!("skipped: a small file system needs root");
            return None;
        }
        let dir = tempfile::tempdir().expect("a folder");
        let options = format!("size={size},mode=0700");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "none"])
            .arg(dir.path())
            .status()
            .expect("mount");
        assert!(mounted.success());
        Some(Small(dir))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(self.0.path())
            .status();
    }
}

#[test]
fn a_full_disk_ends_the_recording_with_all_that_was_written_intact() {
    // With and without rows that only the journal has when it happens.
    for (size, pause) in [("2m", false), ("2m", true)] {
        let Some(disk) = Small::new(size) else { return };
        let dir = disk.0.path().join("recording");
        let recorder = Recorder::create(&dir, run(), small()).expect("a recorder");
        let mut pushed = 0;
        while recorder.push(call(pushed)).is_ok() {
            pushed += 1;
            assert!(pushed < 50_000_000, "the disk never fills");
            if pause && pushed.is_multiple_of(5_000) {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        let error = recorder.finish().expect_err("a full disk");
        assert!(matches!(error, Error::Full(_)), "{error:?}");

        let dataset = Dataset::open(&dir).expect("a recording");
        let (id, row) = dataset.latest().expect("its row");
        assert!(row.outcome.contains("no space left"), "{row:?}");
        let rows: Vec<Syscall> = dataset
            .rows(id)
            .expect("rows")
            .collect::<Result<_, _>>()
            .expect("all rows");
        assert!(rows.len() > 5_000, "{} of {pushed}", rows.len());
        for (found, i) in rows.iter().zip(0..) {
            assert_eq!(found.bytes, i * 3, "a hole");
        }
    }
}

#[test]
fn no_room_at_all_is_told_at_the_beginning() {
    let Some(disk) = Small::new("512k") else {
        return;
    };
    let error = record(&disk.0.path().join("recording"), 1).expect_err("no room");
    assert!(matches!(error, Error::Full(_)), "{error:?}");
}
