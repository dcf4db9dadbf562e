//! Parts of the kernel side run by the kernel itself (`BPF_PROG_TEST_RUN`), held against plain
//! references. Each test names the trap that it guards.

use std::cell::Cell;
use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, ProgramInput, ProgramMut};
use phux_perf::{BUCKETS, bucket_bounds, bucket_of};
use probe_ebpf::{SelftestSkel, SelftestSkelBuilder, events};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Loads the self-test; `None`, with a line said, where BPF is not allowed (a failure under `CI`).
fn selftest() -> Option<SelftestSkel<'static>> {
    if !is_root() {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI must not skip: needs root"
        );
        println!("skipped: needs root (run it through scripts/test)");
        return None;
    }
    // A few bytes for the life of the test: the skeleton borrows from it.
    let cell = Box::leak(Box::new(MaybeUninit::uninit()));
    let open = SelftestSkelBuilder::default().open(cell).expect("opens");
    Some(open.load().expect("the kernel takes it"))
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    // Real, effective, saved, file system.
    let uids = status.lines().find_map(|l| l.strip_prefix("Uid:"));
    uids.and_then(|l| l.split_whitespace().nth(1)) == Some("0")
}

/// Runs a raw tracepoint program with these arguments; gives what it returned.
fn run(program: &ProgramMut<'_>, args: &[u64]) -> u32 {
    let mut context: Vec<u8> = args.iter().flat_map(|a| a.to_ne_bytes()).collect();
    let input = ProgramInput {
        context_in: Some(&mut context),
        ..ProgramInput::default()
    };
    program.test_run(input).expect("runs").return_value
}

fn lost(skel: &SelftestSkel<'_>, class: u32) -> u64 {
    let by_cpu = skel
        .maps
        .losses
        .lookup_percpu(&class.to_ne_bytes(), MapFlags::ANY)
        .expect("an array")
        .expect("has every class");
    by_cpu
        .iter()
        .map(|v| u64::from_ne_bytes(v[..8].try_into().expect("eight bytes")))
        .sum()
}

/// Trap: `1 << n` as a 32-bit int put values of 2³¹ ns and more into wrong buckets.
#[test]
fn every_value_falls_into_the_bucket_of_the_process_side() {
    let Some(skel) = selftest() else { return };
    let check = |value: u64| {
        let kernel = run(&skel.progs.bucket, &[value]) as usize;
        assert_eq!(kernel, bucket_of(value), "bucket of {value}");
    };
    for index in 0..BUCKETS {
        let (low, high) = bucket_bounds(index);
        [low, high, low.saturating_sub(1), high.saturating_add(1)]
            .into_iter()
            .for_each(check);
    }
    for power in 0..64 {
        let value = 1u64 << power;
        [value - 1, value, value + 1].into_iter().for_each(check);
    }
    check(u64::MAX);
    // As many of each size: plain random numbers are nearly all above 2⁶⁰.
    let values = (0u32..64, any::<u64>()).prop_map(|(shift, v)| v >> shift);
    TestRunner::new(Config::with_cases(5000))
        .run(&values, |value| {
            prop_assert_eq!(run(&skel.progs.bucket, &[value]) as usize, bucket_of(value));
            Ok(())
        })
        .expect("every bucket agrees");
}

/// Trap: a clock that runs backwards between two CPUs underflows into the top bucket.
#[test]
fn a_clock_that_runs_backwards_is_no_time_and_a_counted_loss() {
    let Some(skel) = selftest() else { return };
    let elapsed = |from: u64, to: u64| {
        run(&skel.progs.elapsed_between, &[from, to]);
        skel.maps.bss_data.as_ref().expect("mapped").elapsed_ns
    };
    let backwards = || lost(&skel, events::LOSS_CLOCK_BACK);
    assert_eq!(elapsed(5, 5), 0);
    assert_eq!(elapsed(5, 12), 7);
    assert_eq!(elapsed(0, u64::MAX), u64::MAX);
    assert_eq!(backwards(), 0);
    assert_eq!(elapsed(6, 5), 0);
    assert_eq!(elapsed(u64::MAX, 0), 0);
    assert_eq!(backwards(), 2);
}

/// Traps: the idle task (pid 0, shared by all CPUs) taken for a culprit; and parts that do not sum
/// to the wait, whatever was forgotten, overlaps or leaves gaps.
#[test]
fn the_parts_of_a_wait_sum_to_the_wait_and_idle_is_nobody() {
    let Some(skel) = selftest() else { return };
    // More slices than are remembered, more names than the table holds, idle (0) among them.
    let slices = prop::collection::vec((1u64..1000, 0u64..3, 0u64..40), 0..400);
    let waits = prop::collection::vec((0u64..200_000, 0u64..50_000), 1..20);
    let at = Cell::new(1_000_000u64);
    TestRunner::new(Config::with_cases(60))
        .run(&(slices, waits), |(slices, waits)| {
            let began = at.get();
            let mut clock = began;
            for (ns, gap, pid) in slices {
                clock += gap;
                run(&skel.progs.slice_ends, &[clock, clock + ns, pid]);
                clock += ns;
            }
            for (ago, ns) in waits {
                let from = clock - ago.min(clock - began);
                let until = (from + ns).min(clock);
                let before = blamed_in_all(&skel);
                run(&skel.progs.blame_between, &[from, until]);
                prop_assert_eq!(blamed_in_all(&skel) - before, until - from);
            }
            at.set(clock);
            Ok(())
        })
        .expect("every wait is shared out whole");
    let blamed = &skel.maps.bss_data.as_ref().expect("mapped").blamed;
    assert!(blamed.idle_ns > 0, "the idle slices were met");
    assert!(blamed.other_ns > 0, "more names than room");
    for culprit in &blamed.culprits {
        assert!(
            culprit.slices == 0 || culprit.pids[0] != 0,
            "the idle task is no culprit"
        );
    }
}

fn blamed_in_all(skel: &SelftestSkel<'_>) -> u64 {
    let b = &skel.maps.bss_data.as_ref().expect("mapped").blamed;
    let named: u64 = b.culprits.iter().map(|c| c.ns).sum();
    named + b.idle_ns + b.other_ns + b.unknown_ns
}
