//! What `attach --events` tells of time off CPU and of sockets, against programs that know what they did.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use phux_trace_tests::attach::Attached;
use phux_trace_tests::machine::{find_tool, output_of, slowness};
use phux_trace_tests::procfs::workers_rest;
use phux_trace_tests::ptys::Pty;
use phux_trace_tests::report::Summed;
use phux_trace_tests::truth::Program;
use phux_trace_tests::{Running, exclusive, need_root, need_tool, wait_for};
use rustix::process::Signal;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde::Deserialize;
use serde_json::Value;

const WORK: Duration = Duration::from_secs(120);

/// A line of `--events`, as far as it is looked at.
#[derive(Debug, Deserialize)]
struct Event {
    kind: String,
    pid: u32,
    tid: u32,
    bytes: Option<u64>,
    conn: Option<u64>,
    peer: Option<u32>,
    index: Option<u32>,
    master: Option<bool>,
    queued_by: Option<u32>,
    queued_by_tid: Option<u32>,
    send: Option<bool>,
    off: Option<Off>,
}

#[derive(Debug, Deserialize)]
struct Off {
    blocked_ns: Option<u64>,
    wait_ns: u64,
    throttled_ns: u64,
    wake: String,
    waker_tid: Option<u32>,
    syscall: Option<i64>,
    fault: bool,
    major_faults: u64,
    ran_instead: Vec<Part>,
}

#[derive(Debug, Deserialize)]
struct Part {
    ns: u64,
}

struct Run {
    events: Vec<Event>,
    report: Summed,
}

impl Run {
    fn of(lines: &[String]) -> Run {
        let (mut events, mut reports) = (Vec::new(), Vec::new());
        for line in lines {
            let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            if value["type"] == "event" {
                events
                    .push(serde_json::from_value(value).unwrap_or_else(|e| panic!("{e}: {line}")));
            } else {
                reports.push(line.as_str());
            }
        }
        Run {
            events,
            report: Summed::read(reports),
        }
    }

    fn off(&self, tid: u32) -> impl Iterator<Item = &Off> {
        let of = move |e: &&Event| e.tid == tid;
        self.events.iter().filter(of).filter_map(|e| e.off.as_ref())
    }
}

/// Runs `program` under `attach --events` with these of `PHUX_TRACE_WITHOUT`.
fn traced(options: &[&str], without: &str) -> (Value, Run) {
    let mut program = Program::start(Command::new(env!("CARGO_BIN_EXE_off-cpu")).args(options));
    let pid = program.pid().to_string();
    let mut running = Attached::start_without(&["--events", "-p", &pid], without);
    let mut lines = vec![running.line(WORK)];
    let truth = program.work(WORK);
    running.signal(Signal::INT);
    let ended = running.end(WORK);
    program.finish();
    assert!(ended.status.success(), "{}", ended.stderr);
    lines.extend(ended.stdout);
    (truth, Run::of(&lines))
}

/// Nothing is told twice or not at all: the parts of each wait sum to it, and all that a thread
/// waited and slept is what its row has.
fn assert_sums(run: &Run) {
    for event in &run.events {
        let Some(off) = &event.off else { continue };
        let parts: u64 = off.ran_instead.iter().map(|c| c.ns).sum();
        assert_eq!(parts, off.wait_ns, "{event:?}");
        assert!(off.throttled_ns <= off.wait_ns, "{event:?}");
        assert!(
            off.wake != "preempted" || off.blocked_ns == Some(0),
            "{event:?}"
        );
    }
    let intervals = run.report.intervals.iter().map(|i| &i.losses);
    let lost = |l: &BTreeMap<String, u64>| !l.is_empty();
    if lost(&run.report.losses) || intervals.into_iter().any(lost) {
        assert!(slowness() > 1, "{:?}", run.report.losses);
        return;
    }
    // Threads that ended can be summed in one row of their name.
    let rows = || run.report.threads.values().chain(run.report.ended.values());
    let off = || run.events.iter().filter_map(|e| e.off.as_ref());
    let waited: u64 = rows().map(|r| r.wait.sum).sum();
    assert!(waited > 0);
    assert_eq!(off().map(|o| o.wait_ns).sum::<u64>(), waited);
    // The sleep that was under way when a thread was first seen has no begin.
    let slept: u64 = rows().map(|r| r.blocked_ns).sum();
    assert!(off().filter_map(|o| o.blocked_ns).sum::<u64>() <= slept);
}

