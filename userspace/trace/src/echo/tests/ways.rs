//! Each kind of multiplexer, link by link.

use super::scripts::{BARE, KERNEL_ECHO, PHUX, PHUX_CHAIN, TMUX, TMUX_CHAIN};
use super::world::{BASE, World, lines};
use crate::echo::{Config, LinkKind};

fn one(script: &str, targets: &[&str]) -> String {
    let mut world = World::default();
    world.script(script, 0, "");
    let (chains, _) = world.run_until(targets, 3_000_000);
    assert_eq!(chains.len(), 1, "{chains:?}");
    world.text(&chains[0])
}

#[test]
fn a_key_through_tmux() {
    assert_eq!(one(TMUX, &["tmux"]), lines(TMUX_CHAIN));
}

#[test]
fn a_server_that_sleeps_before_it_passes_a_key_on() {
    let script = TMUX.replace(
        "14-16      tmux write pane.m 1",
        "13-13-14   tmux off nap
         14-14-14   tmux off nap
         14-16      tmux write pane.m 1",
    );
    assert_ne!(script, TMUX);
    let text = one(&script, &["tmux"]);
    assert!(text.contains("ClientRead tmux 7-12:"), "{text}");
}

#[test]
fn a_key_through_phux_and_all_its_threads() {
    assert_eq!(one(PHUX, &["phux", "client"]), lines(PHUX_CHAIN));
}

#[test]
fn a_server_that_waits_for_the_kernels_worker_in_a_read() {
    // A read of an emptied terminal waits for flush work that is under way, and is woken by a
    // kworker's end: that hands nothing on.
    let script = PHUX.replace(
        "90-95      phux send c 51",
        "82-84-86   phux off lock kw
         90-95      phux send c 51",
    );
    assert_ne!(script, PHUX);
    let expected = PHUX_CHAIN.replace(
        "ServerOutput phux 73-92: cpu 12 wait 7",
        "ServerOutput phux 73-92: cpu 8 wait 9 blocked 2",
    );
    assert_eq!(one(&script, &["phux", "client"]), lines(&expected));
}

#[test]
fn a_client_that_is_traced_after_its_server() {
    // Of the first keys the server's side alone is told.
    let key = |script: &mut String, of_client: bool| {
        for line in PHUX.lines() {
            let clients = line.split_whitespace().nth(1).unwrap_or_default();
            if of_client || !clients.starts_with("client") {
                *script += &format!("{line}\n");
            }
        }
    };
    let mut world = World::default();
    for n in 0..6 {
        let mut script = String::new();
        key(&mut script, n >= 3);
        world.script(&script, n * 1000, "");
    }
    let (chains, counts) = world.run_until(&["phux", "client"], 3_000_000);
    let ends: Vec<u64> = chains
        .iter()
        .map(|c| (c.begin + c.length_ns() - BASE) / 1000)
        .collect();
    // The sends of the first three, and the terminal of the others.
    assert_eq!(ends, [95, 1095, 2095, 3120, 4120, 5120]);
    assert_eq!((counts.echoed, counts.inexact), (6, 0));
    let last = chains.last().map(|c| c.links.len());
    assert_eq!(last, Some(lines(PHUX_CHAIN).lines().count() - 1));
}

#[test]
fn a_key_through_screen_whose_terminal_is_not_traced() {
    // Nobody is known to have written to the outer master: the flush work alone tells of the key.
    let script = TMUX.replace("0-2        term write outer.m 1", "");
    assert_eq!(one(&script, &["tmux"]), lines(TMUX_CHAIN));
}

#[test]
fn the_kernel_echoes() {
    assert_eq!(
        one(KERNEL_ECHO, &["tmux"]),
        lines(
            "1B echoed 1
            TerminalInputFlush kw 1-7: cpu 2 wait 4
            ClientRead tmux 7-12: cpu 2 wait 3
            ServerInput tmux 12-14: cpu 2
            MasterWrite tmux 14-15: cpu 1
            InputFlush kw 15-20: wait 5
            ChildWrite kw 20-22: cpu 2
            OutputFlush kw2 22-28: cpu 1 wait 5
            MasterRead tmux 28-33: cpu 2 wait 3
            ServerOutput tmux 33-35: cpu 2
            ClientWrite tmux 35-37: cpu 2"
        )
    );
}

