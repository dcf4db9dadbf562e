//! What the kernel allows here, as far as there is a choice: the ways to measure, for the loader and
//! for the report.

use anyhow::Result;

use crate::probes::blocked;
use crate::probes::system::tracefs;
use crate::probes::trial::{self, Answer, Feature, PidNamespace};
use crate::report::model::Backend;

/// The answers.
pub(crate) struct Features {
    pub(crate) namespace: PidNamespace,
    pub(crate) fentry: Answer,
    pub(crate) tracefs: bool,
    pub(crate) flush: Answer,
    pub(crate) uprobe: Answer,
}

impl Features {
    /// Asks the kernel.
    ///
    /// # Errors
    /// Something without which nothing works is refused.
    pub(crate) fn ask() -> Result<Features> {
        blocked::required()?;
        let namespace = trial::pid_namespace().map_err(anyhow::Error::msg)?;
        // For tests, which cannot take fentry from a kernel that has it: PHUX_TRACE_WITHOUT=fentry.
        let without = |name: &str| {
            std::env::var("PHUX_TRACE_WITHOUT").is_ok_and(|w| w.split(',').any(|w| w == name))
        };
        let unless_refused = |feature, name: &str| {
            if without(name) {
                return Err("left out by PHUX_TRACE_WITHOUT".to_owned());
            }
            trial::try_feature(feature)
        };
        Ok(Features {
            namespace,
            fentry: unless_refused(Feature::Fentry, "fentry"),
            tracefs: tracefs("syscalls/sys_enter_read").is_some() && !without("tracefs"),
            flush: unless_refused(Feature::Flush, "flush"),
            uprobe: unless_refused(Feature::Uprobe, "uprobe"),
        })
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
            choice("hop", Feature::Uprobe, &self.uprobe, "USDT by uprobe", None),
        ]
    }
}
