//! What `top` shows of known calls: live, in what it exports and records, and of that recording.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use phux_trace_tests::calls::Truth;
use phux_trace_tests::machine::slowness;
use phux_trace_tests::terminal::Terminal;
use phux_trace_tests::truth::Program;
use phux_trace_tests::{bin, exclusive, need_root, procfs, wait_for};

const SOON: Duration = Duration::from_secs(60);
const FAMILIES: &str = "fs,network,polling,ipc,aio";
/// How often a frame is asked for, each time in full.
const TIMES: u16 = 40;

/// A view that works in a folder of its own.
struct View {
    terminal: Terminal,
    dir: PathBuf,
    wide: u16,
}

impl View {
    fn start(dir: &Path, args: &str) -> View {
        let script = format!(
            "cd {} && {} top {args}; echo status=$?",
            dir.display(),
            bin("phux-trace").display()
        );
        let mut terminal = Terminal::start(Command::new("sh").args(["-c", &script]));
        terminal.read_until("stream");
        View {
            terminal,
            dir: dir.to_path_buf(),
            wide: 120,
        }
    }

    /// Types keys, and waits for a frame that `shows`; gives its words.
    fn press(&mut self, keys: &str, shows: impl Fn(&str) -> bool) -> String {
        self.terminal.settle();
        self.terminal.send(keys.as_bytes());
        let mut seen = String::new();
        for _ in 0..TIMES * u16::try_from(slowness()).unwrap_or(1) {
            // Another size has all of it drawn.
            self.wide = 241 - self.wide;
            self.terminal.resize(40, self.wide);
            let whole = self
                .terminal
                .read_for("\u{1b}[never", Duration::from_millis(400));
            seen = words(&whole.unwrap_or_else(|so_far| so_far));
            if shows(&seen) {
                return seen;
            }
        }
        panic!("after {keys:?} never what was waited for: {seen}");
    }

    /// Exports the open tab; gives what is in the file.
    fn export(&mut self) -> String {
        let before = files(&self.dir);
        let fresh = |dir: &Path| files(dir).into_iter().find(|f| !before.contains(f));
        let file = (0..TIMES).find_map(|_| {
            // Nothing is overwritten: until there is another report it cannot be.
            self.terminal.send(b"e");
            wait_for(Duration::from_secs(1), || fresh(&self.dir))
        });
        let file = file.expect("a new file");
        let name = file
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        self.press("", |s| s.contains(&name));
        std::fs::read_to_string(file).expect("text")
    }

    /// The same as soon as it is so: what is shown comes a little later than what was done.
    fn export_when(&mut self, is_so: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + SOON * slowness();
        loop {
            let text = self.export();
            if is_so(&text) || Instant::now() > until {
                return text;
            }
        }
    }

