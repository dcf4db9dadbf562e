//! Each cause, and what looks like it.

use proptest::prelude::*;

use super::felt::SLOW_NS;
use super::*;
use crate::report::model::{
    CgroupLevel, Culprit, CulpritKind, Dist, PlacementInfo, Process, SchedClass,
};
use crate::report::sample::{
    self, dist, empty, flush, idle, ms, other, peer, pty, task, thread, us,
};

/// A report on one thread of the target.
fn of(threads: Vec<ThreadRow>) -> Report {
    let mut report = empty();
    for t in &threads {
        report.target.processes.push(Process {
            pid: t.pid,
            name: "tmux: server".into(),
            user: "ada".into(),
            relation: t.relation,
            ended: None,
        });
    }
    report.threads = threads;
    report
}

fn server(wait: Dist) -> ThreadRow {
    thread(100, 100, "tmux: server", wait)
}

fn calm() -> Dist {
    dist(&[(us(30), 900), (us(400), 100)])
}

fn lagging() -> Dist {
    dist(&[(us(30), 900), (us(14_800), 100)])
}

fn cause(report: &Report) -> Cause {
    verdict(report).cause
}

#[test]
fn a_hog_on_the_servers_cpu() {
    let mut t = server(lagging());
    t.ran_instead = vec![
        task("cc1plus", &[7, 8], ms(1_200), 400),
        task("rustc", &[9], ms(200), 90),
        idle(ms(80)),
    ];
    let v = verdict(&of(vec![t]));
    assert_eq!(v.cause, Cause::RunQueue);
    for part in [
        "tmux: server(100)",
        "SCHED_OTHER nice 0",
        "1,000 waits",
        "max 14.8ms",
        "1.51s of 10.0s (15.1%)",
        "while cc1plus ×2 and rustc(9) ran",
    ] {
        assert!(v.sentence.contains(part), "{part} not in: {}", v.sentence);
    }
    assert!(
        v.evidence[0].starts_with(
            "cc1plus ran 1.20s (79.6% of the waits, 400 slices), pid 7, 8, OTHER nice 0"
        ),
        "{:?}",
        v.evidence
    );
    assert!(
        v.evidence.iter().any(|e| e.contains("starved, not busy")),
        "{:?}",
        v.evidence
    );
    assert_eq!(
        v.evidence.last().map(String::as_str),
        Some("what they are: ps -fp 7,8,9")
    );
}

#[test]
fn a_few_short_waits_are_noise() {
    let few = dist(&[(us(30), 40), (ms(2), 3)]);
    let v = verdict(&of(vec![server(few)]));
    assert_eq!(v.cause, Cause::NothingWrong);
    assert!(
        v.evidence[0].contains("3 over 1.00ms, too few to feel"),
        "{:?}",
        v.evidence
    );
    // Just as many, but each a freeze.
    assert_eq!(
        cause(&of(vec![server(dist(&[(us(30), 40), (ms(120), 1)]))])),
        Cause::RunQueue
    );
}

#[test]
fn many_quick_waits_do_not_add_up_to_lag() {
    // A flood: 40 % of the window in waits below 1 ms, each of which nobody can see.
    let v = verdict(&of(vec![server(dist(&[(us(200), 20_000)]))]));
    assert_eq!(v.cause, Cause::NothingWrong);
}

#[test]
fn lag_is_not_thinned_out_by_quick_waits() {
    // 50 keystrokes of 20 ms among 100,000 wakes of a flood: p99 is microseconds, typing is awful.
    let wait = dist(&[(us(8), 100_000), (ms(20), 50)]);
    assert!(wait.p99 < us(10));
    assert_eq!(cause(&of(vec![server(wait)])), Cause::RunQueue);
}

#[test]
fn a_mostly_idle_target_is_judged_by_its_percentiles() {
    // 30 keystrokes in a minute, a fifth of them late: a thousandth of the window, but felt.
    let mut report = of(vec![server(dist(&[(us(40), 24), (us(9_000), 6)]))]);
    report.window.duration_ns = ms(60_000);
    assert_eq!(cause(&report), Cause::RunQueue);
}

