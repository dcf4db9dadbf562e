use phux_perf::Snapshot;
use phux_recording::{Names, Record, Row};
use probe_ebpf::events;
use proptest::prelude::*;

use super::{Heard, Told};
use crate::attach::inside::{Looked, Metric};
use crate::recording::Put;
use crate::source::Event;
use crate::stats::{
    Culprit, Ended, FlushStat, IoKey, IoStat, KernelState, Phase, PtyId, Side, ThreadStat,
};

/// Hears what is told, as a run does.
struct Ear(Heard);

impl Put for Ear {
    fn put<T: Record>(&mut self, row: T) {
        self.0.row(&row.into_row());
    }
}

/// What the kernel does between two looks.
#[derive(Debug, Clone)]
enum Step {
    /// A thread waits so long, by the fault of one of these names.
    Wait(u32, u64, u8),
    Sleep(u32, u64),
    Io(u32, u64, bool),
    Flush(u32, u64),
    Hop(u32, u64),
    /// A thread ends; another with its number may come. The record of it may come late.
    End(u32, bool),
    Look,
}

fn step() -> impl Strategy<Value = Step> {
    let tid = || 1u32..6;
    let ns = || 0u64..1 << 40;
    prop_oneof![
        (tid(), ns(), 0u8..6).prop_map(|(t, n, w)| Step::Wait(t, n, w)),
        (tid(), ns()).prop_map(|(t, n)| Step::Sleep(t, n)),
        (tid(), ns(), any::<bool>()).prop_map(|(t, n, w)| Step::Io(t, n, w)),
        (tid(), ns()).prop_map(|(t, n)| Step::Flush(t, n)),
        (tid(), ns()).prop_map(|(t, n)| Step::Hop(t, n)),
        (tid(), any::<bool>()).prop_map(|(t, late)| Step::End(t, late)),
        Just(Step::Look),
    ]
}

/// A kernel whose threads 1 and 2 are the target's, the rest peers'.
struct Kernel {
    state: KernelState,
    ended: Ended,
    late: Vec<ThreadStat>,
    born: u64,
    told: Told,
    heard: Ear,
    names: Names,
}

impl Kernel {
    fn new() -> Kernel {
        Kernel {
            state: KernelState::default(),
            ended: Ended::default(),
            late: Vec::new(),
            born: 0,
            told: Told::default(),
            heard: Ear(Heard::default()),
            names: Names::new(64),
        }
    }

    fn thread(&mut self, tid: u32) -> &mut ThreadStat {
        let born = &mut self.born;
        let mut lives = self.state.threads.values();
        let key = match lives.find(|t| t.tid == tid) {
            Some(t) => t.key(),
            None => {
                *born += 1;
                (tid, *born)
            }
        };
        self.state.threads.entry(key).or_insert_with(|| ThreadStat {
            tid,
            pid: 1 + u32::from(tid > 2),
            first_tid: key.0,
            start_time: key.1,
            comm: format!("t{}", tid % 2),
            relation: if tid <= 2 {
                events::REL_TARGET
            } else {
                events::REL_PEER
            },
            phase: Phase::Blocked,
            ..ThreadStat::default()
        })
    }

    /// The record of an end is read.
    fn exited(&mut self, thread: ThreadStat) {
        self.ended.add(thread.clone());
        let event = Event::Exit {
            thread: Box::new(thread),
            last: false,
        };
        self.told.event(&event);
        self.heard.0.event(&event);
    }

    fn step(&mut self, step: &Step) {
        self.state.at_ns += 1;
        let now = self.state.at_ns;
        match *step {
            Step::Wait(tid, ns, by) => {
                let t = self.thread(tid);
                t.wait.record(ns);
                t.on_cpu_ns += 3;
                t.voluntary += 1;
                let name = format!("by{by}");
                match t.blame.culprits.iter_mut().find(|c| c.name == name) {
                    Some(c) => {
                        c.ns += ns;
                        c.slices += 1;
                    }
                    None => {
                        if t.blame.culprits.len() == 3 {
                            // The kernel's table is small.
                            let out = t.blame.culprits.remove(0);
                            t.blame.other_ns += out.ns;
                            t.blame.other_slices += out.slices;
                        }
                        t.blame.culprits.push(Culprit {
                            name,
                            own: by == 0,
                            pids: vec![9, 10],
                            more_pids: by == 1,
                            ns,
                            slices: 1,
                            sched: crate::stats::SchedClass::default(),
                            cgroup: u64::from(by),
                        });
                    }
                }
                t.wakers.interrupt += 1;
            }
            Step::Sleep(tid, ns) => self.thread(tid).blocked_ns += ns,
            Step::Io(index, ns, write) => {
                let key = IoKey {
                    pty: PtyId { devpts: 1, index },
                    side: Side::Master,
                    write,
                };
                let io: &mut IoStat = self.state.io.entry(key).or_default();
                io.size.record(ns % 4096);
                io.duration.record(ns);
                io.empty += ns & 1;
                io.pid = index;
            }
            Step::Flush(index, ns) => {
                let key = (PtyId { devpts: 1, index }, Side::Slave);
                let flush: &mut FlushStat = self.state.flush.entry(key).or_default();
                flush.wait.record(ns);
                flush.blame.idle_ns += ns;
                flush.queued_by.other += 1;
            }
            Step::Hop(id, ns) => {
                let key = (id, id % 3);
                self.state.hops.entry(key).or_default().record(ns);
            }
            Step::End(tid, late) => {
                let key = self.thread(tid).key();
                let Some(mut thread) = self.state.threads.remove(&key) else {
                    return;
                };
                // Its last sleep has ended, since it has run.
                thread.close(now);
                (thread.exited, thread.ended_at) = (true, now);
                if late {
                    self.late.push(thread);
                } else {
                    self.exited(thread);
                }
            }
            Step::Look => {
                self.look(false);
                // What was late is read after the look.
                for thread in std::mem::take(&mut self.late) {
                    self.exited(thread);
                }
            }
        }
    }

