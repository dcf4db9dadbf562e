//! One pass: records come in, calls go to every consumer, in batches, on the same thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, channel, sync_channel};
use std::sync::{Arc, mpsc::Sender};

use super::join::Joined;
use super::{Call, Join, Stats};
use crate::source::live::CallSums;

/// Calls in a batch: so many fit into a CPU's second cache, with what consumers keep themselves.
const BATCH: usize = 512;

/// Someone who wants the calls. It holds everybody up while it looks at them: who needs longer, or
/// lives on another thread, takes them through [`shedding`].
pub trait Consumer {
    /// Takes calls, in the order of their ends as far as one ring goes.
    fn calls(&mut self, calls: &[Call]);
}

/// Records in, calls out.
#[derive(Default)]
pub struct Pipeline {
    join: Join,
    batch: Vec<Call>,
    stats: Stats,
    consumers: Vec<Box<dyn Consumer>>,
    undecodable: u64,
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline")
            .field("consumers", &self.consumers.len())
            .finish_non_exhaustive()
    }
}

impl Pipeline {
    /// Adds somebody. **This is where a recording is written from**: a [`Consumer`] that turns each
    /// [`Call`] into its row.
    pub fn add(&mut self, consumer: Box<dyn Consumer>) {
        self.consumers.push(consumer);
    }

    /// Takes a record; `false`: it is none of the recorder's.
    pub fn take(&mut self, record: &[u8]) -> bool {
        match self.join.take(record) {
            Joined::Call(call) => {
                self.batch.push(call);
                if self.batch.len() >= BATCH {
                    self.flush();
                }
                true
            }
            Joined::Context => true,
            Joined::Other => false,
            Joined::Undecodable => {
                self.undecodable += 1;
                true
            }
        }
    }

    /// Hands over what has come since the last time.
    pub fn flush(&mut self) {
        self.stats.calls(&self.batch);
        for consumer in &mut self.consumers {
            consumer.calls(&self.batch);
        }
        self.batch.clear();
    }

    /// The figures, of what was handed over.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Figures begin anew.
    pub fn reset(&mut self) {
        self.stats = Stats::default();
    }

    /// Adds what the kernel has summed up itself.
    pub fn add_summed(&mut self, sums: &CallSums) {
        let process = self.join.name(&sums.process);
        self.stats.add_summed(sums, &process);
    }

    /// Records that were not understood.
    pub fn undecodable(&self) -> u64 {
        self.undecodable
    }

    /// Calls whose file has no name.
    pub fn unnamed(&self) -> u64 {
        self.join.unnamed()
    }
}

/// A consumer that gives copies to another thread, and sheds, and counts, what that one is too slow for.
#[derive(Debug)]
pub struct Shedding {
    batches: SyncSender<Vec<Call>>,
    emptied: Receiver<Vec<Call>>,
    /// Of a batch that found no room.
    spare: Vec<Call>,
    shed: Arc<AtomicU64>,
}

/// The other end of a [`Shedding`].
#[derive(Debug)]
pub struct Shed {
    batches: Receiver<Vec<Call>>,
    emptied: Sender<Vec<Call>>,
    shed: Arc<AtomicU64>,
}

/// A consumer for a thread of its own, which may be so many batches of calls behind.
pub fn shedding(batches: usize) -> (Shedding, Shed) {
    let (send, receive) = sync_channel(batches);
    let (give_back, emptied) = channel();
    let shed = Arc::new(AtomicU64::new(0));
    let consumer = Shedding {
        batches: send,
        emptied,
        spare: Vec::new(),
        shed: shed.clone(),
    };
    let other_end = Shed {
        batches: receive,
        emptied: give_back,
        shed,
    };
    (consumer, other_end)
}

impl Consumer for Shedding {
    fn calls(&mut self, calls: &[Call]) {
        if calls.is_empty() {
            return;
        }
        let mut batch = match self.emptied.try_recv() {
            Ok(batch) => batch,
            Err(_) => std::mem::take(&mut self.spare),
        };
        batch.extend_from_slice(calls);
        if let Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) =
            self.batches.try_send(batch)
        {
            self.shed.fetch_add(calls.len() as u64, Ordering::Relaxed);
            self.spare = batch;
            self.spare.clear();
        }
    }
}

impl Shed {
    /// The next batch, if one is there, is given to `look`; `false`: there was none.
    ///
    /// # Errors
    /// The pipeline is gone and everything has been taken.
    pub fn next(&self, look: impl FnOnce(&[Call])) -> Result<bool, TryRecvError> {
        let mut batch = match self.batches.try_recv() {
            Ok(batch) => batch,
            Err(TryRecvError::Empty) => return Ok(false),
            Err(gone) => return Err(gone),
        };
        look(&batch);
        batch.clear();
        // Nobody to use it again: then it is just freed.
        let _ = self.emptied.send(batch);
        Ok(true)
    }

    /// Calls that this end was too slow for.
    pub fn shed(&self) -> u64 {
        self.shed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls::stats::tests::call;

    #[test]
    fn a_slow_consumer_sheds_and_counts_and_holds_nobody_up() {
        let (mut consumer, end) = shedding(2);
        let calls = vec![call(1, None, 0, 50, 5); 10];
        for _ in 0..5 {
            consumer.calls(&calls);
        }
        assert_eq!(end.shed(), 30, "two batches wait, three found no room");
        let mut seen = 0;
        while end.next(|calls| seen += calls.len()) == Ok(true) {}
        assert_eq!(seen, 20);
        consumer.calls(&calls);
        drop(consumer);
        assert_eq!(end.next(|calls| seen += calls.len()), Ok(true));
        assert_eq!((seen, end.shed()), (30, 30));
        assert_eq!(end.next(|_| ()), Err(TryRecvError::Disconnected));
    }

    #[test]
    fn every_consumer_gets_every_call_once() {
        struct Count(std::rc::Rc<std::cell::Cell<usize>>);
        impl Consumer for Count {
            fn calls(&mut self, calls: &[Call]) {
                self.0.set(self.0.get() + calls.len());
            }
        }
        let mut pipeline = Pipeline::default();
        let counts = [(); 2].map(|()| std::rc::Rc::new(std::cell::Cell::new(0)));
        for count in &counts {
            pipeline.add(Box::new(Count(count.clone())));
        }
        for calls in [1, BATCH, 3 * BATCH + 1] {
            for _ in 0..calls {
                pipeline.batch.push(call(1, None, 0, 50, 5));
                if pipeline.batch.len() >= BATCH {
                    pipeline.flush();
                }
            }
            pipeline.flush();
        }
        let all = 4 * BATCH + 2;
        assert!(counts.iter().all(|c| c.get() == all), "{counts:?}");
        assert_eq!(pipeline.stats().total.count(), all as u64);
    }
}
