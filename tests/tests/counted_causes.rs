//! Each cause of a slow echo, and what looks like it, made on purpose to a real tmux on one CPU where
//! time is counted in instructions (`scripts/vm/boot --det`): the verdict is the same in every run.
//!
//! One `attach` sees them all, one after the other, and tells a verdict at the end of each interval:
//! most of what it costs here is to begin. It has the CPU when nobody else wants it. Who has a part
//! goes before the hogs, but the one that is to suffer.

use std::fs;
use std::time::Duration;

use phux_trace_tests::attach::Attached;
use phux_trace_tests::classes::Class;
use phux_trace_tests::interference::{Cgroup, Favoured, Hog};
use phux_trace_tests::session::Session;
use serde_json::Value;

/// Long beside an interval, in which those who wait may have the CPU for moments only.
const SOON: Duration = Duration::from_secs(20);
/// Between two keys.
const PAUSE: Duration = Duration::from_millis(10);
/// Where a program or a server is to be slow, it takes so long for a key.
const LATE_US: u64 = 8000;
/// A cgroup's period.
const PERIOD: Duration = Duration::from_millis(100);

/// Who sees to it that things happen, before everybody.
const DIRECTOR: Class = Class::Fifo(50);
/// Who has a part and is not to suffer: before any hog.
const FAVOURED: Class = Class::Fifo(20);
/// A hog that nobody of the ordinary classes can be before.
const HOG: Class = Class::Fifo(10);
/// A hog is busy for a while and sleeps for a while, else nobody behind it would ever run.
const TURNS: [&str; 2] = ["--burst-us=12000", "--gap-us=6000"];

fn hog(class: Class) -> Hog {
    let hog = Hog::start(&TURNS);
    class.set(hog.pid()).expect("a class of the hog");
    hog
}

/// Undone on drop: the class of the server or of the program is the usual one of the scene again.
struct Suffers(u32);

impl Suffers {
    fn of(pid: u32, class: Class) -> Suffers {
        class.set(pid).expect("a class");
        Suffers(pid)
    }
}

impl Drop for Suffers {
    fn drop(&mut self) {
        let _ = FAVOURED.set(self.0);
    }
}

/// An `attach` that goes on, and what became of the scenes so far.
struct Stage {
    attached: Attached,
    /// Their workers are no cause.
    favours_kworkers: bool,
    wrong: Vec<String>,
}

impl Stage {
    fn open() -> Stage {
        let attached = Attached::with(&["tmux"]);
        Class::Idle.set(attached.pid()).expect("a class of attach");
        Stage {
            attached,
            favours_kworkers: true,
            wrong: Vec::new(),
        }
    }

    /// Makes the trouble, types for an interval, and holds the verdict on that against `cause`.
    /// `words` are to be in what it says.
    fn scene<T>(
        &mut self,
        name: &str,
        session: &mut Session,
        (cause, words): (&str, &[&str]),
        trouble: impl FnOnce(&Session) -> T,
    ) {
        self.attached.next_report(SOON);
        // Each time, for the kernel makes and ends them as it likes.
        let favoured = self.favours_kworkers.then(|| Favoured::kworkers(FAVOURED));
        let trouble = trouble(session);
        let mut keys = b"vwyz".iter().cycle();
        let report = loop {
            session.terminal.key(*keys.next().expect("no end of keys"));
            std::thread::sleep(PAUSE);
            if let Some(report) = self.attached.report_so_far() {
                break report;
            }
        };
        drop((trouble, favoured));
        self.judge(name, &report, cause, words);
    }

    fn judge(&mut self, name: &str, report: &[Value], cause: &str, words: &[&str]) {
        let verdict = report.last().expect("a report has a verdict");
        let told = text(verdict);
        // For who compares one run with the next.
        for line in format!("{}: {told}", verdict["cause"]).lines() {
            println!("FIGURE {name} {line}");
        }
        let missing: Vec<_> = words.iter().filter(|w| !told.contains(**w)).collect();
        if verdict["cause"] != cause || !missing.is_empty() {
            report.iter().for_each(|line| println!("{name}: {line}"));
            self.wrong
                .push(format!("{name}: not {cause} with {missing:?}: {told}"));
        }
    }
}

/// The sentence, the evidence and the advice.
fn text(verdict: &Value) -> String {
    let lines = |of: &Value, name: &str| -> Vec<String> {
        let all = of.as_array().into_iter().flatten();
        let text = |v: &Value| v.as_str().map(str::to_owned);
        all.filter_map(|v| text(v).or_else(|| text(&v[name])))
            .collect()
    };
    let mut all = vec![verdict["sentence"].as_str().unwrap_or_default().to_owned()];
    all.extend(lines(&verdict["evidence"], ""));
    all.extend(lines(&verdict["advice"], "command"));
    all.join("\n")
}

