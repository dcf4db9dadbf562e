//! What goes in comes out, row by row, in the order in which it went in.
mod common;

use common::{call, files, run};
use phux_recording::*;
use proptest::prelude::*;

fn options() -> Options {
    Options {
        sync: false,
        ..Options::default()
    }
}

#[test]
fn rows_of_several_tables_come_back_in_order_of_arrival() {
    let dir = tempfile::tempdir().expect("a folder");
    let recorder = Recorder::create(dir.path(), run(), options()).expect("a recorder");
    let id = recorder.run();
    for i in 0..1_000 {
        // Later calls that began earlier: a file is by ts, a replay is not.
        let row = Syscall {
            ts: 2_000_000 - i * 7 % 900,
            ..call(i)
        };
        recorder.push(row).expect("a row");
        if i % 3 == 0 {
            let io = PtyIo {
                ts: i,
                pty: 3,
                write: true,
                ..PtyIo::default()
            };
            recorder.push(io).expect("a row");
        }
    }
    let end = recorder.finish().expect("the end");
    assert_eq!(&*end.outcome, "finished");
    assert_eq!(end.rows, 1_334);

    let dataset = Dataset::open(dir.path()).expect("a recording");
    let rows: Vec<Row> = dataset
        .replay(id)
        .expect("a replay")
        .collect::<Result<_, _>>()
        .expect("all rows");
    let rows: Vec<&Row> = rows.iter().filter(|r| r.table() != Table::run).collect();
    assert_eq!(rows.len(), 1_334);
    assert!(
        rows.iter().map(|r| r.seq()).eq(0..1_334),
        "each once, in order"
    );
    assert_eq!(rows[1].table(), Table::pty, "{:?}", rows[1]);
    let (found, row) = dataset.latest().expect("its row");
    assert_eq!((found, &*row.outcome, row.end), (id, "finished", end.end));
}

#[test]
fn more_rows_than_a_row_group_come_back_whole() {
    let dir = tempfile::tempdir().expect("a folder");
    let recorder = Recorder::create(dir.path(), run(), options()).expect("a recorder");
    let id = recorder.run();
    let mut rows: Vec<Syscall> = (0..150_000).map(call).collect();
    let wanted = rows.clone();
    recorder.push_all(&mut rows).expect("rows");
    assert!(rows.is_empty());
    recorder.finish().expect("the end");
    let dataset = Dataset::open(dir.path()).expect("a recording");
    let found: Vec<Syscall> = dataset
        .rows(id)
        .expect("rows")
        .collect::<Result<_, _>>()
        .expect("all rows");
    assert_eq!(found.len(), wanted.len());
    for (found, mut wanted) in found.into_iter().zip(wanted) {
        wanted.seq = found.seq;
        assert_eq!(found, wanted);
    }
    assert_eq!(dataset.files(Table::syscalls).expect("files").len(), 1);
}

#[test]
fn nothing_but_finished_parts_is_left() {
    let dir = tempfile::tempdir().expect("a folder");
    let recorder = Recorder::create(dir.path(), run(), options()).expect("a recorder");
    recorder.push(call(1)).expect("a row");
    recorder.finish().expect("the end");
    let found = files(dir.path());
    let names: Vec<String> = found
        .iter()
        .map(|f| {
            let below = f.strip_prefix(dir.path()).expect("below");
            below.display().to_string()
        })
        .collect();
    let id = "1773396000000000000";
    let today = &names[1]["syscalls/date=".len()..][..10];
    assert_eq!(
        names,
        [
            format!("run/date=2026-03-13/host=testhost/part-{id}-00000.parquet"),
            format!("syscalls/date={today}/host=testhost/part-{id}-00000.parquet"),
        ]
    );
}

#[test]
fn a_second_recording_in_the_folder_is_one_of_its_own() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut ids = Vec::new();
    for rows in [3, 5] {
        let recorder = Recorder::create(dir.path(), run(), options()).expect("a recorder");
        ids.push(recorder.run());
        for i in 0..rows {
            recorder.push(call(i)).expect("a row");
        }
        recorder.finish().expect("the end");
    }
    assert_eq!(ids[1], ids[0] + 1, "the same start, another id");
    let dataset = Dataset::open(dir.path()).expect("recordings");
    let count = |id| dataset.rows::<Syscall>(id).expect("rows").count();
    assert_eq!((count(ids[0]), count(ids[1])), (3, 5));
    assert_eq!(dataset.runs().expect("runs").len(), 2);
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![
        Just(Name::default()),
        Just(Name::fixed("fixed")),
        "[a-z]{1,3}".prop_map(Name::from),
        ".{0,80}".prop_map(Name::from),
    ]
}

prop_compose! {
    fn any_call()(
        (ts, dur, gap) in (0..u64::MAX / 4, any::<u64>(), any::<u64>()),
        (tid, pid, io_uring, cpu) in any::<(u32, u32, bool, u16)>(),
        (comm, name, family, path, old_path) in (name(), name(), name(), name(), name()),
        outcome in name(),
        (fd, ret, errno, bytes, runq_ns) in any::<(i32, i64, u16, u64, u64)>(),
        (blocked_ns, address_space_bytes, timeout_ns, nfds) in any::<(u64, u64, i64, u32)>(),
        (epoll_op, epoll_target_fd, epoll_events, requested_sleep_ns) in any::<(u8, i32, u32, u64)>(),
    ) -> Syscall {
        Syscall {
            ts, seq: 0, dur, gap, tid, pid, comm, name, family, io_uring, cpu, fd, ret, errno, bytes,
            runq_ns, blocked_ns, path, old_path, address_space_bytes, requested_sleep_ns,
            timeout_ns, nfds, epoll_op, epoll_target_fd, epoll_events, outcome,
        }
    }
}

prop_compose! {
    fn any_thread()(
        (ts, dur, start_time) in any::<(u64, u64, u64)>(),
        (pid, tid, policy, nice) in any::<(u32, u32, u8, i8)>(),
        comm in name(),
        exited in any::<bool>(),
    ) -> Thread {
        Thread { ts, dur, start_time, pid, tid, policy, nice, comm, exited, ..Thread::default() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_row_comes_out_as_it_went_in(
        calls in proptest::collection::vec(any_call(), 0..200),
        threads in proptest::collection::vec(any_thread(), 0..20),
        codec in prop_oneof![Just(Codec::None), Just(Codec::Lz4), Just(Codec::Zstd)],
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let options = Options { codec, ..options() };
        let recorder = Recorder::create(dir.path(), run(), options).expect("a recorder");
        let id = recorder.run();
        for call in &calls {
            recorder.push(call.clone()).expect("a row");
        }
        recorder.push_all(&mut threads.clone()).expect("rows");
        recorder.finish().expect("the end");
        let dataset = Dataset::open(dir.path()).expect("a recording");
        let found: Vec<Syscall> =
            dataset.rows(id).expect("rows").collect::<Result<_, _>>().expect("all rows");
        prop_assert_eq!(found.len(), calls.len());
        for (found, wanted) in found.into_iter().zip(calls) {
            prop_assert_eq!(Syscall { seq: 0, ..found }, wanted);
        }
        let found: Vec<Thread> =
            dataset.rows(id).expect("rows").collect::<Result<_, _>>().expect("all rows");
        prop_assert_eq!(found.len(), threads.len());
        for (found, wanted) in found.into_iter().zip(threads) {
            prop_assert_eq!(Thread { seq: 0, ..found }, wanted);
        }
    }
}
