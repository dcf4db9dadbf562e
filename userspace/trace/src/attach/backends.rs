//! What the kernel allows here, as far as there is a choice: the ways to measure, for the loader and
//! for the report.

use crate::probes::percpu;
use crate::probes::system::tracefs;
use crate::probes::trial::{self, Answer, Feature, PidNamespace};
use crate::report::model::Backend;

/// What there is a way around, and how `PHUX_TRACE_WITHOUT` names it.
const OPTIONAL: [(Feature, &str); 4] = [
    (Feature::Fentry, "fentry"),
    (Feature::SockFentry, "sock_fentry"),
    (Feature::Flush, "flush"),
    (Feature::Uprobe, "uprobe"),
];

/// The answers.
pub(crate) struct Features {
    pub(crate) namespace: PidNamespace,
    pub(crate) fentry: Answer,
    pub(crate) sock_fentry: Answer,
    pub(crate) tracefs: bool,
    pub(crate) flush: Answer,
    pub(crate) uprobe: Answer,
    pub(crate) interrupt_time: bool,
}

impl Features {
    /// Asks the kernel, which has granted all that is [required](crate::probes::blocked::required).
    pub(crate) fn ask(namespace: PidNamespace) -> Features {
        // For tests, which cannot take fentry from a kernel that has it: PHUX_TRACE_WITHOUT=fentry.
        let without = |name: &str| {
            std::env::var("PHUX_TRACE_WITHOUT").is_ok_and(|w| w.split(',').any(|w| w == name))
        };
        let asked: Vec<Feature> = OPTIONAL
            .into_iter()
            // A kernel that refuses fentry refuses it everywhere.
            .filter(|(_, name)| !(without(name) || name.contains("fentry") && without("fentry")))
            .map(|(feature, _)| feature)
            .collect();
        let answers = trial::try_features(&asked);
        let answer = |feature| match answers.iter().find(|(f, _)| *f == feature) {
            Some((_, answer)) => answer.clone(),
            None => Err("left out by PHUX_TRACE_WITHOUT".to_owned()),
        };
        Features {
            namespace,
            fentry: answer(Feature::Fentry),
            sock_fentry: answer(Feature::SockFentry),
            tracefs: tracefs("syscalls/sys_enter_read").is_some() && !without("tracefs"),
            flush: answer(Feature::Flush),
            uprobe: answer(Feature::Uprobe),
            interrupt_time: percpu::tells_interrupt_time(),
        }
    }

    /// What is used, and what is missing, for the report.
    pub(crate) fn backends(&self) -> Vec<Backend> {
        let backend = |capability: &str, used: Option<&str>, missing: Option<String>| Backend {
            capability: capability.into(),
            used: used.map(String::from),
            missing,
        };
        let choice = |capability, feature: Feature, answer: &Answer, first, second| match answer {
            Ok(()) => backend(capability, Some(first), None),
            Err(why) => {
                let (name, lost, fix) = (feature.name(), feature.lost(), feature.fix());
                let missing = format!("{name}: {why}. Lost: {lost}. What would bring it: {fix}");
                backend(capability, second, Some(missing))
            }
        };
        vec![
            backend(
                "sched",
                Some("tp_btf sched_switch, sched_waking, sched_wakeup_new, sched_migrate_task"),
                None,
            ),
            choice(
                "tty",
                Feature::Fentry,
                &self.fentry,
                "fentry/fexit tty_read, tty_write",
                Some(if self.tracefs {
                    "tp syscalls read, readv, write, writev + fd walk"
                } else {
                    "tp_btf sys_enter, sys_exit + fd walk"
                }),
            ),
            choice(
                "flush",
                Feature::Flush,
                &self.flush,
                "tp_btf workqueue_queue_work, _execute_start, _execute_end",
                None,
            ),
            choice(
                "sock",
                Feature::SockFentry,
                &self.sock_fentry,
                "fentry/fexit unix_stream_*, unix_seqpacket_*, tcp_sendmsg, tcp_recvmsg",
                Some(if self.tracefs {
                    "tp syscalls read, write, recvfrom, sendto … + fd walk"
                } else {
                    "tp_btf sys_enter, sys_exit + fd walk"
                }),
            ),
            if self.interrupt_time {
                backend(
                    "interrupt",
                    Some("the run queue's account of its interrupts"),
                    None,
                )
            } else {
                let why = "this kernel does not measure its interrupts. Lost: their part of the time \
                           on CPU. What would bring it: a kernel with CONFIG_IRQ_TIME_ACCOUNTING";
                backend("interrupt", None, Some(why.into()))
            },
            choice("hop", Feature::Uprobe, &self.uprobe, "USDT by uprobe", None),
        ]
    }
}
