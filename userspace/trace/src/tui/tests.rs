//! The view on terminals of every size, with every key.

use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::app::{App, Mode, Tab};
use super::{Recorded, Request, Update, draw, keys};
use crate::report::model::{ChainRow, Report};
use crate::report::{sample, sample_echoes};
use crate::syscalls::stats::Stats;
use crate::syscalls::stats::tests::call;
use crate::syscalls::view::{Filter, Watch};
use crate::syscalls::{Consumer, Names};

fn reports() -> [Report; 4] {
    [
        sample::empty(),
        sample::rich(),
        sample::extreme(),
        sample_echoes::rich(),
    ]
}

fn with(report: Report) -> App {
    let mut app = App::default();
    app.take(Update::Chains(chains(&report)));
    app.take(Update::Reports {
        interval: Box::new(report.clone()),
        run: Box::new(report),
        shed: 0,
    });
    app
}

fn chains(report: &Report) -> Vec<ChainRow> {
    let examples = report.echoes.iter().flat_map(|e| &e.slow);
    let examples = examples.map(|g| g.example.clone());
    examples.chain(report.slow_echoes.clone()).collect()
}

fn shown(app: &mut App, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal
        .draw(|frame| draw::frame(app, frame.buffer_mut()))
        .expect("a frame");
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect();
    (0..height).map(line).collect()
}