    fn look(&mut self, last: bool) -> KernelState {
        let mut state = self.state.clone();
        state.complete(&self.ended);
        let role = |t: &ThreadStat| Some(format!("role of {}", t.tid));
        let hop = |id| Some(format!("hop{id}"));
        self.told.tell(
            state.clone(),
            last,
            role,
            hop,
            &mut self.names,
            &mut self.heard,
        );
        state
    }
}

fn by_waits(state: &KernelState) -> Vec<(u64, u64)> {
    let threads = state.threads.values().chain(state.summed.values());
    let blame = threads.filter(|t| !t.is_quiet());
    blame
        .map(|t| (t.wait.sum, t.blame.total_ns()))
        .collect::<Vec<_>>()
}

proptest! {
    #[test]
    fn what_is_heard_is_what_there_was(steps in proptest::collection::vec(step(), 0..120)) {
        let mut kernel = Kernel::new();
        steps.iter().for_each(|s| kernel.step(s));
        for thread in std::mem::take(&mut kernel.late) {
            kernel.exited(thread);
        }
        let mut truth = kernel.look(true);
        let heard = kernel.heard.0.state();
        prop_assert_eq!(&heard.io, &truth.io);
        prop_assert_eq!(&heard.flush, &truth.flush);
        prop_assert_eq!(by_waits(heard), by_waits(&truth), "all blame sums to the waits");
        let mut heard = heard.clone();
        for state in [&mut heard, &mut truth] {
            state.threads.retain(|_, t| !t.is_quiet());
            for t in state.threads.values_mut().chain(state.summed.values_mut()) {
                // Who lost its place in the kernel's table differs from interval to interval.
                t.blame = crate::stats::Blame::default();
            }
        }
        prop_assert_eq!(&heard.threads, &truth.threads);
        prop_assert_eq!(&heard.summed, &truth.summed);
        let mut hops: std::collections::BTreeMap<(u32, String), Snapshot> = Default::default();
        for ((pid, id), values) in &truth.hops {
            hops.entry((*pid, format!("hop{id}"))).or_default().merge(values);
        }
        prop_assert_eq!(kernel.heard.0.hops(), &hops);
    }
}

#[test]
fn threads_that_sleep_on_are_not_told_each_time() {
    let mut kernel = Kernel::new();
    kernel.step(&Step::Wait(1, 10, 1));
    kernel.step(&Step::Look);
    struct Count(usize);
    impl Put for Count {
        fn put<T: Record>(&mut self, _: T) {
            self.0 += 1;
        }
    }
    let told = |kernel: &mut Kernel, last| {
        let mut count = Count(0);
        let state = kernel.state.clone();
        let names = &mut Names::new(8);
        kernel
            .told
            .tell(state, last, |_| None, |_| None, names, &mut count);
        count.0
    };
    kernel.step(&Step::Sleep(1, 1_000));
    assert_eq!(told(&mut kernel, false), 0);
    assert_eq!(told(&mut kernel, true), 1, "at the end it is");
}

#[test]
fn metrics_come_back_with_both_views() {
    let mut inside = Snapshot::default();
    [1, 5, 900].iter().for_each(|v| inside.record(*v));
    let mut outside = inside.clone();
    outside.record(7);
    let metric = |name: &str, outside| Metric {
        name: name.into(),
        unit: "micros".into(),
        inside: inside.clone(),
        outside,
    };
    let looked = [Looked {
        pid: 4,
        role: "server".into(),
        metrics: vec![
            metric("seen.both", Some(outside)),
            metric("seen.once", None),
        ],
        missing: None,
    }];
    let mut heard = Ear(Heard::default());
    Told::tell_metrics(&looked, (5, 9), &mut Names::new(8), &mut heard);
    let [back] = &heard.0.looked()[..] else {
        panic!("{:?}", heard.0.looked())
    };
    let rows = |l: &Looked| l.row().rows;
    assert_eq!(rows(back), rows(&looked[0]));
    assert_eq!(rows(back)[0].differing, Some(1));
}

#[test]
fn rows_without_an_owner_mean_nothing() {
    let mut heard = Heard::default();
    let bucket = phux_recording::Bucket {
        scope: "thread".into(),
        name: "wait".into(),
        pid: 1,
        tid: 1,
        bucket: 600,
        ..Default::default()
    };
    heard.row(&Row::Bucket(bucket.clone()));
    heard.row(&Row::Bucket(phux_recording::Bucket {
        scope: "flush".into(),
        bucket: i32::MAX,
        count: u64::MAX,
        ..bucket
    }));
    assert!(heard.state().threads.is_empty());
    assert!(heard.state().flush.values().all(|f| f.wait.count == 0));
}