    fn quit(mut self) {
        self.terminal.send(b"q");
        self.terminal.read_until("status=0");
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("a folder");
    let files = entries.flatten().map(|e| e.path()).filter(|p| p.is_file());
    files.collect()
}

/// What is written, without how: a jump of the cursor is a space.
fn words(screen: &str) -> String {
    let mut out = String::new();
    let mut rest = screen.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\u{1b}' {
            out.push(c);
            continue;
        }
        if rest.next_if_eq(&'[').is_some() {
            let last = rest.find(|c| c.is_ascii_alphabetic());
            if last == Some('H') {
                out.push(' ');
            }
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Calls, failed ones and bytes of each name in an exported table.
fn table(csv: &str) -> BTreeMap<String, [u64; 3]> {
    let row = |line: &str| {
        // Names of files may hold commas; the figures behind do not.
        let cells: Vec<&str> = line.rsplitn(12, ',').collect();
        let number = |i: usize| {
            cells[i]
                .parse::<u64>()
                .unwrap_or_else(|e| panic!("{line}: {e}"))
        };
        let name = cells[11].trim_matches('"').to_owned();
        (name, [number(9), number(8), number(7)])
    };
    csv.lines().skip(1).map(row).collect()
}

/// The same of each file below a folder, as the program knows it.
fn known(truth: &Truth, below: &str) -> BTreeMap<String, [u64; 3]> {
    let mut all: BTreeMap<String, [u64; 3]> = BTreeMap::new();
    for did in truth.threads.iter().flat_map(|t| &t.calls) {
        if let Some(path) = did.path.as_ref().filter(|p| p.starts_with(below)) {
            let sums = all.entry(path.clone()).or_default();
            sums[0] += 1;
            sums[1] += u64::from((-4095..0).contains(&did.ret));
            sums[2] += did.bytes;
        }
    }
    all
}

fn only_of(mut table: BTreeMap<String, [u64; 3]>, below: &str) -> BTreeMap<String, [u64; 3]> {
    table.retain(|name, _| name.starts_with(below));
    table
}

#[test]
fn every_tab_has_the_figures_of_known_calls_and_so_has_the_recording() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let work = tempfile::tempdir().expect("a folder");
    let out = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(bin("io-calls"));
    command.arg("--dir").arg(work.path());
    let mut program = Program::start(&mut command);
    wait_for(SOON, || {
        procfs::waits_in(program.pid(), libc::SYS_read).then_some(())
    })
    .expect("it waits for the word to start");
    let pid = program.pid();
    let args = format!("-p {pid} --families {FAMILIES} --interval 200ms -o rec");
    let mut view = View::start(out.path(), &args);
    view.press("R", |s| s.contains("recording to rec"));
    let truth: Truth = program.work(SOON * slowness());

    // The folder of the first round, and not that folder itself, in which more is done.
    let below = format!(
        "{}/0/",
        work.path().canonicalize().expect("a path").display()
    );
    let known = known(&truth, &below);
    assert!(known.len() > 10, "{known:?}");
    // Typed in a list it must be the only one that is left.
    let only = |name: &str| known.keys().filter(|k| k.contains(name)).count() == 1;
    let alone = known.iter().filter(|(name, _)| only(name));
    let (busiest, [calls, ..]) = alone.max_by_key(|(_, s)| s[0]).expect("a file");
    let name = busiest.rsplit('/').next().expect("a name");

    view.press("6", |s| s.contains(name));
    let of_files = |csv: &str| only_of(table(csv), &below);
    let live = of_files(&view.export_when(|csv| of_files(csv) == known));
    assert_eq!(live, known, "files");
    // The same by a list, and what passes then.
    view.press("f", |s| s.contains("only the file:"));
    view.press(&format!("{busiest}\r"), |s| {
        s.contains(&format!("[{busiest}]"))
    });
    view.press("5", |s| s.contains(" calls, "));
    let of_file: u64 = table(&view.export()).values().map(|s| s[0]).sum();
    let both = |d: &&phux_trace_tests::calls::Did| {
        [&d.path, &d.path2]
            .into_iter()
            .flatten()
            .any(|p| p == busiest)
    };
    let all = truth.threads.iter().flat_map(|t| &t.calls);
    assert!(of_file >= *calls, "{of_file} of {calls}");
    assert_eq!(of_file, all.filter(both).count() as u64, "{busiest}");
    view.press("\u{1b}", |s| !s.contains(&format!("[{busiest}]")));

    view.press("5", |s| s.contains("openat"));
    let by_call = table(&view.export());
    let total: u64 = by_call.values().map(|s| s[0]).sum();
    let mut wanted: BTreeMap<&str, u64> = BTreeMap::new();
    for did in truth.threads.iter().flat_map(|t| &t.calls) {
        *wanted.entry(&did.name).or_default() += 1;
    }
    for (name, count) in wanted.iter().filter(|(n, _)| by_call.contains_key(**n)) {
        assert!(by_call[*name][0] >= *count, "{name}");
    }
    assert!(by_call.len() > 20, "{by_call:?}");

    view.press("7", |s| {
        s.contains("io-calls") && s.contains(&pid.to_string())
    });
    // The most frequent first: there are more than fit.
    view.press("8s", |s| {
        s.contains("call openat") && s.contains("gap between calls")
    });
    view.press("2", |s| s.contains("io-calls"));
    view.press("9bbbb", |s| s.contains("process / path / call"));
    let stacks = view.export();
    let of = |line: &str| line.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok());
    assert_eq!(
        stacks.lines().filter_map(of).sum::<u64>(),
        total,
        "{stacks}"
    );
    view.press("0", |s| s.contains("or longest step"));
    let stream = view.export();
    assert_eq!(stream.lines().count() as u64 - 1, total.min(10_000));

    view.press("R", |s| s.contains("rows in rec"));
    view.quit();
    program.finish();

    let rec = out.path().join("rec");
    let report = Command::new(bin("phux-trace"))
        .arg("report")
        .arg(&rec)
        .output();
    let report = report.expect("phux-trace");
    assert!(report.status.success(), "{report:?}");
    let text = String::from_utf8_lossy(&report.stdout);
    assert!(
        text.contains(&format!("pid {pid}")) && text.contains("io-calls"),
        "{text}"
    );

    let mut view = View::start(out.path(), "./rec");
    view.press("6", |s| s.contains(name));
    let replayed = of_files(&view.export_when(|csv| of_files(csv) == live));
    assert_eq!(replayed, live, "what top recorded, top shows");
    view.press("5", |s| s.contains("openat"));
    // Recording began before the work did: by then there was nothing but waiting.
    assert_eq!(table(&view.export()), by_call);
    view.press(&format!("/{name}\r"), |s| s.contains(&format!("[/{name}]")));
    view.press("2", |s| s.contains("waited"));
    view.press("R", |s| s.contains("this is a recording"));
    view.quit();
}
