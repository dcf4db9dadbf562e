//! The recorder as its caller sees it: rows go in, and at the end there are files.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};

use super::encode::Codec;
use super::folder::Folder;
use super::layout;
use super::part::Place;
use super::recover::recover;
use super::walk;
use super::writer::Writer;
use crate::Error;
use crate::rows::{Inbox, Name, Record, Run, Table};

/// Room that is kept for footers: 64 row groups of the widest table need 0.3 MiB.
const BALLAST: u64 = 1 << 20;

/// What happens when rows come faster than the disk takes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Who pushes waits: for a headless recording. The kernel then counts what finds no room in its rings.
    #[default]
    Block,
    /// The row is dropped and counted (table `losses`, class `recorder_<table>`): for a live view.
    Shed,
}

/// A flight recorder: only the last moments are kept, in memory, until [`Recorder::trigger`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring {
    /// How long.
    pub keep: Duration,
    /// And at most so many bytes, encoded. What goes earlier for that is counted (class `recorder_ring`).
    pub bytes: usize,
}

impl Ring {
    /// This long, in at most 64 MiB: a minute of 100,000 events/s.
    pub fn of(keep: Duration) -> Ring {
        Ring {
            keep,
            bytes: 64 << 20,
        }
    }
}

/// How to record.
#[derive(Debug, Clone)]
pub struct Options {
    /// When rows come too fast.
    pub mode: Mode,
    /// Keep only the last moments.
    pub ring: Option<Ring>,
    /// Compression of the parts.
    pub codec: Codec,
    /// Sync each part when it is finished: then a power cut loses at most the part that was open.
    pub sync: bool,
    /// Rows that may wait for the writer.
    pub queue: usize,
    /// Rows of a row group. Large enough that its metadata costs nothing (3 KiB for 25 columns), small
    /// enough that a reader can sort one in memory.
    pub row_group: usize,
    /// Longest time that a part stays open. What is finished can be read while the recording goes on.
    pub rotate: Duration,
    /// How often rows are given to the kernel. Twice this is what `kill -9` can lose.
    pub save: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            mode: Mode::Block,
            ring: None,
            codec: Codec::default(),
            sync: true,
            queue: 65_536,
            row_group: 65_536,
            rotate: Duration::from_secs(600),
            save: Duration::from_millis(400),
        }
    }
}

/// What was recorded so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Rows that were pushed and taken.
    pub rows: u64,
    /// Rows that were shed, by table; tables that lost none are left out.
    pub shed: Vec<(Table, u64)>,
    /// Rows that left the ring before their time, because it was full.
    pub ring_lost: u64,
    /// With a ring: how many of `rows` had come to it when it was last looked over.
    pub taken: u64,
    /// Bytes that the ring held when it was last looked over.
    pub ring_bytes: usize,
    /// How often the ring was written out.
    pub dumps: u64,
}

/// Between who pushes and the writer.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) inbox: Inbox,
    pub(crate) queued: usize,
    /// Rows taken; the number of the next one.
    pub(crate) seq: u64,
    /// See [`Stats::taken`].
    pub(crate) taken: u64,
    pub(crate) shed: [u64; Table::ALL.len()],
    pub(crate) ring_lost: u64,
    pub(crate) ring_bytes: usize,
    /// Triggers so far, and how many of them are done.
    pub(crate) triggers: u64,
    pub(crate) dumps: u64,
    /// See [`Run::details`].
    pub(crate) details: Name,
    /// No more rows will come.
    pub(crate) stop: bool,
    /// The writer has ended.
    pub(crate) ended: bool,
    /// The writer sleeps.
    pub(crate) idle: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Rows, a trigger or the end for the writer.
    pub(crate) work: Condvar,
    /// Room, or a dump that is done, for who pushes.
    pub(crate) room: Condvar,
}

impl Shared {
    /// A panic elsewhere leaves counters and rows that are still sound.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes rows and writes them from a thread of its own. Can be shared by threads.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<Result<Run, Error>>>,
    mode: Mode,
    queue: usize,
    wake: usize,
    run: layout::RunId,
}

impl Recorder {
    /// Begins a recording in a folder, which is made where it is missing; what killed recorders
    /// left there is finished first.
    ///
    /// # Errors
    /// When the folder is a link, cannot be written, or has no room for the first MiB.
    pub fn create(dir: &Path, run: Run, options: Options) -> Result<Recorder, Error> {
        let root = Folder::create(dir)?;
        recover(dir)?;
        let (id, lock) = claim(&root, run.unix_ns as i64)?;
        keep_ballast(&root, id)?;
        let place = Arc::new(Place {
            root,
            run: id,
            host: run.hostname.to_string(),
            codec: options.codec,
            sync: options.sync,
            row_group: options.row_group.max(1),
        });
        let shared = Arc::new(Shared::default());
        let mode = options.mode;
        let queue = options.queue.max(1);
        let writer = Writer::new(shared.clone(), place, lock, run, options)?;
        let writer = std::thread::Builder::new()
            .name("phux-record".into())
            .spawn(move || writer.run())
            .map_err(|e| Error::io("cannot start the recorder's thread", e))?;
        Ok(Recorder {
            shared,
            writer: Some(writer),
            mode,
            queue,
            // Early enough that the queue seldom fills, late enough that a wake-up is worth it.
            wake: (queue / 4).clamp(1, 8192),
            run: id,
        })
    }

