//! Chains that do not end with an echo: each by its rule.

use super::scripts::{BARE, PHUX, TMUX};
use super::world::{BASE, World};
use crate::echo::{Chain, Config, Counts, End, LinkKind};

/// The first lines of a script, up to and without the one that holds `before`.
fn until<'a>(script: &'a str, before: &str) -> &'a str {
    script.find(before).map_or(script, |at| &script[..at])
}

fn run(script: &str, targets: &[&str], us: u64) -> (Vec<Chain>, Counts) {
    let mut world = World::default();
    world.script(script, 0, "");
    world.run_until(targets, us)
}

fn end(script: &str, targets: &[&str]) -> (End, LinkKind, u64) {
    let (chains, _) = run(script, targets, 3_000_000);
    assert_eq!(chains.len(), 1, "{chains:?}");
    let last = chains[0].links.last().expect("links");
    assert_eq!(last.parts.total_ns(), last.length_ns());
    (chains[0].end, last.kind, last.until - BASE)
}

/// The limit after the write to the master, ns after the script's begin.
const LIMIT: u64 = 1_000_000_000;

#[test]
fn a_busy_program_leaves_it_unread() {
    let script = until(BARE, "10-11      sh read").replace("0-7-9      sh off flush pane.s", "");
    assert_eq!(
        end(&script, &["term"]),
        (End::Unread, LinkKind::ChildRead, LIMIT)
    );
}

#[test]
fn a_password_prompt_is_silent() {
    let script = until(BARE, "0-7-9").replace("by term", "by term mute");
    let (end, last, _) = end(&script, &["term"]);
    assert_eq!((end, last), (End::Silent, LinkKind::InputFlush));
}

#[test]
fn a_program_that_comes_back_for_more_is_silent() {
    let script = until(BARE, "13-15").to_owned()
        + "  500-502     term write pane.m 1
             501-505-507 kw flush pane.s by term
             20-506-508  sh off flush pane.s
             509-510     sh read pane.s 1
             511-512     sh write pane.s 1
             511-515-516 kw flush pane.m by sh
             503-516-517 term off flush pane.m
             518-519     term read pane.m 1";
    let (chains, counts) = run(&script, &["term"], 3_000_000);
    let ends: Vec<End> = chains.iter().map(|c| c.end).collect();
    assert_eq!(ends, [End::Silent, End::Echoed { bytes: 1 }]);
    assert_eq!((counts.inputs, counts.silent, counts.echoed), (2, 1, 1));
}

#[test]
fn a_program_that_does_not_answer_is_late() {
    assert_eq!(
        end(until(BARE, "13-15"), &["term"]),
        (End::Late, LinkKind::Child, LIMIT)
    );
}

#[test]
fn an_answer_after_the_limit_is_late_too() {
    let script = until(BARE, "13-15").to_owned()
        + "  1000001-1000002         sh write pane.s 1
             1000001-1000003-1000004 kw flush pane.m by sh
             3-1000004-1000005       term off flush pane.m
             1000006-1000007         term read pane.m 1";
    assert_eq!(end(&script, &["term"]).0, End::Late);
    let just = script.replace("100000", "99999");
    assert_eq!(end(&just, &["term"]).0, End::Echoed { bytes: 1 });
}

#[test]
fn an_answer_that_nobody_shows_is_undelivered() {
    assert_eq!(
        end(until(TMUX, "64-66"), &["tmux"]),
        (End::Undelivered, LinkKind::MasterRead, LIMIT + 14_000)
    );
    assert_eq!(
        end(until(TMUX, "70-75"), &["tmux"]),
        (End::Undelivered, LinkKind::ServerOutput, LIMIT + 14_000)
    );
}

#[test]
fn a_client_that_does_not_read_or_does_not_write() {
    let reads = until(PHUX, "21-92-99");
    assert_eq!(
        end(reads, &["phux", "client"]),
        (End::Undelivered, LinkKind::ClientReceive, LIMIT + 46_000)
    );
    let writes = until(PHUX, "115-120");
    assert_eq!(
        end(writes, &["phux", "client"]),
        (End::Undelivered, LinkKind::ClientWrite, LIMIT + 46_000)
    );
}

#[test]
fn a_run_that_ends_first_leaves_it_open() {
    let (chains, counts) = run(until(BARE, "13-15"), &["term"], 100);
    assert_eq!((chains.len(), counts.open), (1, 1));
    assert_eq!(chains[0].end, End::Open);
    let last = chains[0].links.last().expect("links");
    assert_eq!(last.until, BASE + 100_000, "no longer than the run");
}

#[test]
fn lost_records_are_lost_chains_or_inexact_ones_never_wrong_ends() {
    let ended = |script: &str, from: u64, until: u64| {
        let mut world = World::default();
        world.script(script, 0, "");
        let mut follower = world.follower(&["term"], Config::default());
        follower.lost(BASE + from, BASE + until);
        let (chains, counts) = world.feed(&mut follower, 3_000_000);
        assert_eq!(counts.inputs, 1);
        (chains[0].end, chains[0].inexact)
    };
    // The program's write was lost.
    let script = BARE.replace("13-15      sh write pane.s 1", "");
    assert_eq!(ended(&script, 12_000, 16_000).0, End::Lost);
    assert_eq!(
        ended(BARE, 12_000, 16_000),
        (End::Echoed { bytes: 1 }, true)
    );
    assert_eq!(
        ended(BARE, 60_000, 70_000),
        (End::Echoed { bytes: 1 }, false)
    );
}

#[test]
fn what_lost_records_hide_is_not_known_to_be_cpu_time() {
    let mut world = World::default();
    world.script(TMUX, 0, "");
    let mut follower = world.follower(&["tmux"], Config::default());
    follower.lost(BASE + 35_000, BASE + 45_000);
    let (chains, _) = world.feed(&mut follower, 3_000_000);
    let text = world.text(&chains[0]);
    assert!(text.contains("Child vi 32-50: cpu 8 ? 10\n"), "{text}");
}
