//! What recording costs, as ratios to a floor within one run.
//!
//! Absolute times say little on a machine that does other things too. So the cases take turns in
//! short batches, a ratio is formed within each round, and the median of the rounds is printed, with
//! the quartiles to show how steady it is.

mod cases;

use cases::{ALL, BUCKETS_RECORD, Case, FLOOR, HOP, RECORD};
use std::time::Instant;

const ROUNDS: usize = 2001;

fn main() {
    // `cargo test --benches` runs this with `--test`: then it is enough that it works.
    let rounds = if std::env::args().any(|argument| argument == "--test") {
        3
    } else {
        ROUNDS
    };
    let values = cases::values();
    // Nanoseconds per operation, by case and round.
    let mut times = vec![Vec::with_capacity(rounds); ALL.len()];
    ALL.iter().for_each(|case| _ = batch(case, &values));
    for round in 0..rounds {
        for turn in 0..ALL.len() {
            // Everyone follows everyone: what the one before left in the caches is shared out.
            let index = (turn * 7 + round) % ALL.len();
            times[index].push(batch(&ALL[index], &values));
        }
    }

    println!("{rounds} rounds of {} operations; medians", values.len());
    println!(
        "{:<42}{:>8}{:>12}  quartiles",
        "operation", "ns", "÷ fetch_add"
    );
    let floor = &times[index_of(FLOOR)];
    for (case, times) in ALL.iter().zip(&times) {
        let [low, ratio, high] = quartiles(ratios(times, floor));
        let [_, ns, _] = quartiles(times.clone());
        println!(
            "{:<42}{ns:>8.1}{ratio:>12.2}  {low:.2} to {high:.2}",
            case.name
        );
    }
    println!();
    for (of, to, goal) in [
        (BUCKETS_RECORD, FLOOR, "at most 1.5"),
        (HOP, RECORD, "at most 1.05"),
    ] {
        let [low, ratio, high] = quartiles(ratios(&times[index_of(of)], &times[index_of(to)]));
        println!("{of} ÷ {to}: {ratio:.3} ({low:.3} to {high:.3}); goal {goal}");
    }
}

fn batch(case: &Case, values: &[u64]) -> f64 {
    let started = Instant::now();
    (case.run)(std::hint::black_box(values));
    let elapsed = started.elapsed();
    (case.tidy)();
    elapsed.as_nanos() as f64 / values.len() as f64
}

fn index_of(name: &str) -> usize {
    ALL.iter()
        .position(|case| case.name == name)
        .expect("a case of this name")
}

fn ratios(times: &[f64], to: &[f64]) -> Vec<f64> {
    times.iter().zip(to).map(|(time, to)| time / to).collect()
}

fn quartiles(mut numbers: Vec<f64>) -> [f64; 3] {
    numbers.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| numbers[(numbers.len() - 1) * quarter / 4])
}
