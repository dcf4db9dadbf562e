//! Each cause, and what looks like it, as populations of chains.

use super::super::verdict;
use crate::echo::synthetic::{
    BUILD, CAPPED, CHILD, CLIENT, Known, LIGHT, Population, SERVER, SESSION, change, idle_class,
    ms, other, place, rival, schedule,
};
use crate::echo::{BlockedOn, Chain, LinkKind, Role, Summary};
use crate::report::model::{Cause, PtyRow, Relation, Report, Verdict};
use crate::report::sample;
use crate::source::event::ShortCulprit;

use LinkKind::{
    Child, ChildRead, ChildWrite, ClientReceive, ClientWrite, InputFlush, MasterRead, OutputFlush,
    ServerInput, ServerOutput, ServerReceive,
};

pub(super) const WRITE: BlockedOn = BlockedOn::Syscall(libc::SYS_write as i32);
pub(super) const SENDMSG: BlockedOn = BlockedOn::Syscall(libc::SYS_sendmsg as i32);
pub(super) const EPOLL: BlockedOn = BlockedOn::Syscall(libc::SYS_epoll_wait as i32);
pub(super) const FUTEX: BlockedOn = BlockedOn::Syscall(libc::SYS_futex as i32);
pub(super) const FSYNC: BlockedOn = BlockedOn::Disk(libc::SYS_fsync as i32);
pub(super) const DISK_WRITE: BlockedOn = BlockedOn::Disk(libc::SYS_write as i32);
pub(super) const DISK_POLL: BlockedOn = BlockedOn::Disk(libc::SYS_poll as i32);
pub(super) const DISK_READ: BlockedOn = BlockedOn::Disk(libc::SYS_read as i32);

/// How often it happens.
#[derive(Debug, Clone, Copy)]
pub(super) enum Often {
    /// To one echo in so many.
    OneIn(u64),
    Always,
}

/// How large it is, how often, and how loud the rest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) ns: u64,
    pub(super) often: Often,
    pub(super) echoes: u64,
    /// At most so much of anything else in a slow echo, ns.
    pub(super) noise: u64,
    pub(super) seed: u64,
}

pub(super) const USUAL: Size = Size {
    ns: ms(12),
    often: Often::OneIn(20),
    echoes: 1000,
    noise: ms(2),
    seed: 1,
};

/// A report of a session whose slow echoes have been through `harm`.
pub(super) fn report(size: Size, mut harm: impl FnMut(&mut Population, &mut Chain, u64)) -> Report {
    let mut report = sample::empty();
    for (pid, name, relation) in [
        (SERVER, "tmux: server", Relation::Target),
        (CLIENT, "tmux: client", Relation::Target),
        (CHILD, "bash", Relation::Peer),
    ] {
        report
            .target
            .processes
            .push(sample::process(pid, name, "ada", relation));
    }
    report.ptys = vec![pane(3, "bash", CHILD)];
    let mut population = Population::quiet(size.seed);
    let mut summary = Summary::new(None);
    for i in 0..size.echoes {
        let mut chain = population.next();
        let hit = match size.often {
            Often::Always => true,
            Often::OneIn(n) => i % n == 0,
        };
        if hit {
            noise(&mut population, &mut chain, size.noise);
            let ns = size.ns + population.roll(0, size.ns / 4);
            harm(&mut population, &mut chain, ns);
        }
        summary.add(&chain);
    }
    report.echoes = Some(summary.rows(&Known));
    report
}

/// A little of everything else: it sums to at most `most`.
pub(super) fn noise(p: &mut Population, chain: &mut Chain, most: u64) {
    let mut each = || p.roll(0, most / 8);
    let sizes: Vec<u64> = (0..8).map(|_| each()).collect();
    p.wait(chain, MasterRead, sizes[0], &["cron"]);
    p.wait(chain, ChildRead, sizes[1], &["cron"]);
    p.wait(chain, InputFlush, sizes[2], &["cron"]);
    p.burn(chain, Child, sizes[3]);
    p.burn(chain, ServerOutput, sizes[4]);
    p.block(chain, Child, BlockedOn::Unknown, sizes[5]);
    p.burn(chain, ClientReceive, sizes[6]);
    p.interrupt(chain, ServerReceive, sizes[7]);
}

