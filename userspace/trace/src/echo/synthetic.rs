//! Chains made by hand, for tests: a quiet machine's, and what can go wrong with one.

use super::model::{Actor, BlockedOn, Chain, End, Link, LinkKind, Parts, Role};
use super::rows::Names;
use crate::report::model::Cgroup;
use crate::source::event::{Placement, ShortCulprit};
use crate::stats::{PtyId, SchedClass};

/// `n` µs in ns.
pub(crate) const fn us(n: u64) -> u64 {
    n * 1_000
}

/// `n` ms in ns.
pub(crate) const fn ms(n: u64) -> u64 {
    n * 1_000_000
}

/// The way through a multiplexer with a client of its own.
pub(crate) const WAY: [LinkKind; 13] = [
    LinkKind::ClientRead,
    LinkKind::ClientSend,
    LinkKind::ServerReceive,
    LinkKind::ServerInput,
    LinkKind::InputFlush,
    LinkKind::ChildRead,
    LinkKind::Child,
    LinkKind::ChildWrite,
    LinkKind::OutputFlush,
    LinkKind::MasterRead,
    LinkKind::ServerOutput,
    LinkKind::ClientReceive,
    LinkKind::ClientWrite,
];

/// Pids of the players.
pub(crate) const CLIENT: u32 = 90;
pub(crate) const SERVER: u32 = 100;
pub(crate) const CHILD: u32 = 200;
pub(crate) const KWORKER: u32 = 311;
/// Cgroups: of the session, of a build, of one with a quota.
pub(crate) const SESSION: u64 = 11;
pub(crate) const BUILD: u64 = 12;
pub(crate) const CAPPED: u64 = 13;
/// One that is light.
pub(crate) const LIGHT: u64 = 14;

/// What the numbers of these chains are called.
pub(crate) struct Known;

impl Names for Known {
    fn thread(&self, _pid: u32, tid: u32) -> String {
        let name = match tid {
            CLIENT => "tmux: client",
            SERVER => "tmux: server",
            CHILD => "bash",
            KWORKER => "kworker/u8:2",
            _ => "",
        };
        name.to_owned()
    }

    fn cgroup(&self, id: u64) -> Option<Cgroup> {
        let (path, weight, quota_us) = match id {
            1 => ("/", None, None),
            SESSION => ("/user.slice/user-1000.slice/session-3.scope", None, None),
            BUILD => ("/system.slice/build.service", Some(100), None),
            CAPPED => ("/system.slice/mux.service", Some(100), Some(20_000)),
            LIGHT => ("/system.slice/mux-light.service", Some(10), None),
            _ => return None,
        };
        Some(Cgroup {
            id,
            path: path.into(),
            version_1: false,
            weight,
            weights: path
                .split('/')
                .filter(|part| !part.is_empty() && weight.is_some())
                .map(|part| {
                    if part.ends_with(".service") {
                        weight.unwrap_or(100)
                    } else {
                        100
                    }
                })
                .collect(),
            quota_us,
            period_us: quota_us.map(|_| 100_000),
            quota_path: quota_us.map(|_| path.to_owned()),
            cpus: None,
        })
    }

    fn unix_offset_ns(&self) -> i128 {
        1_800_000_000_000_000_000
    }
}

pub(crate) fn other(nice: i8) -> SchedClass {
    SchedClass {
        policy: 0,
        nice,
        rt_priority: 0,
    }
}

pub(crate) fn idle_class() -> SchedClass {
    SchedClass {
        policy: 5,
        nice: 0,
        rt_priority: 0,
    }
}

pub(crate) fn place(class: SchedClass, cgroup: u64) -> Placement {
    Placement {
        class,
        cgroup,
        slice_us: 2_800,
        uclamp: (0, 1024),
        autogroup_nice: None,
    }
}

/// Who had the CPU.
pub(crate) fn rival(name: &str, pid: u32, class: SchedClass, cgroup: u64) -> ShortCulprit {
    ShortCulprit {
        name: name.into(),
        pid,
        own: false,
        ns: 0,
        class,
        cgroup,
    }
}

/// Chains of one session, one after the other.
pub(crate) struct Population {
    seed: u64,
    id: u64,
    now: u64,
}

impl Population {
    /// A machine where nothing is wrong: echoes of 0.3 to 0.7 ms.
    pub(crate) fn quiet(seed: u64) -> Population {
        Population {
            seed: seed.wrapping_mul(0xd134_2543_de82_ef95),
            id: 0,
            now: ms(1_000),
        }
    }