#[derive(Debug, Deserialize)]
struct Truth {
    slept: Vec<Slept>,
    talked: Vec<Talked>,
}

#[derive(Debug, Deserialize)]
struct Slept {
    what: String,
    tid: u32,
    syscalls: Vec<i64>,
    ringer: u32,
    times: u64,
    major_faults: u64,
}

#[derive(Debug, Deserialize)]
struct Talked {
    over: String,
    ends: [u32; 2],
    messages: u64,
    bytes: u64,
}

/// The kernel does not tell of every switch (1 in 1,000 under load), and skips a program at times
/// where every instruction is emulated.
fn nearly_all(n: u64) -> u64 {
    n * if slowness() > 1 { 8 } else { 9 } / 10
}

fn assert_slept(run: &Run, slept: &Slept) {
    let own = |o: &&Off| o.wake != "new" && o.wake != "preempted";
    let sleeps: Vec<&Off> = run.off(slept.tid).filter(own).collect();
    let within = |o: &&&Off| match o.syscall {
        Some(nr) => slept.syscalls.contains(&nr),
        None => slept.syscalls.is_empty() && o.fault,
    };
    let right: Vec<&&Off> = sleeps.iter().filter(within).collect();
    assert!(
        right.len() as u64 >= nearly_all(slept.times),
        "{} of {slept:?}: {sleeps:?}",
        right.len()
    );
    if slept.what == "nanosleep" {
        let by_timer = right.iter().filter(|o| o.wake == "interrupt").count() as u64;
        assert!(by_timer >= nearly_all(slept.times), "{sleeps:?}");
        // Where each instruction is emulated the timer is half over before the thread sleeps.
        assert!(
            slowness() > 1 || right.iter().all(|o| o.blocked_ns > Some(900_000)),
            "{right:?}"
        );
    }
    if slept.ringer != 0 {
        let rung = right.iter().filter(|o| o.waker_tid == Some(slept.ringer));
        assert!(rung.count() as u64 >= nearly_all(slept.times), "{sleeps:?}");
        let wrong = |o: &&&&Off| o.waker_tid.is_some_and(|tid| tid != slept.ringer);
        let wrong: Vec<_> = right.iter().filter(wrong).collect();
        assert!(wrong.is_empty(), "not {}: {wrong:?}", slept.ringer);
    }
    let major_faults: u64 = run.off(slept.tid).map(|o| o.major_faults).sum();
    if slept.what == "faults" {
        assert!(
            major_faults >= slept.major_faults,
            "{slept:?}: {major_faults}"
        );
    }
}

fn assert_talked(run: &Run, talked: &Talked) -> u64 {
    let mut conns = BTreeSet::new();
    for tid in talked.ends {
        let mine = run
            .events
            .iter()
            .filter(|e| e.tid == tid && e.kind == "sock");
        let with_bytes: Vec<&Event> = mine.filter(|e| e.bytes.is_some_and(|b| b > 0)).collect();
        for send in [true, false] {
            let these: Vec<&&Event> = with_bytes.iter().filter(|e| e.send == Some(send)).collect();
            let all = if slowness() > 1 {
                nearly_all(talked.messages)
            } else {
                talked.messages
            };
            assert!(
                these.len() as u64 >= all && these.len() as u64 <= talked.messages,
                "{}: {} of {}: {these:?}",
                talked.over,
                these.len(),
                talked.messages
            );
            assert!(these.iter().all(|e| e.bytes == Some(talked.bytes)));
        }
        conns.extend(with_bytes.iter().filter_map(|e| e.conn));
    }
    let [conn] = conns.iter().copied().collect::<Vec<_>>()[..] else {
        panic!("{}: one connection, {conns:?}", talked.over)
    };
    conn
}