#[test]
fn without_a_client_the_chain_is_from_master_to_master() {
    assert_eq!(
        one(BARE, &["term"]),
        lines(
            "1B echoed 1
            MasterWrite term 0-1: cpu 1
            InputFlush kw 1-7: cpu 2 wait 4
            ChildRead sh 7-11: cpu 2 wait 2
            Child sh 11-13: cpu 2
            ChildWrite sh 13-14: cpu 1
            OutputFlush kw 14-20: cpu 2 wait 4
            MasterRead term 20-24: cpu 2 wait 2"
        )
    );
}

#[test]
fn a_child_that_computes_sleeps_and_waits_before_it_answers() {
    let script = BARE.replace(
        "13-15      sh write pane.s 1",
        "100-900-950   sh off irq
         960-960-1000  sh off preempt
         2000-2001  sh write pane.s 1",
    );
    let script = script
        .replace("14-18-21", "2000-2005-2010")
        .replace("3-20-22 ", "3-2008-2009 ")
        .replace("23-24 ", "2011-2012 ");
    let text = one(&script, &["term"]);
    assert!(
        text.contains("Child sh 11-2000: cpu 1099 wait 90 blocked 800\n"),
        "{text}"
    );
}

#[test]
fn a_child_of_several_threads_and_processes() {
    // The one that reads hands over to a helper, and that to another process.
    let script = BARE.replace(
        "13-15      sh write pane.s 1",
        "0-12-13    sh/helper off task sh
         0-15-17    other off task sh/helper
         20-21      other write pane.s 1",
    );
    let script = script
        .replace(
            "14-18-21   kw flush pane.m by sh",
            "20-25-28 kw flush pane.m by other",
        )
        .replace("3-20-22 ", "3-27-29 ")
        .replace("23-24 ", "30-31 ");
    let text = one(&script, &["term"]);
    for link in [
        "Child sh 11-12: cpu 1\n",
        "Child sh/helper 12-15: cpu 2 wait 1\n",
        "Child other 15-20: cpu 3 wait 2\n",
        "ChildWrite other 20-20:\n",
    ] {
        assert!(text.contains(link), "{link}{text}");
    }
}

#[test]
fn a_client_that_is_not_traced_ends_where_the_server_sends() {
    // The client's own records are missing; the kernel tells who is at the other end.
    let mut world = World::default();
    for i in 0..3 {
        let script = PHUX.replace("off task client", "off irq");
        let script: Vec<&str> = script
            .lines()
            .filter(|l| {
                !l.split_whitespace()
                    .nth(1)
                    .is_some_and(|w| w.starts_with("client"))
            })
            .filter(|l| !l.contains("outer"))
            .collect();
        world.script(&script.join("\n"), i * 10_000, "");
    }
    for event in &mut world.events {
        if let crate::source::Event::Sock(sock) = event {
            sock.peer = 4242;
        }
    }
    let (chains, counts) = world.run_until(&["phux"], 3_000_000);
    assert_eq!((chains.len(), counts.echoed), (3, 3));
    let last = &chains[2];
    let kinds: Vec<LinkKind> = last.links.iter().map(|l| l.kind).collect();
    assert_eq!(
        kinds.first(),
        Some(&LinkKind::ServerReceive),
        "{}",
        world.text(last)
    );
    assert_eq!(
        kinds.last(),
        Some(&LinkKind::ServerOutput),
        "{}",
        world.text(last)
    );
}

#[test]
fn what_ran_instead_stands_at_the_link_and_sums_to_the_wait() {
    let mut world = World::default();
    world.script(PHUX, 0, "");
    let (chains, _) = world.run_until(&["phux", "client"], 3_000_000);
    for link in &chains[0].links {
        let blamed: u64 = link.ran_instead.iter().map(|c| c.ns).sum();
        assert_eq!(blamed, link.parts.run_queue_ns, "{link:?}");
        assert_eq!(link.parts.total_ns(), link.length_ns(), "{link:?}");
    }
    let lengths: u64 = chains[0].links.iter().map(|l| l.length_ns()).sum();
    assert_eq!(lengths, chains[0].length_ns());
    assert_eq!(chains[0].begin, BASE + 1000);
}

