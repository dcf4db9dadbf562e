//! Runs the whole-program tests inside a virtual machine, where it is all that `scripts/vm/init`
//! starts, and ends that machine with its status.
//!
//! Prints a line `CHECK name ok` or `CHECK name FAIL` for each check, and before a failure what the
//! test said. `scripts/vm-matrix` puts the programs there and reads the lines.

use std::fs;
use std::io::{self, Write};
use std::process::{Command, ExitCode, Output};
use std::time::Instant;

use phux_trace_tests::bpf::BpfObjects;
use serde_json::Value;

/// The kernel that phux-trace needs at least.
const MINIMUM: (u32, u32) = (6, 1);
/// Time for one test program, in this slow place, as timeout(1) wants it.
const SUITE_SECONDS: &str = "200";
/// Every instruction is emulated, on a host that has other work too.
const SLOWNESS: &str = "20";
/// Set by `scripts/vm/boot`: this is a machine that may be switched off.
const GUEST_MARK: &str = "phux_guest";

/// What to run again with the better ways refused (`PHUX_TRACE_WITHOUT`), by test program.
const RUNS: [Run; 3] = [
    Run {
        name: "best",
        without: "",
        suites: &[
            "attach_pty",
            "attach_sched",
            "attach_hops",
            "attach_life",
            "record_calls",
        ],
        // They need tools that are not here, or are many runs of what the kernel has no part in.
        skip: &[
            "bpftrace",
            "runqlat",
            "hostile",
            "wrapped",
            "schema",
            "strace",
            "filters",
            "sums_up",
            "never_returns",
        ],
    },
    Run {
        name: "no-fentry",
        without: "fentry",
        suites: &["attach_pty"],
        // Flush work has no part in how calls are seen.
        skip: &["two_hundred", "flush_work"],
    },
    Run {
        name: "bare",
        without: "fentry,flush,uprobe",
        suites: &["attach_pty", "attach_sched"],
        skip: &[
            "bpftrace",
            "runqlat",
            "two_hundred",
            "flood",
            "flush_work",
            "hog",
        ],
    },
];

struct Run {
    name: &'static str,
    without: &'static str,
    suites: &'static [&'static str],
    skip: &'static [&'static str],
}

fn main() -> ExitCode {
    if !fs::read_to_string("/proc/cmdline").is_ok_and(|c| c.contains(GUEST_MARK)) {
        eprintln!("guest: this is no machine of scripts/vm-matrix");
        return ExitCode::FAILURE;
    }
    // A failure to start something is a failed check like any other.
    let status = match checks() {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(e) => {
            println!("guest: {e}");
            2
        }
    };
    println!("DONE {status}");
    power_off(status)
}

fn checks() -> io::Result<bool> {
    let kernel = release()?;
    println!("KERNEL {kernel}");
    let trace = fs::read_to_string("/guest/phux-trace")?.trim().to_owned();
    let mut all = Checks { well: true };
    if version(&kernel) < MINIMUM {
        too_old(&trace, &mut all)?;
    } else {
        doctor_agrees(&trace, &mut all)?;
        let suites = fs::read_to_string("/guest/suites")?;
        for run in &RUNS {
            for line in suites.lines() {
                let (suite, path) = line.split_once(' ').unwrap_or((line, ""));
                if run.suites.contains(&suite) {
                    tests(run, suite, path, &mut all)?;
                }
            }
        }
    }
    Ok(all.well)
}

struct Checks {
    well: bool,
}

impl Checks {
    fn tell(&mut self, name: &str, ok: bool, why: &str) {
        self.well &= ok;
        if !ok {
            println!("{why}");
        }
        println!("CHECK {name} {}", if ok { "ok" } else { "FAIL" });
    }
}

fn release() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/osrelease")?
        .trim()
        .to_owned())
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
    let whole = backends.is_some_and(|b| !b.is_empty() && b.iter().all(|b| b["missing"].is_null()));
    all.tell("attach-has-every-backend", whole, &why);
    Ok(())
}

/// Its standard output, where each line is an object.
fn rows(out: &Output) -> Vec<Value> {
    String::from_utf8_lossy(&out.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Runs a test program; each of its tests is a check.
fn tests(run: &Run, suite: &str, path: &str, all: &mut Checks) -> io::Result<()> {
    let began = Instant::now();
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", SUITE_SECONDS, path, "--test-threads", "1"]);
    for skip in run.skip {
        command.args(["--skip", skip]);
    }
    let out = command
        .env("CI", "true") // nothing is skipped in silence
        .env("PHUX_TRACE_PREBUILT", "1")
        .env("PHUX_TEST_SLOWNESS", SLOWNESS)
        .env("PHUX_TRACE_WITHOUT", run.without)
        .output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    let mut any = false;
    for line in text.lines() {
        let Some((test, result)) = line
            .strip_prefix("test ")
            .and_then(|l| l.split_once(" ... "))
        else {
            continue;
        };
        any = true;
        let why = format!("{test} {result}");
        all.tell(&format!("{}/{test}", run.name), result == "ok", &why);
    }
    // One that was killed, or that ran nothing, has no failed test to show.
    if !any || !out.status.success() {
        all.tell(&format!("{}/{suite}", run.name), false, &told(&out));
    }
    println!(
        "TIME {}/{suite} {:.1} s",
        run.name,
        began.elapsed().as_secs_f32()
    );
    Ok(())
}

fn told(out: &Output) -> String {
    format!(
        "{}\n{}{}",
        out.status,
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    )
}

/// Ends the machine through QEMU's isa-debug-exit, which makes its status 2·`status`+1.
#[cfg(target_arch = "x86_64")]
fn power_off(status: u8) -> ExitCode {
    /// The port that `scripts/vm/boot` gives the device.
    const PORT: u16 = 0xf4;
    let _ = io::stdout().flush();
    // The device ends QEMU at once: what is still in the serial line would be lost.
    let _ = rustix::termios::tcdrain(io::stdout());
    // SAFETY: asks for one I/O port, at which this machine (see GUEST_MARK) has nothing else;
    // kernels without /dev/port leave no other way.
    if unsafe { libc::ioperm(PORT.into(), 1, 1) } == 0 {
        // SAFETY: the port was granted just now; the write touches no memory.
        unsafe {
            std::arch::asm!("out dx, al", in("dx") PORT, in("al") status, options(nomem, nostack));
        }
    }
    println!("guest: still here");
    ExitCode::FAILURE
}

/// Without that device: the end of init stops the machine.
#[cfg(not(target_arch = "x86_64"))]
fn power_off(status: u8) -> ExitCode {
    ExitCode::from(status)
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
