//! The view on terminals of every size, with every key.

use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::app::{App, Mode, Tab};
use super::{Request, Update, draw, keys};
use crate::report::model::{ChainRow, Report};
use crate::report::{sample, sample_echoes};

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
        ('5', "phux-trace record -p 14407"),
        ('6', "phux-trace record -p 14407"),
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

#[test]
fn filters_of_the_stream_are_pushed_and_popped_by_keys() {
    let mut app = with(sample_echoes::rich());
    typed(&mut app, "0");
    shown(&mut app, 80, 24);
    let all = app.stream.total();
    assert!(all > 1);
    press(&mut app, KeyCode::Enter);
    shown(&mut app, 80, 24);
    assert_eq!(app.stream.total(), 1, "its time of day is its own");
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.stream.total(), all);
    typed(&mut app, "/q");
    assert_eq!(app.mode, Mode::Search, "q is a letter here");
    assert!(find(&shown(&mut app, 80, 24), "/q"));
    press(&mut app, KeyCode::Enter);
    assert!(app.stream.total() < all);
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
    assert_eq!((app.stream.total(), app.history.len()), (0, 0));
    assert!(app.gaps.is_empty());
}

#[test]
fn an_export_is_the_report_and_private_and_overwrites_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let report = sample_echoes::rich();
    let path = super::export::export(&report, folder.path()).expect("written");
    let text = std::fs::read_to_string(&path).expect("a file");
    assert!(text.lines().last().is_some_and(|l| l.contains("verdict")));
    let mode = std::fs::metadata(&path)
        .expect("a file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(super::export::export(&report, folder.path()).is_err());
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
        let mut app = match which {
            0 => App::default(),
            n => with(reports()[n].clone()),
        };
        for (key, width, height, click) in steps {
            press(&mut app, key);
            if click {
                let mouse = MouseEvent {
                    kind: MouseEventKind::Down(MouseButton::Left),
                    column: height,
                    row: width,
                    modifiers: KeyModifiers::NONE,
                };
                keys::handle(&mut app, &Event::Mouse(mouse));
            }
            for line in shown(&mut app, width, height) {
                prop_assert!(line.chars().all(crate::escape::is_harmless), "{line:?}");
            }
        }
    }

    #[test]
    fn every_tab_fits_every_size(width in 0u16..200, height in 0u16..60, which in 0usize..4) {
        let mut app = with(reports()[which].clone());
        for tab in Tab::ALL {
            app.tab = tab;
            shown(&mut app, width, height);
        }
    }
}