#[test]
fn a_wait_that_has_not_ended_counts() {
    let starved = ThreadRow {
        waiting_ns: Some(ms(4_800)),
        on_cpu_ns: 0,
        ..server(dist(&[]))
    };
    let v = verdict(&of(vec![starved.clone()]));
    assert_eq!(v.cause, Cause::RunQueue);
    assert!(
        v.sentence
            .contains("4.80s of 10.0s (48.0%) in one that has not ended after 4.80s"),
        "{}",
        v.sentence
    );

    let short = ThreadRow {
        waiting_ns: Some(us(40)),
        ..server(calm())
    };
    assert_eq!(cause(&of(vec![short])), Cause::NothingWrong);
}

#[test]
fn an_idle_cpu_is_no_hog() {
    let mut t = server(lagging());
    t.ran_instead = vec![idle(ms(1_400)), task("kworker/0:1", &[31], ms(9), 12)];
    let v = verdict(&of(vec![t]));
    assert_eq!(v.cause, Cause::RunQueue);
    assert!(
        v.sentence
            .contains("its CPU was idle: waking it took the time"),
        "{}",
        v.sentence
    );
    assert!(!v.sentence.contains("kworker"), "{}", v.sentence);
}

#[test]
fn an_idle_cpu_and_a_throttled_cgroup_are_a_used_up_quota() {
    let throttled = |ns| {
        let mut t = server(lagging());
        t.ran_instead = vec![idle(ms(1_400)), task("kworker/0:1", &[31], ms(9), 12)];
        let level = CgroupLevel {
            path: "/build.slice/mux.service".into(),
            quota_us: Some(20_000),
            period_us: Some(100_000),
            nr_throttled: Some(17),
            throttled_ns: Some(ns),
            ..CgroupLevel::default()
        };
        t.placement = Some(PlacementInfo {
            levels: vec![level],
            ..PlacementInfo::default()
        });
        t
    };
    let v = verdict(&of(vec![throttled(ms(1_300))]));
    assert_eq!(v.cause, Cause::QuotaThrottling, "{v:#?}");
    assert!(
        v.sentence.contains(
            "while cgroup /build.slice/mux.service had used up its quota of 20.0ms in each 100ms"
        ),
        "{}",
        v.sentence
    );
    assert!(
        v.evidence
            .iter()
            .any(|e| e.contains("set-property --runtime mux.service CPUQuota=")),
        "{:?}",
        v.evidence
    );
    // Its look-alikes: throttled for a moment only; and somebody else had the CPU.
    assert_eq!(
        cause(&of(vec![throttled(ms(300))])),
        Cause::RunQueue,
        "another reason"
    );
    let mut beside = throttled(ms(1_300));
    beside.ran_instead = vec![task("cc1plus", &[7], ms(1_400), 400)];
    assert_eq!(cause(&of(vec![beside])), Cause::RunQueue, "a hog");
}

#[test]
fn an_unknown_culprit_is_not_guessed() {
    let unknown = Culprit {
        kind: CulpritKind::Unknown,
        ..task("", &[], ms(1_400), 1)
    };
    let mut t = server(lagging());
    t.ran_instead = vec![unknown, task("make", &[31], ms(9), 12)];
    let v = verdict(&of(vec![t.clone()]));
    assert!(
        v.sentence.ends_with("and who ran instead is not known."),
        "{}",
        v.sentence
    );
    t.ran_instead.clear();
    let v = verdict(&of(vec![t]));
    assert!(v.sentence.ends_with("max 14.8ms)."), "{}", v.sentence);
}

#[test]
fn a_compile_in_the_pane_is_not_lag() {
    let compile = |on_cpu_ns, blocked_ns| ThreadRow {
        on_cpu_ns,
        blocked_ns,
        ..peer(200, "cc1plus", dist(&[(ms(12), 300)]))
    };
    // Alone on its CPU, among ten others, and one that also waits for the disk.
    for hog in [
        compile(ms(6_000), ms(400)),
        compile(ms(300), 0),
        compile(ms(3_000), ms(7_000)),
    ] {
        let v = verdict(&of(vec![server(calm()), hog]));
        assert_eq!(v.cause, Cause::NothingWrong, "{}", v.sentence);
    }
    // A target that is busy itself stays a victim: its waits are the terminal's lag.
    let busy = ThreadRow {
        on_cpu_ns: ms(7_000),
        blocked_ns: 0,
        ..server(lagging())
    };
    let v = verdict(&of(vec![busy]));
    assert_eq!(v.cause, Cause::RunQueue);
    assert!(
        v.evidence.iter().any(|e| e.contains("busy as well")),
        "{:?}",
        v.evidence
    );
}

