//! The whole-program tests, on this kernel: with all that it has, and with the better ways refused.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use phux_trace_tests::bpf::BpfObjects;

use serde_json::Value;

use crate::check::{Checks, release, rows, told};

/// The kernel that phux-trace needs at least.
const MINIMUM: (u32, u32) = (6, 1);
/// Time for one test program, in this slow place, as timeout(1) wants it.
const SUITE_SECONDS: &str = "900";
/// Every instruction is emulated, on a host that has other work too.
const SLOWNESS: &str = "20";
/// Where tracefs is, in a run that may have it.
const TRACEFS: &str = "/sys/kernel/tracing";

/// One pass over the test programs. An attach costs seconds here, most of it in the verifier, so that
/// a pass has those tests in which the kernel has a part, and each way to see something once.
struct Run {
    name: &'static str,
    /// What `PHUX_TRACE_WITHOUT` refuses.
    without: &'static str,
    /// Without it thread ends come another way too.
    tracefs: bool,
    /// The tests that are ignored elsewhere.
    ignored: bool,
    suites: &'static [Suite],
}

struct Suite {
    name: &'static str,
    /// Parts of names of tests; none: all tests.
    only: &'static [&'static str],
    skip: &'static [&'static str],
}

/// All tests of a program.
const fn all(name: &'static str) -> Suite {
    Suite {
        name,
        only: &[],
        skip: &[],
    }
}

