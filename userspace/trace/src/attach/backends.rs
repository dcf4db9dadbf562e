//! What the kernel allows here, as far as there is a choice: the ways to measure, for the loader and
//! for the report.

use crate::probes::system::tracefs;
use crate::probes::trial::{self, Answer, Feature, PidNamespace};
use crate::report::model::Backend;

/// What there is a way around, and how `PHUX_TRACE_WITHOUT` names it.
const OPTIONAL: [(Feature, &str); 3] = [
    (Feature::Fentry, "fentry"),
    (Feature::Flush, "flush"),
    (Feature::Uprobe, "uprobe"),
];

/// The answers.
pub(super) struct Features {
    pub(super) namespace: PidNamespace,
    pub(super) fentry: Answer,
    pub(super) tracefs: bool,
    pub(super) flush: Answer,
    pub(super) uprobe: Answer,
}

impl Features {
    /// Asks the kernel, which has granted all that is [required](crate::probes::blocked::required).
    pub(super) fn ask(namespace: PidNamespace) -> Features {
        // For tests, which cannot take fentry from a kernel that has it: PHUX_TRACE_WITHOUT=fentry.
        let without = |name: &str| {
            std::env::var("PHUX_TRACE_WITHOUT").is_ok_and(|w| w.split(',').any(|w| w == name))
        };
        let asked: Vec<Feature> = OPTIONAL
            .into_iter()
            .filter(|(_, name)| !without(name))
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
            tracefs: tracefs("syscalls/sys_enter_read").is_some() && !without("tracefs"),
            flush: answer(Feature::Flush),
            uprobe: answer(Feature::Uprobe),
        }
    }

    /// What is used, and what is missing, for the report.
    pub(super) fn backends(&self) -> Vec<Backend> {
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
            choice("hop", Feature::Uprobe, &self.uprobe, "USDT by uprobe", None),
        ]
    }
}
