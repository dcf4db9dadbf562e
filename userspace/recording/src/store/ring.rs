//! The flight recorder's memory of one table: encoded blocks, the oldest go.

use std::collections::VecDeque;

use super::encode::Encoder;
use super::whole;
use crate::Error;
use crate::rows::Record;

/// A block has at most so many rows.
const BLOCK: usize = 16_384;

pub(crate) struct Blocks<T: Record> {
    encoder: Encoder<T>,
    /// Rows that are in no block yet.
    fresh: Vec<T>,
    blocks: VecDeque<Block>,
    /// Rows of a block, at most.
    limit: usize,
}

struct Block {
    bytes: Vec<u8>,
    rows: u64,
    /// When it was closed, ns of CLOCK_MONOTONIC: its rows arrived before.
    closed: u64,
}

impl<T: Record> Blocks<T> {
    pub(crate) fn new(encoder: Encoder<T>, row_group: usize) -> Blocks<T> {
        Blocks {
            encoder,
            fresh: Vec::new(),
            blocks: VecDeque::new(),
            limit: row_group.min(BLOCK),
        }
    }

    pub(crate) fn append(&mut self, rows: &mut Vec<T>, now: u64) -> Result<(), Error> {
        self.fresh.append(rows);
        if self.fresh.len() >= self.limit {
            self.close(now)?;
        }
        Ok(())
    }

    /// Makes a block of the rows that came since the last one.
    pub(crate) fn close(&mut self, now: u64) -> Result<(), Error> {
        for rows in self.fresh.chunks(self.limit) {
            self.blocks.push_back(Block {
                bytes: whole::encode(&mut self.encoder, rows)?,
                rows: rows.len() as u64,
                closed: now,
            });
        }
        self.fresh.clear();
        Ok(())
    }

    /// Forgets blocks that were closed before.
    pub(crate) fn forget_before(&mut self, moment: u64) {
        while self.blocks.front().is_some_and(|b| b.closed < moment) {
            self.blocks.pop_front();
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.blocks.iter().map(|b| b.bytes.len()).sum()
    }

    /// When the oldest block was closed.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.blocks.front().map(|b| b.closed)
    }

    /// Forgets the oldest block: how many rows it had.
    pub(crate) fn forget_oldest(&mut self) -> u64 {
        self.blocks.pop_front().map_or(0, |b| b.rows)
    }

    /// Gives all rows away, oldest first.
    pub(crate) fn drain(
        &mut self,
        mut each: impl FnMut(&mut Vec<T>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        while let Some(block) = self.blocks.pop_front() {
            let mut batches = whole::Batches::of_bytes(block.bytes)?;
            while let Some(mut rows) = batches.next()? {
                each(&mut rows)?;
            }
        }
        each(&mut self.fresh)
    }
}
