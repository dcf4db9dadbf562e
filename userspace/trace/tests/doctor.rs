//! `phux-trace doctor`, and how `attach` fails where it cannot run.

mod common;

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use common::{Helper, have, json_lines, phux_trace, root, wait_for};
use phux_trace::probes::trial::{Answer, Feature, try_features};
use serde_json::Value;

/// The kernel's answer to this one alone.
fn try_feature(feature: Feature) -> Answer {
    try_features(&[feature])
        .pop()
        .map_or(Err("no answer".into()), |(_, answer)| answer)
}

/// An unprivileged user: nobody.
const NOBODY: u32 = 65534;

/// Runs phux-trace as nobody.
fn as_nobody(args: &[&str]) -> Output {
    // A copy: nobody may be unable to enter the directory of the build.
    let dir = tempfile::tempdir().expect("a directory");
    let open = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(dir.path(), open).expect("open to all");
    let copy = dir.path().join("phux-trace");
    std::fs::copy(env!("CARGO_BIN_EXE_phux-trace"), &copy).expect("a copy");
    // exec as another user drops the capabilities with the uid.
    let mut run = Command::new(&copy);
    run.args(args).uid(NOBODY).gid(NOBODY).current_dir("/");
    run.output().expect("phux-trace runs")
}

fn checks(out: &Output) -> Vec<Value> {
    assert_eq!(String::from_utf8_lossy(&out.stderr), "", "no noise");
    let checks = json_lines(&String::from_utf8_lossy(&out.stdout));
    for check in &checks {
        let fields: BTreeSet<&str> = check
            .as_object()
            .expect("an object")
            .keys()
            .map(String::as_str)
            .collect();
        let wanted = ["check", "detail", "fix", "lost", "required", "status"];
        assert_eq!(fields, BTreeSet::from(wanted), "{check}");
        let failed = check["status"] != "ok";
        assert!(["ok", "degraded", "missing"].contains(&check["status"].as_str().expect("text")));
        assert_eq!(
            (check["lost"].is_string(), check["fix"].is_string()),
            (failed, failed),
            "{check}"
        );
    }
    // The exit status is the sum of the lines.
    let blocked = checks
        .iter()
        .any(|c| c["status"] == "missing" && c["required"] == true);
    assert_eq!(out.status.code(), Some(i32::from(blocked)));
    checks
}

fn named<'a>(checks: &'a [Value], name: &str) -> &'a Value {
    let found = checks.iter().find(|c| c["check"] == name);
    found.unwrap_or_else(|| panic!("no check {name}: {checks:?}"))
}

#[test]
fn as_root_it_agrees_with_the_kernel() {
    if !root("as_root_it_agrees_with_the_kernel") {
        return;
    }
    let checks = checks(&phux_trace(&["doctor", "--json"]));
    for feature in Feature::ALL {
        let check = named(&checks, feature.name());
        let answer = try_feature(feature);
        assert_eq!(
            check["status"] == "ok",
            answer.is_ok(),
            "{check} {answer:?}"
        );
        assert_eq!(check["required"], feature.is_required(), "{check}");
    }
    let fentry = named(&checks, Feature::Fentry.name());
    let wanted = if try_feature(Feature::Fentry).is_ok() {
        "ok"
    } else {
        "degraded"
    };
    assert_eq!(fentry["status"], wanted, "{fentry}");
    assert!(
        !fentry["detail"].as_str().expect("text").contains("EPERM"),
        "{fentry}"
    );
    for ok in [
        "capabilities to trace",
        "other users' processes",
        "BPF run-time statistics",
    ] {
        assert_eq!(named(&checks, ok)["status"], "ok");
    }
    let able = Feature::ALL
        .into_iter()
        .filter(|f| f.is_required())
        .all(|f| try_feature(f).is_ok());
    assert_eq!(phux_trace(&["doctor"]).status.success(), able);
}

#[test]
fn as_nobody_it_tells_what_is_refused() {
    if !root("as_nobody_it_tells_what_is_refused") {
        return;
    }
    let out = as_nobody(&["doctor", "--json", &std::process::id().to_string()]);
    assert_eq!(out.status.code(), Some(1));
    let all = checks(&out);
    let capabilities = named(&all, "capabilities to trace");
    assert_eq!(
        (&capabilities["status"], &capabilities["required"]),
        (&"missing".into(), &true.into())
    );
    for degraded in [
        "other users' processes",
        "BPF run-time statistics",
        "target's /proc",
    ] {
        assert_eq!(named(&all, degraded)["status"], "degraded");
    }
    let out = as_nobody(&["doctor"]);
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        text.contains("attach cannot trace here. Missing: capabilities to trace"),
        "{text}"
    );
    assert!(
        !text.contains("ulimit") && !text.contains("EPERM") && !text.contains('\u{1b}'),
        "{text}"
    );
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "wider than 80 columns: {line}");
    }
}

