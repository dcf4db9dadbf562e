//! Whatever comes, in whatever order and number.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::scripts::{BARE, KERNEL_ECHO, PHUX, TMUX};
use super::world::{BASE, World};
use crate::echo::{Chain, Config, Follower};
use crate::source::Event;
use crate::source::event::{At, Flush, Io, Off, ShortBlame, Sock, Wake};
use crate::stats::{PtyId, Side};

const SCRIPTS: [(&str, &[&str]); 4] = [
    (TMUX, &["tmux"]),
    (PHUX, &["phux", "client"]),
    (KERNEL_ECHO, &["tmux"]),
    (BARE, &["term"]),
];

fn assert_sound(chain: &Chain) {
    let mut at = chain.begin;
    for link in &chain.links {
        assert_eq!(link.from, at, "{chain:?}");
        assert!(link.until >= link.from, "{chain:?}");
        assert_eq!(link.parts.total_ns(), link.length_ns(), "{link:?}");
        let blamed: u64 = link.ran_instead.iter().map(|c| c.ns).sum();
        assert!(blamed <= link.parts.run_queue_ns, "{link:?}");
        let slept: u64 = link.blocked_on.iter().map(|(_, ns)| ns).sum();
        assert_eq!(slept, link.parts.blocked_ns, "{link:?}");
        at = link.until;
    }
    let links: u64 = chain.links.iter().map(|l| l.length_ns()).sum();
    assert_eq!(links, chain.length_ns());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Scripts that have nothing to do with each other, in one run: the chains are those of each
    /// alone, whenever the follower is pulled and in whatever order the rings give their events.
    #[test]
    fn independent_scripts_are_not_mixed_up(
        picks in prop::collection::vec((0usize..4, 0u64..300), 1..12),
        pulls in prop::collection::vec(0u64..2_000, 0..30),
        shuffle in any::<u64>(),
    ) {
        let mut world = World::default();
        let mut expected = Vec::new();
        let mut targets = BTreeSet::new();
        for (i, (pick, after)) in picks.iter().enumerate() {
            let (script, names) = SCRIPTS[*pick];
            let mut alone = World::default();
            alone.script(script, *after, "");
            let (chains, _) = alone.run_until(names, 3_000_000);
            expected.extend(chains.iter().map(|c| alone.text(c)));
            world.script(script, *after, &format!("_{i}"));
            targets.extend(names.iter().map(|n| format!("{n}_{i}")));
        }
        let names: Vec<&str> = targets.iter().map(String::as_str).collect();
        let mut follower = world.follower(&names, Config::default());
        let mut events = world.events.clone();
        // Any order before the pull of their time.
        events.sort_by_key(|e| e.ts().wrapping_mul(shuffle | 1));
        let mut pulls: Vec<u64> = pulls.iter().map(|us| BASE + us * 1000).collect();
        pulls.sort_unstable();
        let mut chains = Vec::new();
        for pull in pulls {
            let (now, later): (Vec<Event>, Vec<Event>) = events.into_iter().partition(|e| e.ts() <= pull);
            now.into_iter().for_each(|e| follower.push(e));
            chains.extend(follower.settle(pull));
            events = later;
        }
        events.into_iter().for_each(|e| follower.push(e));
        let (last, counts) = follower.finish(BASE + 3_000_000_000);
        chains.extend(last);
        chains.iter().for_each(assert_sound);
        prop_assert_eq!(counts.events_dropped, 0);
        let strip = |text: String| {
            let mut out = text;
            for i in 0..picks.len() {
                out = out.replace(&format!("_{i}/"), "/").replace(&format!("_{i} "), " ");
            }
            out
        };
        let mut found: Vec<String> = chains.iter().map(|c| strip(world.text(c))).collect();
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
    }

    /// Nonsense of every kind: nothing panics, every chain is sound, every input is counted.
    #[test]
    fn nonsense_gives_sound_chains(raw in prop::collection::vec(any::<[u8; 12]>(), 0..400)) {
        let mut follower = Follower::new(Config { limit_ns: 50_000_000 });
        follower.targets(&BTreeSet::from([1, 2]));
        let mut chains = Vec::new();
        for (i, b) in raw.iter().enumerate() {
            follower.push(nonsense(b));
            if i.is_multiple_of(50) {
                chains.extend(follower.settle(BASE + 1_000_000 * u64::from(b[0])));
            }
        }
        let (last, counts) = follower.finish(BASE + 400_000_000);
        chains.extend(last);
        chains.iter().for_each(assert_sound);
        prop_assert_eq!(chains.len() as u64 + counts.dropped, counts.inputs);
        let ends = counts.echoed + counts.silent + counts.unread + counts.late
            + counts.undelivered + counts.lost + counts.open;
        prop_assert_eq!(ends + counts.dropped, counts.inputs);
    }
}

