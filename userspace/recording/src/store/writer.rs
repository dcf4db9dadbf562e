//! The thread that writes: takes what has gathered, table by table.

use std::fs::File;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use super::encode::Encoder;
use super::layout::{self, PartName};
use super::part::{Place, Segment};
use super::recorder::{Options, Ring, Shared};
use super::recover::recover;
use super::ring::Blocks;
use super::whole::{self, How};
use super::{FINISHED, RUNNING};
use crate::Error;
use crate::rows::{Inbox, Loss, Name, Record, Run, Table, Visit, each_table};

/// The longest sleep: what is pushed too seldom to wake the writer waits no longer.
const NAP: Duration = Duration::from_millis(200);

/// A ring is cut in so many pieces: one may be kept too long.
const PIECES: u32 = 32;

pub(crate) struct Writer {
    shared: Arc<Shared>,
    place: Arc<Place>,
    /// Held for as long as we live.
    lock: File,
    run: Run,
    options: Options,
    tables: Vec<Box<dyn Sink>>,
    inbox: Inbox,
    shed: [u64; Table::ALL.len()],
    ring_lost: u64,
    /// When the ring's last blocks were closed.
    cut: u64,
}

/// One table, whatever its rows.
trait Sink: Send {
    fn take(&mut self, inbox: &mut Inbox, now: Now) -> Result<(), Error>;
    fn save(&mut self, now: Now) -> Result<(), Error>;
    fn rotate(&mut self, now: Now, age: Duration) -> Result<(), Error>;
    fn finish(&mut self, now: Now) -> Result<(), Error>;
    fn abandon(&mut self);
    fn ring(&mut self) -> Option<&mut dyn Forgetful>;
    /// Writes the ring's rows as parts.
    fn dump(&mut self, now: Now) -> Result<(), Error>;
}

/// A table's part of the ring.
trait Forgetful {
    fn close(&mut self, now: u64) -> Result<(), Error>;
    fn forget_before(&mut self, moment: u64);
    fn bytes(&self) -> usize;
    fn oldest(&self) -> Option<u64>;
    fn forget_oldest(&mut self) -> u64;
}

/// Both clocks: the one that names the day, and the one that never steps.
#[derive(Debug, Clone, Copy)]
struct Now {
    unix: i64,
    mono: u64,
}

impl Now {
    fn get() -> Now {
        let mono = clock_gettime(ClockId::Monotonic);
        Now {
            unix: unix_ns(),
            mono: mono.tv_sec as u64 * 1_000_000_000 + mono.tv_nsec as u64,
        }
    }
}

pub(crate) fn unix_ns() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as i64)
}

struct Written<T: Record> {
    segment: Segment<T>,
    ring: Option<Blocks<T>>,
}

impl<T: Record> Sink for Written<T> {
    fn take(&mut self, inbox: &mut Inbox, now: Now) -> Result<(), Error> {
        let rows = T::inbox(inbox);
        match &mut self.ring {
            Some(ring) => ring.append(rows, now.mono),
            None => self.segment.append(rows, now.unix),
        }
    }

    fn save(&mut self, now: Now) -> Result<(), Error> {
        self.segment.save(now.unix)
    }

    fn rotate(&mut self, now: Now, age: Duration) -> Result<(), Error> {
        self.segment.rotate(now.unix, age)
    }

    fn finish(&mut self, now: Now) -> Result<(), Error> {
        self.segment.finish(now.unix)
    }

    fn abandon(&mut self) {
        self.segment.abandon();
    }

    fn ring(&mut self) -> Option<&mut dyn Forgetful> {
        self.ring.as_mut().map(|r| r as &mut dyn Forgetful)
    }

    fn dump(&mut self, now: Now) -> Result<(), Error> {
        let segment = &mut self.segment;
        if let Some(ring) = &mut self.ring {
            ring.drain(|rows| segment.append(rows, now.unix))?;
        }
        segment.finish(now.unix)
    }
}

