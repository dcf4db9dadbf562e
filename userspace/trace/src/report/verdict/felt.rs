//! What a person can feel, and what is noise.

use phux_perf::{Snapshot, bucket_bounds};

use crate::report::model::{Dist, ThreadRow, WaitAccount};

/// A wait from here on is slow, ns. Source: phux's healthy values, `pty.queue_wait` p99 below 1 ms.
pub(super) const SLOW_NS: u64 = 1_000_000;

/// A p99 from here on is lag, ns. Source: an echo passes some five run queues (kworker, child,
/// kworker, reader, client), and the echo p99 that people complained of in phux's ADR 0096 was
/// 14.8 ms; a fifth of it at each is enough. 2.1 ms in all was the state after the repair.
pub(super) const LAG_NS: u64 = 3_000_000;

/// One wait from here on is seen as a freeze, ns. Source: the 0.1 s within which a system seems to
/// react at once (Miller 1968, Nielsen 1993).
pub(super) const FREEZE_NS: u64 = 100_000_000;

/// So many slow waits at least: one or two are chance on any machine (own choice; three waits of
/// 2 ms in ten seconds are no problem).
pub(super) const MIN_SLOW: u64 = 5;

/// Slow waits that take one part in so many of the window from one thread are felt whatever the
/// percentiles say, which many quick waits can thin out. Own choice: as much as one freeze in ten
/// seconds. Of one thread: a thousand of them have a thousand windows to wait in.
pub(super) const SHARE: u64 = 100;

/// With fewer waits than this, their being quick proves little (own choice: four seconds of typing).
pub(super) const FEW: u64 = 20;

/// Waits of one kind, as far as they matter to a person.
#[derive(Debug, Clone, Default)]
pub(super) struct Waits {
    /// All that ended.
    pub(super) all: Snapshot,
    /// Those of [`SLOW_NS`] and more, by their buckets' lower bounds: never too many.
    pub(super) slow: u64,
    /// What those took at least, ns, of all threads together.
    slow_ns: u64,
    /// The same of the thread that lost most by them.
    slow_ns_of_one: u64,
    /// Those of which only the kernel's account is known: their number and sum.
    pub(super) account: (u64, u64),
    /// The longest of those was at least so long, ns.
    pub(super) at_least_ns: u64,
    /// The longest that had not ended with the window, ns.
    pub(super) pending_ns: u64,
}

impl Waits {
    /// Adds waits that ended, of one thread or of one flush work.
    pub(super) fn add(&mut self, dist: &Dist) {
        let slow_ns = self.add_all(dist);
        self.slow_ns_of_one = self.slow_ns_of_one.max(slow_ns);
    }

    /// Adds waits that ended; gives what the slow ones of them took, ns.
    fn add_all(&mut self, dist: &Dist) -> u64 {
        let buckets: Vec<_> = dist
            .buckets
            .iter()
            .map(|b| (usize::from(b.idx), b.count))
            .collect();
        let mut slow_ns = 0u64;
        for &(idx, count) in &buckets {
            let (lower, _) = bucket_bounds(idx);
            if lower >= SLOW_NS {
                self.slow = self.slow.saturating_add(count);
                slow_ns = slow_ns.saturating_add(lower.saturating_mul(count));
            }
        }
        self.slow_ns = self.slow_ns.saturating_add(slow_ns);
        let Dist {
            count,
            sum,
            min,
            max,
            ..
        } = *dist;
        self.all
            .merge(&Snapshot::from_parts(count, sum, min, max, &buckets));
        slow_ns
    }

    /// Adds one that had not ended; gives what it took if it is a slow one.
    fn add_pending(&mut self, ns: u64) -> u64 {
        self.pending_ns = self.pending_ns.max(ns);
        if ns < SLOW_NS {
            return 0;
        }
        self.slow = self.slow.saturating_add(1);
        self.slow_ns = self.slow_ns.saturating_add(ns);
        ns
    }

