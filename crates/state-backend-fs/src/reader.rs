//! Reads the journal of a stack, without a lock where that is possible.

use crate::compaction::{self, CompactedFrames, StoredCompaction};
use crate::counts::Call;
use crate::dir::Dir;
use crate::error::WriteError;
use crate::files::{Access, FileHandle};
use crate::layout::{MAX_SEGMENT, SegmentName, lock_file};
use crate::lock::closed_head;
use crate::segment::{Segment, examine_length};
use crate::stack::{HeadVersion, Stack};
use crate::torn::MIN_ZERO_RUN;
use crate::walk::{WalkResult, WalkStart, last_segment, walk};
use bytes::Bytes;
use state_core::backend::{Holder, JournalView, Tail};
use state_core::digest::Digester;
use state_core::head::{Compaction, Watermark};
use state_core::journal::FrameKind;
use state_core::{Epoch, Error, Head, Result, Slot};
use std::time::Duration;

/// How often a reader starts over after a head change before it takes `head.lock`.
const ATTEMPTS: usize = 8;

/// How long a reader waits for an append that it saw half copied. A copy takes less than a microsecond.
const RETRY: Duration = Duration::from_millis(1);

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
            Ok((walked, top))
                if takeover_under_way(&before, top) && !ends_at_watermark(&before.head, walked.tail) =>
            {
                break;
            }
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

/// Returns whether the journal ends at the head's watermark. All frames before it were acknowledged, and no frame that was
/// acknowledged before the read can be missing. So a reader needs no lock during a takeover, whose process may be suspended for
/// long.
pub(crate) fn ends_at_watermark(head: &Head, tail: Tail) -> bool {
    let is_end = |end: Watermark| end.slot.next() == tail.next && end.chain == tail.chain;
    head.watermark.is_some_and(is_end)
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
    head.closed && ends_at_watermark(head, tail) && top.is_some_and(is_closers)
}

/// The valid journal up to its end, and the compaction that holds its first frames.
pub(crate) type WholeJournal = (WalkResult, Option<StoredCompaction>);

/// Reads the journal up to its end before a takeover, and changes nothing. It need not be durable.
pub(crate) fn examine(journal: &Dir, head: &Head, newest: Epoch) -> Result<WholeJournal, WriteError> {
    let compacted = compaction::read(journal, head)?;
    let read = JournalFolder::list(journal, head, newest, None, compacted.as_ref())?;
    let (walked, _) = read.settled()?;
    Ok(with_compacted(compacted, walked))
}

/// Reads the journal up to its end for a takeover, and makes it durable.
pub(crate) fn read_to_end(journal: &Dir, head: &Head, newest: Epoch) -> Result<WholeJournal, WriteError> {
    let compacted = compaction::read(journal, head)?;
    let read = JournalFolder::list(journal, head, newest, None, compacted.as_ref())?;
    let (walked, files) = read.settled()?;
    if read.is_in_doubt(&walked) {
        rewrite_last_frame(journal, &walked)?;
    }
    read.sync(&walked, &files)?;
    Ok(with_compacted(compacted, walked))
}

/// Whether the segments hold all frames of a compaction that the head names. If not, the compaction is their only copy.
pub(crate) fn segments_hold(journal: &Dir, head: &Head, compaction: &Compaction) -> bool {
    let read = JournalFolder::list(journal, head, head.epoch, Some(compaction.start), None);
    let Ok((walked, _)) = read.and_then(|read| read.settled()) else {
        return false;
    };
    let mut digester = Digester::default();
    for frame in &walked.frames {
        if frame.slot() >= compaction.start && frame.slot() < compaction.end {
            digester.add(frame.bytes());
        }
    }
    digester.finish() == compaction.digest
}

