//! `attach` with just the capabilities that it needs, and what it gives up once it runs.

use std::fs;
use std::process::Command;
use std::time::Duration;

use phux_trace_tests::bpf::BpfObjects;
use phux_trace_tests::nobody::{Nobody, capabilities_of};
use phux_trace_tests::report::Summed;
use phux_trace_tests::truth::Program;
use phux_trace_tests::{Running, bin, exclusive, need_root, need_tool, wait_for};
use rustix::process::Signal;
use serde_json::Value;

const SOON: Duration = Duration::from_secs(90);

/// The capabilities that attach asks for to trace its own user's processes, by number.
const BPF_AND_PERFMON: u64 = 1 << 39 | 1 << 38;
/// And for those of others.
const READ_OTHERS: u64 = 1 << 19 | 1 << 2;

fn attach(command: &mut Command, pid: u32) -> Running {
    command.args([
        "attach",
        "--json",
        "--interval",
        "300ms",
        "-d",
        "120s",
        "-p",
    ]);
    Running::start(command.arg(pid.to_string()))
}

/// The set of this name in `status`.
fn capabilities(pid: u32, set: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix(set))
        .expect("a set");
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).expect("hexadecimal")
}

/// Ends it; the report, of which the first line had been taken.
fn stop(run: Running, first: &str) -> Summed {
    run.signal(Signal::INT);
    let ended = run.end(SOON);
    assert!(ended.status.success(), "{ended:?}");
    Summed::read(
        [first]
            .into_iter()
            .chain(ended.stdout.iter().map(String::as_str)),
    )
}

/// A program of nobody's with probes is traced with these options of setpriv, and every hop is seen.
fn traced_by(nobody: &Nobody, mut tracer: Command) -> Summed {
    let before = BpfObjects::now();
    let mut program = Program::start(nobody.command("sdt-many").arg("--hits=20"));
    let pid = program.pid();
    let mut run = attach(&mut tracer, pid);
    let first = run.line(SOON);
    let has = capabilities(run.pid(), "CapPrm");
    assert_eq!(
        has & !(BPF_AND_PERFMON | READ_OTHERS),
        0,
        "kept more than it needs: {has:x}"
    );
    let truth: Value = program.work(SOON);
    let report = stop(run, &first);
    program.finish();
    report.assert_nothing_lost();
    assert!(
        report.runs.iter().all(|r| r["limited"].is_null()),
        "it traces"
    );
    assert!(report.thread(pid).wait.count > 0);
    let fired = |n: usize| -> u64 {
        let sites = truth["probes"][n]["fired"].as_array().expect("sites");
        sites.iter().filter_map(Value::as_u64).sum()
    };
    for (n, probe) in ["many__own", "many__shared", "many__bare"]
        .iter()
        .enumerate()
    {
        assert_eq!(
            report.hop(pid, probe).value.count,
            fired(n),
            "{probe} of {truth}"
        );
        assert!(fired(n) > 0, "{truth}");
    }
    before.assert_nothing_left();
    report
}

/// One link for many uprobes, which asks for no CAP_SYS_ADMIN, came with Linux 6.6.
fn has_uprobe_multi() -> bool {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let mut numbers = release.split('.').filter_map(|n| n.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 6)
}

fn skip() -> bool {
    if !has_uprobe_multi() {
        println!("skipped: before Linux 6.6 hops take CAP_SYS_ADMIN");
        return true;
    }
    !need_root() || !need_tool("setpriv") || !need_tool("bpftool")
}

#[test]
fn bpf_and_perfmon_are_enough_for_ones_own_processes() {
    if skip() {
        return;
    }
    let _alone = exclusive();
    let nobody = Nobody::with(&["phux-trace", "sdt-many"]);
    let caps = [
        "--inh-caps",
        "+bpf,+perfmon",
        "--ambient-caps",
        "+bpf,+perfmon",
    ];
    traced_by(&nobody, nobody.command_with(&caps, "phux-trace"));
}

#[test]
fn a_copy_with_file_capabilities_is_enough() {
    if skip() || !need_tool("setcap") {
        return;
    }
    let _alone = exclusive();
    let nobody = Nobody::with(&["phux-trace", "sdt-many"]);
    let mut setcap = Command::new(phux_trace_tests::machine::find_tool("setcap").expect("found"));
    setcap
        .arg("cap_bpf,cap_perfmon+ep")
        .arg(nobody.path("phux-trace"));
    assert!(setcap.status().expect("setcap").success());
    traced_by(&nobody, nobody.command("phux-trace"));
    // What it starts has none of them.
    let mut wrap = nobody.command("phux-trace");
    let ended = Running::start(wrap.args(["attach", "--", "grep", "CapEff", "/proc/self/status"]))
        .end(SOON);
    assert!(
        ended
            .stdout
            .iter()
            .any(|l| l.trim_end().ends_with("0000000000000000")),
        "{ended:?}"
    );
}