impl<T: Record> Forgetful for Blocks<T> {
    fn close(&mut self, now: u64) -> Result<(), Error> {
        Blocks::close(self, now)
    }
    fn forget_before(&mut self, moment: u64) {
        Blocks::forget_before(self, moment);
    }
    fn bytes(&self) -> usize {
        Blocks::bytes(self)
    }
    fn oldest(&self) -> Option<u64> {
        Blocks::oldest(self)
    }
    fn forget_oldest(&mut self) -> u64 {
        Blocks::forget_oldest(self)
    }
}

struct Open {
    place: Arc<Place>,
    ring: bool,
    tables: Vec<Box<dyn Sink>>,
}

impl Visit for Open {
    fn table<T: Record>(&mut self) -> Result<(), Error> {
        let ring = self.ring.then(|| {
            let encoder = Encoder::<T>::new(self.place.run, self.place.codec);
            Blocks::new(encoder, self.place.row_group)
        });
        self.tables.push(Box::new(Written {
            segment: Segment::<T>::new(self.place.clone()),
            ring,
        }));
        Ok(())
    }
}

impl Writer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        place: Arc<Place>,
        lock: File,
        mut run: Run,
        options: Options,
    ) -> Result<Writer, Error> {
        let mut open = Open {
            place: place.clone(),
            ring: options.ring.is_some(),
            tables: Vec::new(),
        };
        each_table(&mut open)?;
        run.outcome = Name::fixed(RUNNING);
        run.end = None;
        let writer = Writer {
            shared,
            place,
            lock,
            run,
            options,
            tables: open.tables,
            inbox: Inbox::default(),
            shed: [0; Table::ALL.len()],
            ring_lost: 0,
            cut: 0,
        };
        // There from the beginning: also a killed recording says what it was.
        writer.write_run(false)?;
        Ok(writer)
    }

    pub(crate) fn run(mut self) -> Result<Run, Error> {
        let result = self.work().and_then(|()| self.finish());
        // From now on nobody waits for room.
        self.shared.lock().ended = true;
        self.shared.room.notify_all();
        let root = &self.place.root;
        let _ = root.remove(&layout::ballast(self.place.run));
        match result {
            Ok(()) => {
                let _ = root.remove(&layout::lock(self.place.run));
                Ok(self.run)
            }
            Err(error) => {
                self.salvage(&error);
                // What could not be finished is now a dead recorder's, and has the ballast's room.
                drop(self.lock);
                let _ = recover(self.place.root.path());
                Err(error)
            }
        }
    }

    fn work(&mut self) -> Result<(), Error> {
        let mut saved = Instant::now();
        loop {
            let (stop, dumps) = self.take();
            let now = Now::get();
            for table in &mut self.tables {
                table.take(&mut self.inbox, now)?;
            }
            if let Some(dumps) = dumps {
                self.dump(dumps, now)?;
            }
            if stop {
                return Ok(());
            }
            if saved.elapsed() >= self.options.save {
                saved = Instant::now();
                self.tell_losses(now)?;
                match self.options.ring {
                    Some(ring) => self.age(ring, now)?,
                    None => {
                        for table in &mut self.tables {
                            table.save(now)?;
                            table.rotate(now, self.options.rotate)?;
                        }
                    }
                }
            }
        }
    }

    /// Swaps the full inbox for the empty one. `(stop, triggers to serve)`.
    fn take(&mut self) -> (bool, Option<u64>) {
        let mut state = self.shared.lock();
        if state.queued == 0 && !state.stop && state.triggers == state.dumps {
            state.idle = true;
            let nap = NAP.min(self.options.save);
            state = self
                .shared
                .work
                .wait_timeout(state, nap)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        state.idle = false;
        std::mem::swap(&mut state.inbox, &mut self.inbox);
        state.queued = 0;
        let seen = (
            state.stop,
            (state.triggers != state.dumps).then_some(state.triggers),
        );
        drop(state);
        self.shared.room.notify_all();
        seen
    }

    /// Rows that the recorder itself dropped become rows of `losses`.
    fn tell_losses(&mut self, now: Now) -> Result<(), Error> {
        let mut losses = Vec::new();
        let mut lost = |class: String, count: u64, meaning: &'static str| {
            losses.push(Loss {
                ts: now.mono,
                class: class.into(),
                count,
                meaning: Name::fixed(meaning),
                ..Loss::default()
            });
        };
        let mut state = self.shared.lock();
        for (table, (seen, all)) in Table::ALL.iter().zip(self.shed.iter_mut().zip(state.shed)) {
            if all > *seen {
                lost(
                    format!("recorder_{}", table.name()),
                    all - *seen,
                    "the disk was slower than the rows of this table: the table is not whole",
                );
                *seen = all;
            }
        }
        if state.ring_lost > self.ring_lost {
            lost(
                "recorder_ring".into(),
                state.ring_lost - self.ring_lost,
                "the ring was full: it reaches back less far than asked for",
            );
            self.ring_lost = state.ring_lost;
        }
        for loss in &mut losses {
            loss.seq = state.seq;
            state.seq += 1;
        }
        drop(state);
        if !losses.is_empty() {
            *Loss::inbox(&mut self.inbox) = losses;
            for table in &mut self.tables {
                table.take(&mut self.inbox, now)?;
            }
        }
        Ok(())
    }

    /// Forgets what is too old, or too much.
    fn age(&mut self, ring: Ring, now: Now) -> Result<(), Error> {
        let keep = ring.keep.as_nanos() as u64;
        let piece = (ring.keep / PIECES).max(self.options.save).as_nanos() as u64;
        let mut bytes = 0;
        let cut = now.mono.saturating_sub(self.cut) >= piece;
        if cut {
            self.cut = now.mono;
        }
        for table in &mut self.tables {
            let Some(ring) = table.ring() else { continue };
            if cut {
                ring.close(now.mono)?;
            }
            ring.forget_before(now.mono.saturating_sub(keep));
            bytes += ring.bytes();
        }
        let mut lost = 0;
        while bytes > ring.bytes {
            let rings = self.tables.iter_mut().filter_map(|t| t.ring());
            let Some(oldest) = rings
                .filter(|r| r.oldest().is_some())
                .min_by_key(|r| r.oldest())
            else {
                break;
            };
            let before = oldest.bytes();
            let rows = oldest.forget_oldest();
            bytes -= before - oldest.bytes();
            lost += rows;
        }
        let mut state = self.shared.lock();
        state.ring_lost += lost;
        state.ring_bytes = bytes;
        state.taken = state.seq - state.queued as u64;
        Ok(())
    }

    fn dump(&mut self, triggers: u64, now: Now) -> Result<(), Error> {
        for table in &mut self.tables {
            table.dump(now)?;
        }
        self.shared.lock().dumps = triggers;
        self.shared.room.notify_all();
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        let now = Now::get();
        self.tell_losses(now)?;
        for table in &mut self.tables {
            table.finish(now)?;
        }
        self.end_run(FINISHED.into())
    }

    /// Finishes after an error what can be finished.
    fn salvage(&mut self, error: &Error) {
        let now = Now::get();
        for table in &mut self.tables {
            if table.finish(now).is_err() {
                table.abandon();
            }
        }
        let _ = self.end_run(error.to_string());
    }

    fn end_run(&mut self, outcome: String) -> Result<(), Error> {
        // Each row that was taken is in a part now, unless there was a ring or an error.
        self.run.rows = if outcome == FINISHED && self.options.ring.is_none() {
            self.shared.lock().seq
        } else {
            super::walk::extent(&self.place.root, self.place.run)?.rows
        };
        self.run.outcome = outcome.into();
        self.run.details = std::mem::take(&mut self.shared.lock().details);
        self.run.end = Some(Now::get().mono);
        self.write_run(true)
    }

    fn write_run(&self, replace: bool) -> Result<(), Error> {
        let name = PartName {
            run: self.place.run,
            number: 0,
            rest: false,
        };
        // Always the day of the beginning: it replaces the row that was written then.
        let folder = self
            .place
            .folder(Table::run.name(), self.run.unix_ns as i64)?;
        let mut encoder = Encoder::<Run>::new(self.place.run, self.place.codec);
        whole::write(
            &folder,
            &name,
            &mut encoder,
            std::slice::from_ref(&self.run),
            How {
                replace,
                sync: self.place.sync,
            },
        )
    }
}
