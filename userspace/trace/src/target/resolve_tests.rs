use super::super::proc::sample;
use super::super::pty::Holder;
use super::*;

const ME: Invoker = Invoker {
    pid: 999_999,
    uid: 1000,
};

fn pty(index: u32, master: &[u32], slave: &[u32]) -> Pty {
    let holders = |pids: &[u32]| {
        pids.iter()
            .map(|&pid| Holder {
                pid,
                name: pid.to_string(),
                fds: vec![3],
            })
            .collect()
    };
    Pty {
        index,
        devpts: 26,
        master: holders(master),
        slave: holders(slave),
    }
}

fn survey(processes: &[(u32, &str, u32)], ptys: Vec<Pty>) -> Survey {
    let processes = processes
        .iter()
        .map(|&(pid, comm, uid)| (pid, sample(pid, comm, None, uid)))
        .collect();
    Survey {
        processes,
        ptys,
        refused: 0,
    }
}

fn pids(processes: &[Process]) -> Vec<u32> {
    processes.iter().map(|p| p.pid).collect()
}

fn ask(typed: &str) -> Ask {
    Ask::parse(Some(typed.as_ref()))
}

/// Two users, each with a tmux; user 1000 also with shells in it and a client.
fn two_users() -> Survey {
    survey(
        &[
            (4_100_001, "tmux: client", 1000),
            (4_100_002, "tmux: server", 1000),
            (4_100_003, "bash", 1000),
            (4_100_004, "tmux: server", 1001),
            (4_100_005, "bash", 1001),
            (4_100_006, "bash", 1000),
            (4_100_007, "xterm", 1000),
        ],
        vec![
            pty(1, &[4_100_002], &[4_100_003]),
            pty(2, &[4_100_004], &[4_100_005]),
            pty(3, &[4_100_007], &[4_100_001, 4_100_002]),
        ],
    )
}

#[test]
fn what_was_typed() {
    assert_eq!(ask("12"), Ask::Pid(12));
    assert_eq!(ask("99999999999999999999999"), Ask::Pid(u64::MAX));
    assert_eq!(ask("tmux"), Ask::Name("tmux".into()));
    assert_eq!(ask("-1"), Ask::Name("-1".into()));
    assert_eq!(ask(""), Ask::Name(String::new()));
    assert_eq!(Ask::parse(None), Ask::Any);
}

#[test]
fn a_multiplexers_name_is_server_and_clients_of_one_user() {
    let survey = two_users();
    let target = resolve(&ask("tmux"), &survey, ME).expect("found");
    assert_eq!(
        pids(&target.processes),
        [4_100_002, 4_100_001],
        "the server first"
    );
    assert_eq!(pids(&target.peers), [4_100_003, 4_100_007]);
    assert_eq!(
        target.ptys.iter().map(|p| p.index).collect::<Vec<_>>(),
        [1, 3]
    );
}

#[test]
fn several_users_without_the_invoker_are_ambiguous() {
    let nobody = Invoker { uid: 65534, ..ME };
    match resolve(&ask("tmux"), &two_users(), nobody) {
        Err(ResolveError::SeveralUsers { candidates, .. }) => assert_eq!(candidates.0.len(), 3),
        other => panic!("{other:?}"),
    }
    let error = resolve(&Ask::Any, &two_users(), nobody).expect_err("two users' tmux");
    assert!(matches!(error, ResolveError::SeveralMultiplexers { .. }));
    let text = error.to_string();
    assert!(
        text.contains("4100002") && text.contains("user1001") && text.contains("2 PTYs"),
        "{text}"
    );
}

#[test]
fn another_users_only_one_is_meant() {
    let nobody = Invoker { uid: 65534, ..ME };
    let target = resolve(&ask("xterm"), &two_users(), nobody).expect("one user has it");
    assert_eq!(pids(&target.processes), [4_100_007]);
}

#[test]
fn of_other_programs_those_with_a_pty_are_meant() {
    let target = resolve(&ask("bash"), &two_users(), ME).expect("found");
    assert_eq!(pids(&target.processes), [4_100_003], "4100006 holds no PTY");
    let without = survey(
        &[(4_100_001, "daemon", 0), (4_100_002, "daemon", 0)],
        vec![],
    );
    let target = resolve(&ask("daemon"), &without, ME).expect("found");
    assert_eq!(pids(&target.processes), [4_100_001, 4_100_002]);
    assert!(target.ptys.is_empty(), "{:?}", target.ptys);
}

#[test]
fn default_prefers_phux_then_ones_own_then_the_only_one() {
    let mut all = two_users();
    let target = resolve(&Ask::Any, &all, ME).expect("own tmux");
    assert_eq!(pids(&target.processes), [4_100_002, 4_100_001]);

    all.processes
        .insert(4_100_010, sample(4_100_010, "phux", None, 1000));
    let target = resolve(&Ask::Any, &all, ME).expect("own tmux");
    assert_eq!(
        pids(&target.processes)[0],
        4_100_002,
        "a phux client alone is no server"
    );

    all.ptys.push(pty(9, &[4_100_010], &[]));
    let target = resolve(&Ask::Any, &all, ME).expect("own phux");
    assert_eq!(pids(&target.processes), [4_100_010]);
    assert!(target.asked.starts_with("phux"));

    let one = survey(&[(4_100_001, "screen", 7)], vec![pty(0, &[4_100_001], &[])]);
    assert_eq!(
        pids(
            &resolve(&Ask::Any, &one, ME)
                .expect("the only one")
                .processes
        ),
        [4_100_001]
    );

    all.processes
        .insert(4_100_011, sample(4_100_011, "screen", None, 1000));
    all.ptys.push(pty(10, &[4_100_011], &[]));
    all.processes.remove(&4_100_010);
    let error = resolve(&Ask::Any, &all, ME).expect_err("tmux and screen");
    assert!(
        matches!(error, ResolveError::SeveralMultiplexers { .. }),
        "{error:?}"
    );
}