#[test]
fn a_live_target_and_an_unknown_one() {
    let helper = Helper::script("sleep 600");
    let pid = helper.pid().to_string();
    let found = wait_for("script's PTY", || {
        let all = checks(&phux_trace(&["doctor", &pid, "--json"]));
        (named(&all, "target's PTYs")["status"] == "ok").then_some(all)
    });
    let target = named(&found, "target");
    assert!(
        target["detail"]
            .as_str()
            .expect("text")
            .contains(&format!("script {pid}")),
        "{target}"
    );
    assert_eq!(
        named(&found, "target's USDT probes")["status"],
        "degraded",
        "script has no hops"
    );
    assert_eq!(named(&found, "target's pid namespace")["status"], "ok");

    let out = phux_trace(&["doctor", "no-such-multiplexer", "--json"]);
    assert_eq!(out.status.code(), Some(1));
    let all = checks(&out);
    let target = named(&all, "target");
    assert_eq!(
        (&target["status"], &target["required"]),
        (&"missing".into(), &true.into())
    );
    assert!(
        target["detail"]
            .as_str()
            .expect("text")
            .contains("no-such-multiplexer")
    );
    let text = phux_trace(&["doctor", "no-such-multiplexer"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains("attach cannot trace here. Missing: ") && text.contains("target."),
        "{text}"
    );
}

#[test]
fn a_target_in_another_pid_namespace_is_told() {
    if !root("a_target_in_another_pid_namespace_is_told") {
        return;
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--fork", "--kill-child", "--pid", "sleep", "600"]);
    let unshare = Helper(unshare.spawn().expect("unshare of util-linux"));
    let children = format!("/proc/{0}/task/{0}/children", unshare.pid());
    let inner = wait_for("its first process", || {
        let text = std::fs::read_to_string(&children).ok()?;
        text.split_ascii_whitespace().next().map(String::from)
    });
    let all = checks(&phux_trace(&["doctor", &inner, "--json"]));
    let namespace = named(&all, "target's pid namespace")["detail"].to_string();
    assert!(
        namespace.contains(&format!("{inner} is pid 1 inside")),
        "{namespace}"
    );
}

/// Ids of the loaded BPF programs.
fn programs() -> BTreeSet<u64> {
    let list = common::run(Command::new("bpftool").args(["-j", "prog", "list"]));
    let list: Value = serde_json::from_str(&list).expect("JSON");
    let ids = list.as_array().expect("a list").iter();
    ids.filter_map(|p| p["id"].as_u64()).collect()
}

#[test]
fn attach_without_privileges_reports_from_proc_and_leaves_nothing() {
    const TEST: &str = "attach_without_privileges_reports_from_proc_and_leaves_nothing";
    if !root(TEST) || !have(std::path::Path::new("/usr/sbin/bpftool"), TEST) {
        return;
    }
    let mut sleep = Command::new("sleep");
    let sleep = Helper(sleep.arg("600").uid(NOBODY).spawn().expect("sleep"));
    let before = programs();
    let out = as_nobody(&["attach", "-d", "0.2", "-p", &sleep.pid().to_string()]);
    let after = programs();
    assert_eq!(out.status.code(), Some(0));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    let why = "phux-trace: Not traced: attach needs root, or CAP_BPF and CAP_PERFMON: try sudo";
    assert!(said.starts_with(why) && said.lines().count() == 1, "{said}");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.starts_with("Not traced: "), "said first: {text}");
    // Other tests load programs meanwhile; theirs go away.
    let new: BTreeSet<u64> = after.difference(&before).copied().collect();
    wait_for("nothing left loaded", || {
        programs().is_disjoint(&new).then_some(())
    });
}

/// Where addresses are hidden the kworker's hop must not be promised.
#[test]
fn hidden_addresses_are_no_addresses() {
    if !root("hidden_addresses_are_no_addresses") {
        return;
    }
    let mut hide = Command::new("setpriv");
    hide.args([
        "--bounding-set",
        "-syslog",
        "--inh-caps",
        "-syslog",
        "sh",
        "-c",
    ]);
    let run = "head -n 1 /proc/kallsyms | cut -d ' ' -f 1; exec \"$0\" doctor --json";
    let out = hide
        .args([run, env!("CARGO_BIN_EXE_phux-trace")])
        .output()
        .expect("setpriv");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let (first, rest) = text.split_once('\n').expect("lines");
    let flush = json_lines(rest);
    let shown = first.chars().any(|c| c != '0');
    // Without kernel.perf_event_paranoid > 1 everyone sees them.
    assert_eq!(
        named(&flush, Feature::Flush.name())["status"] == "ok",
        shown
    );
    assert_eq!(
        named(&flush, "kernel.kptr_restrict")["status"] == "ok",
        shown
    );
}
