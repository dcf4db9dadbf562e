//! Each cause of a slow echo, made on purpose to a real tmux, and what looks like it: the verdict tells
//! them apart.
//!
//! The one that is to suffer is on CPU 1 with what it suffers from, all else that has a part on CPU 0.
//! So that what else runs on the machine is no cause, all that have a part are in a class before the
//! ordinary ones, but where the cause needs another.

use std::fs;
use std::path::Path;
use std::time::Duration;

use phux_trace_tests::attach::Attached;
use phux_trace_tests::bins::bin;
use phux_trace_tests::classes::Class;
use phux_trace_tests::interference::{Cgroup, Favoured, Hog, Kworkers, pin};
use phux_trace_tests::session::Session;
use phux_trace_tests::terminal::Typed;
use phux_trace_tests::{exclusive, need_root, need_tool};
use rustix::fs::statfs;
use serde_json::Value;

/// Keys typed in one run.
const KEYS: usize = 60;
/// Between two keys.
const PAUSE: Duration = Duration::from_millis(10);
/// The program in the pane or the server takes so long for a key, where it is to be slow.
const LATE_US: u64 = 8000;
/// A cgroup's period.
const PERIOD: Duration = Duration::from_millis(100);

/// The class of all that have a part, as long as nothing else is said.
const FAVOURED: Class = Class::Fifo(1);
/// Takes its CPU, from those as well, for up to 12 ms at a time.
const BURSTS: [&str; 4] = [
    "--policy=fifo",
    "--cpu=1",
    "--burst-us=12000",
    "--gap-us=6000",
];

/// What `attach` says in the end, and what the person saw.
struct Told {
    verdict: Value,
    echoes: Value,
    typed: Vec<Typed>,
}

/// Everybody is favoured, but the kernel's workers if they are what suffers.
struct Setting {
    session: Session,
    favours_kworkers: bool,
}

impl Setting {
    fn start(options: &str) -> Setting {
        Setting::of(Session::start(FAVOURED, options, &[]))
    }

    /// The server is late at each of these, see `phux-trace-delay`.
    fn with_late_server(what: &str) -> Setting {
        Setting::of(Session::with_late_server(FAVOURED, what, ""))
    }

    fn of(session: Session) -> Setting {
        Setting {
            session,
            favours_kworkers: true,
        }
    }

    /// Process id of the server.
    fn server(&self) -> u32 {
        self.session.tmux.pid()
    }

    /// The server on CPU 1, the program on CPU 0.
    fn server_aside(self) -> Setting {
        pin(self.server(), &[1]);
        pin(self.session.child, &[0]);
        self
    }

    /// The program on CPU 1, the server on CPU 0.
    fn child_aside(self) -> Setting {
        pin(self.server(), &[0]);
        pin(self.session.child, &[1]);
        self
    }

    /// A flood in another pane, where the program is not in the way.
    fn flood(&self, options: &str) {
        pin(self.session.flood(options), &[0]);
    }

    /// Types, under `attach`.
    fn judged(&mut self) -> Told {
        let attached = Attached::to(self.server());
        let _favoured = self.favours_kworkers.then(|| Favoured::kworkers(FAVOURED));
        let typed = self.session.terminal.type_keys(KEYS, PAUSE);
        Told::of(attached, typed)
    }

    /// Types at a terminal that hangs, under `attach`, until its answers are overdue.
    fn judged_unread(&mut self) -> Told {
        let attached = Attached::to(self.server());
        let terminal = &self.session.terminal;
        let hangs = terminal.stops_reading();
        for key in b"vwyz".iter().cycle().take(KEYS) {
            terminal.send(&[*key]);
            std::thread::sleep(PAUSE);
        }
        // An echo is overdue after a second; an input is told of when its time is over.
        std::thread::sleep(Duration::from_millis(1500));
        let told = Told::of(attached, Vec::new());
        drop(hangs);
        told
    }
}

impl Told {
    fn of(attached: Attached, typed: Vec<Typed>) -> Told {
        let report = attached.stop();
        let last = |all: &[Value]| all.last().cloned().unwrap_or_default();
        let told = Told {
            verdict: last(&report.verdicts),
            echoes: last(&report.echoes),
            typed,
        };
        println!("{}: {}", told.cause(), told.text());
        told
    }

    fn cause(&self) -> &str {
        self.verdict["cause"].as_str().unwrap_or_default()
    }

    /// The sentence and the evidence.
    fn text(&self) -> String {
        let evidence = self.verdict["evidence"].as_array().into_iter().flatten();
        let all = [&self.verdict["sentence"]].into_iter().chain(evidence);
        let all: Vec<&str> = all.filter_map(Value::as_str).collect();
        all.join("\n")
    }

