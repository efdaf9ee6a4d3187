//! Reads the journal of a stack, without a lock where that is possible.

use crate::compaction::{self, CompactedFrames, StoredCompaction};
use crate::dir::Dir;
use crate::error::WriteError;
use crate::files::FileHandle;
use crate::layout::{MAX_SEGMENT, SegmentName, lock_file};
use crate::lock::closed_head;
use crate::segment::{Segment, examine_length};
use crate::stack::{HeadVersion, Stack};
use crate::walk::{WalkResult, WalkStart, last_segment, walk};
use state_core::backend::{Holder, JournalView, Tail};
use state_core::head::Watermark;
use state_core::{Epoch, Head, Result, Slot};

/// How often a reader starts over after a head change before it takes `head.lock`.
const ATTEMPTS: usize = 8;

/// Reads head and journal of one moment, and makes both durable.
///
/// A reader takes no lock at first. It reads the head before and after the journal: with an unchanged epoch no takeover
/// happened in between, and the next owner will read the same frames. An epoch without a segment means that a takeover
/// is running or crashed. Only a holder of `head.lock` can then determine which frames count. The reader also takes
/// that lock if the head changes too often.
pub(crate) fn read_journal(stack: &Stack, from: Option<Slot>) -> Result<JournalView> {
    stack.check_meta()?;
    for _ in 0..ATTEMPTS {
        let before = stack.head()?;
        let result = read_once(stack, &before, from);
        let after = stack.head_after(&before)?;
        match result {
            // The old owner may still append to its segment, and the takeover will decide how much of that counts.
            Ok((_, top)) if takeover_under_way(&before, top) => break,
            Ok((walked, _)) if after.head.epoch == before.head.epoch => return Ok(view(before.head, walked)),
            // With an unchanged head, no concurrent change explains the error, so the journal is damaged.
            Err(error) if after.bytes == before.bytes => return Err(error),
            // A takeover happened, or the base moved and a collection deleted segments before it.
            Ok(_) | Err(_) => {}
        }
    }
    let holder = Holder::new("a reader", "", std::process::id(), "read", None);
    let lock = stack.lock_head(&holder)?;
    let seen = stack.head()?;
    let (walked, _) = read_once(stack, &seen, from)?;
    drop(lock);
    Ok(view(seen.head, walked))
}

/// Returns whether the head's epoch has no segment. A removal increments the epoch as well, but never creates a
/// segment, so a removed stack doesn't count.
fn takeover_under_way(seen: &HeadVersion, top: Option<Epoch>) -> bool {
    let expected = seen.head.epoch;
    expected > Epoch::ZERO && top != Some(expected) && !seen.head.removed
}

fn view(head: Head, walked: WalkResult) -> JournalView {
    JournalView {
        head,
        frames: walked.frames,
        tail: walked.tail,
    }
}

fn read_once(stack: &Stack, seen: &HeadVersion, from: Option<Slot>) -> Result<(WalkResult, Option<Epoch>)> {
    let journal = stack.journal()?;
    let head = &seen.head;
    // A reader from another slot than the base reads the segments, and so checks them.
    let compacted = match from {
        Some(_) => None,
        None => compaction::read(&journal, head)?,
    };
    let read = JournalFolder::list(&journal, head, head.epoch, from, compacted.as_ref())?;
    let top = read.last_segment()?;
    let walked = match compacted {
        Some(compacted) if is_whole(head, compacted.tail, top) => WalkResult {
            frames: compacted.frames,
            tail: compacted.tail,
            last: None,
        },
        compacted => {
            let walked = read.segments().map_err(WriteError::into_read_error)?;
            with_compacted(compacted, walked).0
        }
    };
    make_durable(stack, head)?;
    Ok((walked, top.map(|top| top.epoch)))
}

/// Reads the head. Durable if it describes a closed journal: then a reader relies on it alone.
pub(crate) fn read_head(stack: &Stack) -> Result<Head> {
    let head = stack.head()?.head;
    if head.closed {
        make_durable(stack, &head)?;
    }
    Ok(head)
}