/// Writes the last frame again, with the same bytes. If the owner's sync failed, the system may have dropped the frame, and a
/// later sync of the unchanged file succeeds although the frame never reached the disk. Earlier frames were synced before the last
/// one was written.
fn rewrite_last_frame(journal: &Dir, walked: &WalkResult) -> Result<(), WriteError> {
    // A fence was synced before its segment got its name.
    let last = walked
        .frames
        .last()
        .filter(|frame| frame.kind() == FrameKind::Data);
    let (Some((name, end)), Some(frame)) = (&walked.last, last) else {
        return Ok(());
    };
    let name = name.to_string();
    let object = journal.object(&name);
    let Some(offset) = end.length.checked_sub(frame.bytes().len() as u64) else {
        return Ok(());
    };
    match journal.open(&name, Access::Write) {
        // The segment of another user, which may be readable only. The sync has to do.
        Err(Error::Denied { .. }) => Ok(()),
        opened => match opened? {
            Some(file) => {
                let bytes = frame.bytes();
                let write = || file.write_all_at(bytes, offset);
                let written = journal.meter().run(Call::Write(bytes.len()), &object, write);
                written.map_err(|error| WriteError::append_failed(&object, 0, error))
            }
            None => Ok(()),
        },
    }
}

/// Puts the frames of a compaction before those that were read from the segments after it.
fn with_compacted(compacted: Option<CompactedFrames>, walked: WalkResult) -> WholeJournal {
    let Some(CompactedFrames {
        mut frames, stored, ..
    }) = compacted
    else {
        return (walked, None);
    };
    frames.extend(walked.frames);
    (WalkResult { frames, ..walked }, Some(stored))
}

/// The segments that a walk read, from the last one back.
type SegmentFiles = Vec<(SegmentName, FileHandle)>;

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

    /// Reads the segments, and makes the frames that were read durable.
    fn segments(&self) -> Result<WalkResult, WriteError> {
        let (walked, files) = self.settled()?;
        self.sync(&walked, &files)?;
        Ok(walked)
    }

    /// The slot after the frames that are known to be durable: their owner synced each of them before it was acknowledged, and
    /// wrote the head's watermark later.
    fn durable(&self) -> Slot {
        let watermark = self.start.head.watermark;
        watermark.map_or(Slot::ZERO, |watermark| watermark.slot.next())
    }

    /// Whether some of the frames that were read may not be durable.
    fn is_in_doubt(&self, walked: &WalkResult) -> bool {
        walked.tail.next > self.durable()
    }

    /// Makes the frames that were read durable. So a reader of a closed journal syncs no segment, however many there are, and a
    /// reader beside a writer only the last ones.
    fn sync(&self, walked: &WalkResult, files: &SegmentFiles) -> Result<(), WriteError> {
        // The files were read from the last one back, so the end of each is the start of the one before it in this list.
        let mut end = walked.tail.next;
        for (name, file) in files {
            if end <= self.durable() {
                break;
            }
            self.journal.sync_file(&name.to_string(), file)?;
            end = name.slot;
        }
        if self.is_in_doubt(walked) {
            self.journal.sync()?;
        }
        Ok(())
    }

    /// Walks the segments, and again after an error while the last one changes: in preallocated space, a reader may see a part of
    /// an append, or a later frame without the one before it. Damage stays as it is.
    fn settled(&self) -> Result<(WalkResult, SegmentFiles)> {
        let mut before = None;
        for _ in 0..ATTEMPTS {
            let (walked, files, last) = self.walk_once();
            let may_change = last
                .as_ref()
                .is_some_and(|last| last.ends_with(&[0; MIN_ZERO_RUN]));
            match walked {
                Err(Error::Corrupt { .. }) if may_change && last != before => before = last,
                walked => return Ok((walked?, files)),
            }
            std::thread::sleep(RETRY);
        }
        let (walked, files, _) = self.walk_once();
        Ok((walked?, files))
    }

    /// Walks the segments once. Also returns the open files and the bytes of the last segment.
    fn walk_once(&self) -> (Result<WalkResult>, SegmentFiles, Option<Bytes>) {
        let journal = self.journal;
        let (mut files, mut last) = (SegmentFiles::new(), None);
        let walked = walk(&self.start, &self.names, &mut |name| {
            let file_name = name.to_string();
            let object = journal.object(&file_name);
            let examine = |file: &FileHandle, length| examine_length(&object, name, file, length);
            let Some((bytes, file)) = journal.read_after(&file_name, MAX_SEGMENT, examine)? else {
                return Ok(None);
            };
            files.push((name, file));
            last.get_or_insert_with(|| bytes.clone());
            Ok(Some(Segment { name, object, bytes }))
        });
        (walked, files, last)
    }
}
