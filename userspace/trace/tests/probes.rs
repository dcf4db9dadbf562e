//! `phux-trace probes` on a program built with `sys/sdt.h`.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Helper, have, json_lines, phux_trace, root, run, stdout, wait_for};

/// One probe at three sites, one with a semaphore, one without arguments.
const SOURCE: &str = r#"
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>
#include <unistd.h>
__extension__ unsigned short phux_echo__server_semaphore __attribute__((section(".probes")));
__extension__ unsigned short phux_pty__read__size_semaphore __attribute__((section(".probes")));
__extension__ unsigned short phux_tick_semaphore __attribute__((section(".probes")));
static inline __attribute__((always_inline)) void got(long n, int pane)
{ STAP_PROBE2(phux, pty__read__size, n, pane); }
int main(int argc, char **argv) {
    got(argc, 1); got(argc + 1, 2); got(argc + 2, 3);
    STAP_PROBE1(phux, echo__server, argc);
    STAP_PROBE(phux, tick);
    if (argc == 1) pause();
    return 0;
}
"#;

fn sdt_header() -> PathBuf {
    let machine = run(Command::new("cc").arg("-dumpmachine"));
    let by_machine = Path::new("/usr/include")
        .join(machine.trim())
        .join("sys/sdt.h");
    if by_machine.exists() {
        by_machine
    } else {
        "/usr/include/sys/sdt.h".into()
    }
}

/// Builds [`SOURCE`] in a directory that goes away with the first of the two.
fn build() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("probed.c");
    let program = dir.path().join("probed");
    std::fs::write(&source, SOURCE).expect("written");
    run(Command::new("cc")
        .arg("-O2")
        .arg("-o")
        .arg(&program)
        .arg(&source));
    (dir, program)
}

/// The printed line, given to a shell as it is, counts what the program does.
#[test]
fn the_bpftrace_line_works() {
    let test = "the_bpftrace_line_works";
    if !have(&sdt_header(), test) || !have(Path::new("/usr/bin/bpftrace"), test) || !root(test) {
        return;
    }
    let (_dir, program) = build();
    let file = program.to_str().expect("UTF-8");
    let rows = json_lines(&stdout(&["probes", file, "--json"]));
    let size = rows
        .iter()
        .find(|r| r["name"] == "pty__read__size")
        .expect("the probe");
    let line = format!(
        "{} -c '{file} end'",
        size["bpftrace"].as_str().expect("a line")
    );
    let output = run(Command::new("sh").args(["-c", &line]));
    // argc is 2: the three sites record 2, 3 and 4.
    let words: Vec<&str> = output.split_whitespace().collect();
    let count = |bucket: [&str; 2]| words.windows(3).find(|w| w[..2] == bucket).map(|w| w[2]);
    assert_eq!(count(["[2,", "4)"]), Some("2"), "{line}: {output}");
    assert_eq!(count(["[4,", "8)"]), Some("1"), "{line}: {output}");
}

#[test]
fn of_a_file_and_of_a_process() {
    if !have(&sdt_header(), "of_a_file_and_of_a_process") {
        return;
    }
    let (_dir, program) = build();
    let file = program.to_str().expect("UTF-8");

    let rows = json_lines(&stdout(&["probes", file, "--json"]));
    let of = |name: &str| rows.iter().find(|r| r["name"] == name).expect(name).clone();
    assert_eq!(rows.len(), 3);
    let size = of("pty__read__size");
    assert_eq!(
        (&size["provider"], &size["sites"]),
        (&"phux".into(), &3.into())
    );
    assert_eq!(size["args"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        (&size["args"][0]["size"], &size["args"][0]["signed"]),
        (&8.into(), &true.into())
    );
    assert_eq!(
        size["bpftrace"],
        format!("bpftrace -e 'usdt:{file}:phux:pty__read__size {{ @ = hist(arg0); }}'")
    );
    assert_eq!(
        size["dtrace"],
        "dtrace -p PID -n 'phux$target:::pty-read-size { @ = quantize(arg0); }'"
    );
    assert!(
        of("tick")["bpftrace"]
            .as_str()
            .is_some_and(|b| b.contains("{ @ = count(); }"))
    );
    // readelf is the independent reader of the same notes.
    let readelf = run(Command::new("readelf").args(["-n", file]));
    assert_eq!(readelf.matches("Name: pty__read__size").count(), 3);
    let place = &size["places"][0];
    let location = format!("{:#018x}", place["address"].as_u64().expect("an address"));
    assert!(readelf.contains(&location), "{location} in {readelf}");
    // A site is a one-byte nop at that offset of the file.
    let bytes = std::fs::read(&program).expect("readable");
    for place in size["places"].as_array().expect("places") {
        let offset = usize::try_from(place["offset"].as_u64().expect("an offset")).expect("small");
        assert_eq!(bytes.get(offset), Some(&0x90), "x86's nop at {offset:#x}");
        assert!(place["semaphore"]["offset"].is_u64());
    }

    let child = Command::new(&program)
        .stdin(Stdio::null())
        .spawn()
        .expect("starts");
    let child = Helper(child);
    let pid = child.pid().to_string();
    // Until it has exec'd, the child is still this test.
    let rows = wait_for("its probes by pid", || {
        let rows = json_lines(&stdout(&["probes", &pid, "--json"]));
        rows.iter().any(|r| r["provider"] == "phux").then_some(rows)
    });
    let size = rows
        .iter()
        .find(|r| r["name"] == "pty__read__size")
        .expect("the probe");
    assert_eq!(
        (&size["sites"], &size["pid"]),
        (&3.into(), &child.pid().into())
    );
    let bpftrace = size["bpftrace"].as_str().expect("a line");
    assert!(
        bpftrace.starts_with(&format!("bpftrace -p {pid} -e 'usdt:")),
        "{bpftrace}"
    );

    let text = stdout(&["probes", "probed"]);
    assert!(
        text.contains("phux:pty__read__size  3 sites, semaphore"),
        "{text}"
    );
    // A file that was removed while it runs: what runs counts, and the line leads there.
    std::fs::remove_file(&program).expect("removed");
    let rows = json_lines(&stdout(&["probes", &pid, "--json"]));
    let size = rows
        .iter()
        .find(|r| r["name"] == "pty__read__size")
        .expect("the probe");
    let bpftrace = size["bpftrace"].as_str().expect("a line");
    assert!(
        bpftrace.contains(&format!("usdt:/proc/{pid}/exe:phux:")),
        "{bpftrace}"
    );
}

#[test]
fn what_is_no_program_is_told() {
    for (path, cause) in [
        ("/dev/zero", "not a regular file but a device"),
        ("/etc/passwd", "no ELF file"),
        ("/", "not a regular file but a directory"),
        ("/nonexistent/x", "No such file"),
    ] {
        let out = phux_trace(&["probes", path]);
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{err}");
        assert!(err.contains(path) && err.contains(cause), "{err}");
    }
}