/// The capabilities of the unit in `contrib/systemd`, and no others, by any user.
#[test]
fn the_units_capabilities_are_enough_for_other_users_processes() {
    if skip() {
        return;
    }
    let _alone = exclusive();
    const UNIT: &str = include_str!("../../contrib/systemd/phux-trace@.service");
    let caps = capabilities_of(UNIT);
    let nobody = Nobody::with(&["phux-trace", "sdt-many"]);
    let mut tracer = Command::new("setpriv");
    // As systemd does: an unprivileged user of no group, no new privileges, nothing else in the bounding set.
    tracer.args([
        "--reuid",
        "60999",
        "--regid",
        "60999",
        "--clear-groups",
        "--no-new-privs",
    ]);
    tracer.args(["--bounding-set", &format!("-all,{caps}")]);
    tracer.args(["--inh-caps", &caps, "--ambient-caps", &caps, "--"]);
    tracer.arg(nobody.path("phux-trace")).current_dir("/");
    let report = traced_by(&nobody, tracer);
    let backends = report.runs.last().expect("a report")["backends"].clone();
    let flush = backends.as_array().expect("backends").iter();
    let flush = flush
        .clone()
        .find(|b| b["capability"] == "flush")
        .expect("flush");
    assert!(flush["used"].is_string(), "CAP_SYSLOG brings it: {flush}");
}

#[test]
fn the_units_are_sound_and_hardened() {
    let Some(analyze) = phux_trace_tests::machine::find_tool("systemd-analyze") else {
        assert!(need_tool("systemd-analyze") || std::env::var_os("CI").is_none());
        return;
    };
    let dir = tempfile::tempdir().expect("a folder");
    let program = bin("phux-trace").display().to_string();
    for (name, unit) in [
        (
            "phux-trace@tmux.service",
            include_str!("../../contrib/systemd/phux-trace@.service"),
        ),
        (
            "phux-trace.service",
            include_str!("../../contrib/systemd/phux-trace.service"),
        ),
    ] {
        let path = dir.path().join(name);
        fs::write(&path, unit.replace("/usr/local/bin/phux-trace", &program)).expect("written");
        let run = |args: &[&str]| {
            let out = Command::new(&analyze)
                .args(args)
                .arg(&path)
                .output()
                .expect("runs");
            let text = [out.stdout, out.stderr].concat();
            (
                out.status.success(),
                String::from_utf8_lossy(&text).into_owned(),
            )
        };
        let (sound, said) = run(&["verify", "--man=no"]);
        assert!(sound && !said.contains(&format!("{name}:")), "{said}");
        // 0 is locked up, 10 is wide open; 5 is what systemd calls medium.
        let (fine, said) = run(&["security", "--offline=true", "--no-pager", "--threshold=40"]);
        assert!(fine, "{said}");
    }
}

/// Root keeps of its forty capabilities what is still of use.
#[test]
fn root_gives_up_what_it_does_not_need() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let target = Running::start(Command::new("sleep").arg("1000"));
    let mut run = attach(&mut Command::new(bin("phux-trace")), target.pid());
    let first = run.line(SOON);
    let admin = if has_uprobe_multi() { 0 } else { 1 << 21 };
    for set in ["CapPrm", "CapEff"] {
        let has = capabilities(run.pid(), set);
        assert_eq!(has, BPF_AND_PERFMON | READ_OTHERS | admin, "{set}: {has:x}");
    }
    for set in ["CapInh", "CapAmb"] {
        assert_eq!(capabilities(run.pid(), set), 0, "{set}");
    }
    stop(run, &first);
}