/// Whether sleeping there is to be seen: on a tmpfs nobody waits for a disk.
fn has_disk(folder: &Path) -> bool {
    // TMPFS_MAGIC and RAMFS_MAGIC of linux/magic.h.
    let memory = [0x0102_1994, 0x8584_58f6];
    rustix::fs::statfs(folder).is_ok_and(|s| !memory.contains(&(s.f_type as u64 & 0xffff_ffff)))
}

fn sleeps_and_sockets(without: &str) {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let dir = tempfile::tempdir().expect("a folder");
    let mut options = vec!["--count", "40"];
    let disk = dir.path().to_string_lossy().into_owned();
    if has_disk(dir.path()) {
        options.extend(["--disk", &disk]);
    } else {
        println!("no disk here: neither fsync nor faults");
    }
    let (truth, run) = traced(&options, without);
    let truth: Truth = serde_json::from_value(truth).expect("the truth");
    assert_sums(&run);
    for slept in &truth.slept {
        assert_slept(&run, slept);
    }
    let conns: BTreeSet<u64> = truth
        .talked
        .iter()
        .map(|t| assert_talked(&run, t))
        .collect();
    assert_eq!(conns.len(), truth.talked.len(), "each its own: {conns:?}");
}

#[test]
fn each_sleep_has_its_call_its_waker_and_its_parts() {
    sleeps_and_sockets("");
}

#[test]
fn sockets_are_seen_by_their_system_calls_too() {
    sleeps_and_sockets("sock_fentry");
}

#[test]
fn without_tracefs_sockets_are_seen_by_all_system_calls() {
    sleeps_and_sockets("fentry,tracefs");
}

/// The kernel itself echoes what is typed into a canonical terminal: the kworker that flushes the
/// input then queues the flush of the echo.
#[test]
fn the_kernels_own_echo_is_queued_by_the_kworker() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let terminal = Pty::open().expect("a PTY");
    let mut modes = tcgetattr(&terminal.slave).expect("modes");
    modes.local_modes |= LocalModes::ECHO | LocalModes::ICANON;
    tcsetattr(&terminal.slave, OptionalActions::Now, &modes).expect("set");
    let slave = terminal.slave.try_clone().expect("a descriptor");
    let mut reader = Command::new("cat")
        .stdin(slave)
        .stdout(Stdio::null())
        .spawn()
        .expect("cat");
    let mut running = Attached::start(&["--events", "-p", &reader.id().to_string()]);
    let mut lines = vec![running.line(WORK)];
    for _ in 0..20 {
        rustix::io::write(&terminal.master, b"x").expect("typed");
        let echoed = rustix::io::read(&terminal.master, &mut [0; 8]).expect("echo");
        assert_eq!(echoed, 1);
        // A key that comes while the work for the one before is under way may be carried by that.
        wait_for(WORK, || workers_rest().then_some(())).expect("workers rest");
    }
    running.signal(Signal::INT);
    lines.extend(running.end(WORK).stdout);
    let run = Run::of(&lines);
    let flushes = |master: bool| {
        let here = run
            .events
            .iter()
            .filter(|e| e.index == Some(terminal.index));
        here.filter(move |e| e.kind == "flush" && e.master == Some(master))
    };
    let kworkers: BTreeSet<u32> = flushes(false).map(|e| e.tid).collect();
    let me = flushes(false).filter(|e| e.queued_by == Some(std::process::id()));
    assert!(me.count() as u64 >= nearly_all(20), "{:?}", run.events);
    let echoes = flushes(true).filter(|e| e.queued_by_tid.is_some_and(|t| kworkers.contains(&t)));
    assert!(echoes.count() as u64 >= nearly_all(20), "{:?}", run.events);
    let _ = reader.kill();
    let _ = reader.wait();
}

