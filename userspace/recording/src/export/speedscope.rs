//! speedscope's file format: <https://www.speedscope.app/file-format-schema.json>.

use std::collections::HashMap;
use std::io::Write;

use serde::Serialize;

use super::Stacks;
use crate::Error;

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'a str,
    exporter: &'a str,
    shared: Shared,
    profiles: [Profile<'a>; 1],
}

#[derive(Serialize)]
struct Shared {
    frames: Vec<Frame>,
}

#[derive(Serialize)]
struct Frame {
    name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile<'a> {
    r#type: &'a str,
    name: &'a str,
    unit: &'a str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

/// Writes a profile for speedscope.
///
/// # Errors
/// When `out` cannot be written.
pub fn speedscope(stacks: &Stacks, mut out: impl Write) -> Result<(), Error> {
    let mut frames = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let (mut samples, mut weights) = (Vec::new(), Vec::new());
    for (stack, weight) in stacks.frames() {
        let sample = stack.into_iter().map(|name| {
            *known.entry(name).or_insert_with_key(|name| {
                frames.push(Frame { name: name.clone() });
                frames.len() - 1
            })
        });
        samples.push(sample.collect());
        weights.push(weight);
    }
    let unit = match stacks.weight {
        super::Weight::Bytes => "bytes",
        w if w.is_time() => "nanoseconds",
        _ => "none",
    };
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: concat!("phux-trace ", env!("CARGO_PKG_VERSION")),
        shared: Shared { frames },
        profiles: [Profile {
            r#type: "sampled",
            name: stacks.weight.name(),
            unit,
            start_value: 0,
            end_value: weights.iter().sum(),
            samples,
            weights,
        }],
    };
    let failed = |e: std::io::Error| Error::io("cannot write the profile", e);
    serde_json::to_writer(&mut out, &file).map_err(|e| failed(e.into()))?;
    out.flush().map_err(failed)
}
