//! `attach` on a program that says which sizes it read and wrote: the report must say the same.

use std::process::Command;
use std::time::Duration;

use phux_trace_tests::attach::{Attached, unskipped};
use phux_trace_tests::machine::slowness;
use phux_trace_tests::report::{Dist, Io, Pty, Summed, dist_of};
use phux_trace_tests::truth::Program;
use phux_trace_tests::{exclusive, need_root};
use serde_json::Value;

const WORK: Duration = Duration::from_secs(120);

/// Runs pty-sizes with these options under `attach`; gives its truth and the report.
fn traced(options: &[&str]) -> (Value, Summed, u32) {
    traced_by(options, Attached::for_sums)
}

fn traced_by(options: &[&str], attach: impl FnOnce(u32) -> Attached) -> (Value, Summed, u32) {
    let mut program = Program::start(Command::new(env!("CARGO_BIN_EXE_pty-sizes")).args(options));
    let attached = attach(program.pid());
    let truth = program.work(WORK);
    let report = attached.stop();
    let pid = program.pid();
    program.finish();
    (truth, report, pid)
}

/// The sizes that the program saw, as a distribution.
fn sizes(calls: &Value) -> Dist {
    let sizes = calls["sizes"].as_object().expect("sizes");
    dist_of(sizes.iter().flat_map(|(size, count)| {
        let count = count.as_u64().expect("a count") as usize;
        std::iter::repeat_n(size.parse().expect("a size"), count)
    }))
}

fn assert_same(io: &Io, calls: &Value, missed: u64, what: &str) {
    if missed > 0 {
        let truth = sizes(calls);
        assert!(
            io.size.count <= truth.count && io.size.count + missed >= truth.count,
            "{what}: {io:?}, of {truth:?} {missed} were missed"
        );
        return;
    }
    assert_eq!(io.size, sizes(calls), "{what}: sizes");
    assert_eq!(
        io.empty,
        calls["empty"].as_u64().expect("a count"),
        "{what}: empty calls"
    );
    io.duration.assert_sound(what);
    assert_eq!(
        io.duration.count, io.size.count,
        "{what}: a duration for each call that moved any"
    );
    let within = calls["within_ns"].as_u64().expect("ns");
    assert!(
        io.duration.sum <= within,
        "{what}: longer within the call than around it"
    );
}

fn assert_same_ends(report: &Summed, truth: &Value) {
    // A kernel that preempts programs skips some where every instruction is emulated; then what was
    // counted and what is told to be missing must still be the whole.
    let missed = report.losses.get("missed").copied().unwrap_or(0);
    if slowness() == 1 || missed == 0 {
        report.assert_nothing_lost();
    }
    for pty in truth["ptys"].as_array().expect("ptys") {
        let index = pty["index"].as_u64().expect("an index") as u32;
        let row = report.pty(index);
        assert_same(
            &row.master_reads,
            &pty["master"]["reads"],
            missed,
            &format!("{index}: master reads"),
        );
        assert_same(
            &row.master_writes,
            &pty["master"]["writes"],
            missed,
            &format!("{index}: master writes"),
        );
        assert_same(
            &row.slave_reads,
            &pty["slave"]["reads"],
            missed,
            &format!("{index}: slave reads"),
        );
        assert_same(
            &row.slave_writes,
            &pty["slave"]["writes"],
            missed,
            &format!("{index}: slave writes"),
        );
    }
}

/// Sizes around the 64 bytes of the kernel's bounce buffer, the 2,048 of a write's chunk and the
/// 4,096 of the line discipline's ring.
const SIZES: [&str; 4] = [
    "--sizes",
    "1,10,63,64,65,1000,2048,2049,4095,4096,9000",
    "--input-sizes",
    "1,3,0,64,65,900",
];

#[test]
fn blocking_reads_are_counted_and_sized_exactly() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let (truth, report, _) = traced(&[&SIZES[..], &["--rounds", "8"]].concat());
    assert_same_ends(&report, &truth);
}

