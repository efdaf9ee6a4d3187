//! Reads the journal of a stack, without a lock where that is possible.

use crate::dir::Dir;
use crate::error::WriteError;
use crate::files::FileHandle;
use crate::layout::{MAX_SEGMENT, SegmentName};
use crate::segment::{Segment, examine_length};
use crate::stack::{HeadVersion, Stack};
use crate::walk::{WalkResult, WalkStart, walk};
use state_core::backend::{Holder, JournalView};
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
    let walked =
        read_segments(&journal, &seen.head, seen.head.epoch, from).map_err(WriteError::into_read_error)?;
    // The head's rename may not be durable yet. A reader must not return a state that a power failure could undo.
    stack.dir.sync().map_err(WriteError::into_read_error)?;
    let top = walked.last.as_ref().map(|(name, _)| name.epoch);
    Ok((walked, top))
}

/// Lists and reads the segments, and makes the frames that were read durable. Frames up to the head's watermark are
/// durable already: their owner synced each of them before it was acknowledged, and wrote the watermark later. So a
/// reader of a closed journal syncs no segment, however many there are, and a reader beside a writer only the last ones.
pub(crate) fn read_segments(
    journal: &Dir,
    head: &Head,
    newest: Epoch,
    from: Option<Slot>,
) -> Result<WalkResult, WriteError> {
    let entries = journal.entries()?;
    let names: Vec<_> = entries
        .iter()
        .filter_map(|name| SegmentName::parse(name))
        .collect();
    let start = WalkStart {
        head,
        from: from.unwrap_or(head.base.start),
        newest,
        folder: journal.path(),
    };
    let mut files: Vec<(SegmentName, FileHandle)> = Vec::new();
    let walked = walk(&start, &names, &mut |name| {
        let file_name = name.to_string();
        let object = journal.object(&file_name);
        let examine = |file: &FileHandle, length| examine_length(&object, name, file, length);
        let Some((bytes, file)) = journal.read_after(&file_name, MAX_SEGMENT, examine)? else {
            return Ok(None);
        };
        files.push((name, file));
        Ok(Some(Segment { name, object, bytes }))
    })?;
    let durable = head
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
