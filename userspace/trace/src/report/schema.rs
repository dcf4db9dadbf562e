//! The JSON schema of the lines that `--json` writes.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

use crate::echo::Counts;

use super::model::{
    Backend, ChainRow, Cost, Echoes, EventRow, HopRow, InProcess, Loss, PtyRow, Report, Target,
    Thinned, ThreadRow, Verdict, Window,
};

/// One line of `phux-trace attach --json`; `echo --json` writes `chain` lines and `echo_counts` last. A report is a `run` line, the lines of its rows, and a
/// `verdict` line last. Times are ns and sizes bytes unless a field says otherwise; integers use
/// the full range of 64 bits, beyond the 53 that a double holds.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line<'a> {
    /// Begins a report.
    Run(Run<'a>),
    /// A traced thread.
    Thread(&'a ThreadRow),
    /// A PTY of the target.
    Pty(&'a PtyRow),
    /// A USDT probe of the target.
    Hop(&'a HopRow),
    /// A process's own histograms beside the outside ones.
    InProcess(&'a InProcess),
    /// What became of all inputs; only where echoes are followed.
    Echo(&'a Echoes),
    /// One input and its way, link by link: with `--slow`, and of `echo --json`.
    Chain(&'a ChainRow),
    /// Losses of one class.
    Loss(&'a Loss),
    /// What the looking cost.
    Cost(&'a Cost),
    /// Ends a report.
    Verdict(&'a Verdict),
    /// Something that happened, between reports; only with `--events`.
    Event(&'a EventRow),
    /// The run costs more than `--budget` allows and has made itself cheaper; between reports, once a step.
    Thinned(&'a Thinned),
    /// Begins (all zero: every probe is in place) and ends the lines of `echo --json`.
    EchoCounts(&'a Counts),
}

/// When, where, who and how.
#[derive(Serialize, JsonSchema)]
pub(super) struct Run<'a> {
    /// Version of the shape of all lines up to the next `run`.
    schema_version: u32,
    /// `true` for the last report of a run; an interval's report carries what came since the one before.
    last: bool,
    /// Why this is less than a report can be, if it was made without the privileges to trace.
    limited: Option<&'a str>,
    window: &'a Window,
    target: &'a Target,
    backends: &'a [Backend],
    notes: &'a [String],
}

impl<'a> From<&'a Report> for Run<'a> {
    fn from(r: &'a Report) -> Self {
        Run {
            schema_version: r.schema_version,
            last: r.last,
            limited: r.limited.as_deref(),
            window: &r.window,
            target: &r.target,
            backends: &r.backends,
            notes: &r.notes,
        }
    }
}

/// The schema (JSON Schema 2020-12) of one line.
#[must_use]
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let mut schema = generator.into_root_schema_for::<Line<'static>>();
    schema.insert(
        "title".to_owned(),
        "phux-trace attach --json and echo --json, one line".into(),
    );
    schema.to_value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json::write_ndjson;
    use crate::report::{sample, sample_echoes};
    use proptest::prelude::*;
    use serde_json::json;

    fn validator() -> jsonschema::Validator {
        jsonschema::draft202012::new(&schema()).unwrap()
    }

    fn lines(report: &Report) -> Vec<Value> {
        let mut out = Vec::new();
        write_ndjson(report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        text.lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect()
    }

    fn assert_valid(report: &Report) {
        let validator = validator();
        for line in lines(report) {
            let errors: Vec<String> = validator
                .iter_errors(&line)
                .map(|e| e.to_string())
                .collect();
            assert!(errors.is_empty(), "{errors:?} in {line}");
        }
    }

    #[test]
    fn the_schema_is_one_itself() {
        assert!(jsonschema::meta::is_valid(&schema()));
    }

    #[test]
    fn real_lines_are_valid() {
        assert_valid(&sample::rich());
        assert_valid(&sample_echoes::rich());
        assert_valid(&sample::empty());
        assert_valid(&sample::extreme());
    }

    #[test]
    fn broken_lines_are_not() {
        let validator = validator();
        for line in lines(&sample_echoes::rich()) {
            assert!(validator.is_valid(&line));
            let whole = line.as_object().unwrap();
            for key in whole.keys() {
                let mut broken = whole.clone();
                broken.remove(key);
                assert!(
                    !validator.is_valid(&Value::Object(broken)),
                    "{} without {key}",
                    line["type"]
                );
                let mut broken = whole.clone();
                broken.insert(key.clone(), json!(-1.5));
                assert!(
                    !validator.is_valid(&Value::Object(broken)),
                    "{}: {key} is -1.5",
                    line["type"]
                );
            }
            let mut broken = whole.clone();
            broken.insert("type".into(), json!("no such type"));
            assert!(!validator.is_valid(&Value::Object(broken)));
        }
        for broken in [json!({}), json!([]), json!(null), json!({"type": "thread"})] {
            assert!(!validator.is_valid(&broken), "{broken}");
        }
    }

    #[test]
    fn new_fields_are_allowed() {
        let mut line = lines(&sample::rich()).swap_remove(0);
        line["a_later_version_has_this"] = json!(1);
        assert!(
            validator().is_valid(&line),
            "new fields do not raise the version"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn arbitrary_reports_are_valid(
            name in any::<String>(),
            numbers in any::<[u64; 6]>(),
            nice in any::<i32>(),
            waiting in any::<Option<u64>>(),
            samples in prop::collection::vec((any::<u64>(), 1u64..5), 0..20),
            picks in any::<[bool; 4]>(),
        ) {
            let mut report = if picks[0] { sample::rich() } else { sample::extreme() };
            let dist = sample::dist(&samples);
            for t in &mut report.threads {
                t.comm.clone_from(&name);
                t.role = picks[1].then(|| name.clone());
                t.sched.nice = nice;
                t.sched.policy.clone_from(&name);
                t.waiting_ns = waiting;
                [t.on_cpu_ns, t.blocked_ns, t.voluntary, t.involuntary, t.migrations, _] = numbers;
                t.wait = dist.clone();
                t.exited = picks[2];
            }
            for p in &mut report.ptys {
                p.devpts = numbers[5];
                p.flush_output.wait = dist.clone();
                p.master.truncate(usize::from(picks[3]));
            }
            report.hops.iter_mut().for_each(|h| h.unit = picks[2].then(|| name.clone()));
            report.notes = vec![name.clone(); samples.len()];
            report.cost.bpf_ns = waiting;
            report.verdict = crate::report::verdict::verdict(&report);
            assert_valid(&report);
        }
    }
}