    /// This cause, and these words in what is said of it.
    fn assert(&self, cause: &str, words: &[&str]) {
        assert_eq!(self.cause(), cause, "{}\n{}", self.text(), self.echoes);
        for word in words {
            assert!(self.text().contains(word), "no {word:?} in {}", self.text());
        }
    }
}

/// `None` where it cannot be made here; else the machine, for oneself.
fn alone() -> Option<phux_trace_tests::machine::Exclusive> {
    (need_root() && need_tool("tmux")).then(exclusive)
}

#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn a_hog_on_the_servers_cpu() {
    let Some(_alone) = alone() else { return };
    let _kworkers = Kworkers::only_on(0);
    let mut setting = Setting::start("").server_aside();
    let hog = Hog::start(&BURSTS);
    let blamed = format!("hog({})", hog.pid());
    setting.judged().assert(
        "hog_on_server",
        &["run-queue wait of tmux: server", &blamed],
    );
}

#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn a_hog_on_the_childs_cpu() {
    let Some(_alone) = alone() else { return };
    let _kworkers = Kworkers::only_on(0);
    let mut setting = Setting::start("").child_aside();
    let hog = Hog::start(&BURSTS);
    let blamed = format!("hog({})", hog.pid());
    setting
        .judged()
        .assert("hog_on_child", &["run-queue wait of echoer", &blamed]);
}

#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn a_starved_kworker() {
    let Some(_alone) = alone() else { return };
    let mut setting = Setting::start("");
    setting.favours_kworkers = false;
    pin(setting.server(), &[0]);
    pin(setting.session.child, &[0]);
    let _kworkers = Kworkers::only_on(1);
    let hog = Hog::start(&BURSTS);
    let blamed = format!("hog({})", hog.pid());
    setting
        .judged()
        .assert("flush_worker", &["flush worker kworker/", &blamed]);
}

#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn a_quota() {
    let Some(_alone) = alone() else { return };
    // So that a key or two take what there is for a period.
    let mut setting = Setting::with_late_server("read:slave:spin:500");
    // No quota binds the real-time classes.
    let server = setting.server();
    Class::Nice(0).set(server).expect("an ordinary class");
    let cgroup = Cgroup::with_quota(&[server], Duration::from_millis(1), PERIOD);
    let told = setting.judged();
    assert!(cgroup.throttled() > PERIOD, "{:?}", cgroup.throttled());
    told.assert("quota_throttling", &["throttling of tmux: server"]);
}

/// The look-alike of a quota: there is one, and it is not what hurts.
#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn a_hog_besides_an_ample_quota() {
    let Some(_alone) = alone() else { return };
    let _kworkers = Kworkers::only_on(0);
    let mut setting = Setting::start("").server_aside();
    let server = setting.server();
    Class::Nice(0).set(server).expect("an ordinary class");
    let _cgroup = Cgroup::with_quota(&[server], 4 * PERIOD, PERIOD);
    let _hog = Hog::start(&BURSTS);
    setting.judged().assert("hog_on_server", &["hog("]);
}

#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn a_server_busy_with_a_flood() {
    let Some(_alone) = alone() else { return };
    let mut setting = Setting::with_late_server("read:master:spin:3000").server_aside();
    setting.flood("--bytes 4096");
    setting
        .judged()
        .assert("server_busy", &["tmux: server", "(flood)", "4.0KiB"]);
}

/// The look-alike of a busy server: a flood that the server gets along with, and a hog.
#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn a_hog_besides_a_flood() {
    let Some(_alone) = alone() else { return };
    let _kworkers = Kworkers::only_on(0);
    let mut setting = Setting::start("").server_aside();
    setting.flood("--bytes 64 --gap-us 2000");
    let _hog = Hog::start(&BURSTS);
    setting.judged().assert("hog_on_server", &["hog("]);
}

/// The server sleeps at times: one that takes the whole CPU in real time would lose it to what the
/// kernel keeps for ordinary tasks.
#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn many_small_reads() {
    let Some(_alone) = alone() else { return };
    let mut setting = Setting::with_late_server("read:master:spin:3000").server_aside();
    setting.flood("--bytes 1 --gap-us 4000");
    setting
        .judged()
        .assert("small_reads", &["tmux: server", "(flood)", "reads/s"]);
}

#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn a_child_that_computes() {
    let Some(_alone) = alone() else { return };
    let mut setting = Setting::start(&format!("--spin-us {LATE_US}"));
    setting
        .judged()
        .assert("slow_child", &["echoer", "on a CPU"]);
}

#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn a_child_that_sleeps() {
    let Some(_alone) = alone() else { return };
    let mut setting = Setting::start(&format!("--sleep-us {LATE_US}"));
    setting
        .judged()
        .assert("slow_child", &["echoer", "asleep in clock_nanosleep"]);
}

