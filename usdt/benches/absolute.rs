//! The same cases in nanoseconds, by divan; for a quiet machine. `ratios.rs` has the ratios.

mod cases;

use divan::counter::ItemsCount;

fn main() {
    divan::main();
}

#[divan::bench(args = cases::ALL)]
fn one_thread(bencher: divan::Bencher<'_, '_>, case: &cases::Case) {
    let values = cases::values();
    bencher
        .counter(ItemsCount::new(values.len()))
        .with_inputs(|| (case.tidy)())
        .bench_values(|()| (case.run)(&values));
}
