//! Reports made by hand, for tests.

use phux_perf::Snapshot;

use super::model::*;

/// A distribution of `(value, how often)`.
pub(super) fn dist(samples: &[(u64, u64)]) -> Dist {
    let mut snapshot = Snapshot::new();
    for &(value, n) in samples {
        (0..n).for_each(|_| snapshot.record(value));
    }
    Dist::from(&snapshot)
}

/// `n` µs in ns.
pub(super) const fn us(n: u64) -> u64 {
    n * 1_000
}

/// `n` ms in ns.
pub(super) const fn ms(n: u64) -> u64 {
    n * 1_000_000
}

pub(super) fn other(nice: i32) -> SchedClass {
    SchedClass {
        policy: "SCHED_OTHER".into(),
        nice,
        rt_priority: 0,
    }
}

pub(super) fn task(name: &str, pids: &[u32], ns: u64, slices: u64) -> Culprit {
    Culprit {
        kind: CulpritKind::Task,
        name: name.into(),
        pids: pids.to_vec(),
        more_pids: false,
        ns,
        slices,
        sched: Some(other(0)),
        cgroup: None,
    }
}

pub(super) fn idle(ns: u64) -> Culprit {
    let pids = vec![];
    Culprit {
        kind: CulpritKind::Idle,
        pids,
        sched: None,
        ..task("idle", &[], ns, ns / us(30))
    }
}

/// A thread that woke up often and waited as told.
pub(super) fn thread(pid: u32, tid: u32, comm: &str, wait: Dist) -> ThreadRow {
    ThreadRow {
        pid,
        tid,
        comm: comm.into(),
        role: None,
        relation: Relation::Target,
        sched: other(0),
        placement: None,
        on_cpu_ns: ms(31),
        blocked_ns: ms(9_000),
        voluntary: wait.count,
        involuntary: 0,
        migrations: 0,
        wait,
        account: None,
        waiting_ns: None,
        ran_instead: vec![],
        wakers: vec![],
        exited: false,
        threads: 1,
    }
}

/// A process inside the terminal that keystrokes wake.
pub(super) fn peer(pid: u32, comm: &str, wait: Dist) -> ThreadRow {
    ThreadRow {
        relation: Relation::Peer,
        wakers: vec![waker("kworker/u8:2", wait.count)],
        ..thread(pid, pid, comm, wait)
    }
}

pub(super) fn waker(name: &str, count: u64) -> Waker {
    Waker {
        name: name.into(),
        count,
    }
}

pub(super) fn io(size: Dist, duration: Dist) -> Io {
    Io {
        size,
        duration,
        empty: 0,
    }
}

pub(super) fn no_io() -> Io {
    io(dist(&[]), dist(&[]))
}

pub(super) fn flush(wait: Dist, reader_wait: Dist) -> Flush {
    let n = wait.count;
    Flush {
        run: dist(&[(us(3), n)]),
        wait,
        reader_wait,
        queued_by: vec![Waker {
            name: "bash".into(),
            count: n,
        }],
        ran_instead: vec![],
        placement: None,
    }
}

/// A PTY between one master and one slave through which nothing went.
pub(super) fn pty(index: u32, master: (&str, u32), slave: (&str, u32)) -> PtyRow {
    let end = |(name, pid): (&str, u32)| {
        vec![End {
            pid,
            name: name.into(),
        }]
    };
    let silent = || Flush {
        queued_by: vec![],
        ..flush(dist(&[]), dist(&[]))
    };
    PtyRow {
        index,
        devpts: 28,
        master: end(master),
        slave: end(slave),
        master_reads: no_io(),
        master_writes: no_io(),
        slave_reads: no_io(),
        slave_writes: no_io(),
        flush_output: silent(),
        flush_input: silent(),
    }
}

pub(super) fn process(pid: u32, name: &str, user: &str, relation: Relation) -> Process {
    Process {
        pid,
        name: name.into(),
        user: user.into(),
        relation,
        ended: None,
    }
}