/// The recorder as well; and its writer, the only thread that opens files, has none at all, and under
/// sudo is the caller in all that concerns files.
#[test]
fn record_gives_up_what_it_does_not_need_and_its_writer_has_nothing() {
    if !need_root() {
        return;
    }
    use std::os::unix::fs::MetadataExt;
    let _alone = exclusive();
    let target = Running::start(Command::new("sleep").arg("1000"));
    let nobody = Nobody::with(&["phux-trace"]);
    let mut record = Command::new(bin("phux-trace"));
    record.args([
        "record",
        "--json",
        "-d",
        "120s",
        "-p",
        &target.pid().to_string(),
        "-o",
    ]);
    record.arg(nobody.home().join("rec"));
    record.env("SUDO_UID", "65534").env("SUDO_GID", "65534");
    let mut run = Running::start(&mut record);
    run.line(SOON);
    // The line comes when all is attached, the rest is given up a moment later.
    let admin = if has_uprobe_multi() { 0 } else { 1 << 21 };
    let kept = BPF_AND_PERFMON | READ_OTHERS | admin;
    let main = || (capabilities(run.pid(), "CapPrm") == kept).then_some(());
    wait_for(SOON, main).expect("gives up the others");
    let mut others = 0;
    for task in fs::read_dir(format!("/proc/{}/task", run.pid()))
        .expect("threads")
        .flatten()
    {
        let status = fs::read_to_string(task.path().join("status")).expect("it lives");
        let line = |name: &str| {
            let line = status.lines().find_map(|l| l.strip_prefix(name));
            line.expect("a line").trim().to_owned()
        };
        if task.file_name().to_string_lossy() == run.pid().to_string() {
            continue;
        }
        others += 1;
        assert_eq!(line("CapPrm:"), "0000000000000000", "{status}");
        assert_eq!(line("CapEff:"), "0000000000000000", "{status}");
        assert!(line("Uid:").ends_with("65534"), "{status}");
    }
    assert!(others > 0, "the writer is a thread of its own");
    run.signal(Signal::INT);
    let ended = run.end(SOON);
    assert!(ended.status.success(), "{ended:?}");
    let meta = fs::metadata(nobody.home().join("rec/run")).expect("the table of runs");
    assert_eq!((meta.uid(), meta.gid()), (65534, 65534));
}

/// Under sudo what is written is the caller's, and a link to what he may not write is not followed.
#[test]
fn files_are_written_as_the_user_who_called_sudo() {
    if !need_root() {
        return;
    }
    use std::os::unix::fs::MetadataExt;
    let nobody = Nobody::with(&["phux-trace"]);
    let write = || {
        let mut man = Command::new(nobody.path("phux-trace"));
        man.args(["man", "--dir"]).arg(nobody.home());
        man.env("SUDO_UID", "65534").env("SUDO_GID", "65534");
        Running::start(&mut man).end(SOON)
    };
    let ended = write();
    assert!(ended.status.success(), "{ended:?}");
    let page = nobody.home().join("phux-trace.1");
    let meta = fs::metadata(&page).expect("a page");
    assert_eq!((meta.uid(), meta.gid()), (65534, 65534));
    // He lays a trap: the page is a link to a file of root's.
    let dir = tempfile::tempdir().expect("a folder");
    let roots = dir.path().join("roots");
    fs::write(&roots, "precious").expect("written");
    fs::remove_file(&page).expect("removed");
    std::os::unix::fs::symlink(&roots, &page).expect("a link");
    let ended = write();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!(fs::read_to_string(&roots).expect("still there"), "precious");
}

/// phux-trace in a container: namespaces of its own, and no capability that is not documented.
#[test]
fn in_a_container_its_own_pids_are_told() {
    if skip() || !need_tool("unshare") {
        return;
    }
    let _alone = exclusive();
    let before = BpfObjects::now();
    let caps = "+bpf,+perfmon,+sys_ptrace,+dac_read_search,+syslog";
    let script = format!(
        "sh -c 'while :; do sleep 0.05; done' & \
         exec setpriv --bounding-set -all,{caps} --inh-caps {caps} --no-new-privs \
         {} attach --json -d 2s -p $!",
        bin("phux-trace").display()
    );
    let mut unshare = Command::new("unshare");
    unshare.args([
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--uts",
        "--ipc",
        "--net",
        "--cgroup",
    ]);
    let ended = Running::start(unshare.args(["sh", "-c", &script])).end(SOON);
    assert!(ended.status.success(), "{ended:?}");
    let report = Summed::read(ended.stdout.iter().map(String::as_str));
    let target = report.processes().first().expect("a target").clone();
    let pid = target["pid"].as_u64().expect("a pid") as u32;
    assert!(pid < 20, "a pid of the container: {target}");
    let row = report.thread(pid);
    assert!(row.wait.count >= 10 && row.voluntary >= 10, "{row:?}");
    before.assert_nothing_left();
}