#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn a_server_that_waits_for_a_disk() {
    let Some(_alone) = alone() else { return };
    if !has_disk(Path::new("/var/tmp")) {
        println!("skipped: no disk here");
        return;
    }
    let mut setting = Setting::with_late_server(&format!("write:slave:sync:{LATE_US}"));
    setting
        .judged()
        .assert("server_blocked", &["tmux: server", "fdatasync"]);
}

#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn a_server_that_sleeps() {
    let Some(_alone) = alone() else { return };
    let mut setting = Setting::with_late_server(&format!("write:master:sleep:{LATE_US}"));
    setting
        .judged()
        .assert("server_blocked", &["tmux: server", "clock_nanosleep"]);
}

/// The look-alike of a blocked server: one that computes, without any flood.
#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn a_server_that_computes() {
    let Some(_alone) = alone() else { return };
    let mut setting = Setting::with_late_server(&format!("write:master:spin:{LATE_US}"));
    setting.judged().assert("server_busy", &["tmux: server"]);
}

#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn a_client_that_does_not_read() {
    let Some(_alone) = alone() else { return };
    let mut setting = Setting::start("");
    // Fills the terminal's buffer, which else takes the few bytes of an echo.
    setting.session.tmux.run(&[
        "split-window",
        "-d",
        &format!("exec {}", bin("flood").display()),
    ]);
    setting.judged_unread().assert("client_not_reading", &[]);
}

#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn an_idle_class_server() {
    let Some(_alone) = alone() else { return };
    let _kworkers = Kworkers::only_on(0);
    let mut setting = Setting::start("").server_aside();
    Class::Idle.set(setting.server()).expect("SCHED_IDLE");
    let _hog = Hog::start(&["--cpu=1", "--burst-us=12000", "--gap-us=6000"]);
    setting
        .judged()
        .assert("low_priority", &["tmux: server", "SCHED_IDLE"]);
}

#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn a_nice_server() {
    let Some(_alone) = alone() else { return };
    let _kworkers = Kworkers::only_on(0);
    let mut setting = Setting::start("").server_aside();
    let server = setting.server();
    Class::Nice(19).set(server).expect("a nice value");
    let hog = Hog::start(&["--cpu=1", "--threads=2"]);
    // Nice counts within one cgroup; outside of all, the kernel may share by session.
    let _cgroup = Cgroup::with_quota(&[server, hog.pid()], 4 * PERIOD, PERIOD);
    setting
        .judged()
        .assert("low_priority", &["tmux: server", "nice 19", "hog("]);
}

/// The look-alike of a low class: it has one, but nobody of any ordinary class could do better.
#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn a_real_time_hog_before_a_nice_server() {
    let Some(_alone) = alone() else { return };
    let _kworkers = Kworkers::only_on(0);
    let mut setting = Setting::start("").server_aside();
    Class::Nice(19).set(setting.server()).expect("a nice value");
    let _hog = Hog::start(&BURSTS);
    setting.judged().assert("hog_on_server", &["hog("]);
}

#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn pages_from_a_disk() {
    let Some(_alone) = alone() else { return };
    let dir = tempfile::tempdir_in("/var/tmp").expect("a folder");
    if !has_disk(dir.path()) {
        println!("skipped: no disk here");
        return;
    }
    let file = dir.path().join("cold");
    fs::write(&file, vec![1; 8 << 20]).expect("a file");
    fs::File::open(&file)
        .and_then(|f| f.sync_all())
        .expect("on the disk");
    let options = format!("--faults 100 --file {}", file.display());
    let mut setting = Setting::start(&options);
    setting.judged().assert("major_faults", &["echoer"]);
}

/// Sleeping there is to be seen: on a tmpfs nobody waits for a disk.
fn has_disk(folder: &Path) -> bool {
    // TMPFS_MAGIC and RAMFS_MAGIC of linux/magic.h.
    let memory = [0x0102_1994, 0x8584_58f6];
    statfs(folder).is_ok_and(|s| !memory.contains(&(s.f_type as u64 & 0xffff_ffff)))
}

/// What is lag to the verdict: so many echoes over 4 ms, or one of 100 ms.
fn lags(typed: &[Typed]) -> bool {
    let over = |ms| {
        let ms = Duration::from_millis(ms);
        typed.iter().filter(|t| t.echo >= ms).count()
    };
    over(4) >= 5 || over(100) >= 1
}

/// Others may make the machine lag, and then it does: the person at the terminal is who knows.
#[test]
#[ignore = "needs the machine for itself: scripts/bench/causes"]
fn nothing_wrong() {
    let Some(_alone) = alone() else { return };
    let mut setting = Setting::start("");
    for _ in 0..20 {
        let told = setting.judged();
        if !lags(&told.typed) {
            told.assert("nothing_wrong", &["60 echoes"]);
            return;
        }
        println!("the machine lags: once more");
    }
    panic!("the machine lagged in 20 of 20 runs");
}
