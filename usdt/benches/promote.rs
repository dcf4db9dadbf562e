//! What `promote_current_thread` is worth while every CPU is busy: how late threads wake, and how
//! long they take for their work, promoted and not, side by side in one run.

use phux_perf::{Snapshot, promote_current_thread};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Time from one wake-up to the next, about that of typing and scrolling.
const PERIOD: Duration = Duration::from_millis(5);
const SPINNERS_PER_CPU: usize = 2;

/// How late a thread woke, and how long its work took, in microseconds.
#[derive(Default)]
struct Waits {
    late: Snapshot,
    work: Snapshot,
}

fn main() {
    let test = std::env::args().any(|argument| argument == "--test");
    let length = if test {
        Duration::from_millis(50)
    } else {
        Duration::from_secs(10)
    };
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let over = AtomicBool::new(false);
    println!("{cpus} CPUs with {SPINNERS_PER_CPU} spinning threads each; microseconds");
    println!(
        "{:<34}{:>8}{:>8}{:>8}{:>10}{:>8}",
        "", "n", "late", "", "work", ""
    );
    println!(
        "{:<34}{:>8}{:>8}{:>8}{:>10}{:>8}",
        "thread", "", "p50", "p99", "p50", "p99"
    );
    thread::scope(|scope| {
        for _ in 0..cpus * SPINNERS_PER_CPU {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        for work in [20, 1000].map(Duration::from_micros) {
            let plain = scope.spawn(move || measure(work, length));
            let promoted = scope.spawn(move || (promote_current_thread(), measure(work, length)));
            let work = work.as_micros();
            print(
                &format!("{work} us of work, plain"),
                &plain.join().expect("no panic"),
            );
            let (promotion, waits) = promoted.join().expect("no panic");
            print(&format!("{work} us, {promotion}"), &waits);
        }
        over.store(true, Relaxed);
    });
}

fn measure(work: Duration, length: Duration) -> Waits {
    let mut waits = Waits::default();
    let over = Instant::now() + length;
    while Instant::now() < over {
        let asleep = Instant::now();
        thread::sleep(PERIOD);
        let awake = Instant::now();
        let late = awake.duration_since(asleep).saturating_sub(PERIOD);
        while awake.elapsed() < work {
            std::hint::spin_loop();
        }
        waits.late.record(late.as_micros() as u64);
        waits.work.record(awake.elapsed().as_micros() as u64);
    }
    waits
}

fn print(name: &str, Waits { late, work }: &Waits) {
    let [late50, late99] = [50.0, 99.0].map(|p| late.percentile(p));
    let [work50, work99] = [50.0, 99.0].map(|p| work.percentile(p));
    println!(
        "{name:<34}{:>8}{late50:>8}{late99:>8}{work50:>10}{work99:>8}",
        late.count
    );
}
