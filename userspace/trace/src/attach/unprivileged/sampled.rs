//! Threads, as samples of the kernel's account of them show them.

use std::collections::{BTreeMap, BTreeSet};

use crate::attach::processes::Processes;
use crate::report::model::{Dist, Relation, SchedClass, ThreadRow, WaitAccount};
use crate::target::account::Account;
use crate::target::proc::{self, ProcDir};

/// From here on a wait is slow, ns: as the verdict has it.
const SLOW_NS: u64 = 1_000_000;
/// Ended threads of the target that are kept one by one.
const MAX_ENDED: usize = 4096;

/// What happened in some time.
#[derive(Debug, Clone, Copy, Default)]
struct Figures {
    account: Account,
    slow: u64,
    slow_ns: u64,
    longest: u64,
}

impl Figures {
    /// Adds what came in one sample.
    fn add_sample(&mut self, came: Account) {
        let average = came.wait_ns.checked_div(came.slices).unwrap_or(0);
        if average >= SLOW_NS {
            // One at least was as long as the average. Were all others just below slow, the slow ones
            // took the rest.
            let quick = (came.slices - 1).saturating_mul(SLOW_NS);
            self.slow += 1;
            self.slow_ns += average.max(came.wait_ns.saturating_sub(quick));
        }
        self.longest = self.longest.max(average);
        self.account = self.account.and(came);
    }

    fn add(&mut self, more: &Figures) {
        self.account = self.account.and(more.account);
        self.slow += more.slow;
        self.slow_ns += more.slow_ns;
        self.longest = self.longest.max(more.longest);
    }
}

/// One thread, or many ended ones of one name.
#[derive(Debug, Clone)]
struct Thread {
    comm: String,
    sched: SchedClass,
    relation: Relation,
    last: Account,
    /// Since the run began, and since the last interval's report.
    whole: Figures,
    interval: Figures,
    /// When it was first seen, and when it ended: ns since the run began.
    born_ns: u64,
    ended_ns: Option<u64>,
    /// Ended threads that are summed here; 0 for one of its own.
    summed: u64,
}

/// All threads of the target and its peers.
#[derive(Debug, Default)]
pub(super) struct Sampled {
    threads: BTreeMap<(u32, u32), Thread>,
    summed: BTreeMap<(u32, String), Thread>,
    /// Ended ones among `threads`.
    kept: usize,
    /// The first look, which sets the marks, is over.
    begun: bool,
    interval_began_ns: u64,
    /// The kernel keeps no account of threads.
    pub(super) no_account: bool,
}

impl Sampled {
    /// Reads the account of every thread, `now_ns` after the run began. Returns the processes that are
    /// not there any more.
    pub(super) fn look(&mut self, processes: &Processes, now_ns: u64) -> Vec<u32> {
        let mut gone = Vec::new();
        let mut seen = BTreeSet::new();
        for pid in processes.living() {
            let Some(relation) = processes.relation(pid) else {
                continue;
            };
            match ProcDir::open(pid) {
                Ok(dir) => self.look_at(pid, &dir, relation, now_ns, &mut seen),
                Err(_) => gone.push(pid),
            }
        }
        let missing: Vec<(u32, u32)> = self
            .threads
            .iter()
            .filter(|(key, t)| t.ended_ns.is_none() && !seen.contains(*key))
            .map(|(key, _)| *key)
            .collect();
        missing.into_iter().for_each(|key| self.ended(key, now_ns));
        self.begun = true;
        gone
    }

    fn look_at(
        &mut self,
        pid: u32,
        dir: &ProcDir,
        relation: Relation,
        now_ns: u64,
        seen: &mut BTreeSet<(u32, u32)>,
    ) {
        for tid in dir.thread_ids().unwrap_or_default() {
            let account = match Account::read(dir, tid) {
                Ok(account) => account,
                Err(e) => {
                    self.no_account |= e.kind() == std::io::ErrorKind::InvalidData;
                    continue;
                }
            };
            seen.insert((pid, tid));
            if let Some(t) = self.threads.get_mut(&(pid, tid))
                && t.ended_ns.is_none()
                && account.slices >= t.last.slices
            {
                let came = account.since(t.last);
                t.last = account;
                t.whole.add_sample(came);
                t.interval.add_sample(came);
                continue;
            }
            // Born since the look before this one: all of its life is ours.
            let mut new = Thread {
                comm: String::new(),
                sched: SchedClass::default(),
                relation,
                last: account,
                whole: Figures::default(),
                interval: Figures::default(),
                born_ns: now_ns,
                ended_ns: None,
                summed: 0,
            };
            if self.begun {
                new.whole.add_sample(account);
                new.interval.add_sample(account);
            }
            if let Ok(thread) = dir.thread(tid) {
                (new.comm, new.sched) = (thread.comm, thread.sched);
            }
            self.threads.insert((pid, tid), new);
        }
    }

    /// A thread of the target stays as it was last; the others are summed by name.
    fn ended(&mut self, key: (u32, u32), now_ns: u64) {
        let Some(mut thread) = self.threads.remove(&key) else {
            return;
        };
        thread.ended_ns = Some(now_ns);
        if thread.relation == Relation::Target && self.kept < MAX_ENDED {
            self.kept += 1;
            self.threads.insert(key, thread);
            return;
        }
        let process = if thread.relation == Relation::Target {
            key.0
        } else {
            0
        };
        let mut key = (process, thread.comm.clone());
        if self.summed.len() >= MAX_ENDED && !self.summed.contains_key(&key) {
            thread.comm = "(others)".into();
            key = (0, thread.comm.clone());
        }
        match self.summed.get_mut(&key) {
            Some(sum) => {
                sum.summed += 1;
                sum.whole.add(&thread.whole);
                sum.interval.add(&thread.interval);
            }
            None => {
                thread.summed = 1;
                self.summed.insert(key, thread);
            }
        }
    }

