//! A small fuzzer: bounded in time, on a kept corpus, on stable Rust.
//!
//! Each file of `tests/fuzz/TARGET/` is tried as it is, and then changed at random for some seconds
//! (`PHUX_FUZZ_SECONDS`, 2 unless set). What fails is written to that folder, where it is tried for ever.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The corpora.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz");
/// Inputs grow no longer.
const MAX_BYTES: usize = 1 << 16;
/// Numbers on which arithmetic fails.
const EDGES: [u64; 9] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff_ffff,
    0xffff_ffff,
    0x8000_0000,
    1 << 63,
    u64::MAX,
];

/// Runs a target on its corpus and on changes of it. Panics with the place of an input that fails, or
/// that takes longer than `patience`.
pub fn fuzz(target: &str, patience: Duration, run: fn(&[u8])) {
    let folder = Path::new(FOLDER).join(target);
    let corpus = corpus(&folder);
    assert!(!corpus.is_empty(), "{}: no corpus", folder.display());
    let attempt = |input: &[u8], name: &dyn Fn() -> PathBuf| {
        let began = Instant::now();
        let failed = catch_unwind(AssertUnwindSafe(|| run(input))).is_err();
        let slow = began.elapsed() > patience;
        if failed || slow {
            let path = name();
            let _ = fs::write(&path, input);
            let what = if failed { "fails" } else { "takes too long" };
            panic!("{target} {what} on {}", path.display());
        }
    };
    for (path, input) in &corpus {
        attempt(input, &|| path.clone());
    }
    let seconds = std::env::var("PHUX_FUZZ_SECONDS")
        .ok()
        .and_then(|s| s.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(2));
    let seed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |d| d.as_nanos() as u64);
    let mut random = Random(seed);
    let mut tried = 0u64;
    while Instant::now() < end {
        let (_, start) = &corpus[random.below(corpus.len())];
        let (_, other) = &corpus[random.below(corpus.len())];
        let input = changed(start, other, &mut random);
        attempt(&input, &|| {
            folder.join(format!("found-{:016x}", hash(&input)))
        });
        tried += 1;
    }
    println!(
        "{target}: {} kept inputs and {tried} changed ones, seed {seed}",
        corpus.len()
    );
    assert!(tried > 0, "no time for any change");
}

fn corpus(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .flatten()
        .map(|e| e.path())
        .collect();
    paths.sort();
    let read = |p: PathBuf| fs::read(&p).map(|bytes| (p, bytes)).ok();
    paths.into_iter().filter_map(read).collect()
}

/// `start` with up to eight changes.
fn changed(start: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = start.to_vec();
    for _ in 0..=random.below(8) {
        let at = random.below(bytes.len() + 1);
        match random.below(7) {
            0 => bytes
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|b| *b ^= 1 << random.below(8)),
            1 => bytes
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|b| *b = random.next() as u8),
            2 => {
                // A whole number at once, as a field has it.
                let number = EDGES[random.below(EDGES.len())].wrapping_add(random.below(3) as u64);
                let width = 1 << random.below(4);
                let number = number.to_le_bytes();
                bytes
                    .iter_mut()
                    .skip(at)
                    .zip(&number[..width])
                    .for_each(|(b, n)| *b = *n);
            }
            3 => bytes.truncate(at),
            4 => {
                let count = random.below(17);
                let insert: Vec<u8> = (0..count).map(|_| random.next() as u8).collect();
                bytes.splice(at..at, insert);
            }
            5 => {
                let from = random.below(other.len() + 1);
                let length = random.below(257).min(other.len() - from);
                let end = (at + length).min(bytes.len());
                bytes.splice(at..end, other[from..from + length].iter().copied());
            }
            _ => {
                let end = (at + random.below(65)).min(bytes.len());
                bytes.drain(at..end);
            }
        }
        bytes.truncate(MAX_BYTES);
    }
    bytes
}

/// FNV-1a, for a file's name.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3)
    })
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 where `n` is 0.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_behind_a_number_is_found() {
        let start = [7u8; 32];
        let mut random = Random(3);
        let found = (0..2_000_000).any(|_| {
            let input = changed(&start, &start, &mut random);
            input.len() > 12 && input[8..12] == [0xff; 4]
        });
        assert!(found);
    }
}