const fn without(name: &'static str, skip: &'static [&'static str]) -> Suite {
    let only = &[];
    Suite { name, only, skip }
}

const fn only(name: &'static str, only: &'static [&'static str]) -> Suite {
    let skip = &[];
    Suite { name, only, skip }
}

const RUNS: [Run; 3] = [
    Run {
        name: "best",
        without: "",
        tracefs: true,
        ignored: false,
        suites: &[
            // every_way has what three of those do, and no kernel has a part in how many PTYs there are.
            without("attach_pty", &["blocking_reads", "vectored", "two_hundred"]),
            // Those need tools that are not here.
            without("attach_sched", &["bpftrace", "runqlat"]),
            all("attach_hops"),
            // Throttled time: 6.1 tells none (docs/kernels.md). A changed class is the same everywhere.
            without("attach_echo", &["changed_class"]),
            // Those need tools that are not here.
            without(
                "record_calls",
                &["strace", "filters", "sums_up", "never_returns"],
            ),
            // Those are many runs of what the kernel has no part in.
            without("attach_life", &["hostile", "wrapped", "schema", "refused"]),
        ],
    },
    Run {
        name: "bare",
        without: "fentry,flush,uprobe",
        tracefs: true,
        ignored: false,
        suites: &[
            only("attach_life", &["refused"]),
            only("attach_sched", &["spinning"]),
        ],
    },
    Run {
        name: "no-tracefs",
        without: "fentry",
        tracefs: false,
        ignored: false,
        suites: &[
            only("attach_pty", &["nonblocking"]),
            only("attach_life", &["bursts"]),
        ],
    },
];

/// What has no place on an ordinary machine: a tracer that is hardly packaged, or time that is
/// counted in instructions.
const fn special(name: &'static str, suites: &'static [Suite]) -> Run {
    Run {
        name,
        without: "",
        tracefs: true,
        ignored: true,
        suites,
    }
}

const DTRACE: Run = special("dtrace", &[all("dtrace")]);
const SCENARIOS: Run = special("scenarios", &[all("scenarios"), all("counted_causes")]);

/// Runs what was asked for, a set of checks or `SET:PART` for the tests in whose name PART is; on a
/// kernel that is too old, that this is said.
pub(crate) fn run(what: &str, all: &mut Checks) -> io::Result<()> {
    let (what, part) = what.split_once(':').unwrap_or((what, ""));
    let runs = match what {
        "suites" => &RUNS[..],
        "dtrace" => &[DTRACE],
        "scenarios" => &[SCENARIOS],
        _ => return Err(io::Error::other(format!("{what}: not known here"))),
    };
    let trace = fs::read_to_string("/guest/phux-trace")?.trim().to_owned();
    if version(&release()?) < MINIMUM {
        return too_old(&trace, all);
    }
    if what == "suites" && part.is_empty() {
        doctor_agrees(&trace, all)?;
    }
    let programs = fs::read_to_string("/guest/suites")?;
    for run in runs {
        if !run.tracefs {
            mount(&["umount", TRACEFS])?;
        }
        for suite in run.suites {
            let path = programs
                .lines()
                .find_map(|l| l.strip_prefix(suite.name)?.strip_prefix(' '))
                .ok_or_else(|| io::Error::other(format!("{} is not here", suite.name)))?;
            tests(run, suite, path, part, all)?;
        }
        if !run.tracefs {
            mount(&["mount", "-t", "tracefs", "tracefs", TRACEFS])?;
        }
    }
    Ok(())
}

fn mount(command: &[&str]) -> io::Result<()> {
    let out = Command::new("busybox").args(command).output()?;
    out.status
        .success()
        .then_some(())
        .ok_or_else(|| io::Error::other(told(&out)))
}

/// Major and minor number of a release: 6.12 of `6.12.118+deb13-cloud-amd64`.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    (next(), next())
}

/// Below the minimum: a plain error that says so, status 1, and nothing in the kernel.
fn too_old(trace: &str, all: &mut Checks) -> io::Result<()> {
    let before = BpfObjects::now();
    let out = Command::new(trace)
        .args(["attach", "-p", "1", "-d", "1s"])
        .output()?;
    let said = String::from_utf8_lossy(&out.stderr);
    let minimum = format!("Linux {}.{} or newer", MINIMUM.0, MINIMUM.1);
    let ok = out.status.code() == Some(1) && said.contains(&minimum);
    all.tell("attach-says-too-old", ok, &told(&out));
    let out = Command::new(trace).arg("doctor").output()?;
    all.tell(
        "doctor-says-attach-cannot-run",
        out.status.code() == Some(1),
        &told(&out),
    );
    let left = BpfObjects::now().beyond(&before);
    all.tell(
        "nothing-left",
        left == BpfObjects::default(),
        &format!("{left:?}"),
    );
    Ok(())
}

/// What doctor says of this kernel is what attach then has: all of it, here.
fn doctor_agrees(trace: &str, all: &mut Checks) -> io::Result<()> {
    let doctor = Command::new(trace).args(["doctor", "--json"]).output()?;
    let mut target = Command::new("sleep").arg("1000").spawn()?;
    let attach = Command::new(trace)
        .args(["attach", "--json", "-d", "100ms", "-p"])
        .arg(target.id().to_string())
        .output();
    target.kill()?;
    target.wait()?;
    let attach = attach?;
    let why = format!("doctor: {}\nattach: {}", told(&doctor), told(&attach));
    let checks = rows(&doctor);
    let fine = checks.iter().all(|c| c["status"] == "ok");
    all.tell(
        "doctor-finds-everything",
        doctor.status.success() && !checks.is_empty() && fine,
        &why,
    );
    let run = rows(&attach).into_iter().find(|r| r["type"] == "run");
    let backends = run.as_ref().and_then(|r| r["backends"].as_array());
    // Whether interrupts are timed is a choice of who built the kernel, not of its age.
    let there = |b: &Value| b["missing"].is_null() || b["capability"] == "interrupt";
    let whole = backends.is_some_and(|b| !b.is_empty() && b.iter().all(there));
    all.tell("attach-has-every-backend", whole, &why);
    Ok(())
}

/// Runs a test program; each of its tests is a check.
fn tests(run: &Run, suite: &Suite, path: &str, part: &str, all: &mut Checks) -> io::Result<()> {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", SUITE_SECONDS, path, "--test-threads", "1"]);
    // Several parts would be alternatives to libtest.
    match part {
        "" => command.args(suite.only),
        part => command.arg(part),
    };
    if run.ignored {
        // What they measured is worth a look.
        command.args(["--ignored", "--show-output"]);
    }
    command.args(suite.skip.iter().flat_map(|name| ["--skip", name]));
    let mut child = command
        .env("CI", "true") // nothing is skipped in silence
        .env("PHUX_TRACE_PREBUILT", "1")
        .env("PHUX_TEST_SLOWNESS", SLOWNESS)
        .env("PHUX_TRACE_WITHOUT", run.without)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    let (mut failed, mut any) = (false, false);
    // A test's line is whole when the test is over.
    let stdout = child.stdout.take().map(BufReader::new);
    for line in stdout.into_iter().flat_map(BufRead::lines) {
        let line = line?;
        said += &line;
        said.push('\n');
        if run.ignored {
            println!("{line}");
        }
        let Some((test, result)) = line
            .strip_prefix("test ")
            .and_then(|l| l.split_once(" ... "))
        else {
            continue;
        };
        any = true;
        failed |= result != "ok";
        all.tell(&format!("{}/{test}", run.name), result == "ok", result);
    }
    let mut errors = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut errors)?;
    }
    let status = child.wait()?;
    if failed {
        println!("{said}{errors}");
    }
    // One that was killed, or that ran nothing, has no failed test to show.
    if (!any && part.is_empty()) || (!status.success() && !failed) {
        let why = format!("{status}\n{said}{errors}");
        all.tell(&format!("{}/{}", run.name, suite.name), false, &why);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn a_release_gives_its_numbers() {
        assert_eq!(version("6.12.118+deb13-cloud-amd64"), (6, 12));
        assert_eq!(version("5.10.0-46-cloud-amd64"), (5, 10));
        assert_eq!(version("7.0-rc3"), (7, 0));
        assert_eq!(version(""), (0, 0));
    }
}