fn backend(capability: &str, used: Option<&str>, missing: Option<&str>) -> Backend {
    let own = |s: &str| s.to_owned();
    Backend {
        capability: own(capability),
        used: used.map(own),
        missing: missing.map(own),
    }
}

/// Nothing found, nobody there, all backends in use.
pub(crate) fn empty() -> Report {
    Report {
        schema_version: SCHEMA_VERSION,
        last: true,
        limited: None,
        window: Window {
            start_unix_ms: 1_800_000_612_000,
            duration_ns: ms(10_000),
            host: "buildbox".into(),
            kernel: "6.12.57+deb13-amd64".into(),
            cpus: 2,
        },
        verdict: Verdict {
            cause: Cause::NoData,
            sentence: String::new(),
            evidence: vec![],
            advice: vec![],
        },
        target: Target {
            asked: "tmux".into(),
            processes: vec![],
        },
        backends: vec![
            backend(
                "sched",
                Some("tp_btf sched_switch, sched_waking, sched_wakeup_new"),
                None,
            ),
            backend("tty", Some("fexit tty_read, tty_write"), None),
            backend(
                "flush",
                Some("tp_btf workqueue_queue_work, workqueue_execute_start"),
                None,
            ),
            backend("hop", Some("USDT by uprobe_multi"), None),
            backend("cost", Some("BPF run-time statistics"), None),
        ],
        losses: vec![],
        cost: Cost::default(),
        threads: vec![],
        ptys: vec![],
        in_process: Vec::new(),
        echoes: None,
        slow_echoes: vec![],
        hops: vec![],
        notes: vec![],
    }
}

/// tmux with a shell and an editor, while a compile uses both CPUs; a phux server beside it.
pub(crate) fn rich() -> Report {
    let mut report = empty();
    report.target.asked = "tmux (the only multiplexer that runs)".into();
    report.target.processes = vec![
        process(14407, "tmux: server", "ada", Relation::Target),
        process(14410, "bash", "ada", Relation::Peer),
        process(15001, "vim", "ada", Relation::Peer),
        Process {
            ended: Some("exited 0".into()),
            ..process(15090, "git", "ada", Relation::Peer)
        },
    ];
    report.backends[1] = backend(
        "tty",
        Some("tp_btf sys_exit and fd walk"),
        Some(
            "fexit tty_read was refused (EPERM): every syscall of the host takes the slow path, \
              some tens of ns each; a kernel that allows fentry would spare it",
        ),
    );
    report.losses = vec![Loss {
        class: "ring_full".into(),
        count: 37,
        meaning: "single waits above 10 ms are missing from the list; histograms are whole".into(),
    }];
    report.cost = Cost {
        daemon_cpu_ns: us(41_200),
        daemon_rss_bytes: 19_398_656,
        kernel_bytes: Some(14_680_064),
        bpf_ns: Some(us(63_900)),
        programs: vec![
            ProgramCost {
                name: "on_switch".into(),
                runs: 121_904,
                ns: us(38_100),
            },
            ProgramCost {
                name: "on_waking".into(),
                runs: 64_010,
                ns: us(15_200),
            },
            ProgramCost {
                name: "on_queue_work".into(),
                runs: 8_122,
                ns: us(1_100),
            },
            ProgramCost {
                name: "on_sys_exit".into(),
                runs: 40_118,
                ns: us(9_500),
            },
        ],
    };
    report.threads = rich_threads();
    report.ptys = rich_ptys();
    report.hops = rich_hops();
    report.notes = vec!["14407 is seen through a pid namespace as 31".into()];
    report.verdict = super::verdict::verdict(&report);
    report
}