/// A client that came before or after, of which only the server was named, is found by its socket;
/// with it its terminal. Who has none is no client.
#[test]
fn the_client_of_a_traced_server_is_traced_with_its_terminal() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("socket");
    let path = path.to_string_lossy();
    let mut server = Program::start(
        Command::new(env!("CARGO_BIN_EXE_off-cpu")).args(["--serve", &path, "--count", "150"]),
    );
    let terminal = Pty::open().expect("a PTY");
    let mut client = Program::start(
        Command::new(env!("CARGO_BIN_EXE_off-cpu"))
            .args(["--connect", &path, "--count", "150", "--terminal"])
            .arg(&terminal.path),
    );
    let pid = server.pid().to_string();
    let mut running = Attached::start(&["--events", "-p", &pid]);
    let mut lines = vec![running.line(WORK)];
    server.go();
    let _: Value = client.work(WORK);
    running.signal(Signal::INT);
    let ended = running.end(WORK);
    lines.extend(ended.stdout);
    let run = Run::of(&lines);
    let of = |pid: u32| run.events.iter().filter(move |e| e.pid == pid);
    let conns = |pid| of(pid).filter_map(|e| e.conn).collect::<BTreeSet<u64>>();
    assert_eq!(conns(server.pid()).len(), 1);
    assert_eq!(conns(client.pid()), conns(server.pid()));
    assert!(of(client.pid()).filter(|e| e.off.is_some()).count() > 50);
    let writes = of(client.pid()).filter(|e| e.kind == "write" && e.index == Some(terminal.index));
    assert!(writes.count() > 50, "its terminal is seen");
    let peer = of(server.pid()).find_map(|e| e.peer);
    assert_eq!(peer, Some(client.pid()));
    client.finish();
    server.finish();
}

/// A cgroup of a test's own in the hierarchy that has the cpu controller; `None`, said, where there is none.
struct Cgroup {
    folder: PathBuf,
    v1: bool,
}

impl Cgroup {
    fn new(name: &str) -> Option<Cgroup> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
        let place = |wanted: &dyn Fn(&str, &str) -> bool| {
            mounts.lines().find_map(|line| {
                let (before, after) = line.split_once(" - ")?;
                let mut after = after.split(' ');
                let (kind, options) = (after.next()?, after.nth(1)?);
                let place = before.split(' ').nth(4)?;
                wanted(kind, options).then(|| PathBuf::from(place))
            })
        };
        let v1 = place(&|kind, options| kind == "cgroup" && options.split(',').any(|o| o == "cpu"));
        let v2 = place(&|kind, _| kind == "cgroup2").filter(|_| v1.is_none());
        let is_v1 = v1.is_some();
        let parent = v1.or(v2);
        let Some(parent) = parent else {
            assert!(
                std::env::var_os("CI").is_none(),
                "CI must not skip: no cgroups"
            );
            println!("skipped: no cpu controller is mounted");
            return None;
        };
        if !is_v1 {
            std::fs::write(parent.join("cgroup.subtree_control"), "+cpu").expect("the controller");
        }
        let folder = parent.join(format!("phux-test-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a cgroup");
        Some(Cgroup { folder, v1: is_v1 })
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.folder.join(file), text).unwrap_or_else(|e| panic!("{file}: {e}"));
    }

    /// µs a period of 100 ms.
    fn quota(&self, us: u64) {
        if self.v1 {
            self.write("cpu.cfs_period_us", "100000");
            self.write("cpu.cfs_quota_us", &us.to_string());
        } else {
            self.write("cpu.max", &format!("{us} 100000"));
        }
    }

    /// On the scale of version 2.
    fn weight(&self, weight: u64) {
        if self.v1 {
            self.write("cpu.shares", &(weight * 1024 / 100).to_string());
        } else {
            self.write("cpu.weight", &weight.to_string());
        }
    }

    fn takes(&self, pid: u32) {
        self.write("cgroup.procs", &pid.to_string());
    }

    fn throttled_ns(&self) -> u64 {
        let stat = std::fs::read_to_string(self.folder.join("cpu.stat")).expect("cpu.stat");
        let field = |name: &str| {
            let mut lines = stat.lines();
            lines.find_map(|l| l.strip_prefix(name)?.trim().parse::<u64>().ok())
        };
        let us = field("throttled_usec").map(|us| us * 1000);
        us.or_else(|| field("throttled_time")).expect("throttling")
    }

    fn name(&self) -> String {
        let name = self.folder.file_name().expect("a name");
        format!("/{}", name.to_string_lossy())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Whoever was in it has just been killed; the kernel needs a moment.
        let _ = wait_for(Duration::from_secs(5), || {
            std::fs::remove_dir(&self.folder).ok()
        });
    }
}