#[test]
fn an_editor_that_waits_is_lag() {
    let v = verdict(&of(vec![server(calm()), peer(200, "vim", lagging())]));
    assert_eq!(v.cause, Cause::RunQueue);
    assert!(v.sentence.starts_with("vim(200)"), "{}", v.sentence);
}

#[test]
fn an_editor_that_hardly_ever_runs_is_a_victim() {
    // Runnable nearly all the time like a hog, but it gets next to nothing (SCHED_IDLE under load).
    let starved = ThreadRow {
        on_cpu_ns: ms(50),
        blocked_ns: ms(400),
        ..peer(200, "vim", dist(&[(ms(95), 100)]))
    };
    assert_eq!(cause(&of(vec![server(calm()), starved])), Cause::RunQueue);
}

#[test]
fn a_peer_that_nobody_types_at_is_not_lag() {
    let mut make = peer(200, "make", lagging());
    make.wakers = vec![sample::waker("cc1plus", 900), sample::waker("interrupt", 3)];
    let mut report = of(vec![server(calm()), make]);
    assert_eq!(cause(&report), Cause::NothingWrong);
    // Without wakers nothing tells it from an editor.
    report.threads[1].wakers.clear();
    assert_eq!(cause(&report), Cause::RunQueue);
}

#[test]
fn the_target_comes_before_its_peers() {
    let worse = peer(200, "vim", dist(&[(ms(40), 100)]));
    let v = verdict(&of(vec![worse, server(lagging())]));
    assert!(
        v.sentence.starts_with("tmux: server(100)"),
        "{}",
        v.sentence
    );
    assert!(
        v.evidence.iter().any(|e| e.starts_with("also: vim(200)")),
        "{:?}",
        v.evidence
    );
}

#[test]
fn work_that_moves_among_threads_is_added_up() {
    // Four late waits each: no single thread has enough, the process has.
    let worker = |tid| ThreadRow {
        ran_instead: vec![task("stress", &[tid + 1000], ms(40), 4)],
        ..thread(
            100,
            tid,
            "tokio-rt-worker",
            dist(&[(us(30), 50), (ms(12), 4)]),
        )
    };
    assert_eq!(cause(&of(vec![worker(101)])), Cause::NothingWrong);
    let v = verdict(&of((101..109).map(worker).collect()));
    assert_eq!(v.cause, Cause::RunQueue);
    assert!(
        v.sentence
            .starts_with("8 threads of tmux: server(100) wait for a CPU"),
        "{}",
        v.sentence
    );
    assert!(
        v.sentence.contains("stress ×4+"),
        "culprits of all threads: {}",
        v.sentence
    );
}

#[test]
fn time_of_many_threads_is_no_part_of_the_window() {
    // Three waits of 1.2 ms among a thousand quick ones in each of 2,000 threads: 7.2 thread-seconds
    // of ten, which nobody can feel.
    let many = |slow| {
        let one = move |tid| {
            thread(
                100,
                tid,
                "worker",
                dist(&[(us(20), 1_000), (us(1_200), slow)]),
            )
        };
        of((1_000..3_000).map(one).collect())
    };
    assert_eq!(cause(&many(3)), Cause::NothingWrong);
    // A hundred of them in each take 1.2 % of every thread's time.
    let v = verdict(&many(100));
    assert_eq!(v.cause, Cause::RunQueue);
    assert!(
        v.sentence.starts_with(
            "2,000 threads of tmux: server(100) wait for a CPU: 280s in all, 140ms of 10.0s (1.40%) each on average, in 2.20M waits"
        ),
        "{}",
        v.sentence
    );
    // As many that have ended, in one row.
    let mut report = many(0);
    report.threads.truncate(1);
    report.threads[0].tid = 0;
    report.threads[0].threads = 2_000;
    report.threads[0].wait = dist(&[(us(20), 2_000_000), (us(1_200), 6_000)]);
    assert_eq!(cause(&report), Cause::NothingWrong);
}