pub(super) fn pane(index: u32, name: &str, pid: u32) -> PtyRow {
    sample::pty(index, ("tmux: server", SERVER), (name, pid))
}

/// A pane that prints so many pieces of such a size in the ten seconds of the window.
pub(super) fn flooding(report: &mut Report, reads: u64, size: u64) {
    let mut pty = pane(5, "yes", 505);
    pty.master_reads.size = sample::dist(&[(size, 1)]);
    pty.master_reads.size.count = reads;
    pty.master_reads.size.sum = reads * size;
    report.ptys.push(pty);
}

/// It reads 60 times a second what nobody typed, and that keeps it busy for half of the time.
fn slow_server(size: Size, bytes: u64) -> Report {
    let mut r = report(size, |p, c, ns| p.burn(c, MasterRead, ns));
    flooding(&mut r, 600, bytes);
    let mut server = sample::thread(SERVER, SERVER, "tmux: server", sample::dist(&[]));
    server.on_cpu_ns = ms(5_000);
    r.threads.push(server);
    r
}

pub(super) fn judged(report: &Report) -> Verdict {
    verdict(report)
}

/// Someone who had the CPU, of the session and of the usual class.
pub(super) fn hog(name: &str, pid: u32) -> ShortCulprit {
    rival(name, pid, other(0), SESSION)
}