    /// Id of the recording.
    pub fn run(&self) -> layout::RunId {
        self.run
    }

    /// Records a row. [`Mode::Block`] waits for room.
    ///
    /// # Errors
    /// [`Error::Ended`] once the writer has given up; [`Recorder::finish`] says why.
    pub fn push<T: Record>(&self, mut row: T) -> Result<(), Error> {
        let mut state = self.shared.lock();
        if state.ended || state.queued >= self.queue {
            match self.wait_for_room(state, T::TABLE, 1)? {
                Some(after) => state = after,
                None => return Ok(()),
            }
        }
        row.set_seq(state.seq);
        state.seq += 1;
        state.queued += 1;
        T::inbox(&mut state.inbox).push(row);
        self.wake(state);
        Ok(())
    }

    /// Records rows and leaves the vector empty, its memory as it was. Cheaper than one by one.
    ///
    /// # Errors
    /// As [`Recorder::push`].
    pub fn push_all<T: Record>(&self, rows: &mut Vec<T>) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut state = self.shared.lock();
        if state.ended || state.queued >= self.queue {
            match self.wait_for_room(state, T::TABLE, rows.len() as u64)? {
                Some(after) => state = after,
                None => {
                    rows.clear();
                    return Ok(());
                }
            }
        }
        let first = state.seq;
        for (row, seq) in rows.iter_mut().zip(first..) {
            row.set_seq(seq);
        }
        state.seq += rows.len() as u64;
        state.queued += rows.len();
        T::inbox(&mut state.inbox).append(rows);
        self.wake(state);
        Ok(())
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        if state.idle && state.queued >= self.wake {
            state.idle = false;
            drop(state);
            self.shared.work.notify_one();
        }
    }

    /// `None`: the rows are shed.
    #[cold]
    fn wait_for_room<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        table: Table,
        rows: u64,
    ) -> Result<Option<MutexGuard<'a, State>>, Error> {
        while !state.ended && state.queued >= self.queue {
            if self.mode == Mode::Shed {
                if let Some(count) = state.shed.get_mut(table as usize) {
                    *count += rows;
                }
                return Ok(None);
            }
            state = self
                .shared
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.ended {
            return Err(Error::Ended);
        }
        Ok(Some(state))
    }

    /// Writes out what the ring holds, and goes on. Returns at once; a recording without a ring ignores it.
    pub fn trigger(&self) {
        self.shared.lock().triggers += 1;
        self.shared.work.notify_one();
    }

    /// Waits until each trigger so far is on disk, or the writer has ended.
    pub fn wait_for_dump(&self) {
        let mut state = self.shared.lock();
        let wanted = state.triggers;
        while state.dumps < wanted && !state.ended {
            state = self
                .shared
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What was recorded so far.
    pub fn stats(&self) -> Stats {
        let state = self.shared.lock();
        let shed = Table::ALL.iter().zip(state.shed);
        Stats {
            rows: state.seq,
            shed: shed.filter(|s| s.1 != 0).map(|(t, n)| (*t, n)).collect(),
            ring_lost: state.ring_lost,
            taken: state.taken,
            ring_bytes: state.ring_bytes,
            dumps: state.dumps,
        }
    }

    /// What the run's row is to say besides, when the recording ends: see [`Run::details`].
    pub fn describe(&self, details: Name) {
        self.shared.lock().details = details;
    }

    /// Ends the recording and waits until all is written. Its row of table `run`.
    ///
    /// # Errors
    /// What ended the recording early, if so: a full disk, above all. What was written is intact.
    pub fn finish(mut self) -> Result<Run, Error> {
        self.end()
    }

    fn end(&mut self) -> Result<Run, Error> {
        self.shared.lock().stop = true;
        self.shared.work.notify_one();
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            // A panic: it is on stderr already.
            _ => Err(Error::Ended),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.writer.is_some() {
            let _ = self.end();
        }
    }
}

/// Takes an id that nobody has here. The lock is taken before the file gets the name by which
/// recovery knows it, so that none takes us for dead in between.
fn claim(root: &Folder, first: i64) -> Result<(layout::RunId, File), Error> {
    let failed = |e| Error::io("cannot lock the recording", e);
    let temporary = format!(".lock-{}-{first}", std::process::id());
    root.remove(&temporary).map_err(failed)?;
    let file = root.create_file(&temporary)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|e| failed(e.into()))?;
    let taken: BTreeSet<_> = walk::parts(root, Table::run)?
        .iter()
        .map(|(part, _)| part.run)
        .collect();
    let mut id = first.max(1);
    loop {
        while taken.contains(&id) {
            id += 1;
        }
        match root.rename(&temporary, &layout::lock(id), false) {
            Ok(()) => return Ok((id, file)),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => id += 1,
            Err(e) => {
                let _ = root.remove(&temporary);
                return Err(failed(e));
            }
        }
    }
}

fn keep_ballast(root: &Folder, run: layout::RunId) -> Result<(), Error> {
    let name = layout::ballast(run);
    let file = root.create_file(&name)?;
    match fallocate(&file, FallocateFlags::empty(), 0, BALLAST) {
        // A file system that cannot set room aside.
        Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
        Err(e) => {
            let _ = root.remove(&name);
            let _ = root.remove(&layout::lock(run));
            Err(Error::io("cannot set room aside", e.into()))
        }
    }
}
