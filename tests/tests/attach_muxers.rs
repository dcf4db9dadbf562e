//! `attach` on the programs that people use: each with its PTYs found, and what went through sized.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Command;
use std::time::Duration;

use phux_trace_tests::attach::Attached;
use phux_trace_tests::muxers::{Screen, Script, Tmux};
use phux_trace_tests::ptys::{Pty as Pair, file};
use phux_trace_tests::report::{Io, Pty, Summed};
use phux_trace_tests::{Running, exclusive, need_root, need_tool, procfs, wait_for};

/// A program inside that writes 1,000 bytes each time it is given a line, through a terminal that
/// changes nothing.
const INSIDE: &str = "stty raw -echo; while read -r line; do head -c 1000 /dev/zero; done";
const SOON: Duration = Duration::from_secs(30);

/// The one PTY whose master `pid` holds.
fn only_pty(report: &Summed, pid: u32) -> &Pty {
    report.assert_nothing_lost();
    let mut of: Vec<&Pty> = report
        .ptys
        .values()
        .filter(|p| Pty::held_by(&p.master, pid))
        .collect();
    assert_eq!(of.len(), 1, "{:?}", report.ptys);
    of.remove(0)
}

fn assert_output(pty: &Pty, bytes: u64) {
    assert_eq!(pty.slave_writes.size.sum, bytes, "slave writes of {pty:?}");
    // screen reads in packet mode (TIOCPKT): one byte of status more in each read.
    let read = &pty.master_reads.size;
    let sums = [bytes, bytes + read.count];
    assert!(sums.contains(&read.sum), "master reads of {pty:?}");
    let reads = &pty.master_reads.size;
    assert!(
        reads.max > 64 && reads.count < bytes / 64,
        "the bounce buffer's size: {reads:?}"
    );
    assert!(
        pty.flush_output.wait.count > 0 && pty.flush_output.reader_wait.count > 0,
        "{pty:?}"
    );
    assert!(!pty.slave.is_empty(), "nobody holds the slave of {pty:?}");
}

/// Input that was read, where the first read had begun before anybody attached: its end may not
/// have been recognised as that of a read.
fn assert_taken(io: &Io, bytes: u64, first: u64) {
    assert!((bytes - first..=bytes).contains(&io.size.sum), "{io:?}");
}

#[test]
fn tmux_with_keystrokes_and_output() {
    if !need_root() || !need_tool("tmux") {
        return;
    }
    let _alone = exclusive();
    // Raw only after the first line, so that the test knows when the terminal is ready.
    let tmux = Tmux::start(&format!("echo in; {INSIDE}"));
    tmux.wait_for_text("in");
    let raw = || {
        let flags = Command::new("stty")
            .args(["-a", "-F", &format!("/dev/pts/{}", tmux.pane_tty())])
            .output()
            .ok()?;
        String::from_utf8_lossy(&flags.stdout)
            .contains("-icanon")
            .then_some(())
    };
    wait_for(SOON, raw).expect("raw");
    let attached = Attached::to(tmux.pid());
    for _ in 0..20 {
        tmux.run(&["send-keys", "x", "C-j"]);
    }
    let report = wait_until_quiet(attached, tmux.pid());
    let pty = only_pty(&report, tmux.pid());
    assert_eq!(pty.index, tmux.pane_tty());
    assert_output(pty, 20_000);
    // Each keystroke of two bytes: the letter and the newline.
    assert_eq!(pty.master_writes.size.sum, 40, "{pty:?}");
    assert_taken(&pty.slave_reads, 40, 2);
}

/// Stops the run when the server's main thread has come to rest.
fn wait_until_quiet(attached: Attached, pid: u32) -> Summed {
    let mut last = None;
    wait_for(SOON, || {
        let now = procfs::Account::of(pid, pid).ok()?;
        // Ten looks, 50 ms, without a slice: everything sent before has been served.
        match &mut last {
            Some((account, looks)) if *account == now => *looks += 1,
            _ => last = Some((now, 0)),
        }
        last.as_ref()
            .is_some_and(|(_, looks)| *looks >= 100)
            .then_some(())
    })
    .expect("the target comes to rest");
    attached.stop()
}

#[test]
fn screen_finds_its_pty_and_sizes_it() {
    if !need_root() || !need_tool("screen") {
        return;
    }
    let _alone = exclusive();
    let gate = tempfile::tempdir().expect("a folder");
    let go = gate.path().join("go");
    let inside = gated(&go);
    let screen = Screen::start(&inside);
    let attached = Attached::to(screen.pid());
    File::create(&go).expect("the word");
    let report = wait_for_end(attached, screen.pid(), &gate.path().join("done"));
    assert_output(only_pty(&report, screen.pid()), 50_000);
}

#[test]
fn script_finds_its_pty_and_sizes_it() {
    if !need_root() || !need_tool("script") {
        return;
    }
    let _alone = exclusive();
    let gate = tempfile::tempdir().expect("a folder");
    let go = gate.path().join("go");
    let script = Script::start(&gated(&go));
    let attached = Attached::to(script.pid());
    File::create(&go).expect("the word");
    let report = wait_for_end(attached, script.pid(), &gate.path().join("done"));
    assert_output(only_pty(&report, script.pid()), 50_000);
}

/// A shell command that waits for a file, writes 50,000 bytes in raw mode, and makes file `done`
/// beside it. It stays, so that the terminal does.
fn gated(go: &std::path::Path) -> String {
    let go = go.display();
    let done = go.to_string().replace("/go", "/done");
    format!(
        "stty raw -echo; until [ -e {go} ]; do sleep 0.05; done; \
         head -c 50000 /dev/zero; : > {done}; exec sleep 1000"
    )
}

fn wait_for_end(attached: Attached, pid: u32, done: &std::path::Path) -> Summed {
    wait_for(SOON, || done.exists().then_some(())).expect("all written");
    wait_until_quiet(attached, pid)
}

#[test]
fn a_shell_is_seen_from_its_own_end() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let pair = Pair::open().expect("a pty");
    let (mut master, slave) = (file(pair.master), file(pair.slave));
    // Running owns the shell's standard streams, so the shell opens the terminal itself.
    let path = pair.path.display().to_string();
    let shell = Running::start(
        Command::new("sh").args(["-c", &format!("exec sh -s < {path} > {path} 2>/dev/null")]),
    );
    let on_terminal = || {
        let fd = std::fs::read_link(format!("/proc/{}/fd/0", shell.pid())).ok()?;
        (fd == pair.path).then_some(())
    };
    wait_for(SOON, on_terminal).expect("the shell reads the terminal");
    drop(slave);
    let attached = Attached::to(shell.pid());
    for _ in 0..50 {
        master.write_all(b"echo hello\n").expect("typed");
        let mut answer = [0; 6];
        master.read_exact(&mut answer).expect("answered");
        assert_eq!(&answer, b"hello\n");
    }
    let report = attached.stop();
    report.assert_nothing_lost();
    let row = report.pty(pair.index);
    assert!(Pty::held_by(&row.slave, shell.pid()), "{row:?}");
    assert!(Pty::held_by(&row.master, std::process::id()), "{row:?}");
    assert_eq!(row.slave_writes.size.sum, 50 * 6, "{row:?}");
    assert_eq!(row.slave_writes.size.count, 50, "{row:?}");
    assert_taken(&row.slave_reads, 50 * 11, 11);
    // Both ends are looked at, whichever end the target holds.
    assert_eq!(row.master_writes.size.sum, 50 * 11, "{row:?}");
}