fn nonsense(b: &[u8; 12]) -> Event {
    let n = |i: usize| u64::from(b[i]);
    let ts = BASE + n(0) * 1_000_000 + n(1) * 1000;
    let (pid, tid) = (1 + u32::from(b[2] % 3), 1 + u32::from(b[2] % 6));
    let at = At {
        ts,
        pid,
        tid,
        cpu: 0,
    };
    let pty = PtyId {
        devpts: 1,
        index: u32::from(b[3] % 3),
    };
    let side = if b[4].is_multiple_of(2) {
        Side::Master
    } else {
        Side::Slave
    };
    match b[5] % 4 {
        0 => Event::Io(Io {
            at,
            pty,
            side,
            write: b[6].is_multiple_of(2),
            result: i64::from(b[7]) - 8,
            duration_ns: n(8) * 100_000,
        }),
        1 => Event::Flush(Flush {
            at: At {
                tid: tid + 100,
                ..at
            },
            pty,
            towards: side,
            queued_by: pid,
            queued_by_tid: tid + u32::from(b[6] % 2) * 100,
            queued: ts.saturating_sub(n(7) * 100_000),
            started: ts.saturating_sub(n(8) * 50_000),
            mute: b[9].is_multiple_of(2),
            place: Default::default(),
            blame: ShortBlame::default(),
        }),
        2 => Event::Sock(Sock {
            at,
            conn: n(3) % 3,
            send: b[6].is_multiple_of(2),
            result: i64::from(b[7]) - 8,
            duration_ns: n(8) * 100_000,
            peer: u32::from(b[9] % 4),
        }),
        _ => Event::Off(Box::new(Off {
            at,
            left: ts.saturating_sub(n(7) * 100_000) * u64::from(!b[10].is_multiple_of(4)),
            runnable: ts.saturating_sub(n(8) * 50_000),
            throttled_ns: n(9) * 10_000,
            interrupt_ns: n(10) * 10_000,
            wake: match b[6] % 5 {
                0 => Wake::Preempted,
                1 => Wake::Interrupt,
                2 => Wake::New,
                _ => Wake::Task {
                    pid: 1 + u32::from(b[9] % 3),
                    tid: 1 + u32::from(b[9] % 6),
                },
            },
            woken_by_flush: (b[11].is_multiple_of(3)).then_some((pty, side)),
            ..Off::default()
        })),
    }
}

#[test]
fn memory_is_bounded_and_what_is_left_out_is_counted() {
    let limit_ns = 100_000_000;
    let mut follower = Follower::new(Config { limit_ns });
    follower.targets(&BTreeSet::from([1]));
    let mut now = BASE;
    // 200,000 inputs a second that nobody reads.
    for round in 0..10 {
        for i in 0..20_000u32 {
            now += 5_000;
            follower.push(Event::Io(Io {
                at: At {
                    ts: now,
                    pid: 1,
                    tid: 1 + i % 7,
                    cpu: 0,
                },
                pty: PtyId {
                    devpts: 1,
                    index: i % 5000,
                },
                side: Side::Master,
                write: true,
                result: 1,
                duration_ns: 100,
            }));
        }
        let _ = follower.settle(now);
        assert!(
            follower.records() <= 200_000,
            "{round}: {}",
            follower.records()
        );
    }
    let counts = follower.counts().clone();
    assert_eq!(
        counts.inputs,
        10 * 20_000 - 200,
        "but for the last millisecond"
    );
    assert!(counts.dropped > 0, "{counts:?}");
    let (_, counts) = follower.finish(now);
    let ends = counts.unread + counts.lost + counts.open;
    assert_eq!(ends + counts.dropped, counts.inputs);
    assert_eq!(counts.inputs, 200_000);
}

#[test]
fn nobody_pulls() {
    let mut follower = Follower::new(Config::default());
    follower.targets(&BTreeSet::from([1]));
    for i in 0..300_000 {
        follower.push(nonsense(&[(i % 200) as u8; 12]));
    }
    assert!(follower.counts().events_dropped > 30_000);
}