    /// Adds waits of which only sums are known; gives what the slow ones took at least, ns.
    fn add_account(&mut self, a: &WaitAccount) -> u64 {
        self.account.0 = self.account.0.saturating_add(a.count);
        self.account.1 = self.account.1.saturating_add(a.sum);
        self.at_least_ns = self.at_least_ns.max(a.longest);
        self.slow = self.slow.saturating_add(a.slow);
        self.slow_ns = self.slow_ns.saturating_add(a.slow_ns);
        a.slow_ns
    }

    /// Waits of a thread, the one that had not ended included.
    pub(super) fn add_thread(&mut self, thread: &ThreadRow) {
        let ended = match &thread.account {
            Some(account) => self.add_account(account),
            None => self.add_all(&thread.wait),
        };
        let pending = thread.waiting_ns.map_or(0, |ns| self.add_pending(ns));
        // A row can stand for many threads that have ended: then for each on average.
        let of_one = ended.saturating_add(pending) / thread.threads.max(1);
        self.slow_ns_of_one = self.slow_ns_of_one.max(of_one);
    }

    /// Waits of one distribution.
    pub(super) fn of(dist: &Dist) -> Self {
        let mut waits = Waits::default();
        waits.add(dist);
        waits
    }

    /// Waits of one thread.
    pub(super) fn of_thread(thread: &ThreadRow) -> Self {
        let mut waits = Waits::default();
        waits.add_thread(thread);
        waits
    }

    /// Whether there was any.
    pub(super) fn any(&self) -> bool {
        self.count() > 0 || self.pending_ns > 0
    }

    /// How many ended.
    pub(super) fn count(&self) -> u64 {
        self.all.count.saturating_add(self.account.0)
    }

    /// The longest, ns; where only sums are known, what it was at least.
    pub(super) fn longest(&self) -> u64 {
        self.all.max.max(self.pending_ns).max(self.at_least_ns)
    }

    /// All of them together, ns.
    pub(super) fn total(&self) -> u64 {
        let ended = self.all.sum.saturating_add(self.account.1);
        ended.saturating_add(self.pending_ns)
    }

    /// Those of which only sums are known: how long they were on average, ns.
    pub(super) fn average(&self) -> u64 {
        self.account.1.checked_div(self.account.0).unwrap_or(0)
    }

    /// What the slow ones took: what findings are ranked by, ns.
    pub(super) fn delay(&self) -> u64 {
        self.slow_ns
    }

    /// Whether a person could feel them in a window of this length.
    pub(super) fn felt(&self, window_ns: u64) -> bool {
        let freeze = self.longest() >= FREEZE_NS;
        // An average that is lag has a p99 that is no less.
        let lag = self.all.percentile(99.0).max(self.average()) >= LAG_NS;
        let share = self.slow_ns_of_one.saturating_mul(SHARE) >= window_ns;
        freeze || self.slow >= MIN_SLOW && (lag || share)
    }
}

/// Whether keystrokes wake a peer: the flush worker does it, so a kworker is among its wakers.
///
/// `make` and a compiler driver sleep most of the time as an editor does, but wait for their
/// children, and nobody types at them. Where no wakers are known every peer counts.
pub(super) fn takes_keys(t: &ThreadRow) -> bool {
    t.wakers.is_empty() || t.wakers.iter().any(|w| w.name.starts_with("kworker/"))
}

/// Whether a thread waits because it wants more CPU than there is: a compile, not a victim of one.
///
/// It ran for a fifth of its life, or it was seldom blocked and got some share. An interactive
/// thread sleeps for nearly all of its life; one that is starved wants to run but gets next to nothing.
pub(super) fn is_hog(t: &ThreadRow) -> bool {
    let ended = t.account.map_or(t.wait.sum, |a| a.sum);
    let waits = u128::from(ended) + u128::from(t.waiting_ns.unwrap_or(0));
    let (ran, blocked) = (u128::from(t.on_cpu_ns), u128::from(t.blocked_ns));
    let life = ran + blocked + waits;
    life > 0 && (ran * 5 >= life || (ran * 20 >= life && blocked * 2 <= life))
}