#[test]
fn one_thread_of_many_is_named() {
    let mut reader = thread(100, 103, "pty-reader", lagging());
    reader.sched = SchedClass {
        policy: "SCHED_FIFO".into(),
        nice: 0,
        rt_priority: 50,
    };
    let v = verdict(&of(vec![server(calm()), reader]));
    let start = "Thread pty-reader(103) of tmux: server(100), SCHED_FIFO priority 50, waits for a \
                 CPU: 1.51s of 10.0s (15.1%) in 1,000 waits (p50 ";
    assert!(v.sentence.starts_with(start), "{}", v.sentence);
    let other = "and another thread of the process: 1,000 waits (p50";
    assert!(
        v.evidence.iter().any(|e| e.starts_with(other)),
        "the figures of the sentence are of the thread alone: {:?}",
        v.evidence
    );
}

#[test]
fn the_flush_worker() {
    let mut report = of(vec![server(calm())]);
    let mut p = pty(3, ("tmux: server", 100), ("bash", 200));
    p.flush_output = flush(lagging(), calm());
    p.flush_output.ran_instead = vec![task("cc1plus", &[7], ms(900), 80)];
    report.ptys = vec![p.clone()];
    let v = verdict(&report);
    assert_eq!(v.cause, Cause::FlushWorker);
    assert!(
        v.sentence
            .starts_with("Output of /dev/pts/3 waits for the kernel's flush worker"),
        "{}",
        v.sentence
    );
    assert!(
        v.sentence.ends_with("while cc1plus(7) ran."),
        "{}",
        v.sentence
    );

    std::mem::swap(&mut p.flush_output, &mut p.flush_input);
    report.ptys = vec![p.clone()];
    assert!(verdict(&report).sentence.starts_with("Input to /dev/pts/3"));

    // The look-alike: the worker takes long to run, but starts at once.
    p.flush_input = flush(calm(), calm());
    p.flush_input.run = lagging();
    report.ptys = vec![p];
    assert_eq!(cause(&report), Cause::NothingWrong);
}

#[test]
fn the_larger_of_thread_and_worker_comes_first() {
    let mut report = of(vec![server(dist(&[(ms(14), 20)]))]);
    let mut p = pty(3, ("tmux: server", 100), ("bash", 200));
    p.flush_output = flush(dist(&[(ms(14), 200)]), calm());
    report.ptys = vec![p];
    let v = verdict(&report);
    assert_eq!(v.cause, Cause::FlushWorker);
    assert!(
        v.evidence
            .iter()
            .any(|e| e.starts_with("also: tmux: server(100)")),
        "{:?}",
        v.evidence
    );
    report.threads[0].wait = dist(&[(ms(14), 300)]);
    assert_eq!(cause(&report), Cause::RunQueue);
}

#[test]
fn the_reader_where_no_thread_tells() {
    // No scheduler backend: the flush work's own wake is all there is.
    let mut report = empty();
    let mut p = pty(3, ("tmux: server", 100), ("bash", 200));
    p.flush_output = flush(calm(), lagging());
    report.ptys = vec![p.clone()];
    let v = verdict(&report);
    assert_eq!(v.cause, Cause::ReaderWait);
    let start = "tmux: server(100), once woken to read the output of /dev/pts/3, waits for a CPU";
    assert!(v.sentence.starts_with(start), "{}", v.sentence);

    // Its thread's waits contain the reader's: one delay, not two.
    report.threads = vec![server(lagging())];
    let v = verdict(&report);
    assert_eq!(v.cause, Cause::RunQueue);
    assert!(
        v.evidence
            .iter()
            .any(|e| e.starts_with("among these, as reader of /dev/pts/3: 1,000 waits")),
        "{:?}",
        v.evidence
    );

    p.master.clear();
    report.ptys = vec![p];
    report.threads.clear();
    assert!(
        verdict(&report)
            .sentence
            .starts_with("The reader, once woken")
    );
}