fn rich_threads() -> Vec<ThreadRow> {
    let lag = dist(&[
        (us(41), 540),
        (us(312), 420),
        (us(1_900), 180),
        (us(8_130), 120),
        (us(14_800), 23),
        (us(31_200), 1),
    ]);
    vec![
        ThreadRow {
            role: Some("main loop".into()),
            involuntary: 94,
            ran_instead: vec![
                task("cc1plus", &[15020, 15021, 15044], ms(1_282), 612),
                task("rustc", &[15102], ms(512), 201),
                task("make", &[15019], ms(31), 88),
                task("kworker/u8:2", &[311], us(4_800), 210),
                idle(us(9_300)),
            ],
            ..thread(14407, 14407, "tmux: server", lag)
        },
        ThreadRow {
            on_cpu_ns: us(9_120),
            ran_instead: vec![task("cc1plus", &[15020, 15021, 15044], ms(121), 80)],
            ..peer(14410, "bash", dist(&[(us(38), 300), (us(5_200), 24)]))
        },
        ThreadRow {
            on_cpu_ns: us(840),
            exited: true,
            threads: 1,
            ..peer(15090, "git", dist(&[(us(61), 12)]))
        },
        ThreadRow {
            on_cpu_ns: ms(212),
            sched: other(10),
            involuntary: 12,
            waiting_ns: Some(us(2_400)),
            ran_instead: vec![task("rustc", &[15102], us(4_100), 3)],
            ..peer(15001, "vim", dist(&[(us(70), 88), (us(2_100), 2)]))
        },
    ]
}

fn rich_ptys() -> Vec<PtyRow> {
    let shell = PtyRow {
        master_reads: io(
            dist(&[(1, 412), (24, 60), (4_095, 812)]),
            dist(&[(us(4), 472), (us(28), 812)]),
        ),
        master_writes: io(dist(&[(1, 412)]), dist(&[(us(3), 412)])),
        slave_reads: io(dist(&[(1, 412)]), dist(&[(us(2), 412)])),
        slave_writes: io(
            dist(&[(1, 412), (24, 60), (4_095, 812)]),
            dist(&[(us(7), 1_284)]),
        ),
        flush_output: Flush {
            ran_instead: vec![task("cc1plus", &[15020, 15021], ms(101), 55)],
            ..flush(
                dist(&[
                    (us(4), 1_160),
                    (us(28), 96),
                    (us(6_200), 27),
                    (us(12_100), 1),
                ]),
                dist(&[(us(31), 1_100), (us(8_130), 160), (us(14_800), 24)]),
            )
        },
        flush_input: flush(
            dist(&[(us(4), 400), (us(21), 12)]),
            dist(&[(us(38), 388), (us(5_200), 24)]),
        ),
        ..pty(3, ("tmux: server", 14407), ("bash", 14410))
    };
    let mut silent = pty(4, ("tmux: server", 14407), ("vim", 15001));
    silent.slave.push(End {
        pid: 15090,
        name: "git".into(),
    });
    vec![silent, shell]
}

fn rich_hops() -> Vec<HopRow> {
    let hop = |metric: &str, unit: &str, sites, value| HopRow {
        pid: 14407,
        probe: metric.replace('.', "__"),
        metric: metric.into(),
        unit: Some(unit.into()),
        sites,
        value,
    };
    vec![
        hop(
            "pty.read.size",
            "bytes",
            1,
            dist(&[(1, 412), (24, 60), (4_095, 812)]),
        ),
        hop(
            "pty.queue_wait",
            "micros",
            1,
            dist(&[(14, 1_000), (223, 260), (4_200, 24)]),
        ),
        hop("pty.burst.chunks", "count", 1, dist(&[(1, 472), (12, 67)])),
        hop("input.writer.queue_wait", "micros", 2, dist(&[])),
    ]
}