#[test]
fn throttled_time_is_what_the_cgroup_says() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let Some(cgroup) = Cgroup::new("quota") else {
        return;
    };
    // So small that it counts on a machine that is busy with others, too.
    cgroup.quota(5_000);
    let mut program =
        Program::start(Command::new(env!("CARGO_BIN_EXE_off-cpu")).args(["--spin", "100"]));
    cgroup.takes(program.pid());
    let pid = program.pid().to_string();
    let mut running = Attached::start(&["--events", "-p", &pid]);
    let mut lines = vec![running.line(WORK)];
    let before = cgroup.throttled_ns();
    let _: Value = program.work(WORK);
    // Throttling is accounted when it is over, and by then the spinner runs again.
    let throttled = cgroup.throttled_ns() - before;
    running.signal(Signal::INT);
    let ended = running.end(WORK);
    lines.extend(ended.stdout);
    let run = Run::of(&lines);
    program.finish();
    assert_sums(&run);
    let off = || run.events.iter().filter_map(|e| e.off.as_ref());
    let told: u64 = off().map(|o| o.throttled_ns).sum();
    // 100 ms of CPU time at 5 ms a period of 100 ms: up to 95 ms in each of 20 periods.
    assert!(throttled > 300_000_000, "hardly throttled: {throttled} ns");
    assert!(
        told.abs_diff(throttled) <= throttled / if slowness() > 1 { 5 } else { 10 },
        "{told} ns told, {throttled} ns by cpu.stat"
    );
    let level = lines.iter().rev().find_map(|line| {
        let row: Value = serde_json::from_str(line).ok()?;
        let levels = row["placement"]["levels"].as_array()?.clone();
        levels.into_iter().find(|l| l["path"] == cgroup.name())
    });
    let level = level.expect("the report names the cgroup");
    assert_eq!(
        (&level["quota_us"], &level["period_us"]),
        (&5_000.into(), &100_000.into())
    );
    assert!(level["nr_throttled"].as_u64() > Some(3), "{level}");
}

/// Waits for the row of a thread whose placement is as wanted; what it was last, if it never is.
fn placed(running: &mut Running, tid: u32, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let until = std::time::Instant::now() + Duration::from_secs(60);
    let mut last = Value::Null;
    while std::time::Instant::now() < until {
        let row: Value = serde_json::from_str(&running.line(WORK)).expect("JSON");
        if row["type"] == "thread" && row["tid"] == tid {
            last = row["placement"].clone();
            if wanted(&last) {
                return last;
            }
        }
    }
    panic!("{what}: never seen: {last}")
}

