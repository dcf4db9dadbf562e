//! The text form, version 0.0.4, with classic histograms.

use std::fmt::Write;

use super::families::{Distribution, Family, Kind, Metric, Value};
use super::native::{cumulative, total};

/// What it is called in HTTP.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All families.
pub(super) fn write(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = writeln!(out, "# HELP {} {}", family.name, family.help);
        let _ = writeln!(out, "# TYPE {} {kind}", family.name);
        for metric in &family.metrics {
            match &metric.value {
                Value::Number(n) => line(&mut out, (family.name, ""), metric, None, *n),
                Value::Distribution(d) => histogram(&mut out, family.name, metric, d),
            }
        }
    }
    out
}

fn histogram(out: &mut String, name: &str, metric: &Metric, d: &Distribution) {
    let count = total(&d.snapshot);
    for (bound, below) in cumulative(&d.snapshot, d.unit) {
        line(
            out,
            (name, "_bucket"),
            metric,
            Some(&bound.to_string()),
            below as f64,
        );
    }
    line(out, (name, "_bucket"), metric, Some("+Inf"), count as f64);
    line(out, (name, "_sum"), metric, None, d.unit.of(d.snapshot.sum));
    line(out, (name, "_count"), metric, None, count as f64);
}

fn line(
    out: &mut String,
    (name, suffix): (&str, &str),
    metric: &Metric,
    le: Option<&str>,
    value: f64,
) {
    out.push_str(name);
    out.push_str(suffix);
    let labels = metric.labels.iter().map(|(k, v)| (*k, v.as_str()));
    let mut separator = '{';
    for (key, value) in labels.chain(le.map(|le| ("le", le))) {
        out.push(separator);
        let _ = write!(out, "{key}=\"");
        for c in value.chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                c => out.push(c),
            }
        }
        out.push('"');
        separator = ',';
    }
    if separator == ',' {
        out.push('}');
    }
    let _ = writeln!(out, " {value}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::metrics::families::sample;

    #[test]
    fn what_is_written_is_what_the_format_says() {
        let text = write(&sample());
        let labels = r#"{capture="lag",target="a \"tmux\"\\\n""#;
        for wanted in [
            "# TYPE phux_trace_echo_seconds histogram\n".to_owned(),
            format!("phux_trace_echo_seconds_bucket{labels},le=\"0.000001023\"}} 2\n"),
            format!("phux_trace_echo_seconds_bucket{labels},le=\"0.002097151\"}} 4\n"),
            format!("phux_trace_echo_seconds_bucket{labels},le=\"+Inf\"}} 5\n"),
            format!("phux_trace_echo_seconds_count{labels}}} 5\n"),
            format!("phux_trace_capture_rows_total{labels}}} 7\n"),
            format!("phux_trace_capture_bpf_seconds_total{labels}}} 1.5\n"),
            format!(
                "phux_trace_pty_io_bytes_bucket{labels},end=\"master\",operation=\"read\",le=\"63\"}} 63\n"
            ),
        ] {
            assert!(text.contains(&wanted), "{wanted}\n{text}");
        }
        let families = text.lines().filter(|l| l.starts_with("# TYPE")).count();
        let names: std::collections::BTreeSet<_> = text
            .lines()
            .filter_map(|l| l.strip_prefix("# TYPE ")?.split(' ').next())
            .collect();
        assert_eq!(names.len(), families, "each is told once");
    }
}