#[test]
fn nonblocking_reads_that_find_nothing_are_no_reads_of_size_0() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let (truth, report, _) = traced(&[&SIZES[..], &["--reader", "nonblocking"]].concat());
    assert!(
        truth["ptys"][0]["master"]["reads"]["empty"].as_u64() > Some(0),
        "{truth}"
    );
    assert_same_ends(&report, &truth);
}

#[test]
fn vectored_calls_behind_poll_are_seen() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let (truth, report, _) = traced(
        &[
            &SIZES[..],
            &["--reader", "poll", "--vectored", "--rounds", "8"],
        ]
        .concat(),
    );
    assert_same_ends(&report, &truth);
}

#[test]
fn a_flood_read_through_epoll_loses_no_byte() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let (truth, report, _) = traced(&["--reader", "epoll", "--flood", "8000000"]);
    assert_same_ends(&report, &truth);
    let index = truth["ptys"][0]["index"].as_u64().expect("an index") as u32;
    let row = report.pty(index);
    assert_eq!(row.master_reads.size.sum, row.slave_writes.size.sum);
    assert!(
        row.master_reads.size.max > 64,
        "the bounce buffer's size is no read's size"
    );
}

#[test]
fn two_hundred_ptys_are_all_found() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let (truth, report, pid) = traced(&[
        "--ptys",
        "200",
        "--sizes",
        "5,50",
        "--input-sizes",
        "2",
        "--reader",
        "epoll",
    ]);
    assert_same_ends(&report, &truth);
    let child = truth["child"].as_u64().expect("a pid") as u32;
    for pty in truth["ptys"].as_array().expect("ptys") {
        let row = report.pty(pty["index"].as_u64().expect("an index") as u32);
        assert!(
            Pty::held_by(&row.master, pid) && !Pty::held_by(&row.master, child),
            "{row:?}"
        );
        assert!(
            Pty::held_by(&row.slave, child) && !Pty::held_by(&row.slave, pid),
            "{row:?}"
        );
    }
}

#[test]
fn flush_work_is_counted_by_direction_and_blamed_on_the_writer() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    // In step and each below a chunk: each write queues the work exactly once.
    let (truth, report) = unskipped(|| {
        let (truth, report, _) = traced(&[
            "--sizes",
            "10,1000",
            "--input-sizes",
            "1,2",
            "--rounds",
            "100",
        ]);
        (truth, report)
    });
    report.assert_nothing_lost();
    let row = report.pty(truth["ptys"][0]["index"].as_u64().expect("an index") as u32);
    for (flush, reads, what) in [
        (&row.flush_output, &row.master_reads, "output"),
        (&row.flush_input, &row.slave_reads, "input"),
    ] {
        for (dist, part) in [(&flush.wait, "wait"), (&flush.run, "run")] {
            dist.assert_sound(&format!("{what} {part}"));
            assert_eq!(dist.count, 200, "{what} {part}: {flush:?}");
            assert!(
                dist.min > 0 && dist.max < 60_000_000_000,
                "{what} {part}: {dist:?}"
            );
        }
        let queued: u64 = flush
            .queued_by
            .iter()
            .filter(|w| w.name == "pty-sizes")
            .map(|w| w.count)
            .sum();
        assert_eq!(queued, 200, "{what}: {:?}", flush.queued_by);
        // The reader blocks before nearly every write, so nearly every flush wakes it; where the
        // machine itself stands still at times, the bytes can be there first.
        flush.reader_wait.assert_sound(what);
        let woken = flush.reader_wait.count;
        assert!(
            woken > (if slowness() > 1 { 100 } else { 180 }) && woken <= reads.size.count,
            "{what}: {woken} wakes of the reader"
        );
    }
}

/// Each way to see PTY calls sees the same, whichever the kernel would allow.
#[test]
fn every_way_to_see_calls_sees_the_same() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let options = [&SIZES[..], &["--reader", "epoll", "--alternate"]].concat();
    let options = [&options[..], &["--rounds", "2"]].concat();
    for refused in ["", "fentry", "fentry,tracefs"] {
        let (truth, report, _) = traced_by(&options, |pid| Attached::without(refused, pid));
        assert_same_ends(&report, &truth);
    }
}
