//! Several inputs at once: each has its own chain.

use super::scripts::{BARE, PHUX, PHUX_CHAIN, TMUX, TMUX_CHAIN};
use super::world::{World, lines};
use crate::echo::{Chain, Config, Counts, End};

fn run(script: &str, targets: &[&str]) -> (World, Vec<Chain>, Counts) {
    let mut world = World::default();
    world.script(script, 0, "");
    let (chains, counts) = world.run_until(targets, 3_000_000);
    (world, chains, counts)
}

/// Two keys, one after the other, into a program that reads both at once and answers once.
const TWO_KEYS: &str = "
    0-2        term write pane.m 1
    1-5-8      kw flush pane.s by term
    3-4        term write pane.m 1
    4-9-11     kw flush pane.s by term
    0-7-12     sh off flush pane.s
    13-14      sh read pane.s 2
    16-18      sh write pane.s 2
    17-20-23   kw flush pane.m by sh
    5-22-24    term off flush pane.m
    25-26      term read pane.m 2
";

#[test]
fn one_answer_to_two_keys_answers_both() {
    let (_, chains, _) = run(TWO_KEYS, &["term"]);
    let told: Vec<_> = chains
        .iter()
        .map(|c| (c.end, c.inexact, c.length_ns()))
        .collect();
    let both = End::Echoed { bytes: 2 };
    assert_eq!(told, [(both, false, 26_000), (both, false, 23_000)]);
}

#[test]
fn byte_positions_decide_which_read_took_which_key() {
    // Both keys are in the line discipline before the program reads the first.
    let script = "
        0-2        term write pane.m 1
        1-5-8      kw flush pane.s by term
        3-4        term write pane.m 1
        4-9-11     kw flush pane.s by term
        0-7-12     sh off flush pane.s
        13-14      sh read pane.s 1
        16-18      sh write pane.s 1
        17-20-23   kw flush pane.m by sh
        5-22-24    term off flush pane.m
        25-26      term read pane.m 1
        30-31      sh read pane.s 1
        36-38      sh write pane.s 1
        37-40-43   kw flush pane.m by sh
        27-42-44   term off flush pane.m
        45-46      term read pane.m 1
    ";
    let (_, chains, _) = run(script, &["term"]);
    let lengths: Vec<_> = chains.iter().map(|c| (c.length_ns(), c.inexact)).collect();
    assert_eq!(lengths, [(26_000, false), (43_000, false)]);
}

#[test]
fn a_pasted_burst_in_one_write_is_one_input() {
    let script = BARE
        .replace("term write pane.m 1", "term write pane.m 500")
        .replace("sh read pane.s 1", "sh read pane.s 100");
    let (_, chains, counts) = run(&script, &["term"]);
    assert_eq!((counts.inputs, counts.echoed), (1, 1));
    assert_eq!(chains[0].bytes, 500);
}

#[test]
fn two_keys_of_one_client_in_one_receive() {
    // The client sends twice; the server receives once and writes twice.
    let script = "
        0-1        client read outer.s 1
        2-5        client send c 30
        6-7        client read outer.s 1
        8-11       client send c 30
        1-4-12     phux off task client
        13-14      phux recv c 60
        20-22      phux write pane.m 1
        21-25-27   kw flush pane.s by phux
        30-32      phux write pane.m 1
        31-35-37   kw flush pane.s by phux
    ";
    let (world, chains, _) = run(script, &["phux", "client"]);
    let text: Vec<String> = chains.iter().map(|c| world.text(c)).collect();
    assert!(
        !chains[0].inexact && text[0].contains("ClientSend client 1-4:"),
        "{text:?}"
    );
    assert!(
        chains[1].inexact,
        "only the order tells which key the second one is"
    );
    assert!(text[1].contains("ClientSend client 7-11:"), "{text:?}");
}

#[test]
fn two_clients_each_with_its_own_key() {
    let mut world = World::default();
    world.script(PHUX, 0, "");
    // The second client's answer comes to the first one too, but after its own.
    let second = "
        1000-1002       term2 write outer2.m 1
        1001-1005-1008  kw flush outer2.s by term2
        0-1007-1010     client2 off flush outer2.s
        1011-1012       client2 read outer2.s 1
        1014-1020       client2 send c2 30
        96-1016-1022    phux off task client2
        1024-1025       phux recv c2 30
        121-1040-1045   phux/writer off task phux
        1046-1049       phux/writer write pane.m 1
        1047-1052-1056  kw flush pane.s by phux/writer
        63-1055-1058    cat off flush pane.s
        1059-1060       cat read pane.s 1
        1060-1062       cat write pane.s 1
        1061-1064-1068  kw flush pane.m by cat
        75-1067-1070    phux/reader off flush pane.m
        1070-1071       phux/reader read pane.m 1
        1042-1073-1080  phux off task phux/reader
        1090-1095       phux send c2 51
        1096-1098       phux send c 51
        1021-1092-1099  client2 off task phux
        1100-1101       client2 recv c2 51
        1115-1120       client2 write outer2.s 7
    ";
    world.script(second, 0, "");
    let (chains, counts) = world.run_until(&["phux", "client", "client2"], 3_000_000);
    assert_eq!((counts.inputs, counts.echoed, counts.inexact), (2, 2, 0));
    assert_eq!(world.text(&chains[0]), lines(PHUX_CHAIN));
    let text = world.text(&chains[1]);
    assert!(text.contains("ClientRead client2 1007-1012"), "{text}");
    assert!(
        text.ends_with("ClientWrite client2 1101-1120: cpu 19\n"),
        "{text}"
    );
}

