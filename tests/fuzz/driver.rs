//! What the fuzz targets share: a bounded search from a kept corpus, on stable Rust.
//!
//! A target is a test beside the code that it is about (`userspace/wire/tests/fuzz.rs`) that takes
//! this file in with `#[path]` and calls [`fuzz`]. Its corpus is `tests/fuzz/corpus/TARGET`. Every
//! input of it is tried as it is; then, until the time is up, damaged and spliced ones are. Each run
//! has another seed, which a failure names, with the file in which it has left the input: kept in
//! the corpus, that is a regression test for good.
//!
//! `FUZZ_SECS` is how long (1 by default, fractions allowed), `FUZZ_SEED` repeats a run.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Longest input that is tried, in bytes.
const LONGEST: usize = 64 * 1024;

/// Values at which lengths and counts go wrong.
const EDGES: [u64; 10] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    u64::MAX,
];

/// Runs `target` on the corpus of that name and on what comes of it. `mend` is called on most of
/// the damaged inputs, to make them get past a checksum or an outer length; the others stay as
/// they are.
///
/// # Panics
/// Where `target` does, and where there is no corpus.
pub fn fuzz(name: &str, mend: impl Fn(&mut Vec<u8>), target: impl Fn(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|dir| dir.join("tests/fuzz/corpus").join(name))
        .find(|dir| dir.is_dir())
        .unwrap_or_else(|| panic!("no corpus {name}"));
    let mut paths: Vec<_> = std::fs::read_dir(&dir)
        .expect("the corpus can be read")
        .map(|entry| entry.expect("the corpus can be read").path())
        .collect();
    // So that a seed means the same everywhere.
    paths.sort();
    let corpus: Vec<Vec<u8>> = paths
        .iter()
        .map(|path| std::fs::read(path).expect("the corpus can be read"))
        .collect();
    assert!(!corpus.is_empty(), "the corpus {name} is empty");
    for (path, input) in paths.iter().zip(&corpus) {
        println!("{}", path.display());
        target(input);
    }
    let seed = number("FUZZ_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.unwrap_or_default().as_nanos() as f64
    }) as u64;
    let time = Duration::from_secs_f64(number("FUZZ_SECS").unwrap_or(1.0));
    let mut random = Random(seed);
    let start = Instant::now();
    let mut tried = 0u64;
    while start.elapsed() < time {
        let mut input = random.pick(&corpus).clone();
        for _ in 0..=random.below(4) {
            damage(&mut input, &corpus, &mut random);
        }
        input.truncate(LONGEST);
        if random.below(8) > 0 {
            mend(&mut input);
        }
        tried += 1;
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(&input))) {
            let path = std::env::temp_dir().join(format!("fuzz-{name}-{seed}-{tried}"));
            let kept = std::fs::write(&path, &input);
            eprintln!(
                "{name}: FUZZ_SEED={seed}, input {tried}, left in {} ({kept:?}); keep it in {}",
                path.display(),
                dir.display()
            );
            resume_unwind(panic);
        }
    }
    println!("{name}: seed {seed}, {tried} inputs in {time:?}");
    assert!(tried > 0);
}

fn number(variable: &str) -> Option<f64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// One step away from the input.
fn damage(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = at + random.below(input.len() - at + 1).min(16);
    match random.below(8) {
        0 => input.truncate(at),
        1 => drop(input.drain(at..end)),
        2 => {
            let again = input[at..end].to_vec();
            input.splice(at..at, again);
        }
        3 => {
            let other = random.pick(corpus);
            let from = random.below(other.len() + 1);
            input.splice(at..end, other[from..].iter().copied());
        }
        4 => input.insert(at, random.next() as u8),
        5 => {
            // A number of any width and either order.
            let edge = EDGES[random.below(EDGES.len())];
            let width = 1 << random.below(4);
            let bytes = if random.below(2) == 0 {
                edge.to_be_bytes()[8 - width..].to_vec()
            } else {
                edge.to_le_bytes()[..width].to_vec()
            };
            let end = input.len().min(at + width);
            input.splice(at..end, bytes);
        }
        6 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
        _ => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
    }
}

/// SplitMix64: it need not be good, only fast and the same for a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn pick<'a>(&mut self, corpus: &'a [Vec<u8>]) -> &'a Vec<u8> {
        &corpus[self.below(corpus.len())]
    }
}
