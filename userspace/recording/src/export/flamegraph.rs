//! A flame graph as an SVG file. Own code, because the one crate that draws them (inferno) is under
//! the CDDL. No script in it: a frame's text and figures are its tooltip.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::Stacks;
use crate::Error;
use crate::text::duration;

const WIDTH: f64 = 1200.0;
const ROW: usize = 18;
const TOP: usize = 40;
/// Of a character of the font, px.
const CHARACTER: f64 = 6.6;
/// A frame that is narrower cannot be seen.
const NARROWEST: f64 = 0.2;

/// A frame and what is on top of it.
#[derive(Default)]
struct Frame {
    weight: u64,
    above: BTreeMap<String, Frame>,
}

impl Frame {
    fn depth(&self) -> usize {
        1 + self.above.values().map(Frame::depth).max().unwrap_or(0)
    }
}

/// Writes a flame graph.
///
/// # Errors
/// When `out` cannot be written.
pub fn flamegraph(stacks: &Stacks, mut out: impl Write) -> Result<(), Error> {
    let mut root = Frame::default();
    for (stack, weight) in stacks.frames() {
        root.weight += weight;
        let mut frame = &mut root;
        for name in stack {
            frame = frame.above.entry(name).or_default();
            frame.weight += weight;
        }
    }
    let mut graph = Graph {
        out: &mut out,
        stacks,
        total: root.weight,
        depth: root.depth(),
    };
    graph
        .write(&root)
        .map_err(|e| Error::io("cannot write the flame graph", e))
}

struct Graph<'a, W: Write> {
    out: &'a mut W,
    stacks: &'a Stacks,
    total: u64,
    depth: usize,
}

impl<W: Write> Graph<'_, W> {
    fn write(&mut self, root: &Frame) -> io::Result<()> {
        let height = TOP + (self.depth + 1) * ROW;
        writeln!(
            self.out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"11\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"{}\" y=\"24\" font-size=\"16\" text-anchor=\"middle\">Syscalls by {}</text>",
            WIDTH / 2.0,
            self.stacks.weight.name(),
        )?;
        if self.total == 0 {
            writeln!(
                self.out,
                "<text x=\"10\" y=\"{}\">nothing</text>",
                TOP + ROW
            )?;
        } else {
            self.frame("all", root, 0.0, 0)?;
        }
        writeln!(self.out, "</svg>")?;
        self.out.flush()
    }

    fn frame(&mut self, name: &str, frame: &Frame, x: f64, level: usize) -> io::Result<()> {
        let width = frame.weight as f64 / self.total as f64 * WIDTH;
        if width < NARROWEST {
            return Ok(());
        }
        let y = TOP + (self.depth - 1 - level) * ROW;
        let share = frame.weight as f64 / self.total as f64 * 100.0;
        writeln!(
            self.out,
            "<g><title>{} ({}, {share:.2} %)</title><rect x=\"{x:.1}\" y=\"{y}\" \
             width=\"{width:.1}\" height=\"{}\" fill=\"{}\"/>",
            escaped(name),
            self.figure(frame.weight),
            ROW - 1,
            colour(name),
        )?;
        let room = (width / CHARACTER) as usize;
        if room >= 4 {
            let label: String = if name.chars().count() <= room {
                name.to_owned()
            } else {
                name.chars().take(room - 2).chain("..".chars()).collect()
            };
            let baseline = y + ROW - 6;
            writeln!(
                self.out,
                "<text x=\"{:.1}\" y=\"{baseline}\">{}</text>",
                x + 3.0,
                escaped(&label)
            )?;
        }
        writeln!(self.out, "</g>")?;
        let mut left = x;
        for (name, above) in &frame.above {
            self.frame(name, above, left, level + 1)?;
            left += above.weight as f64 / self.total as f64 * WIDTH;
        }
        Ok(())
    }

    fn figure(&self, weight: u64) -> String {
        if self.stacks.weight.is_time() {
            duration(weight)
        } else {
            format!("{weight} {}", self.stacks.weight.name())
        }
    }
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // Neither is allowed in XML 1.0, even escaped.
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// A warm colour; the same name has the same one in every graph (FNV-1a of the name).
fn colour(name: &str) -> String {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    });
    let part = |shift: u32, range: u64| (hash >> shift) % range;
    format!(
        "rgb({},{},{})",
        205 + part(8, 50),
        80 + part(24, 130),
        part(40, 55)
    )
}