#[test]
fn nothing_to_find_names_what_there_is() {
    let none = survey(
        &[(4_100_001, "xterm", 1000)],
        vec![pty(0, &[4_100_001], &[])],
    );
    for asked in [Ask::Any, ask("tnux")] {
        let text = resolve(&asked, &none, ME).expect_err("nothing").to_string();
        assert!(
            text.contains("xterm") && text.contains("1 PTY") && text.contains("4100001"),
            "{text}"
        );
    }
    let empty = survey(&[], vec![]);
    assert!(matches!(
        resolve(&Ask::Any, &empty, ME),
        Err(ResolveError::NoMultiplexer { .. })
    ));
}

/// A pid that nobody has any more: pids are given out in a circle, so it stays free for long.
fn dead_pid() -> u32 {
    let mut child = std::process::Command::new("true").spawn().expect("true");
    child.wait().expect("ends");
    child.id()
}

#[test]
fn bad_pids() {
    let mut survey = two_users();
    let error =
        |typed: u64, survey: &Survey| resolve(&Ask::Pid(typed), survey, ME).expect_err("a bad pid");
    let max = pid_max() - 1;
    let dead = dead_pid();
    assert_eq!(error(0, &survey), ResolveError::NotAPid { typed: 0, max });
    assert_eq!(
        error(u64::MAX, &survey),
        ResolveError::NotAPid {
            typed: u64::MAX,
            max
        }
    );
    assert_eq!(
        error(u64::from(max) + 1, &survey),
        ResolveError::NotAPid {
            typed: u64::from(max) + 1,
            max
        }
    );
    assert_eq!(
        error(dead.into(), &survey),
        ResolveError::NoSuchPid { pid: dead }
    );
    survey.processes.insert(
        2,
        Process {
            kernel_thread: true,
            ..sample(2, "kthreadd", None, 0)
        },
    );
    assert_eq!(
        error(2, &survey),
        ResolveError::KernelThread {
            pid: 2,
            name: "kthreadd".into()
        }
    );
    survey.processes.insert(
        3,
        Process {
            zombie: true,
            ..sample(3, "gone", None, 0)
        },
    );
    assert_eq!(
        error(3, &survey),
        ResolveError::Ended {
            pid: 3,
            name: "gone".into()
        }
    );
    let me = Invoker { pid: 4, ..ME };
    assert_eq!(
        resolve(&Ask::Pid(4), &survey, me).expect_err("ourselves"),
        ResolveError::Myself { pid: 4 }
    );
}

#[test]
fn pids_of_another_namespace() {
    let inner = dead_pid();
    let mut survey = two_users();
    let container = Process {
        nspid: vec![4_100_020, inner],
        ..sample(4_100_020, "bash", None, 0)
    };
    survey.processes.insert(4_100_020, container);
    match resolve(&Ask::Pid(u64::from(inner)), &survey, ME) {
        Err(ResolveError::OtherNamespace { pid, candidates }) => {
            assert_eq!((pid, candidates.0[0].pid), (inner, 4_100_020));
        }
        other => panic!("{other:?}"),
    }
    let target = resolve(&Ask::Pid(4_100_020), &survey, ME).expect("by the pid here");
    let note = format!("as pid {inner} there");
    assert!(
        target.notes.iter().any(|n| n.contains(&note)),
        "{:?}",
        target.notes
    );
}

#[test]
fn a_clients_pid_points_to_its_server() {
    let target = resolve(&Ask::Pid(4_100_001), &two_users(), ME).expect("found");
    assert_eq!(pids(&target.processes), [4_100_001]);
    assert!(
        target.notes.iter().any(|n| n.contains("attach tmux")),
        "{:?}",
        target.notes
    );
}

#[test]
fn a_thread_id_means_its_process() {
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let (send, tid) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        send.send(rustix::thread::gettid()).expect("tid");
        let _ = told.recv();
    });
    let tid = tid.recv().expect("tid").as_raw_nonzero().get();
    let survey = Survey::take().expect("/proc");
    let typed = u64::try_from(tid).expect("positive");
    let target = resolve(&Ask::Pid(typed), &survey, ME).expect("the process");
    assert_eq!(pids(&target.processes), [std::process::id()]);
    assert!(
        target
            .notes
            .iter()
            .any(|n| n.contains("is a thread of process"))
    );
    drop(tell);
    thread.join().expect("ends");
}

#[test]
fn names_cannot_carry_escape_sequences() {
    let evil = survey(
        &[(4_100_001, "\u{1b}[2Jx\n", 1)],
        vec![pty(0, &[4_100_001], &[])],
    );
    let text = resolve(&Ask::Any, &evil, ME)
        .expect_err("nothing known")
        .to_string();
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let text = resolve(&ask("\u{1b}[2J"), &evil, ME)
        .expect_err("nothing known")
        .to_string();
    assert!(!text.contains('\u{1b}'), "{text:?}");
}