#[test]
fn an_event_loop_may_sleep_between_reading_a_key_and_writing_it() {
    let nap = |cause: &str| {
        let nap = format!("13-20014-20014 tmux off {cause}\n 20014-20016 tmux write pane.m 1");
        let script = TMUX
            .replace("14-16      tmux write pane.m 1", &nap)
            .replace(
                "15-20-24   kw flush pane.s",
                "20015-20020-20024 kw flush pane.s",
            );
        let end = script.find("18-60-62").expect("the answer");
        one(&script[..end], &["tmux"])
    };
    let timer = nap("irq");
    assert!(
        timer.starts_with("1B unread\nTerminalInputFlush"),
        "{timer}"
    );
    assert!(
        timer.contains("ServerInput tmux 12-20014: cpu 1 blocked 20001"),
        "{timer}"
    );
    let other = nap("task vi");
    assert!(
        other.starts_with("1B unread inexact\nTerminalInputFlush"),
        "{other}"
    );
}

/// The program sat in its read when tracing began, so that no record tells of it; and the kworker,
/// preempted by it, was still at work when it slept again.
#[test]
fn a_read_that_was_called_before_tracing_began_is_no_later_one() {
    let script = "
        0-60           term write pane.m 1
        1-5-90         kw flush pane.s by term
        0-7-9          sh off flush pane.s
        13-15          sh write pane.s 1
        14-18-21       kw2 flush pane.m by sh
        61-61-62       term off preempt
        63-64          term read pane.m 1
        50000-50002    term write pane.m 1
        50001-50005-50008 kw flush pane.s by term
        20-50007-50009 sh off flush pane.s
        16-50011       sh read pane.s 1
        50013-50015    sh write pane.s 1
        50014-50018-50021 kw flush pane.m by sh
        50003-50020-50022 term off flush pane.m
        50023-50024    term read pane.m 1
    ";
    let mut world = World::default();
    world.script(script, 0, "");
    let (chains, counts) = world.run_until(&["term"], 3_000_000);
    assert_eq!((counts.inputs, counts.echoed), (2, 2));
    let told: Vec<_> = chains.iter().map(|c| (c.length_ns(), c.inexact)).collect();
    assert_eq!(told, [(64_000, true), (24_000, false)]);
}

/// Hops of phux as they are beside [`PHUX`]: ids 1–4, pane 7, frame 3.
const HOPS: &str = "
    50  phux/writer hop 1 5 7 9
    72  phux/reader hop 2 1 7 4
    85  phux hop 3 1 7 3
    105 client hop 4 2 7 3
";

#[test]
fn hops_confirm_or_contradict() {
    let confirmed = |hops: &str| {
        let mut world = World::default();
        world.script(PHUX, 0, "");
        world.script(hops, 0, "");
        let mut follower = world.follower(&["phux", "client"], Config::default());
        let names = [
            "input__pty_write",
            "pty__read__size",
            "pump__frame__bytes",
            "vt_apply",
        ];
        for (id, name) in (1..).zip(names) {
            follower.hop_named(id, name);
        }
        let (chains, counts) = world.feed(&mut follower, 2_000_000);
        assert_eq!(
            counts.confirmed,
            u64::from(chains[0].confirmed == Some(true))
        );
        chains[0].confirmed
    };
    assert_eq!(confirmed(HOPS), Some(true));
    assert_eq!(confirmed(""), None);
    assert_eq!(
        confirmed(&HOPS.replace("hop 2 1 7", "hop 2 1 8")),
        Some(false),
        "another pane"
    );
    assert_eq!(
        confirmed(&HOPS.replace("hop 2 1 7", "hop 2 2 7")),
        Some(false),
        "another read"
    );
    assert_eq!(
        confirmed(&HOPS.replace("hop 4 2 7 3", "hop 4 2 7 2")),
        Some(false),
        "an older frame"
    );
    assert_eq!(
        confirmed(&HOPS.replace("85  phux", "96  phux")),
        Some(false),
        "sent later"
    );
}
