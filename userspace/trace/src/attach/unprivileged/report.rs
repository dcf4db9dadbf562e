//! The report of a run that did not trace.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Watch;
use crate::attach::hops::Hops;
use crate::attach::inside::{self, Patience};
use crate::attach::{cost, window};
use crate::report::model::{
    Backend, Cause, Cost, Dist, End, Flush, InProcess, Io, PtyRow, Report, SCHEMA_VERSION, Target,
    Verdict,
};
use crate::report::verdict::verdict;
use crate::target::{Pty, Survey, resolve};

/// What would bring the rest.
const FIX: &str = "What would bring it: CAP_BPF and CAP_PERFMON (sudo phux-trace attach)";

impl Watch {
    /// What came since the last interval.
    pub(super) fn interval(&mut self) -> Report {
        self.sample();
        let (began, cpu) = (self.interval_began_ns, self.cpu_at_interval_ns);
        let report = self.report(began, cpu, false, Vec::new());
        self.interval_began_ns = self.now_ns();
        self.cpu_at_interval_ns = cost::daemon_cpu_ns();
        report
    }

    /// The whole run.
    pub(super) fn finish(&mut self) -> Report {
        let patience = Patience::new();
        let in_process = self.inside.iter().map(|(pid, inside)| match inside {
            Ok(inside) => inside.end(patience, BTreeMap::new, &Hops::default()),
            Err(why) => inside::missing(*pid, why.clone()),
        });
        let in_process = in_process.map(|looked| looked.row()).collect();
        self.report(0, self.cpu_at_start_ns, true, in_process)
    }

    fn report(
        &mut self,
        began_ns: u64,
        cpu_ns: u64,
        last: bool,
        in_process: Vec<InProcess>,
    ) -> Report {
        // Who holds what now; without a look at /proc, what was so at the start.
        if let Ok(survey) = Survey::take() {
            let pids: Vec<u32> = self.processes.targets();
            self.target.ptys = resolve::target(String::new(), &pids, &survey, Vec::new()).ptys;
            self.survey.refused = survey.refused;
        }
        self.sampled.describe(&mut self.processes);
        let now = self.now_ns();
        let mut report = Report {
            schema_version: SCHEMA_VERSION,
            last,
            limited: Some(self.limited.clone()),
            window: window::window(self.start.unix_ns + began_ns, now.saturating_sub(began_ns)),
            verdict: Verdict {
                cause: Cause::NoData,
                sentence: String::new(),
                evidence: Vec::new(),
                advice: Vec::new(),
            },
            target: Target {
                asked: self.target.asked.clone(),
                processes: self.processes.rows(),
            },
            backends: self.backends(),
            losses: Vec::new(),
            cost: Cost {
                daemon_cpu_ns: cost::daemon_cpu_ns().saturating_sub(cpu_ns),
                daemon_rss_bytes: cost::rss_bytes(),
                kernel_bytes: None,
                bpf_ns: None,
                programs: Vec::new(),
            },
            threads: self.sampled.rows(last, now, &self.processes),
            ptys: self.target.ptys.iter().map(pty).collect(),
            hops: Vec::new(),
            in_process,
            echoes: None,
            slow_echoes: Vec::new(),
            notes: self.notes(),
        };
        report.verdict = verdict(&report);
        report
    }

    /// Each figure's source, and what has none.
    fn backends(&self) -> Vec<Backend> {
        let backend = |capability: &str, used: Option<String>, missing: Option<String>| Backend {
            capability: capability.into(),
            used,
            missing,
        };
        let none = |capability: &str, what: &str| {
            backend(capability, None, Some(format!("{what}. {FIX}")))
        };
        let sched = if self.sampled.no_account {
            none(
                "sched",
                "this kernel keeps no schedstat (CONFIG_SCHED_INFO)",
            )
        } else {
            backend(
                "sched",
                Some("/proc/PID/task/TID/schedstat, status, stat".into()),
                Some(format!(
                    "single waits and their percentiles, who ran instead, who woke, migrations, threads \
                     that lived between two samples. {FIX}"
                )),
            )
        };
        let mut all = vec![
            sched,
            backend(
                "ends",
                Some("/proc/PID/fd, fdinfo: who holds the PTYs".into()),
                (self.survey.refused > 0).then(|| {
                    format!(
                        "processes of other users: {}. What would bring it: sudo",
                        self.survey.refused
                    )
                }),
            ),
            none("tty", "sizes and times of PTY reads and writes"),
            none("flush", "the kworker's hop and the reader's wait"),
            none("hop", "the hops inside the target, by its USDT probes"),
        ];
        if self.inside.iter().any(|(_, inside)| inside.is_ok()) {
            all.push(backend(
                "in_process",
                Some("GET_PERF over the server's socket".into()),
                None,
            ));
        }
        all
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        if self.target.ptys.is_empty() {
            let hint = if self.survey.refused > 0 {
                " that this user may see; sudo shows all"
            } else {
                ""
            };
            notes.push(format!("the target holds no PTY{hint}"));
        }
        if self.processes.passed() > 0 {
            notes.push(format!(
                "{} processes that the target started came and went; shorter lives than half a second \
                 were not seen",
                self.processes.passed()
            ));
        }
        if self.slowest > super::SAMPLE * 2 {
            notes.push(format!(
                "{} threads were sampled every {} at times, to stay below 2 % of a CPU",
                self.sampled.len(),
                humantime::format_duration(Duration::from_millis(self.slowest.as_millis() as u64))
            ));
        }
        notes
    }
}

/// A PTY of which only the ends are known.
fn pty(pty: &Pty) -> PtyRow {
    let ends = |holders: &[crate::target::Holder]| {
        let end = |h: &crate::target::Holder| End {
            pid: h.pid,
            name: h.name.clone(),
        };
        holders.iter().map(end).collect()
    };
    let nothing = || Dist::from(&phux_perf::Snapshot::default());
    let io = || Io {
        size: nothing(),
        duration: nothing(),
        empty: 0,
    };
    let flush = || Flush {
        wait: nothing(),
        run: nothing(),
        reader_wait: nothing(),
        queued_by: Vec::new(),
        ran_instead: Vec::new(),
        placement: None,
    };
    PtyRow {
        index: pty.index,
        devpts: pty.devpts,
        master: ends(&pty.master),
        slave: ends(&pty.slave),
        master_reads: io(),
        master_writes: io(),
        slave_reads: io(),
        slave_writes: io(),
        flush_output: flush(),
        flush_input: flush(),
    }
}
