//! Help, completions, man page, exit codes.

mod common;

use std::io::Write;
use std::process::{Command, Stdio};

use common::{phux_trace, run, stdout};

#[test]
fn bash_accepts_the_completions() {
    let script = stdout(&["completions", "bash"]);
    assert!(script.contains("attach") && script.contains("--interval"));
    let mut bash = Command::new("bash")
        .arg("-n")
        .stdin(Stdio::piped())
        .spawn()
        .expect("bash");
    bash.stdin
        .take()
        .expect("piped")
        .write_all(script.as_bytes())
        .expect("read");
    assert!(bash.wait().expect("ends").success());
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        assert!(
            stdout(&["completions", shell]).contains("attach"),
            "{shell}"
        );
    }
}

#[test]
fn the_man_page_tells_commands_and_exit_codes() {
    let page = stdout(&["man"]);
    for wanted in [
        ".TH",
        "attach",
        ".SH \"EXIT STATUS\"",
        "124",
        ".SH \"EXAMPLES\"",
    ] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
    let dir = tempfile::tempdir().expect("a directory");
    stdout(&["man", "--dir", dir.path().to_str().expect("UTF-8")]);
    let attach = std::fs::read_to_string(dir.path().join("phux-trace-attach.1")).expect("a page");
    assert!(attach.contains("Examples"));
}

#[test]
fn exit_codes() {
    assert_eq!(phux_trace(&["attach", "--no-such"]).status.code(), Some(2));
    assert_eq!(phux_trace(&["attach", "-d", "soon"]).status.code(), Some(2));
    assert_eq!(phux_trace(&[]).status.code(), Some(2));
    assert_eq!(phux_trace(&["--help"]).status.code(), Some(0));
    let mut child = Command::new("true").spawn().expect("true");
    child.wait().expect("ends");
    let out = phux_trace(&["probes", &child.id().to_string()]);
    assert_eq!(out.status.code(), Some(1));
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        err.contains("no process has pid") && err.contains("phux-trace list"),
        "{err}"
    );
    let out = phux_trace(&["probes", "2"]);
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        err.contains("kernel thread") || err.contains("no process"),
        "{err}"
    );
}

#[test]
fn help_of_every_command_has_its_examples() {
    for command in ["attach", "list", "doctor", "probes", "completions", "man"] {
        let help = stdout(&[command, "--help"]);
        assert!(help.contains("Examples:"), "{command}");
    }
    let version = run(Command::new(env!("CARGO_BIN_EXE_phux-trace")).arg("--version"));
    assert!(version.starts_with("phux-trace "));
}

/// A process can have any bytes for a name, and so can a file.
#[test]
fn names_need_not_be_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::OsStr::from_bytes(b"no\xffsuch");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join(std::ffi::OsStr::from_bytes(b"\xfe\x1b.so"));
    std::fs::write(&file, "no ELF").expect("written");
    for args in [
        ["attach".as_ref(), name],
        ["probes".as_ref(), name],
        ["doctor".as_ref(), name],
        ["probes".as_ref(), file.as_os_str()],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phux-trace"));
        let out = command.args(args).output().expect("runs");
        assert_eq!(out.status.code(), Some(1), "{args:?}: {out:?}");
        assert!(!out.stderr.contains(&0x1b), "{out:?}");
    }
}
