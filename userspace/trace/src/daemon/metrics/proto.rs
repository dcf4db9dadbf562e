//! The protobuf form: messages of `io.prometheus.client`, each with its length before it. Names and
//! numbers are those of `metrics.proto` in github.com/prometheus/client_model, as far as its fields are
//! written; they are never renumbered there.

use prost::{Enumeration, Message};

use super::families::{Distribution, Family, Kind, Value};
use super::native::{SCHEMA, ZERO, cumulative, sparse, total};

/// What it is called in HTTP.
pub(super) const CONTENT_TYPE: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    help: Option<String>,
    #[prost(enumeration = "MetricType", optional, tag = "3")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    metric: Vec<Metric>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
enum MetricType {
    Counter = 0,
    Gauge = 1,
    Histogram = 4,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

/// `Counter` and `Gauge` alike.
#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    bucket: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    positive_span: Vec<BucketSpan>,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    positive_delta: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    upper_bound: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct BucketSpan {
    #[prost(sint32, optional, tag = "1")]
    offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    length: Option<u32>,
}

/// All families.
pub(super) fn write(families: &[Family]) -> Vec<u8> {
    let messages = families.iter().map(family);
    messages
        .flat_map(|m| m.encode_length_delimited_to_vec())
        .collect()
}

fn family(family: &Family) -> MetricFamily {
    let kind = match family.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
    };
    MetricFamily {
        name: Some(family.name.into()),
        help: Some(family.help.into()),
        kind: Some(kind.into()),
        metric: family
            .metrics
            .iter()
            .map(|m| metric(m, family.kind))
            .collect(),
    }
}

fn metric(metric: &super::families::Metric, kind: Kind) -> Metric {
    let label = |(name, value): &(&str, String)| LabelPair {
        name: Some((*name).into()),
        value: Some(value.clone()),
    };
    let mut message = Metric {
        label: metric.labels.iter().map(label).collect(),
        ..Metric::default()
    };
    match (&metric.value, kind) {
        (Value::Number(n), Kind::Gauge) => message.gauge = Some(Number { value: Some(*n) }),
        (Value::Number(n), _) => message.counter = Some(Number { value: Some(*n) }),
        (Value::Distribution(d), _) => message.histogram = Some(histogram(d)),
    }
    message
}

/// Both forms in one: who does not know native histograms reads the classic one.
fn histogram(d: &Distribution) -> Histogram {
    let native = sparse(&d.snapshot, d.unit);
    let bucket = |(bound, count)| Bucket {
        cumulative_count: Some(count),
        upper_bound: Some(bound),
    };
    let span = |(offset, length)| BucketSpan {
        offset: Some(offset),
        length: Some(length),
    };
    Histogram {
        sample_count: Some(total(&d.snapshot)),
        sample_sum: Some(d.unit.of(d.snapshot.sum)),
        bucket: cumulative(&d.snapshot, d.unit)
            .into_iter()
            .map(bucket)
            .collect(),
        schema: Some(SCHEMA),
        zero_threshold: Some(ZERO),
        zero_count: Some(native.zero),
        positive_span: native.spans.into_iter().map(span).collect(),
        positive_delta: native.deltas,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::metrics::families::sample;

    #[test]
    fn what_is_written_reads_back() {
        let bytes = write(&sample());
        let (mut left, mut families) = (bytes.as_slice(), Vec::new());
        while !left.is_empty() {
            families.push(MetricFamily::decode_length_delimited(&mut left).expect("a family"));
        }
        let echo = families
            .iter()
            .find(|f| f.name() == "phux_trace_echo_seconds");
        let echo = echo.expect("echoes").metric[0]
            .histogram
            .clone()
            .expect("a histogram");
        assert_eq!(
            (echo.sample_count(), echo.zero_count(), echo.schema()),
            (5, 1, 3)
        );
        let last = echo.bucket.last().expect("bounds");
        assert_eq!(last.cumulative_count(), 4, "40 s are above all bounds");
        let mut count = 0;
        let counts: i64 = echo
            .positive_delta
            .iter()
            .map(|d| {
                count += d;
                count
            })
            .sum();
        assert_eq!(counts, 4);
        let lengths: u32 = echo.positive_span.iter().map(BucketSpan::length).sum();
        assert_eq!(lengths as usize, echo.positive_delta.len());
    }
}