    /// Names and classes, which change.
    pub(super) fn describe(&mut self, processes: &mut Processes) {
        for pid in processes.living() {
            for thread in proc::threads(pid).unwrap_or_default() {
                if thread.tid == pid {
                    processes.named(pid, &thread.comm);
                }
                if let Some(t) = self.threads.get_mut(&(pid, thread.tid)) {
                    (t.comm, t.sched) = (thread.comm, thread.sched);
                }
            }
        }
    }

    /// Threads that are looked at.
    pub(super) fn len(&self) -> usize {
        self.threads.len()
    }

    /// The rows of the whole run, or of the interval, which ends with this.
    pub(super) fn rows(
        &mut self,
        whole: bool,
        now_ns: u64,
        processes: &Processes,
    ) -> Vec<ThreadRow> {
        let began = if whole { 0 } else { self.interval_began_ns };
        let mut rows = Vec::new();
        for ((pid, tid), t) in &self.threads {
            let figures = if whole { &t.whole } else { &t.interval };
            let role = processes.role(*pid, &t.comm, pid == tid);
            let from = if t.born_ns > 0 {
                t.born_ns.max(began)
            } else {
                began
            };
            let lived = t.ended_ns.unwrap_or(now_ns).saturating_sub(from);
            rows.push(row(*pid, *tid, t, figures, role, lived));
        }
        for ((pid, _), t) in &self.summed {
            let figures = if whole { &t.whole } else { &t.interval };
            rows.push(row(*pid, 0, t, figures, None, 0));
        }
        rows.retain(|r| r.on_cpu_ns > 0 || r.account.is_some_and(|a| a.count > 0));
        if !whole {
            let all = self.threads.values_mut().chain(self.summed.values_mut());
            all.for_each(|t| t.interval = Figures::default());
            self.interval_began_ns = now_ns;
        }
        rows
    }
}

fn row(
    pid: u32,
    tid: u32,
    t: &Thread,
    figures: &Figures,
    role: Option<String>,
    lived_ns: u64,
) -> ThreadRow {
    let a = figures.account;
    ThreadRow {
        pid,
        tid,
        comm: t.comm.clone(),
        role,
        relation: t.relation,
        sched: t.sched.clone(),
        placement: None,
        on_cpu_ns: a.on_cpu_ns,
        // On a CPU, waiting for one, or blocked: the account has the first two.
        blocked_ns: lived_ns.saturating_sub(a.on_cpu_ns.saturating_add(a.wait_ns)),
        voluntary: a.voluntary,
        involuntary: a.involuntary,
        migrations: 0,
        wait: Dist::from(&phux_perf::Snapshot::default()),
        account: Some(WaitAccount {
            count: a.slices,
            sum: a.wait_ns,
            slow: figures.slow,
            slow_ns: figures.slow_ns,
            longest: figures.longest,
        }),
        waiting_ns: None,
        ran_instead: Vec::new(),
        wakers: Vec::new(),
        exited: t.ended_ns.is_some(),
        threads: t.summed.max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the waits of a sample were, what is told of single ones is true of them.
        #[test]
        fn what_sums_prove_is_never_too_much(samples in prop::collection::vec(prop::collection::vec(0u64..20_000_000, 1..20), 1..20)) {
            let mut figures = Figures::default();
            for waits in &samples {
                figures.add_sample(Account {
                    wait_ns: waits.iter().sum(),
                    slices: waits.len() as u64,
                    ..Account::default()
                });
            }
            let all = || samples.iter().flatten().copied();
            let slow = || all().filter(|w| *w >= SLOW_NS);
            prop_assert!(figures.longest <= all().max().unwrap_or(0));
            prop_assert!(figures.slow as usize <= slow().count());
            prop_assert!(figures.slow_ns <= slow().sum::<u64>());
            prop_assert_eq!(figures.account.wait_ns, all().sum::<u64>());
        }
    }

    #[test]
    fn own_threads_are_followed_to_their_end() {
        let me = std::process::id();
        let mut processes = Processes::default();
        let survey = crate::target::Survey::default();
        let process = proc::process(me).expect("ourselves");
        processes.add(&process, Relation::Target, &survey);
        let mut sampled = Sampled::default();
        assert!(sampled.look(&processes, 0).is_empty());
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let named = std::thread::Builder::new().name("sampled".into());
        let handle = named.spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(2));
            told.recv()
        });
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let mut now = 0;
        let mut row = |sampled: &mut Sampled, wanted: &dyn Fn(&ThreadRow) -> bool| loop {
            now += 1;
            sampled.look(&processes, now);
            sampled.describe(&mut processes);
            let rows = sampled.rows(true, now, &processes);
            if let Some(row) = rows.into_iter().find(|r| r.comm == "sampled" && wanted(r)) {
                return row;
            }
            assert!(std::time::Instant::now() < deadline, "never seen");
            std::thread::sleep(std::time::Duration::from_millis(1));
        };
        let living = row(&mut sampled, &|r| r.voluntary >= 2);
        assert!(
            !living.exited && living.account.is_some_and(|a| a.count >= 2),
            "{living:?}"
        );
        drop(tell);
        let _ = handle.expect("a thread").join();
        let ended = row(&mut sampled, &|r| r.exited);
        assert!(ended.voluntary >= living.voluntary, "{ended:?}");
    }
}