/// Every case: its name, its cause, and how to make it.
pub(super) type Case = (&'static str, Cause, fn(Size) -> Report);

pub(super) const CASES: [Case; 40] = [
    ("hog on the server's CPU", Cause::HogOnServer, |s| {
        report(s, |p, c, ns| {
            p.wait_for(c, MasterRead, ns, &[hog("rustc", 7), hog("rustc", 8)])
        })
    }),
    ("hog on the child's CPU", Cause::HogOnChild, |s| {
        report(s, |p, c, ns| {
            p.wait_for(c, ChildRead, ns, &[hog("rustc", 7)])
        })
    }),
    ("hog on the client's CPU", Cause::HogOnClient, |s| {
        report(s, |p, c, ns| {
            p.wait_for(c, ClientReceive, ns, &[hog("rustc", 7)])
        })
    }),
    ("a real-time hog", Cause::HogOnServer, |s| {
        let fifo = crate::stats::SchedClass {
            policy: 1,
            nice: 0,
            rt_priority: 50,
        };
        report(s, |p, c, ns| {
            p.wait_for(c, MasterRead, ns, &[rival("rt", 7, fifo, SESSION)])
        })
    }),
    ("the wait's culprit is not known", Cause::RunQueue, |s| {
        report(s, |p, c, ns| p.wait_for(c, MasterRead, ns, &[]))
    }),
    ("a third of the wait's culprits", Cause::HogOnServer, |s| {
        report(s, |p, c, ns| {
            p.wait_for(c, MasterRead, ns / 3, &[hog("rustc", 7)]);
            p.wait_for(c, MasterRead, ns * 2 / 3, &[]);
        })
    }),
    ("hardly any of the wait's culprits", Cause::RunQueue, |s| {
        report(s, |p, c, ns| {
            p.wait_for(c, MasterRead, ns / 16, &[hog("rustc", 7)]);
            p.wait_for(c, MasterRead, ns * 15 / 16, &[]);
        })
    }),
    ("kworker starved", Cause::FlushWorker, |s| {
        report(s, |p, c, ns| {
            p.wait_for(c, OutputFlush, ns, &[hog("rustc", 7)])
        })
    }),
    ("kworker starved on both ways", Cause::FlushWorker, |s| {
        report(s, |p, c, ns| {
            p.wait_for(c, OutputFlush, ns / 2, &[hog("rustc", 7)]);
            p.wait_for(c, InputFlush, ns / 2, &[]);
        })
    }),
    (
        "kworker starved, and the server's poll waits for it",
        Cause::FlushWorker,
        |s| {
            report(s, |p, c, ns| {
                p.wait_for(c, OutputFlush, ns / 2, &[hog("rustc", 7)]);
                p.block(c, MasterRead, DISK_POLL, ns * 2 / 3);
            })
        },
    ),
    ("quota of the server", Cause::QuotaThrottling, |s| {
        report(s, |p, c, ns| {
            schedule(c, Role::Server, place(other(0), CAPPED));
            p.throttle(c, MasterRead, ns);
        })
    }),
    (
        "quota of the child, which is nice too",
        Cause::QuotaThrottling,
        |s| {
            report(s, |p, c, ns| {
                schedule(c, Role::Child, place(other(10), CAPPED));
                p.throttle(c, Child, ns);
            })
        },
    ),
    ("server busy with a flood", Cause::ServerBusy, |s| {
        let mut r = report(s, |p, c, ns| p.burn(c, MasterRead, ns));
        flooding(&mut r, 60_000, 4095);
        r
    }),
    (
        "server busy: the flood's writer has its CPU",
        Cause::ServerBusy,
        |s| {
            let mut r = report(s, |p, c, ns| {
                p.wait_for(c, MasterRead, ns, &[hog("yes", 505)])
            });
            flooding(&mut r, 60_000, 4095);
            r
        },
    ),
    (
        "server too slow for a flood of many reads",
        Cause::ServerBusy,
        |s| slow_server(s, 2048),
    ),
    (
        "server too slow for many small reads",
        Cause::SmallReads,
        |s| slow_server(s, 2),
    ),
    (
        "the worker waits for the server on one CPU",
        Cause::ServerBusy,
        |s| {
            report(s, |p, c, ns| {
                p.wait_for(c, InputFlush, ns, &[hog("tmux: server", SERVER)])
            })
        },
    ),
    ("server busy: its own threads", Cause::ServerBusy, |s| {
        report(s, |p, c, ns| {
            let own = ShortCulprit {
                own: true,
                ..hog("phux-pty-reader", 101)
            };
            p.wait_for(c, MasterRead, ns, &[own]);
        })
    }),
    ("a hog besides a flood", Cause::HogOnServer, |s| {
        let mut r = report(s, |p, c, ns| {
            p.wait_for(c, MasterRead, ns, &[hog("rustc", 7)])
        });
        flooding(&mut r, 60_000, 4095);
        r
    }),
    ("many small reads", Cause::SmallReads, |s| {
        let mut r = report(s, |p, c, ns| p.burn(c, MasterRead, ns));
        flooding(&mut r, 200_000, 2);
        r
    }),
    (
        "many small reads: kworkers have the CPU",
        Cause::SmallReads,
        |s| {
            let mut r = report(s, |p, c, ns| {
                p.wait_for(
                    c,
                    MasterRead,
                    ns,
                    &[hog("kworker/u8:1", 44), hog("yes", 505)],
                );
            });
            flooding(&mut r, 200_000, 2);
            r
        },
    ),
    (
        "few small reads: typing beside a busy server",
        Cause::ServerBusy,
        |s| {
            let mut r = report(s, |p, c, ns| p.burn(c, MasterRead, ns));
            flooding(&mut r, 300, 2);
            r
        },
    ),
    ("slow child, on a CPU", Cause::SlowChild, |s| {
        report(s, |p, c, ns| p.burn(c, Child, ns))
    }),
    ("slow child, asleep", Cause::SlowChild, |s| {
        report(s, |p, c, ns| p.block(c, Child, EPOLL, ns))
    }),
    ("slow child, its disk", Cause::SlowChild, |s| {
        report(s, |p, c, ns| p.block(c, Child, DISK_READ, ns))
    }),
    ("a child that does not take input", Cause::SlowChild, |s| {
        report(s, |p, c, ns| p.block(c, ServerInput, WRITE, ns))
    }),
    (
        "a child that waits for the multiplexer to read",
        Cause::ServerBusy,
        |s| {
            let mut r = report(s, |p, c, ns| p.block(c, ChildWrite, WRITE, ns));
            flooding(&mut r, 60_000, 4095);
            r
        },
    ),
    (
        "a client that does not read its socket",
        Cause::ClientNotReading,
        |s| report(s, |p, c, ns| p.block(c, ServerOutput, SENDMSG, ns)),
    ),
    (
        "a terminal that does not read",
        Cause::ClientNotReading,
        |s| report(s, |p, c, ns| p.block(c, ClientWrite, WRITE, ns)),
    ),
    (
        "a client's terminal that refuses",
        Cause::ClientNotReading,
        |s| {
            let mut r = report(s, |p, c, ns| p.block(c, ServerOutput, EPOLL, ns));
            let mut terminal = sample::pty(0, ("sshd", 50), ("tmux: client", CLIENT));
            terminal.slave_writes.empty = 40;
            r.ptys.push(terminal);
            r
        },
    ),
    ("a client that computes", Cause::SlowClient, |s| {
        report(s, |p, c, ns| p.burn(c, ClientReceive, ns))
    }),
    ("a server's slow disk write", Cause::ServerBlocked, |s| {
        report(s, |p, c, ns| p.block(c, ServerOutput, DISK_WRITE, ns))
    }),
    (
        "a server's fsync, with a chance fault",
        Cause::ServerBlocked,
        |s| {
            report(s, |p, c, ns| {
                p.block(c, MasterRead, FSYNC, ns);
                change(c, MasterRead, |l| l.major_faults += 1);
            })
        },
    ),
    ("a server's lock", Cause::ServerBlocked, |s| {
        report(s, |p, c, ns| p.block(c, ServerOutput, FUTEX, ns))
    }),
    ("a server's own timer", Cause::ServerBlocked, |s| {
        report(s, |p, c, ns| p.block(c, ServerOutput, EPOLL, ns))
    }),
    ("SCHED_IDLE", Cause::LowPriority, |s| {
        report(s, |p, c, ns| {
            schedule(c, Role::Server, place(idle_class(), SESSION));
            p.wait_for(c, MasterRead, ns, &[hog("rustc", 7)]);
        })
    }),
    ("positive nice", Cause::LowPriority, |s| {
        report(s, |p, c, ns| {
            schedule(c, Role::Child, place(other(10), SESSION));
            p.wait_for(c, ChildRead, ns, &[hog("rustc", 7)]);
        })
    }),
    ("a light cgroup", Cause::LowPriority, |s| {
        report(s, |p, c, ns| {
            schedule(c, Role::Server, place(other(0), LIGHT));
            p.wait_for(c, MasterRead, ns, &[rival("rustc", 7, other(0), BUILD)]);
        })
    }),
    ("swapped out", Cause::MajorFaults, |s| {
        report(s, |p, c, ns| {
            p.block(c, MasterRead, BlockedOn::PageFault, ns)
        })
    }),
    (
        "swapped out, found by the kernel's copying",
        Cause::MajorFaults,
        |s| {
            report(s, |p, c, ns| {
                p.block(c, ChildRead, DISK_READ, ns);
                change(c, ChildRead, |l| l.major_faults += 1);
            })
        },
    ),
];

/// Nice beside nice, and nice where the kernel does not look at it: hogs.
pub(super) const LOOK_ALIKES: [Case; 3] = [
    ("both nice", Cause::HogOnServer, |s| {
        report(s, |p, c, ns| {
            schedule(c, Role::Server, place(other(10), SESSION));
            p.wait_for(c, MasterRead, ns, &[rival("rustc", 7, other(10), SESSION)]);
        })
    }),
    (
        "nice, and the hog in another cgroup",
        Cause::HogOnServer,
        |s| {
            report(s, |p, c, ns| {
                schedule(c, Role::Server, place(other(10), CAPPED));
                p.wait_for(c, MasterRead, ns, &[rival("rustc", 7, other(0), BUILD)]);
            })
        },
    ),
    ("a quota that was never used up", Cause::HogOnServer, |s| {
        report(s, |p, c, ns| {
            schedule(c, Role::Server, place(other(0), CAPPED));
            p.wait_for(c, MasterRead, ns, &[rival("rustc", 7, other(0), CAPPED)]);
        })
    }),
];
