//! Each cause is told from what looks like it: over magnitudes, with noise.

use proptest::prelude::*;

use super::super::verdict;
use super::cases::*;
use crate::echo::synthetic::{
    BUILD, CAPPED, CLIENT, Known, Population, SERVER, change, ms, other, place, rival, schedule,
    stop, us,
};
use crate::echo::{BlockedOn, Chain, End, LinkKind, Role, Summary};
use crate::report::model::{Cause, Report};
use crate::report::sample;

use LinkKind::{Child, ChildRead, ClientReceive, MasterRead, OutputFlush, ServerOutput};

#[test]
fn every_cause_is_told_from_its_look_alikes() {
    for (name, cause, make) in CASES.iter().chain(&LOOK_ALIKES) {
        let v = judged(&make(USUAL));
        assert_eq!(v.cause, *cause, "{name}: {v:#?}");
        assert!(v.sentence.contains("ms"), "{name}: {}", v.sentence);
        for a in &v.advice {
            assert!(a.saves_ns <= ms(16), "{name}: {a:?}");
        }
        assert!(
            v.advice.windows(2).all(|w| w[0].saves_ns >= w[1].saves_ns),
            "{name}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The largest cause is found whatever its size, how often it comes, how many echoes there are
    /// and what else delays them, as long as it is the largest.
    #[test]
    fn magnitudes_do_not_matter(
        case in 0..CASES.len() + LOOK_ALIKES.len(),
        ns in ms(6)..ms(90),
        noise_percent in 0u64..60,
        often in prop_oneof![Just(Often::Always), (2u64..40).prop_map(Often::OneIn)],
        echoes in 200u64..1000,
        seed in any::<u64>(),
    ) {
        let (name, cause, make) = CASES.iter().chain(&LOOK_ALIKES).nth(case).unwrap();
        let size = Size { ns, often, echoes, noise: ns * noise_percent / 100, seed };
        let v = judged(&make(size));
        prop_assert_eq!(v.cause, *cause, "{}: {:#?}", name, v);
    }

    /// Quick echoes are never blamed on anybody, whatever spreads over their links.
    #[test]
    fn nothing_wrong_stays_nothing_wrong(
        ns in 0..us(2400),
        often in prop_oneof![Just(Often::Always), (2u64..40).prop_map(Often::OneIn)],
        echoes in 20u64..800,
        case in 0..CASES.len(),
        seed in any::<u64>(),
    ) {
        let size = Size { ns, often, echoes, noise: us(400), seed };
        let v = judged(&CASES[case].2(size));
        prop_assert_eq!(v.cause, Cause::NothingWrong, "{:#?}", v);
        prop_assert!(v.advice.is_empty());
    }

    /// Slow at random: no cause is made up where nothing stands out.
    #[test]
    fn the_excess_is_never_more_than_the_echo(ns in ms(5)..ms(50), case in 0..CASES.len(), seed in any::<u64>()) {
        let report = CASES[case].2(Size { ns, seed, ..USUAL });
        let slow = report.echoes.as_ref().and_then(|e| e.slow.as_ref()).unwrap();
        let all = super::piece::pieces(&slow.links, &[]);
        let sum: u64 = all.iter().map(|p| p.ns).sum();
        prop_assert_eq!(sum, slow.length_ns, "pieces sum to the echo");
        for a in &judged(&report).advice {
            prop_assert!(a.saves_ns <= slow.length_ns, "{:?}", a);
        }
    }
}

/// A server that is busy all the time with the answers to what is typed has no flood.
#[test]
fn answers_are_no_flood() {
    let mut r = report(USUAL, |p, c, ns| p.burn(c, MasterRead, ns));
    let mut server = sample::thread(SERVER, SERVER, "tmux: server", sample::dist(&[]));
    server.on_cpu_ns = ms(9_000);
    r.threads.push(server);
    let reads = &mut r.ptys[0].master_reads.size;
    (reads.count, reads.sum) = (1900, 3800);
    let typed = &mut r.echoes.as_mut().unwrap().panes[0];
    (typed.devpts, typed.index) = (r.ptys[0].devpts, Some(r.ptys[0].index));
    let v = judged(&r);
    assert_eq!(v.cause, Cause::ServerBusy);
    assert!(!v.sentence.contains("reads/s"), "{}", v.sentence);
    // The same reads in a pane that nobody types at.
    r.echoes.as_mut().unwrap().panes[0].index = Some(77);
    assert_eq!(judged(&r).cause, Cause::SmallReads);
}

#[test]
fn the_issues_example() {
    let report = report(Size { noise: 0, ..USUAL }, |p, c, _| {
        p.wait_for(
            c,
            MasterRead,
            us(12_600),
            &[hog("rustc", 7), hog("rustc", 8)],
        );
        p.burn(c, Child, us(1_100));
        p.wait_for(c, OutputFlush, us(400), &[hog("rustc", 7)]);
    });
    let v = judged(&report);
    assert_eq!(v.cause, Cause::HogOnServer);
    for part in [
        "of which 12.",
        "is run-queue wait of tmux: server(100) (SCHED_OTHER nice 0, cgroup /user.slice/user-1000.slice/session-3.scope)",
        "while rustc ×2 ran",
        "the program inside 1.",
    ] {
        assert!(v.sentence.contains(part), "{part} in {}", v.sentence);
    }
    let first = &v.advice[0];
    assert_eq!(first.command.as_deref(), Some("renice -n 19 -p 7 8"));
    assert!((ms(11)..ms(14)).contains(&first.saves_ns), "{first:?}");
    assert!(
        v.evidence[0].starts_with("1,000 echoes: p50 "),
        "{:?}",
        v.evidence
    );
}

#[test]
fn advice_is_what_the_figures_support() {
    let of = |name: &str| {
        let (_, _, make) = CASES.iter().find(|c| c.0 == name).unwrap();
        judged(&make(USUAL)).advice
    };
    let commands =
        |name: &str| -> Vec<String> { of(name).into_iter().filter_map(|a| a.command).collect() };
    assert_eq!(
        commands("quota of the server"),
        ["systemctl set-property --runtime mux.service CPUQuota="]
    );
    assert_eq!(
        commands("SCHED_IDLE"),
        ["chrt --all-tasks --other -p 0 100"]
    );
    assert_eq!(commands("positive nice"), ["renice -n 0 -p 200"]);
    assert_eq!(
        commands("a light cgroup"),
        ["systemctl set-property --runtime mux-light.service CPUWeight=100"]
    );
    assert_eq!(commands("a real-time hog"), ["chrt --other -p 0 7"]);
    assert_eq!(
        commands("kworker starved"),
        [
            "renice -n -20 -p 311",
            "renice -n 19 -p 7",
            "systemd-run --scope -p CPUWeight=10 rustc"
        ]
    );
    // No nice goes before a real-time task.
    let fifo = crate::stats::SchedClass {
        policy: 1,
        nice: 0,
        rt_priority: 50,
    };
    let behind = self::report(USUAL, |p, c, ns| {
        p.wait_for(c, OutputFlush, ns, &[rival("rt", 7, fifo, BUILD)]);
    });
    let first = &judged(&behind).advice[0];
    assert_eq!(first.command.as_deref(), Some("chrt --other -p 0 7"));
    assert!(judged(&behind).advice.len() == 1, "{first:?}");
    assert!(of("the wait's culprit is not known").is_empty());
    assert!(
        commands("hog on the server's CPU")
            .contains(&"chrt --other --sched-runtime 100000 -p 0 100".to_owned())
    );
    // Between two cgroups neither nice nor a slice decides.
    let report = report(USUAL, |p, c, ns| {
        schedule(c, Role::Server, place(other(0), CAPPED));
        p.wait_for(c, MasterRead, ns, &[rival("rustc", 7, other(0), BUILD)]);
    });
    let v = judged(&report);
    let commands: Vec<_> = v
        .advice
        .iter()
        .filter_map(|a| a.command.as_deref())
        .collect();
    assert_eq!(
        commands,
        ["systemctl set-property --runtime build.service CPUWeight=10"]
    );
}

/// Inputs that got no answer: one in `often`, stopped behind `kind`.
fn unanswered(
    often: u64,
    kind: LinkKind,
    end: End,
    harm: fn(&mut Population, &mut Chain),
) -> Report {
    report(
        Size {
            often: Often::OneIn(often),
            ns: 0,
            ..USUAL
        },
        |p, c, _| {
            harm(p, c);
            stop(c, kind, end);
        },
    )
}

#[test]
fn inputs_without_an_answer() {
    let wait = |p: &mut Population, c: &mut Chain| {
        p.wait_for(c, ChildRead, ms(2000), &[hog("rustc", 7)]);
    };
    let v = judged(&unanswered(10, ChildRead, End::Unread, wait));
    assert_eq!(v.cause, Cause::HogOnChild, "{v:#?}");
    let v = judged(&unanswered(10, ChildRead, End::Unread, |p, c| {
        p.burn(c, ChildRead, ms(2000))
    }));
    assert_eq!(v.cause, Cause::SlowChild, "{v:#?}");
    assert!(
        v.sentence
            .starts_with("100 of 1,000 inputs were not read in time: "),
        "{}",
        v.sentence
    );
    let v = judged(&unanswered(10, Child, End::Late, |p, c| {
        p.block(c, Child, BlockedOn::Unknown, ms(2000))
    }));
    assert_eq!(v.cause, Cause::SlowChild, "{v:#?}");
    let nobody = |_: &mut Population, _: &mut Chain| {};
    let v = judged(&unanswered(1, ServerOutput, End::Undelivered, nobody));
    assert_eq!(v.cause, Cause::ClientNotReading, "{v:#?}");
    let v = judged(&unanswered(7, ServerOutput, End::Undelivered, |p, c| {
        p.block(c, ServerOutput, EPOLL, ms(2000))
    }));
    assert_eq!(v.cause, Cause::ClientNotReading, "{v:#?}");
    let busy = |p: &mut Population, c: &mut Chain| p.burn(c, ServerOutput, ms(2000));
    let mut r = unanswered(7, ServerOutput, End::Undelivered, busy);
    assert_eq!(judged(&r).cause, Cause::ServerBusy);
    let mut terminal = sample::pty(0, ("sshd", 50), ("tmux: client", CLIENT));
    terminal.slave_writes.size.sum = 60_000;
    terminal.master_reads.size.sum = 40_000;
    r.ptys.push(terminal);
    assert_eq!(
        judged(&r).cause,
        Cause::ClientNotReading,
        "it serves others meanwhile"
    );
    let starved = |p: &mut Population, c: &mut Chain| {
        p.wait_for(c, ClientReceive, ms(2000), &[hog("rustc", 7)]);
    };
    let v = judged(&unanswered(7, ClientReceive, End::Undelivered, starved));
    assert_eq!(
        v.cause,
        Cause::HogOnClient,
        "the client wants to read: {v:#?}"
    );
}

#[test]
fn silence_is_no_fault() {
    // Half of what is typed is a password.
    let v = judged(&unanswered(2, ChildRead, End::Silent, |_, _| {}));
    assert_eq!(v.cause, Cause::NothingWrong, "{v:#?}");
    assert!(
        v.evidence
            .iter()
            .any(|e| e.contains("500 taken in silence")),
        "{:?}",
        v.evidence
    );
}

#[test]
fn where_no_echo_was_seen_the_waits_tell() {
    let mut report = sample::rich();
    let without = verdict(&report);
    report.echoes = Some(Summary::new(None).rows(&Known));
    assert_eq!(verdict(&report), without);
    // And quick echoes do not hide what waits without being typed at.
    let mut quiet = self::report(Size { noise: 0, ..USUAL }, |_, _, _| {});
    quiet.threads = report.threads;
    let v = verdict(&quiet);
    assert_eq!(v.cause, Cause::NothingWrong);
    assert!(
        v.evidence
            .iter()
            .any(|e| e.starts_with("besides: tmux: server(14407)")),
        "{:?}",
        v.evidence
    );
}

#[test]
fn a_server_that_has_its_clients_terminals_itself_is_one_victim() {
    // tmux: no step of the client's own; half of the wait is where it reads keys.
    let report = report(USUAL, |p, c, ns| {
        for l in c.links.iter_mut().filter(|l| l.kind.role() == Role::Client) {
            l.actor.pid = SERVER;
            l.actor.tid = SERVER;
        }
        p.wait_for(c, LinkKind::ClientRead, ns / 2, &[hog("rustc", 7)]);
        p.wait_for(c, MasterRead, ns / 3, &[hog("rustc", 7)]);
        p.wait_for(c, OutputFlush, ns * 2 / 3, &[hog("rustc", 7)]);
    });
    let v = judged(&report);
    assert_eq!(v.cause, Cause::HogOnServer, "{v:#?}");
    assert!(!v.sentence.contains("the client"), "{}", v.sentence);
}

#[test]
fn two_causes_are_both_told() {
    let report = report(USUAL, |p, c, ns| {
        p.wait_for(c, MasterRead, ns, &[hog("rustc", 7)]);
        p.block(c, Child, DISK_READ, ns / 2);
    });
    let v = judged(&report);
    assert_eq!(v.cause, Cause::HogOnServer);
    assert!(
        v.evidence
            .iter()
            .any(|e| e.starts_with("also: ") && e.contains("asleep in read")),
        "{:?}",
        v.evidence
    );
    assert!(
        v.advice.iter().any(|a| a.text.contains("bash(200)")),
        "{:?}",
        v.advice
    );
}

#[test]
fn nothing_stands_out() {
    let report = report(Size { noise: 0, ..USUAL }, |p, c, ns| {
        p.wait_for(c, MasterRead, ns / 6, &[hog("rustc", 7)]);
        p.wait_for(c, ChildRead, ns / 6, &[hog("rustc", 7)]);
        p.wait_for(c, OutputFlush, ns / 6, &[hog("rustc", 7)]);
        p.burn(c, Child, ns / 6);
        p.burn(c, MasterRead, ns / 6);
        p.block(c, ServerOutput, FUTEX, ns / 6);
    });
    let v = judged(&report);
    assert_eq!(v.cause, Cause::SlowEcho, "{v:#?}");
    assert!(
        v.sentence.contains("no single cause stands out"),
        "{}",
        v.sentence
    );
}

#[test]
fn a_constant_delay_is_found_though_the_typical_echo_has_it_too() {
    let v = judged(&report(
        Size {
            often: Often::Always,
            ns: ms(5),
            noise: us(200),
            ..USUAL
        },
        |p, c, ns| p.block(c, ServerOutput, FUTEX, ns),
    ));
    assert_eq!(v.cause, Cause::ServerBlocked, "{v:#?}");
}

#[test]
fn foreign_names_are_harmless_in_every_sentence() {
    for (name, _, make) in CASES {
        let mut report = make(USUAL);
        let json = serde_json::to_string(report.echoes.as_ref().unwrap()).unwrap();
        let json = json
            .replace("rustc", "\\u001b[2J")
            .replace("tmux: server", "\\u009b31m")
            .replace("bash", "\\u202e");
        report.echoes = Some(serde_json::from_str(&json).unwrap());
        for p in report.ptys.iter_mut().flat_map(|p| &mut p.slave) {
            p.name = "\u{1b}]0;owned\u{7}".into();
        }
        let v = judged(&report);
        let text = [v.sentence.clone()].into_iter().chain(v.evidence).chain(
            v.advice
                .into_iter()
                .flat_map(|a| [a.text, a.command.unwrap_or_default()]),
        );
        for line in text {
            assert!(
                line.chars().all(crate::escape::is_harmless),
                "{name}: {line:?}"
            );
        }
    }
}

#[test]
fn pages_of_a_fast_disk_are_more_work_than_sleep() {
    let faults = |n: u32| {
        move |p: &mut Population, c: &mut Chain, ns: u64| {
            p.burn(c, Child, ns);
            change(c, Child, |l| l.major_faults += n);
        }
    };
    assert_eq!(
        judged(&report(USUAL, faults(400))).cause,
        Cause::MajorFaults
    );
    assert_eq!(judged(&report(USUAL, faults(100))).cause, Cause::SlowChild);
}
