//! The program, on recordings.

use std::path::Path;
use std::process::{Command, Output};

use phux_recording::{Name, Options, Recorder, Run, Syscall};

fn record(dir: &Path) {
    let run = Run {
        hostname: "testhost".into(),
        unix_ns: 1_773_396_000_000_000_000,
        ..Run::default()
    };
    let recorder = Recorder::create(dir, run, Options::default()).expect("a recorder");
    for i in 0..10_000_u64 {
        let call = Syscall {
            ts: i * 1_000,
            dur: i,
            name: if i % 4 == 0 { "write" } else { "read" }.into(),
            path: format!("/tmp/\u{1b}[31mred-{}", i % 3).into(),
            bytes: i,
            family: Name::fixed("fs"),
            ..Syscall::default()
        };
        recorder.push(call).expect("a row");
    }
    recorder.finish().expect("the end");
}

fn query(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_phux-trace-query"))
        .arg(dir)
        .args(arguments)
        .output()
        .expect("the program")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

#[test]
fn sums_are_those_of_the_rows_in_each_format() {
    let dir = tempfile::tempdir().expect("a folder");
    record(dir.path());
    let sql = "SELECT name, count(*) AS n, sum(bytes) AS bytes, host FROM syscalls GROUP BY name, host ORDER BY name";
    let csv = text(&query(dir.path(), &[sql, "--format", "csv"]));
    assert_eq!(
        csv,
        "name,n,bytes,host\nread,7500,37500000,testhost\nwrite,2500,12495000,testhost\n"
    );
    let json = text(&query(dir.path(), &[sql, "--format", "json"]));
    assert_eq!(
        json.lines().next(),
        Some(r#"{"name":"read","n":7500,"bytes":37500000,"host":"testhost"}"#)
    );
    let table = text(&query(dir.path(), &[sql]));
    assert!(
        table.contains("| read  | 7500 | 37500000 | testhost |"),
        "{table}"
    );
}

#[test]
fn tables_without_rows_are_there_and_times_of_day_can_be_had() {
    let dir = tempfile::tempdir().expect("a folder");
    record(dir.path());
    let csv = text(&query(
        dir.path(),
        &["SELECT count(*) AS n FROM echoes", "--format", "csv"],
    ));
    assert_eq!(csv, "n\n0\n");
    let sql =
        "SELECT max(r.unix_ns + s.ts - r.ts) AS last FROM syscalls s JOIN run r ON s.run = r.run";
    let csv = text(&query(dir.path(), &[sql, "--format", "csv"]));
    assert_eq!(csv, "last\n1773396000009999000\n");
}

#[test]
fn a_path_cannot_steer_the_terminal() {
    let dir = tempfile::tempdir().expect("a folder");
    record(dir.path());
    let table = text(&query(dir.path(), &["SELECT DISTINCT path FROM syscalls"]));
    assert!(table.contains("\\u{1b}[31mred-0"), "{table}");
    assert!(!table.contains('\u{1b}'), "{table:?}");
}

#[test]
fn a_query_can_only_read_the_recording() {
    let dir = tempfile::tempdir().expect("a folder");
    record(dir.path());
    let target = dir.path().join("stolen.csv");
    let copy = format!("COPY (SELECT 1) TO '{}'", target.display());
    for sql in [
        copy.as_str(),
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
        "CREATE TABLE t AS SELECT 1",
        "DROP TABLE syscalls",
        "SELECT * FROM '/etc/passwd'",
        "SET datafusion.execution.batch_size = 1",
        "SELEC 1",
    ] {
        let output = query(dir.path(), &[sql]);
        assert_eq!(output.status.code(), Some(1), "{sql}: {output:?}");
        assert!(output.stdout.is_empty(), "{sql}: {output:?}");
        assert!(!output.stderr.is_empty(), "{sql}");
    }
    assert!(!target.exists());
}

#[test]
fn without_a_query_the_tables_are_listed_and_without_a_recording_it_says_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let output = query(dir.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    record(dir.path());
    let listed = text(&query(dir.path(), &[]));
    for wanted in [
        "syscalls\n    ts ",
        "echo_links\n",
        "    runq_ns               Int64\n",
    ] {
        assert!(listed.contains(wanted), "{wanted:?} in {listed}");
    }
}
