use std::path::Path;

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::*;
use crate::escape::is_harmless;
use crate::report::model::Relation;
use crate::report::sample::{self, dist, ms, pty, thread, us};

/// Set to write the golden files anew; then read the difference before committing it.
const UPDATE: &str = "UPDATE_GOLDEN";

fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == expected,
        "{name} differs; {UPDATE}=1 writes it anew. Rendered:\n{text}"
    );
}

/// At most 80 columns, nothing that a terminal would act on.
fn assert_fits(text: &str) {
    for line in text.lines() {
        assert!(
            line.width() <= 80,
            "{} columns: {line}\nin:\n{text}",
            line.width()
        );
        assert!(line.chars().all(is_harmless), "{line:?}");
    }
}

#[test]
fn rich_report() {
    let text = render(&sample::rich(), &Style::default());
    assert_fits(&text);
    golden("rich.txt", &text);
}

#[test]
fn empty_report() {
    let mut report = sample::empty();
    report.verdict = crate::report::verdict::verdict(&report);
    let text = render(&report, &Style::default());
    assert_fits(&text);
    golden("empty.txt", &text);
}

#[test]
fn extreme_values_fit_and_keep_every_name() {
    let report = sample::extreme();
    let text = render(&report, &Style::default());
    assert_fits(&text);
    assert_fits(&render_interval(&report));
    let flat: String = text.split_whitespace().collect();
    for name in [
        "fifteen-chars-x",
        "\\x1b[2J\\x1b]0;owned\\x07",
        "日本語の名前",
        "\\u{202e}",
    ] {
        assert!(flat.contains(name), "{name} is not in\n{text}");
    }
    assert!(flat.contains("4294967295"), "tids stand in full");
}

#[test]
fn colour_adds_nothing_but_sequences() {
    let plain = render(&sample::rich(), &Style::default());
    let mut colour = render(
        &sample::rich(),
        &Style {
            color: true,
            ..Style::default()
        },
    );
    assert!(colour.starts_with("\x1b[1m"), "the verdict is bold");
    for code in ["\x1b[0m", "\x1b[1m", "\x1b[2m"] {
        colour = colour.replace(code, "");
    }
    assert_eq!(colour, plain);
}

#[test]
fn ten_thousand_threads_are_summed_up() {
    let mut report = sample::empty();
    for i in 0..10_000 {
        let wait = dist(&[(us(u64::from(i)), 1)]);
        report.threads.push(thread(1, 1 + i, "worker", wait));
    }
    report.threads[17].wait = dist(&[(ms(700), 1)]);
    report.ptys = (0..1_000).map(|i| pty(i, ("tmux", 1), ("sh", 2))).collect();
    let text = render(&report, &Style::default());
    assert_fits(&text);
    assert!(text.lines().count() < 120, "{text}");
    let (first, rest) = text
        .split_once("… and 9,988 more")
        .expect("the sum of the others");
    assert!(first.contains("700ms"), "the longest wait is shown");
    let left: u64 = (0..9_989u64).filter(|i| *i != 17).map(us).sum();
    assert!(
        rest.contains(&duration(left)),
        "{} not in {text}",
        duration(left)
    );
    assert!(text.contains("… and 994 more"), "{text}");
}

#[test]
fn not_measured_is_not_zero() {
    let mut report = sample::rich();
    let index = report.ptys.iter().position(|p| p.index == 4).unwrap();
    let before = render(&report, &Style::default());
    assert!(!before.contains("wait not measured"), "{before}");
    report.ptys.swap_remove(1 - index);
    for b in report
        .backends
        .iter_mut()
        .filter(|b| b.capability == "flush")
    {
        b.used = None;
    }
    let text = render(&report, &Style::default());
    assert_eq!(
        text.matches("kworker wait   not measured").count(),
        2,
        "{text}"
    );
}

#[test]
fn writes_stand_in_for_reads_out_of_sight() {
    let mut report = sample::rich();
    for p in &mut report.ptys {
        p.slave_reads = sample::no_io();
    }
    let text = render(&report, &Style::default());
    assert!(text.contains("input  write size"), "{text}");
}

#[test]
fn interval_is_a_line_and_a_remark() {
    let report = sample::rich();
    let text = render_interval(&report);
    assert_fits(&text);
    golden("interval.txt", &text);

    let mut quiet = sample::empty();
    quiet.threads = vec![thread(1, 1, "tmux: server", dist(&[(us(30), 50)]))];
    let text = render_interval(&quiet);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.contains("wait 30.0µs") && !text.contains("lost"),
        "{text}"
    );
    quiet.threads[0].relation = Relation::Peer;
    assert!(
        render_interval(&quiet).contains("wait      -"),
        "peers are not the target"
    );
}

/// Every text of a report, one after the other, made hostile: no view passes it on.
#[test]
fn no_text_of_a_report_reaches_a_terminal_raw() {
    const EVIL: &str = "\x1b]0;x\x07\u{9b}2J\r\n\u{202e}\u{200b}";
    fn leaves(value: &Value, path: &mut Vec<String>, found: &mut Vec<String>) {
        match value {
            Value::String(_) => found.push(format!("/{}", path.join("/"))),
            Value::Array(items) => {
                for (n, item) in items.iter().enumerate() {
                    path.push(n.to_string());
                    leaves(item, path, found);
                    path.pop();
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    path.push(name.clone());
                    leaves(field, path, found);
                    path.pop();
                }
            }
            _ => {}
        }
    }
    let mut rich = sample::rich();
    rich.limited = Some("not traced".into());
    let whole = serde_json::to_value(&rich).expect("JSON");
    let mut places = Vec::new();
    leaves(&whole, &mut Vec::new(), &mut places);
    let mut tried = 0;
    for place in &places {
        let mut value = whole.clone();
        *value.pointer_mut(place).expect("a leaf") = EVIL.into();
        // Causes, kinds and relations are words of ours.
        let Ok(mut report) = serde_json::from_value::<Report>(value) else {
            continue;
        };
        tried += 1;
        if !place.starts_with("/verdict") {
            report.verdict = crate::report::verdict::verdict(&report);
        }
        let mut json = Vec::new();
        crate::report::json::write_ndjson(&report, &mut json).expect("memory");
        let json = String::from_utf8(json).expect("UTF-8");
        for view in [
            render(&report, &Style::default()),
            render_interval(&report),
            json,
        ] {
            let mut raw = view.chars().filter(|c| *c != '\n' && !is_harmless(*c));
            assert_eq!(raw.next(), None, "{place}: {view}");
            assert!(
                !view.contains("2J\n"),
                "{place}: its newline is no line: {view}"
            );
        }
    }
    assert!(tried > 50, "{tried} of {} texts", places.len());
}