    /// A number from `from` up to `until`.
    pub(crate) fn roll(&mut self, from: u64, until: u64) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let bits = self.seed >> 33;
        from + bits % (until - from).max(1)
    }

    pub(crate) fn next(&mut self) -> Chain {
        self.id += 1;
        self.now += ms(100);
        let mut links = Vec::new();
        for kind in WAY {
            let parts = Parts {
                on_cpu_ns: self.roll(us(3), us(30)),
                run_queue_ns: match kind {
                    LinkKind::ClientSend | LinkKind::Child | LinkKind::ServerInput => 0,
                    _ => self.roll(us(3), us(30)),
                },
                ..Parts::default()
            };
            links.push(link(kind, parts));
        }
        let mut chain = Chain {
            id: self.id,
            pty: PtyId {
                devpts: 28,
                index: 3,
            },
            bytes: 1,
            begin: self.now,
            end: End::Echoed { bytes: 1 },
            links,
            confirmed: None,
            inexact: false,
        };
        lay(&mut chain);
        chain
    }

    /// Lets a link wait for a CPU while these ran, each for about as long.
    pub(crate) fn wait(&mut self, chain: &mut Chain, kind: LinkKind, ns: u64, names: &[&str]) {
        let rivals: Vec<ShortCulprit> = names
            .iter()
            .zip(15_102..)
            .map(|(name, pid)| rival(name, pid, other(0), SESSION))
            .collect();
        self.wait_for(chain, kind, ns, &rivals);
    }

    pub(crate) fn wait_for(
        &mut self,
        chain: &mut Chain,
        kind: LinkKind,
        ns: u64,
        rivals: &[ShortCulprit],
    ) {
        change(chain, kind, |l| {
            l.parts.run_queue_ns += ns;
            for rival in rivals {
                let ns = ns / rivals.len() as u64;
                l.ran_instead.push(ShortCulprit {
                    ns,
                    ..rival.clone()
                });
            }
        });
    }

    pub(crate) fn block(&mut self, chain: &mut Chain, kind: LinkKind, on: BlockedOn, ns: u64) {
        change(chain, kind, |l| {
            l.parts.blocked_ns += ns;
            l.blocked_on.push((on, ns));
            l.major_faults += u32::from(on == BlockedOn::PageFault);
        });
    }

    pub(crate) fn burn(&mut self, chain: &mut Chain, kind: LinkKind, ns: u64) {
        change(chain, kind, |l| l.parts.on_cpu_ns += ns);
    }

    pub(crate) fn throttle(&mut self, chain: &mut Chain, kind: LinkKind, ns: u64) {
        change(chain, kind, |l| l.parts.throttled_ns += ns);
    }

    pub(crate) fn interrupt(&mut self, chain: &mut Chain, kind: LinkKind, ns: u64) {
        change(chain, kind, |l| l.parts.interrupt_ns += ns);
    }
}

/// Changes the scheduling of everyone in one role.
pub(crate) fn schedule(chain: &mut Chain, role: Role, place: Placement) {
    for l in chain.links.iter_mut().filter(|l| l.kind.role() == role) {
        l.actor.place = place;
    }
}

/// Changes one link, and moves those behind it.
pub(crate) fn change(chain: &mut Chain, kind: LinkKind, with: impl FnOnce(&mut Link)) {
    let link = chain.links.iter_mut().find(|l| l.kind == kind);
    with(link.expect("a link of this kind"));
    lay(chain);
}

/// Ends a chain behind the first link of this kind.
pub(crate) fn stop(chain: &mut Chain, kind: LinkKind, end: End) {
    let at = chain.links.iter().position(|l| l.kind == kind);
    chain.links.truncate(at.expect("a link of this kind") + 1);
    chain.end = end;
}

fn link(kind: LinkKind, parts: Parts) -> Link {
    let id = match kind.role() {
        Role::Client => CLIENT,
        Role::Server => SERVER,
        Role::Child => CHILD,
        Role::FlushWorker => KWORKER,
    };
    let kworker = id == KWORKER;
    Link {
        kind,
        actor: Actor {
            pid: id,
            tid: id,
            kworker,
            place: place(other(0), if kworker { 1 } else { SESSION }),
        },
        from: 0,
        until: 0,
        parts,
        ran_instead: vec![],
        blocked_on: vec![],
        major_faults: 0,
    }
}

fn lay(chain: &mut Chain) {
    let mut at = chain.begin;
    for l in &mut chain.links {
        l.from = at;
        at += l.parts.total_ns();
        l.until = at;
    }
}