#[test]
fn two_panes_of_one_server_interleaved() {
    let mut world = World::default();
    // A key into the other pane, while the program of the first one still thinks.
    let other = "
        33-35      term write outer.m 1
        34-36-38   kw flush outer.s by term
        40-41      tmux read outer.s 1
        42-44      tmux write other.m 1
        43-45-47   kw flush other.s by tmux
        0-46-48    sh off flush other.s
        49-50      sh read other.s 1
        80-82      sh write other.s 1
        81-84-86   kw flush other.m by sh
        76-85-87   tmux off flush other.m
        88-89      tmux read other.m 1
        90-92      tmux write outer.s 3
    ";
    world.script(
        &TMUX.replace(
            "18-60-62   tmux off flush pane.m",
            "18-37-39 tmux off flush outer.s\n45-60-62 tmux off flush pane.m",
        ),
        0,
        "",
    );
    world.script(other, 0, "");
    let (chains, counts) = world.run_until(&["tmux"], 3_000_000);
    assert_eq!((counts.echoed, counts.inexact), (2, 0), "{chains:?}");
    let text = world.text(&chains[0]);
    assert_eq!(text, lines(TMUX_CHAIN));
    let text = world.text(&chains[1]);
    assert!(text.contains("Child sh 50-80"), "{text}");
    assert!(text.ends_with("ClientWrite tmux 90-92: cpu 2\n"), "{text}");
}

#[test]
fn a_flood_in_another_pane_is_none_of_its_business() {
    let mut flood = String::new();
    for i in 0..40 {
        let t = i * 2;
        flood += &format!(
            "{}-{} yes write flood.s 4000\n{}-{}-{} kw3 flush flood.m by yes\n",
            t,
            t + 1,
            t,
            t + 1,
            t + 1
        );
    }
    flood += "26-27 tmux read flood.m 4095\n67-68 tmux read flood.m 4095\n";
    let mut world = World::default();
    world.script(TMUX, 0, "");
    world.script(&flood, 0, "");
    let (chains, counts) = world.run_until(&["tmux"], 3_000_000);
    assert_eq!((counts.inputs, counts.inexact), (1, 0));
    assert_eq!(world.text(&chains[0]), lines(TMUX_CHAIN));
}

#[test]
fn a_flood_in_the_same_pane_is_told_to_be_inexact() {
    let script = TMUX.replace(
        "40-43      vi write log.s 1       # a write that is none of this PTY's",
        "40-43      yes write pane.s 4000
         41-44-45   kw flush pane.m by yes",
    );
    let (_, chains, _) = run(&script, &["tmux"]);
    assert!(chains[0].inexact, "{chains:?}");
    // The first read has the flood's bytes only: the answer is not shown.
    assert_eq!(chains[0].end, End::Undelivered);
    let more = script + "80-81 tmux read pane.m 4000\n 85-86 tmux write outer.s 4000\n";
    let (_, chains, _) = run(&more, &["tmux"]);
    assert_eq!(
        (chains[0].end, chains[0].inexact),
        (End::Echoed { bytes: 4 }, true)
    );
}

#[test]
fn a_thread_that_was_awake_is_found_and_told_to_be_inexact() {
    // Main is busy with something else when the reader has the answer: nobody wakes it.
    let teach = "
        1-5-6      phux off task phux/reader   # whom the reader wakes, as a rule
    ";
    let script = PHUX.replace("42-73-80   phux off task phux/reader\n", "");
    let mut world = World::default();
    world.script(teach, 0, "");
    world.script(&script, 1000, "");
    let (chains, counts) = world.run_until(&["phux", "client"], 3_000_000);
    assert_eq!((counts.echoed, counts.inexact), (1, 1), "{chains:?}");
    let text = world.text(&chains[0]);
    assert!(text.contains("ServerOutput phux 1071-1092"), "{text}");
}

#[test]
fn a_terminal_of_its_own_makes_no_difference_to_who_asks() {
    // Two scripts with nothing in common, under one follower.
    let mut world = World::default();
    world.script(TMUX, 0, "A");
    world.script(PHUX, 5, "B");
    let mut follower = world.follower(&["tmuxA", "phuxB", "clientB"], Config::default());
    let (chains, counts) = world.feed(&mut follower, 3_000_000);
    assert_eq!((counts.inputs, counts.echoed, chains.len()), (2, 2, 2));
}
