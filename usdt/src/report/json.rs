//! The list of metrics in JSON: `{name, unit, kind, value}`, where the value's shape depends on the
//! kind.

use super::{Reading, Value};
use crate::metric::Unit;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;

#[derive(Deserialize)]
struct Shape {
    name: String,
    #[serde(default = "unknown_unit")]
    unit: Unit,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    value: Json,
}

#[derive(Serialize)]
struct Borrowed<'a, T> {
    name: &'a str,
    unit: Unit,
    kind: &'a str,
    value: T,
}

fn unknown_unit() -> Unit {
    Unit::Other
}

pub(super) fn serialize<S: Serializer>(
    metrics: &[Reading],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(metrics)
}

impl Serialize for Reading {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { name, unit, value } = self;
        let unit = *unit;
        match value {
            Value::Histogram(value) => Borrowed {
                name,
                unit,
                kind: "histogram",
                value,
            }
            .serialize(serializer),
            Value::Counter(value) => Borrowed {
                name,
                unit,
                kind: "counter",
                value,
            }
            .serialize(serializer),
            Value::Gauge(value) => Borrowed {
                name,
                unit,
                kind: "gauge",
                value,
            }
            .serialize(serializer),
            Value::Unknown { kind, value } => Borrowed {
                name,
                unit,
                kind,
                value,
            }
            .serialize(serializer),
        }
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Reading>, D::Error> {
    let shapes = Vec::<Shape>::deserialize(deserializer)?;
    Ok(shapes.into_iter().map(Reading::from).collect())
}

impl From<Shape> for Reading {
    fn from(
        Shape {
            name,
            unit,
            kind,
            value,
        }: Shape,
    ) -> Self {
        let known = match kind.as_str() {
            "histogram" => serde::Deserialize::deserialize(&value)
                .ok()
                .map(Value::Histogram),
            "counter" => value.as_u64().map(Value::Counter),
            "gauge" => value.as_i64().map(Value::Gauge),
            _ => None,
        };
        Self {
            name,
            unit,
            value: known.unwrap_or(Value::Unknown { kind, value }),
        }
    }
}