#[test]
#[ignore = "in counted time: scripts/vm-matrix scenarios"]
fn every_cause_is_told_from_its_look_alikes() {
    DIRECTOR.set(std::process::id()).expect("a class");
    // All that the favoured take together is no reason to stop them for a while; and the kernel shares
    // among tasks, not among sessions.
    for (setting, value) in [
        ("sched_rt_runtime_us", "-1"),
        ("sched_autogroup_enabled", "0"),
    ] {
        fs::write(format!("/proc/sys/kernel/{setting}"), value).expect(setting);
    }
    let mut plain = Session::start(FAVOURED, "", &[]);
    let mut reads_slowly = Session::with_late_server(FAVOURED, "read:master:spin:4000", "");
    let what = format!("write:master:sleep:{LATE_US}");
    let mut sleeps = Session::with_late_server(FAVOURED, &what, "");
    let what = format!("write:master:spin:{LATE_US}");
    let mut computes = Session::with_late_server(FAVOURED, &what, "");
    let server = plain.tmux.pid();
    let mut stage = Stage::open();

    let nothing: (&str, &[&str]) = ("nothing_wrong", &["echoes"]);
    stage.scene("nothing-wrong", &mut plain, nothing, |_| ());
    stage.scene("idle-hog", &mut plain, nothing, |_| hog(Class::Idle));
    let on_server: (&str, &[&str]) = ("hog_on_server", &["run-queue wait of tmux: server", "hog("]);
    stage.scene("hog-on-server", &mut plain, on_server, |s| {
        (Suffers::of(s.tmux.pid(), Class::Nice(0)), hog(HOG))
    });
    let on_child: (&str, &[&str]) = ("hog_on_child", &["run-queue wait of echoer", "hog("]);
    stage.scene("hog-on-child", &mut plain, on_child, |s| {
        (Suffers::of(s.child, Class::Nice(0)), hog(HOG))
    });

    stage.favours_kworkers = false;
    let worker: (&str, &[&str]) = ("flush_worker", &["flush worker kworker/", "hog("]);
    stage.scene("kworker-starved", &mut plain, worker, |_| hog(HOG));
    stage.favours_kworkers = true;

    let quota: (&str, &[&str]) = (
        "quota_throttling",
        &["throttling of tmux: server", "cpu.max"],
    );
    stage.scene("quota", &mut computes, quota, |s| {
        // A key takes what there is for four periods.
        let server = s.tmux.pid();
        let usual = Suffers::of(server, Class::Nice(0));
        let little = Duration::from_micros(LATE_US / 4);
        (usual, Cgroup::with_quota(&[server], little, PERIOD / 5))
    });
    stage.scene("ample-quota", &mut plain, on_server, |_| {
        let usual = Suffers::of(server, Class::Nice(0));
        let ample = Cgroup::with_quota(&[server], 4 * PERIOD, PERIOD);
        (usual, ample, hog(HOG))
    });

    let idle: (&str, &[&str]) = (
        "low_priority",
        &["SCHED_IDLE", "hog(", "chrt --all-tasks --other"],
    );
    stage.scene("idle-class-server", &mut plain, idle, |_| {
        (Suffers::of(server, Class::Idle), hog(Class::Nice(0)))
    });
    let nice: (&str, &[&str]) = ("low_priority", &["nice 19", "hog(", "renice -n 0"]);
    stage.scene("nice-server", &mut plain, nice, |_| {
        let usual = Suffers::of(server, Class::Nice(19));
        let hog = hog(Class::Nice(0));
        // Nice counts within one cgroup; outside of all, the kernel may share by session.
        let one = Cgroup::with_quota(&[server, hog.pid()], 4 * PERIOD, PERIOD);
        (usual, hog, one)
    });
    stage.scene("nice-server-real-time-hog", &mut plain, on_server, |_| {
        (Suffers::of(server, Class::Nice(19)), hog(HOG))
    });

    plain.restart_child(&format!("--spin-us {LATE_US}"));
    let computing: (&str, &[&str]) = ("slow_child", &["echoer", "on a CPU", "perf top"]);
    stage.scene("child-computes", &mut plain, computing, |_| ());
    plain.restart_child(&format!("--sleep-us {LATE_US}"));
    let asleep: (&str, &[&str]) = (
        "slow_child",
        &["echoer", "asleep in clock_nanosleep", "strace"],
    );
    stage.scene("child-sleeps", &mut plain, asleep, |_| ());
    plain.restart_child("");

    let blocked: (&str, &[&str]) = ("server_blocked", &["tmux: server", "clock_nanosleep"]);
    stage.scene("server-sleeps", &mut sleeps, blocked, |_| ());
    let busy: (&str, &[&str]) = ("server_busy", &["tmux: server"]);
    stage.scene("server-computes", &mut computes, busy, |_| ());

    let flood: (&str, &[&str]) = ("server_busy", &["tmux: server", "(flood)", "KiB"]);
    stage.scene("flood", &mut reads_slowly, flood, |s| {
        Flood::start(s, "--bytes 4096 --gap-us 1000")
    });
    let small: (&str, &[&str]) = ("small_reads", &["tmux: server", "(flood)", "reads/s"]);
    stage.scene("small-reads", &mut reads_slowly, small, |s| {
        Flood::start(s, "--bytes 1 --gap-us 4000")
    });
    stage.scene("flood-and-hog", &mut plain, on_server, |s| {
        let usual = Suffers::of(server, Class::Nice(0));
        (usual, Flood::start(s, "--bytes 64 --gap-us 2000"), hog(HOG))
    });

    stage.attached.signal(rustix::process::Signal::INT);
    let (ended, _) = stage.attached.ended();
    assert!(ended.status.success(), "{}\n{}", ended.status, ended.stderr);
    assert!(stage.wrong.is_empty(), "{}", stage.wrong.join("\n"));
}

/// Another pane that floods, until the drop.
struct Flood(u32);

impl Flood {
    fn start(session: &Session, options: &str) -> Flood {
        let pid = session.flood(options);
        Class::Nice(0).set(pid).expect("a class of the flood");
        Flood(pid)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.0.cast_signed()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}