/// Every number as large, every name as long and as hostile as its type allows.
pub(crate) fn extreme() -> Report {
    const NAMES: [&str; 6] = [
        "fifteen-chars-x",
        "\x1b[2J\x1b]0;owned\x07",
        "\u{202e}\u{202e}\u{202e}\u{202e}\u{202e}",
        "日本語の名前",
        "",
        "  a  b  ",
    ];
    let big = || Dist {
        count: u64::MAX,
        sum: u64::MAX,
        min: u64::MAX,
        max: u64::MAX,
        p50: u64::MAX,
        p90: u64::MAX,
        p99: u64::MAX,
        buckets: vec![
            Bucket {
                idx: 503,
                count: u64::MAX,
            },
            Bucket {
                idx: u16::MAX,
                count: 1,
            },
        ],
    };
    let culprits = || -> Vec<Culprit> {
        let kinds = [CulpritKind::Task, CulpritKind::Idle, CulpritKind::Unknown];
        let with = |(i, name): (usize, &&str)| Culprit {
            kind: kinds[i % 3],
            name: (*name).into(),
            pids: vec![u32::MAX; i % 5],
            more_pids: i % 2 == 0,
            ns: u64::MAX,
            slices: u64::MAX,
            sched: Some(SchedClass {
                policy: "X".repeat(40),
                nice: i32::MIN,
                rt_priority: u32::MAX,
            }),
            cgroup: Some("X".repeat(300)),
        };
        NAMES.iter().enumerate().map(with).collect()
    };
    let flush = || Flush {
        wait: big(),
        run: big(),
        reader_wait: big(),
        queued_by: vec![Waker {
            name: NAMES[1].into(),
            count: u64::MAX,
        }],
        ran_instead: culprits(),
        placement: None,
    };
    let end = |(i, name): (usize, &&str)| End {
        pid: u32::MAX - i as u32,
        name: (*name).into(),
    };
    let ends = || NAMES.iter().enumerate().map(end).collect::<Vec<_>>();
    let io = || Io {
        size: big(),
        duration: big(),
        empty: u64::MAX,
    };

    let mut report = empty();
    report.window = Window {
        start_unix_ms: u64::MAX,
        duration_ns: u64::MAX,
        host: "h".repeat(253),
        kernel: "\x1b".repeat(65),
        cpus: u32::MAX,
    };
    report.target.asked = "\u{9b}".repeat(300);
    for (i, name) in NAMES.iter().enumerate() {
        let relation = if i % 2 == 0 {
            Relation::Target
        } else {
            Relation::Peer
        };
        let mut p = process(4_194_304 - i as u32, name, &"u".repeat(256), relation);
        p.ended = Some("exec'd \x1b[31m".repeat(20));
        report.target.processes.push(p);
        report.threads.push(ThreadRow {
            role: Some("role ".repeat(40)),
            relation,
            sched: SchedClass {
                policy: "SCHED_OTHER".into(),
                nice: -20,
                rt_priority: 0,
            },
            on_cpu_ns: u64::MAX,
            voluntary: u64::MAX,
            involuntary: u64::MAX,
            waiting_ns: Some(u64::MAX),
            ran_instead: culprits(),
            exited: true,
            threads: 1,
            ..thread(4_194_304 - i as u32, u32::MAX - i as u32, name, big())
        });
        report.hops.push(HopRow {
            pid: i as u32,
            probe: "p".repeat(200),
            metric: format!("{name}{}", "m".repeat(200)),
            unit: [None, Some("micros"), Some("bytes"), Some("\x1b")][i % 4].map(str::to_owned),
            sites: u32::MAX,
            value: big(),
        });
    }
    for devpts in [0, u64::MAX] {
        report.ptys.push(PtyRow {
            index: u32::MAX,
            devpts,
            master: ends(),
            slave: ends(),
            master_reads: io(),
            master_writes: io(),
            slave_reads: io(),
            slave_writes: io(),
            flush_output: flush(),
            flush_input: flush(),
        });
    }
    report.backends.push(backend(
        &"c".repeat(100),
        None,
        Some(&"\x1b[31m".repeat(50)),
    ));
    let class = "\u{202e}".repeat(50);
    report.losses = vec![Loss {
        class,
        count: u64::MAX,
        meaning: "m ".repeat(200),
    }];
    report.cost = Cost {
        daemon_cpu_ns: u64::MAX,
        daemon_rss_bytes: u64::MAX,
        kernel_bytes: Some(u64::MAX),
        bpf_ns: Some(u64::MAX),
        programs: vec![
            ProgramCost {
                name: "p".repeat(100),
                runs: u64::MAX,
                ns: u64::MAX
            };
            5
        ],
    };
    report.notes = vec!["\x1b[2J".repeat(100), String::new()];
    report.verdict = super::verdict::verdict(&report);
    report
}