fn press(app: &mut App, code: KeyCode) -> Option<Request> {
    keys::handle(app, &Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn typed(app: &mut App, keys: &str) {
    for c in keys.chars() {
        assert_eq!(press(app, KeyCode::Char(c)), None);
    }
}

fn find(lines: &[String], words: &str) -> bool {
    lines.iter().any(|l| l.contains(words))
}

#[test]
fn every_tab_shows_what_it_is_for() {
    let mut app = with(sample_echoes::rich());
    let wanted = [
        ('1', "where the time of a keystroke goes"),
        ('2', "who ran instead"),
        ('3', "out flush"),
        ('4', "pty."),
        ('5', "no system call of the families"),
        ('6', "no file was used"),
        ('7', "tmux: server"),
        ('8', "echo, whole"),
        ('9', "tmux: server(14407)"),
        ('0', "longest step"),
    ];
    for (key, words) in wanted {
        typed(&mut app, &key.to_string());
        let lines = shown(&mut app, 80, 24);
        assert!(find(&lines, words), "{key}: {words}: {lines:#?}");
        assert!(find(&lines[..1], app.tab.title()), "{lines:#?}");
    }
}

#[test]
fn tabs_turn_around_and_a_click_opens_one() {
    let mut app = with(sample::rich());
    press(&mut app, KeyCode::BackTab);
    assert_eq!(app.tab, Tab::Stream);
    press(&mut app, KeyCode::Tab);
    assert_eq!(app.tab, Tab::Verdict);
    let lines = shown(&mut app, 80, 24);
    let column = lines[0].find("hops").expect("a title");
    let click = MouseEvent {
        kind: MouseEventKind::Down(MouseButton::Left),
        column: u16::try_from(column).expect("a column"),
        row: 0,
        modifiers: KeyModifiers::NONE,
    };
    keys::handle(&mut app, &Event::Mouse(click));
    assert_eq!(app.tab, Tab::Hops);
}

#[test]
fn the_open_tab_is_named_on_the_narrowest_terminal() {
    let mut app = with(sample::rich());
    for tab in Tab::ALL {
        app.tab = tab;
        let lines = shown(&mut app, 20, 5);
        assert!(find(&lines[..1], tab.title()), "{lines:#?}");
    }
}

#[test]
fn sorting_by_another_column_changes_the_rows() {
    let mut app = with(sample_echoes::rich());
    typed(&mut app, "2");
    let by_wait = shown(&mut app, 80, 24);
    typed(&mut app, "S");
    let reversed = shown(&mut app, 80, 24);
    assert_ne!(by_wait[3], reversed[3]);
    typed(&mut app, "Ss");
    let by_name = shown(&mut app, 80, 24);
    let name = |l: &String| l.chars().skip(8).take(15).collect::<String>();
    let names: Vec<String> = by_name[3..]
        .iter()
        .map(name)
        .take_while(|n| !n.trim().is_empty())
        .collect();
    assert!(names.len() > 2 && names.is_sorted(), "{names:?}");
}

/// A session without a kernel: calls that are known, and an answer to whatever is looked at.
struct Session {
    app: App,
    all: Stats,
    watch: Watch,
}

impl Session {
    /// 40 reads of 3 bytes by a shell on one file, 20 writes on another and 4 failed by cat.
    fn new() -> Session {
        let mut names = Names::default();
        let [read, written] = ["/srv/data/in.txt", "/srv/data/out.txt"].map(|n| names.get(n));
        let [bash, cat] = ["bash", "cat"].map(|n| names.get(n));
        let mut calls = Vec::new();
        for n in 0..40u64 {
            let mut c = call(7, Some(read.clone()), 0, 1_000_000 + n, 2000);
            (c.comm, c.process, c.gap) = (bash.clone(), bash.clone(), 500);
            calls.push(c);
        }
        for n in 0..24u64 {
            let mut c = call(8, Some(written.clone()), 1, 2_000_000 + n, 90_000);
            (c.comm, c.process) = (cat.clone(), cat.clone());
            if n >= 20 {
                (c.ret, c.bytes) = (-28, 0);
            }
            calls.push(c);
        }
        let mut all = Stats::default();
        all.calls(&calls);
        Session {
            app: with(sample_echoes::rich()),
            all,
            watch: Watch::default(),
        }
    }

    /// Keys, what the session answers, and the screen.
    fn keys(&mut self, keys: &str) -> Vec<String> {
        for c in keys.chars() {
            let code = match c {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                c => KeyCode::Char(c),
            };
            assert_eq!(press(&mut self.app, code), None);
            self.answer();
        }
        shown(&mut self.app, 80, 24)
    }

    fn answer(&mut self) {
        self.watch.filters(&self.app.filters, &self.all);
        self.watch.look(self.app.look());
        if let Some(seen) = self.watch.seen(&self.all, 1_700_000_000_000_000_000) {
            self.app.take(Update::Calls(Box::new(seen)));
        }
        // As a frame does.
        shown(&mut self.app, 80, 24);
    }
}

#[test]
fn calls_are_shown_by_name_file_process_time_and_one_by_one() {
    let mut session = Session::new();
    for (key, wanted) in [
        ("5", &["64 calls", "4 failed", " read ", " write "][..]),
        ("6", &["/srv/data/in.txt", "/srv/data/out.txt"]),
        ("6d", &["/srv/data", "    64      4"]),
        ("8", &["call read", "call write", "gap between calls"]),
        (
            "0",
            &["8 cat", "ENOSPC", "longest step", "/srv/data/out.txt"],
        ),
    ] {
        let lines = session.keys(key);
        for words in wanted {
            assert!(find(&lines, words), "{key}: {words}: {lines:#?}");
        }
    }
}

#[test]
fn the_tables_at_80_by_24_are_these() {
    let mut session = Session::new();
    let lines = session.keys("5");
    assert_eq!(
        lines[1..6],
        [
            "64 calls, 0/s, 4 failed, 180B; 2.24ms in calls: 560µs blocked, 560µs CPU wait   ",
            "p50 90.0µs p95 90.0µs p99 90.0µs max 90.0µs, CPU wait 540µs: write              ",
            "  time call            calls failed   bytes blocked   cpuw    p50    p99    max ",
            "2.16ms write              24      4     60B   540µs  540µs 90.0µs 90.0µs 90.0µs ",
            "80.0µs read               40      0    120B  20.0µs 20.0µs 2.00µs 2.00µs 2.00µs ",
        ]
    );
    let lines = session.keys("6");
    assert_eq!(
        lines[3..6],
        [
            "  time  calls failed   bytes blocked    p50    p99 file                         ",
            "2.16ms     24      4     60B   540µs 90.0µs 90.0µs /srv/data/out.txt            ",
            "80.0µs     40      0    120B  20.0µs 2.00µs 2.00µs /srv/data/in.txt             ",
        ]
    );
}

#[test]
fn the_flame_graph_has_calls_by_every_metric_and_order() {
    let mut session = Session::new();
    let lines = session.keys("9bbbb");
    assert!(
        find(&lines, "all 64 of 64") && find(&lines, "process / path / call"),
        "{lines:#?}"
    );
    assert!(
        find(&lines, "bash(7)") && find(&lines, "/in.txt"),
        "{lines:#?}"
    );
    assert!(find(&session.keys("b"), "all 180B of 180B"));
    assert!(find(&session.keys("b"), "all 2.24ms of 2.24ms"));
    assert!(find(&session.keys("b"), "all 560µs of 560µs"));
    let lines = session.keys("oooo");
    assert!(find(&lines, "call / process / path"), "{lines:#?}");
    let row = lines
        .iter()
        .position(|l| l.contains("write"))
        .expect("a block");
    let below = lines
        .iter()
        .position(|l| l.contains("cat(8)"))
        .expect("one below");
    assert!(row < below, "{lines:#?}");
}

#[test]
fn filters_are_pushed_by_rows_words_and_lists_and_popped() {
    let mut session = Session::new();
    let total = |s: &Session| s.app.seen.sums.count;
    session.keys("5");
    assert_eq!(total(&session), 64);
    let lines = session.keys("j\n");
    assert_eq!(
        (total(&session), find(&lines, "[read]")),
        (40, true),
        "{lines:#?}"
    );
    session.keys("\x1b");
    assert_eq!((total(&session), session.app.filters.len()), (64, 0));

    session.keys("/OUT.TXT\n");
    assert_eq!(total(&session), 24);
    session.keys("0");
    session.keys("lllll\n");
    assert_eq!(session.app.filters.len(), 2);
    assert_eq!(total(&session), 4, "those that failed so");
    assert_eq!(session.app.stream.total(&session.app.filters), 4);
    session.keys("\x1b\x1b");
    assert_eq!(total(&session), 64);

    let lines = session.keys("5fin.t");
    assert!(
        find(&lines, "only the file: in.t_   (1 of 2)"),
        "{lines:#?}"
    );
    session.keys("\n");
    assert_eq!(total(&session), 40);
    session.keys("\x1bp");
    assert_eq!(session.app.mode, Mode::Pick);
    session.keys("\x1b");
    assert!(session.app.filters.is_empty(), "nothing was chosen");
    session.keys("2\n");
    assert!(matches!(session.app.filters[..], [Filter::Thread(..)]));
    session.keys("\x1bt\n");
    assert!(matches!(session.app.filters[..], [Filter::Thread(..)]));
    session.keys("\x1b7\n");
    assert!(matches!(session.app.filters[..], [Filter::Process(..)]));
}

#[test]
fn echoes_are_in_the_stream_and_narrowed_like_calls() {
    let mut app = with(sample_echoes::rich());
    typed(&mut app, "0");
    shown(&mut app, 80, 24);
    let all = app.stream.total(&[]);
    assert!(all > 1);
    typed(&mut app, "/q");
    assert_eq!(app.mode, Mode::Search, "q is a letter here");
    assert!(find(&shown(&mut app, 80, 24), "/q"));
    press(&mut app, KeyCode::Enter);
    assert!(app.stream.total(&app.filters) < all);
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.stream.total(&app.filters), all);
}

#[test]
fn a_pause_holds_what_is_shown_and_says_so() {
    let mut session = Session::new();
    session.keys("5");
    let lines = session.keys(" ");
    assert!(
        find(&lines, "PAUSED") && session.app.look().held,
        "{lines:#?}"
    );
    let more = [call(9, None, 0, 3_000_000, 10)];
    session.all.calls(&more);
    session.answer();
    assert_eq!(session.app.seen.sums.count, 64);
    session.keys(" ");
    assert_eq!(session.app.seen.sums.count, 65);
}

#[test]
fn a_recording_is_asked_for_and_its_rows_are_told() {
    let mut app = with(sample::rich());
    assert_eq!(press(&mut app, KeyCode::Char('R')), Some(Request::Record));
    app.take(Update::Recorded(Some(Recorded {
        dir: "rec".into(),
        rows: 123,
        shed: 5,
    })));
    assert!(find(&shown(&mut app, 80, 24), "REC 123 rows, 5 shed"));
    app.take(Update::Recorded(None));
    assert!(!find(&shown(&mut app, 80, 24), "REC"));
}

#[test]
fn help_names_every_key_and_any_key_leaves_it() {
    let mut app = with(sample::rich());
    typed(&mut app, "?");
    let lines = shown(&mut app, 80, 24);
    assert!(
        find(&lines, "shift-tab") && find(&lines, "this help"),
        "{lines:#?}"
    );
    assert!(keys::HELP.iter().all(|l| l.chars().count() <= 80));
    typed(&mut app, "q");
    assert_eq!(app.mode, Mode::Keys);
    assert_eq!(press(&mut app, KeyCode::Char('q')), Some(Request::Quit));
}

#[test]
fn a_reset_forgets_and_asks_the_session_to() {
    let mut app = with(sample_echoes::rich());
    assert_eq!(press(&mut app, KeyCode::Char('r')), Some(Request::Reset));
    assert_eq!((app.stream.total(&[]), app.history.len()), (0, 0));
    assert!(app.gaps.is_empty());
}

#[test]
fn an_export_is_what_is_shown_and_private_and_overwrites_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let mut session = Session::new();
    for (keys, kind, words) in [
        ("1", "json", "\"verdict\""),
        ("5", "csv", "write,,24,4,60,2160000"),
        ("0", "csv", ",cat,write,-28,28,0,"),
        ("9bbbb", "folded", "bash(7);/srv;/data;/in.txt;read 40"),
    ] {
        session.keys(keys);
        let path = super::export::export(&session.app, folder.path()).expect("written");
        assert_eq!(path.extension().and_then(|e| e.to_str()), Some(kind));
        let text = std::fs::read_to_string(&path).expect("a file");
        assert!(text.contains(words), "{keys}: {text}");
        let mode = std::fs::metadata(&path)
            .expect("a file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(super::export::export(&session.app, folder.path()).is_err());
        std::fs::remove_file(path).expect("it was there");
    }
}

fn any_key() -> impl Strategy<Value = KeyCode> {
    prop_oneof![
        8 => "[a-df-zA-Z0-9 /?]".prop_map(|s| KeyCode::Char(s.chars().next().unwrap_or('x'))),
        4 => prop::sample::select(vec![
            KeyCode::Tab, KeyCode::BackTab, KeyCode::Enter, KeyCode::Esc, KeyCode::Up,
            KeyCode::Down, KeyCode::Left, KeyCode::Right, KeyCode::PageDown, KeyCode::PageUp,
            KeyCode::Home, KeyCode::End, KeyCode::Backspace,
        ]),
        1 => any::<char>().prop_filter("exports", |c| *c != 'e').prop_map(KeyCode::Char),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_size_and_no_key_is_too_much(
        which in 0usize..4,
        steps in prop::collection::vec((any_key(), 0u16..130, 0u16..50, any::<bool>()), 1..25),
    ) {
        let mut session = Session::new();
        session.app = match which {
            0 => App::default(),
            n => with(reports()[n].clone()),
        };
        for (key, width, height, click) in steps {
            press(&mut session.app, key);
            session.answer();
            if click {
                let mouse = MouseEvent {
                    kind: MouseEventKind::Down(MouseButton::Left),
                    column: height,
                    row: width,
                    modifiers: KeyModifiers::NONE,
                };
                keys::handle(&mut session.app, &Event::Mouse(mouse));
            }
            for line in shown(&mut session.app, width, height) {
                prop_assert!(line.chars().all(crate::escape::is_harmless), "{line:?}");
            }
        }
    }

    #[test]
    fn every_tab_fits_every_size(width in 0u16..200, height in 0u16..60, which in 0usize..4) {
        let mut session = Session::new();
        session.app = with(reports()[which].clone());
        for tab in Tab::ALL {
            session.app.tab = tab;
            session.answer();
            shown(&mut session.app, width, height);
        }
    }
}