/// Makes a head durable that was read. Its rename may not be yet, and a reader must not return a state that a power
/// failure could undo. The lock holder that closed the journal has synced it, and left proof of that.
fn make_durable(stack: &Stack, head: &Head) -> Result<()> {
    if head.closed && closed_head(&stack.dir, &lock_file(head.generation)) == Some(head.nonce) {
        return Ok(());
    }
    stack.dir.sync().map_err(WriteError::into_read_error)
}

/// Whether the head says that the journal was closed at this end. Until a takeover replaces the head, nothing follows. No tag
/// covers the mark: in a forged one, the segment of a writer begins at this end, and is read.
fn is_whole(head: &Head, tail: Tail, top: Option<SegmentName>) -> bool {
    let is_closers = |top: SegmentName| top.epoch == head.epoch && top.slot < tail.next;
    let is_end = |end: Watermark| end.slot.next() == tail.next && end.chain == tail.chain;
    head.closed && head.watermark.is_some_and(is_end) && top.is_some_and(is_closers)
}

/// Reads the journal up to its end for a takeover, and makes it durable. Also returns the compaction that holds the first
/// frames.
pub(crate) fn read_to_end(
    journal: &Dir,
    head: &Head,
    newest: Epoch,
) -> Result<(WalkResult, Option<StoredCompaction>), WriteError> {
    let compacted = compaction::read(journal, head)?;
    let read = JournalFolder::list(journal, head, newest, None, compacted.as_ref())?;
    let walked = read.segments()?;
    Ok(with_compacted(compacted, walked))
}

/// Puts the frames of a compaction before those that were read from the segments after it.
fn with_compacted(
    compacted: Option<CompactedFrames>,
    walked: WalkResult,
) -> (WalkResult, Option<StoredCompaction>) {
    let Some(CompactedFrames {
        mut frames, stored, ..
    }) = compacted
    else {
        return (walked, None);
    };
    frames.extend(walked.frames);
    (WalkResult { frames, ..walked }, Some(stored))
}

/// The segments in a journal's folder, and what is read of them.
struct JournalFolder<'a> {
    journal: &'a Dir,
    names: Vec<SegmentName>,
    start: WalkStart<'a>,
}

impl<'a> JournalFolder<'a> {
    /// Lists the segments. Those of the frames that a compaction holds aren't read.
    fn list(
        journal: &'a Dir,
        head: &'a Head,
        newest: Epoch,
        from: Option<Slot>,
        compacted: Option<&CompactedFrames>,
    ) -> Result<Self> {
        let entries = journal.entries()?;
        let resume = compacted.map(|compacted| compacted.tail);
        Ok(Self {
            journal,
            names: entries
                .iter()
                .filter_map(|name| SegmentName::parse(name))
                .collect(),
            start: WalkStart {
                head,
                from: resume.map_or(from.unwrap_or(head.base.start), |end| end.next),
                newest,
                resume,
                folder: journal.path(),
            },
        })
    }

    fn last_segment(&self) -> Result<Option<SegmentName>> {
        last_segment(&self.start, &self.names)
    }

    /// Reads the segments, and makes the frames that were read durable. Frames up to the head's watermark are durable
    /// already: their owner synced each of them before it was acknowledged, and wrote the watermark later. So a reader of
    /// a closed journal syncs no segment, however many there are, and a reader beside a writer only the last ones.
    fn segments(&self) -> Result<WalkResult, WriteError> {
        let journal = self.journal;
        let mut files: Vec<(SegmentName, FileHandle)> = Vec::new();
        let walked = walk(&self.start, &self.names, &mut |name| {
            let file_name = name.to_string();
            let object = journal.object(&file_name);
            let examine = |file: &FileHandle, length| examine_length(&object, name, file, length);
            let Some((bytes, file)) = journal.read_after(&file_name, MAX_SEGMENT, examine)? else {
                return Ok(None);
            };
            files.push((name, file));
            Ok(Some(Segment { name, object, bytes }))
        })?;
        let durable = self
            .start
            .head
            .watermark
            .map_or(Slot::ZERO, |watermark| watermark.slot.next());
        // The files were read from the last one back, so the end of each is the start of the one before it in this list.
        let mut end = walked.tail.next;
        for (name, file) in &files {
            if end <= durable {
                break;
            }
            journal.sync_file(&name.to_string(), file)?;
            end = name.slot;
        }
        if walked.tail.next > durable {
            journal.sync()?;
        }
        Ok(walked)
    }
}