#[test]
fn nothing_wrong_shows_its_evidence() {
    let mut report = of(vec![server(calm())]);
    let mut p = pty(3, ("tmux: server", 100), ("bash", 200));
    p.flush_output = flush(calm(), calm());
    report.ptys = vec![p];
    let v = verdict(&report);
    assert_eq!(v.cause, Cause::NothingWrong);
    assert!(
        v.sentence
            .starts_with("Nothing is wrong: no wait was long or frequent enough"),
        "{}",
        v.sentence
    );
    assert!(v.evidence[0].starts_with("threads of the target for a CPU: 1,000 waits (p50"));
    assert!(v.evidence[1].starts_with("flush workers of its PTYs: 1,000 waits"));
    assert!(v.evidence[2].starts_with("readers of its PTYs, once woken: 1,000 waits"));

    report.losses = sample::rich().losses;
    report.backends[2].used = None;
    let v = verdict(&report);
    assert!(
        v.sentence.contains("as far as could be measured"),
        "{}",
        v.sentence
    );
    assert!(
        v.evidence
            .iter()
            .any(|e| e.starts_with("lost: 37 ring_full")),
        "{:?}",
        v.evidence
    );
    assert!(
        v.evidence.contains(&"not measured: flush".to_owned()),
        "{:?}",
        v.evidence
    );
}

#[test]
fn one_sample_proves_little() {
    let v = verdict(&of(vec![server(dist(&[(us(5), 1)]))]));
    assert_eq!(v.cause, Cause::NothingWrong);
    assert!(
        v.sentence.contains("only 1 wait was seen"),
        "{}",
        v.sentence
    );
    assert!(v.sentence.contains("too few to say more"), "{}", v.sentence);
}

#[test]
fn no_data() {
    let v = verdict(&empty());
    assert_eq!(v.cause, Cause::NoData);
    assert!(
        v.sentence.starts_with("The target did not run in 10.0s"),
        "{}",
        v.sentence
    );

    let mut asleep = server(dist(&[]));
    asleep.on_cpu_ns = 0;
    assert_eq!(cause(&of(vec![asleep])), Cause::NoData);

    let mut report = empty();
    report.backends[0].used = None;
    report.backends[0].missing =
        Some("tp_btf was refused: no BTF; a kernel with CONFIG_DEBUG_INFO_BTF".into());
    let v = verdict(&report);
    assert_eq!(v.cause, Cause::NoData);
    assert!(
        v.sentence
            .starts_with("No wait was measured in 10.0s: tp_btf was refused"),
        "{}",
        v.sentence
    );
}

#[test]
fn exited_threads_are_judged_like_others() {
    let gone = |wait| ThreadRow {
        exited: true,
        threads: 1,
        ..server(wait)
    };
    let v = verdict(&of(vec![gone(calm())]));
    assert_eq!(v.cause, Cause::NothingWrong);
    assert!(
        v.evidence
            .contains(&"every traced thread ended within the window".to_owned())
    );
    assert_eq!(cause(&of(vec![gone(lagging())])), Cause::RunQueue);
}

#[test]
fn the_sentence_is_harmless() {
    let mut t = server(lagging());
    t.comm = "\x1b[2Jevil\u{202e}".into();
    t.ran_instead = vec![Culprit {
        sched: Some(other(5)),
        ..task("\u{9b}31m", &[7], ms(900), 1)
    }];
    let v = verdict(&of(vec![t]));
    let all = std::iter::once(&v.sentence).chain(&v.evidence);
    assert!(
        all.flat_map(|s| s.chars()).all(crate::escape::is_harmless),
        "{v:?}"
    );
    assert!(
        v.sentence.starts_with("\\x1b[2Jevil\\u{202e}(100)"),
        "{}",
        v.sentence
    );
}

#[test]
fn broken_figures_do_not_panic() {
    let mut report = sample::extreme();
    for duration_ns in [0, 1, u64::MAX] {
        report.window.duration_ns = duration_ns;
        assert_eq!(cause(&report), Cause::RunQueue);
    }
}

proptest! {
    #[test]
    fn quick_waits_are_never_a_problem(samples in prop::collection::vec((1..SLOW_NS, 1u64..2_000), 1..20)) {
        let report = of(vec![server(dist(&samples))]);
        prop_assert_eq!(cause(&report), Cause::NothingWrong);
    }

    #[test]
    fn long_and_frequent_waits_always_are(
        quick in prop::collection::vec((1..SLOW_NS, 1u64..2_000), 0..20),
        long in prop::collection::vec(ms(25)..ms(5_000), 5..20),
    ) {
        let samples: Vec<_> = quick.into_iter().chain(long.into_iter().map(|ns| (ns, 1))).collect();
        let report = of(vec![server(dist(&samples))]);
        prop_assert_eq!(cause(&report), Cause::RunQueue);
    }
}