#[test]
fn a_changed_class_shows_in_the_next_report() {
    if !need_root() || !need_tool("renice") || !need_tool("chrt") {
        return;
    }
    let _alone = exclusive();
    let mut shell = Running::start(Command::new("sh").args(["-c", "while :; do sleep 0.02; done"]));
    let pid = shell.pid();
    let id = pid.to_string();
    let mut running = Attached::start(&["-p", &id]);
    let call = |program: &str, args: &[&str]| {
        let mut command = Command::new(find_tool(program).expect("a tool"));
        output_of(command.args(args));
    };
    let first = placed(&mut running, pid, "at first", |p| p["sched"]["nice"] == 0);
    assert_eq!(first["sched"]["policy"], "SCHED_OTHER");
    assert!(first["cpus_allowed"].is_string(), "{first}");
    call("renice", &["-n", "7", "-p", &id]);
    placed(&mut running, pid, "renice", |p| p["sched"]["nice"] == 7);
    call("chrt", &["-b", "-p", "0", &id]);
    placed(&mut running, pid, "chrt -b", |p| {
        p["sched"]["policy"] == "SCHED_BATCH"
    });
    call("chrt", &["-r", "-p", "3", &id]);
    placed(&mut running, pid, "chrt -r", |p| {
        p["sched"]["policy"] == "SCHED_RR" && p["sched"]["rt_priority"] == 3
    });
    call("chrt", &["-o", "-p", "0", &id]);
    if first["slice_us"].is_u64() && set_slice(pid, Duration::from_micros(7_300)) {
        placed(&mut running, pid, "a slice", |p| p["slice_us"] == 7_300);
    } else {
        println!("no slices to set here");
    }
    if set_uclamp(pid, 100, 500) {
        placed(&mut running, pid, "uclamp", |p| {
            p["uclamp_min"] == 100 && p["uclamp_max"] == 500
        });
    } else {
        println!("no uclamp here");
    }
    if let Some(cgroup) = Cgroup::new("moved") {
        cgroup.weight(50);
        cgroup.quota(80_000);
        cgroup.takes(pid);
        let place = placed(&mut running, pid, "a cgroup", |p| {
            p["cgroup"] == cgroup.name()
        });
        let level = &place["levels"][0];
        assert_eq!(level["path"], cgroup.name());
        assert_eq!(
            (&level["weight"], &level["quota_us"]),
            (&50.into(), &80_000.into())
        );
        shell.signal(Signal::KILL);
        let _ = wait_for(Duration::from_secs(5), || {
            (!shell.is_running()).then_some(())
        });
    }
    running.signal(Signal::INT);
    assert!(running.end(WORK).status.success());
}

/// `struct sched_attr` of linux/sched/types.h.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
    util_min: u32,
    util_max: u32,
}

fn set_attr(pid: u32, mut attr: SchedAttr) -> bool {
    attr.size = size_of::<SchedAttr>() as u32;
    // SAFETY: sched_setattr reads a struct of the size that stands in it.
    unsafe { libc::syscall(libc::SYS_sched_setattr, pid, &raw const attr, 0) == 0 }
}

/// An EEVDF slice of its own, from 6.12: before, the field is for deadlines only and means nothing.
fn set_slice(pid: u32, slice: Duration) -> bool {
    let runtime = slice.as_nanos() as u64;
    let set = set_attr(
        pid,
        SchedAttr {
            runtime,
            ..SchedAttr::default()
        },
    );
    let mut got = SchedAttr::default();
    // SAFETY: sched_getattr writes at most the size that it is told.
    let asked = unsafe {
        let size = size_of::<SchedAttr>() as u32;
        libc::syscall(libc::SYS_sched_getattr, pid, &raw mut got, size, 0)
    };
    set && asked == 0 && got.runtime == runtime
}

fn set_uclamp(pid: u32, util_min: u32, util_max: u32) -> bool {
    // SCHED_FLAG_KEEP_ALL | SCHED_FLAG_UTIL_CLAMP of linux/sched.h.
    let flags = 0x18 | 0x60;
    let attr = SchedAttr {
        flags,
        util_min,
        util_max,
        ..SchedAttr::default()
    };
    set_attr(pid, attr)
}
