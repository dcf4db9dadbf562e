//! The same session as [`super::sample::rich`] with its echoes followed.

use super::model::{Cgroup, Report};
use super::{sample, verdict};
use crate::echo::synthetic::{CHILD, CLIENT, KWORKER, Known, Population, SERVER, ms, other, rival};
use crate::echo::{BlockedOn, Chain, End, LinkKind, Names, Summary};

/// Cgroup of the compile.
const COMPILE: u64 = 21;

struct Session;

impl Names for Session {
    fn thread(&self, pid: u32, tid: u32) -> String {
        let known = match tid {
            14420 => CLIENT,
            14407 => SERVER,
            14410 => CHILD,
            other => other,
        };
        Known.thread(pid, known)
    }

    fn cgroup(&self, id: u64) -> Option<Cgroup> {
        if id != COMPILE {
            return Known.cgroup(id);
        }
        Some(Cgroup {
            id,
            path: "/user.slice/user-1000.slice/session-7.scope".into(),
            ..Cgroup::default()
        })
    }

    fn unix_offset_ns(&self) -> i128 {
        1_800_000_612_000_000_000
    }
}

/// 400 keystrokes; one in thirty behind the compile, two that a slow disk held up, a password.
pub(crate) fn rich() -> Report {
    let mut report = sample::rich();
    let mut population = Population::quiet(11);
    let mut summary = Summary::new(Some(ms(10)));
    let compile = [
        rival("rustc", 15102, other(0), COMPILE),
        rival("cc1plus", 15020, other(0), COMPILE),
    ];
    for i in 0..400u64 {
        let mut c = population.next();
        if i % 30 == 0 {
            let wait = population.roll(ms(9), ms(13));
            population.wait_for(&mut c, LinkKind::MasterRead, wait, &compile);
            population.wait_for(&mut c, LinkKind::OutputFlush, ms(1), &compile[..1]);
            population.burn(&mut c, LinkKind::Child, ms(1));
        }
        if i % 170 == 169 {
            let fsync = BlockedOn::Disk(libc::SYS_fsync as i32);
            population.block(&mut c, LinkKind::ServerOutput, fsync, ms(11));
        }
        if i >= 392 {
            crate::echo::synthetic::stop(&mut c, LinkKind::ChildRead, End::Silent);
        }
        summary.add(&renamed(c));
    }
    report.echoes = Some(summary.rows(&Session));
    report.slow_echoes = summary.slow_rows(&Session);
    report.verdict = verdict::verdict(&report);
    report
}

/// With the pids of this session.
fn renamed(mut chain: Chain) -> Chain {
    for link in &mut chain.links {
        let id = match link.actor.tid {
            CLIENT => 14420,
            SERVER => 14407,
            CHILD => 14410,
            _ => KWORKER,
        };
        link.actor.pid = id;
        link.actor.tid = id;
    }
    chain
}
