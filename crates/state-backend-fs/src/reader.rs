//! Reads the journal of a stack, without a lock where that is possible.

use crate::dir::Dir;
use crate::failure::Failure;
use crate::files::FileHandle;
use crate::layout::{MAX_SEGMENT, SegmentName};
use crate::segment::Segment;
use crate::stack::{Seen, Stack};
use crate::walk::{Start, Walked, walk};
use state_core::backend::{Holder, JournalView};
use state_core::{Epoch, Head, Result, Slot};

/// How often a reader starts over because the head changed before it asks for `head.lock`.
const ATTEMPTS: usize = 8;

/// Head and journal of one moment, all of it durable.
///
/// A reader takes no lock. It reads the head before and after: if the epoch stayed, nobody took over in between, and
/// what it read is what the next owner will read. An epoch without a segment means that a takeover is under way,
/// or died: then what counts is settled only under `head.lock`, and so it is after too many changes.
pub(crate) fn read_journal(stack: &Stack, from: Option<Slot>) -> Result<JournalView> {
    stack.check_meta()?;
    for _ in 0..ATTEMPTS {
        let before = stack.head()?;
        let result = read_once(stack, &before, from);
        let after = stack.head_after(&before)?;
        match result {
            Ok((_, top)) if takeover_under_way(&before, top) => break,
            Ok((walked, _)) if after.head.epoch == before.head.epoch => return Ok(view(before.head, walked)),
            Err(error) if after.bytes == before.bytes => return Err(error),
            // Somebody took over, or moved the base while what was before it was collected.
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

/// No segment of the head's epoch is there. A removal counts one up, and makes no segment.
fn takeover_under_way(seen: &Seen, top: Option<Epoch>) -> bool {
    let expected = seen.head.epoch;
    expected > Epoch::ZERO && top != Some(expected) && !seen.head.removed
}

fn view(head: Head, walked: Walked) -> JournalView {
    JournalView {
        head,
        frames: walked.frames,
        tail: walked.tail,
    }
}

fn read_once(stack: &Stack, seen: &Seen, from: Option<Slot>) -> Result<(Walked, Option<Epoch>)> {
    let journal = stack.journal()?;
    let walked = read_segments(&journal, &seen.head, seen.head.epoch, from).map_err(Failure::of_reader)?;
    // The head that was read counts too: its rename may not be durable yet.
    stack.dir.sync().map_err(Failure::of_reader)?;
    let top = walked.last.as_ref().map(|(name, _)| name.epoch);
    Ok((walked, top))
}

/// Lists and reads the segments, and makes durable what was read.
pub(crate) fn read_segments(
    journal: &Dir,
    head: &Head,
    newest: Epoch,
    from: Option<Slot>,
) -> Result<Walked, Failure> {
    let entries = journal.entries()?;
    let names: Vec<_> = entries
        .iter()
        .filter_map(|name| SegmentName::parse(name))
        .collect();
    let start = Start {
        head,
        from: from.unwrap_or(head.base.start),
        newest,
        folder: journal.path(),
    };
    let mut files: Vec<(String, FileHandle)> = Vec::new();
    let walked = walk(&start, &names, &mut |name| {
        let file_name = name.to_string();
        let Some((bytes, file)) = journal.read(&file_name, MAX_SEGMENT)? else {
            return Ok(None);
        };
        let object = journal.object(&file_name);
        files.push((file_name, file));
        Ok(Some(Segment { name, object, bytes }))
    })?;
    for (name, file) in &files {
        journal.sync_file(name, file)?;
    }
    journal.sync()?;
    Ok(walked)
}
