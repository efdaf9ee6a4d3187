//! Decodes the stored form block by block on several threads, so that the text of a large snapshot is never in memory as
//! a whole.

use super::lines::{Block, LineDecoder, NextLine, malformed};
use super::read;
use crate::error::Result;
use crate::snapshot::Snapshot;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Decodes the stored form. Accepts only the layout of [`encode_stored`](super::encode_stored). If the whole text is
/// available and may have another layout, use [`decode`](super::decode), which accepts every layout and reports positions
/// in the whole text.
///
/// `next` replaces the content of a buffer by the next block of the text: whole lines with their newlines. It returns false
/// at the end, and after an error it isn't called again. Each thread has a buffer, and decodes a block while the others
/// decode theirs, so `next` may compute the blocks and their digest: it is called by one thread at a time. Blocks of some
/// 100 KB fit into the cache of a processor.
///
/// The result doesn't depend on the number of threads, nor on where a block ends.
///
/// ```
/// use state_core::{FactoryInfo, Snapshot, Timestamp, codec};
/// use std::num::NonZeroUsize;
///
/// let snapshot = Snapshot::new(FactoryInfo::default(), "shop", Timestamp::new("2026-05-30T12:00:00Z"));
/// let stored = codec::encode_stored(&snapshot);
/// let mut blocks = stored.split_inclusive(|byte| *byte == b'\n');
/// let next = |buffer: &mut Vec<u8>| {
///     let block = blocks.next();
///     buffer.clear();
///     buffer.extend_from_slice(block.unwrap_or_default());
///     Ok(block.is_some())
/// };
/// assert_eq!(codec::decode_stored("snapshot", NonZeroUsize::MIN, next)?, snapshot);
/// # Ok::<(), state_core::Error>(())
/// ```
///
/// # Errors
/// The first error in the text: [`Error::Malformed`](crate::Error::Malformed) when a line doesn't fit the stored form,
/// with a position that counts from the start of the line, when lines are missing and when two entries have the same key;
/// [`Error::Format`](crate::Error::Format) for another format version; and the errors of `next`.
pub fn decode_stored(
    object: &str,
    threads: NonZeroUsize,
    next: impl FnMut(&mut Vec<u8>) -> Result<bool> + Send,
) -> Result<Snapshot> {
    let source = Mutex::new(Source {
        next,
        taken: 0,
        is_at_end: false,
    });
    let mut blocks = decoded(object, threads.get(), &source);
    blocks.sort_unstable_by_key(|(index, _)| *index);
    assembled(object, blocks)
}

/// The blocks that are still to be decoded.
struct Source<N> {
    next: N,
    /// The number of blocks that were taken.
    taken: usize,
    is_at_end: bool,
}

impl<N: FnMut(&mut Vec<u8>) -> Result<bool>> Source<N> {
    /// Reads the next block that isn't empty into the buffer, and returns its index.
    fn take(&mut self, buffer: &mut Vec<u8>) -> Option<(usize, Result<()>)> {
        while !self.is_at_end {
            let next = (self.next)(buffer);
            self.is_at_end = !matches!(next, Ok(true));
            if next.is_err() || !self.is_at_end && !buffer.is_empty() {
                self.taken += 1;
                return Some((self.taken - 1, next.map(drop)));
            }
        }
        None
    }
}

/// A block with its index.
type Indexed = (usize, Result<Block>);

/// Decodes all blocks, up to the first one with an error, on this thread and on `threads - 1` others.
fn decoded<N>(object: &str, threads: usize, source: &Mutex<Source<N>>) -> Vec<Indexed>
where
    N: FnMut(&mut Vec<u8>) -> Result<bool> + Send,
{
    thread::scope(|scope| {
        let start = |_| {
            // If the system can't start a thread, the others do its work.
            let thread = thread::Builder::new().name("state-decode".to_owned());
            thread.spawn_scoped(scope, || decode_blocks(object, source)).ok()
        };
        let others: Vec<_> = (1..threads).filter_map(start).collect();
        let mut blocks = decode_blocks(object, source);
        for other in others {
            match other.join() {
                Ok(more) => blocks.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        blocks
    })
}

/// Takes blocks and decodes them until none is left or a block has an error.
fn decode_blocks<N>(object: &str, source: &Mutex<Source<N>>) -> Vec<Indexed>
where
    N: FnMut(&mut Vec<u8>) -> Result<bool>,
{
    let mut decoder = LineDecoder::new(object);
    let mut blocks = Vec::new();
    let mut buffer = Vec::new();
    loop {
        // A poisoned lock means that `next` panicked on another thread, which ends this one too.
        let taken = source.lock().ok().and_then(|mut source| source.take(&mut buffer));
        let Some((index, block)) = taken else {
            return blocks;
        };
        let first = if index == 0 {
            NextLine::Header
        } else {
            NextLine::Any
        };
        let block = block.map(|()| decoder.decode(&buffer, first));
        if block.as_ref().is_ok_and(|block| block.error.is_some()) {
            // Blocks are taken in order, so all blocks before this one are decoded, and no later error counts.
            source.lock().unwrap_or_else(PoisonError::into_inner).is_at_end = true;
        }
        blocks.push((index, block));
    }
}

/// Assembles the snapshot from its blocks, in order.
fn assembled(object: &str, blocks: Vec<Indexed>) -> Result<Snapshot> {
    let decoder = LineDecoder::new(object);
    let count = |(_, block): &Indexed| block.as_ref().map_or(0, |block| block.entries.len());
    let mut entries = Vec::with_capacity(blocks.iter().map(count).sum());
    let mut header = None;
    let mut expected = NextLine::Header;
    for (_, block) in blocks {
        let block = block?;
        let misfit = decoder.misfit(expected, &block);
        if let Some(error) = misfit.or(block.error) {
            return Err(error);
        }
        header = header.or(block.header);
        entries.extend(block.entries);
        expected = block.next;
    }
    match header {
        Some(mut snapshot) if expected == NextLine::Ended => {
            if read::first_duplicate(&entries).is_some() {
                return Err(malformed(object, "two entries have the same key"));
            }
            snapshot.entries = entries;
            Ok(snapshot)
        }
        _ => Err(malformed(object, "lines are missing at its end")),
    }
}
