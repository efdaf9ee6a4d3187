//! Acquire and break: how the ownership of a stack passes to another process.
//!
//! ```text
//!  acquire: read head ── lock.<gen> ── read head again ┐
//!  break:   read head ── lock.<gen+1> ─────────────────┤
//!                                                      ▼
//!  head.lock: [ compare the whole head ── read segments ── head (epoch + 1) ── read and sync segments ── segment with fence ]
//! ```
//!
//! The segments are read before the head is replaced, so that the takeover of a damaged stack changes nothing. What counts is
//! what is read after that. A fenced owner may still write, but it checks the epoch after each write and before it
//! acknowledges. Every frame that it acknowledged was written before the head was replaced, and is read here. A journal that
//! its owner closed is read once.

use crate::compaction::Compactor;
use crate::dir::Dir;
use crate::error::WriteError;
use crate::files::FileHandle;
use crate::layout::{SegmentName, lock_file};
use crate::lock::LockFile;
use crate::reader::{WholeJournal, ends_at_watermark, examine, read_to_end};
use crate::stack::{HeadVersion, Stack};
use crate::staged::StagedFile;
use state_core::backend::{Acquire, Holder, Tail, next_epoch};
use state_core::journal::{Fence, FrameKind, Previous};
use state_core::{Epoch, Error, Frame, Generation, Head, Nonce, Result};

/// How often a takeover starts over because another process changed the head.
const ATTEMPTS: usize = 16;

/// The result of a takeover: the writer lock, the new head, the journal, and an open segment.
#[derive(Debug)]
pub(crate) struct Takeover {
    pub(crate) lock: LockFile,
    pub(crate) seen: HeadVersion,
    pub(crate) journal: Dir,
    pub(crate) frames: Vec<Frame>,
    pub(crate) segment: NewSegment,
    pub(crate) compactor: Compactor,
}

/// A new segment, open for appending.
#[derive(Debug)]
pub(crate) struct NewSegment {
    pub(crate) name: SegmentName,
    pub(crate) file: FileHandle,
    pub(crate) fence: Frame,
}

impl NewSegment {
    /// The end of the journal right after the fence.
    pub(crate) fn tail(&self) -> Tail {
        Tail::after(&self.fence)
    }
}

/// Takes a stack over, or fails at once if another process holds its lock.
pub(crate) fn take_over(stack: &Stack, request: &Acquire) -> Result<Takeover> {
    stack.check_meta()?;
    for _ in 0..ATTEMPTS {
        if let Some(taken) = attempt(stack, request)? {
            return Ok(taken);
        }
    }
    Err(Error::conflict(
        stack.dir.path(),
        "other processes keep changing its head; try again",
    ))
}

/// Makes one attempt; returns `None` if the head changed meanwhile.
fn attempt(stack: &Stack, request: &Acquire) -> Result<Option<Takeover>> {
    let first = stack.head()?;
    check(stack, request, &first.head)?;
    let breaks = request.break_epoch.is_some();
    let generation = if breaks {
        next_generation(&first.head)
    } else {
        first.head.generation
    };
    // The lock file names the generation. Breaking a lock takes the file of the next generation, because the lock of
    // the current generation is still held: the OS doesn't free it while its holder is suspended.
    let lock = LockFile::take(&stack.dir, &lock_file(generation), &request.holder)?;
    let seen = if breaks { first } else { stack.head_after(&first)? };
    // Another process may have broken the lock between the read and `take`. Then this lock file belongs to an old
    // generation and excludes no one.
    if !breaks && seen.head.generation != generation {
        return Ok(None);
    }
    check(stack, request, &seen.head)?;
    // `head.lock` is held until the new segment exists. A reader that sees the new epoch without its segment waits
    // for this lock, and a second takeover can't read the segments in between.
    let head_lock = stack.lock_head(&request.holder)?;
    // A salvage holds this lock while it exchanges the folder. What is written to the former folder afterwards would be lost.
    if !stack.is_in_place()? {
        let reason = "its folder was moved by a salvage or a restore; try again";
        return Err(Error::conflict(stack.dir.path(), reason));
    }
    // Compare all bytes, since any change of the head after the checks above could invalidate them.
    if stack.head_after(&seen)?.bytes != seen.bytes {
        return Ok(None);
    }
    let mut head = seen.head.clone();
    head.epoch = next_epoch(stack.dir.path(), head.epoch)?;
    head.generation = generation;
    head.closed = false;
    head.nonce = request.head_nonce;
    let newest = seen.head.epoch;
    let journal = stack.journal()?;
    let before = examine(&journal, &seen.head, newest)?;
    // Fencing point: from here on the old owner's `append` fails its epoch check. A crash after this line costs one
    // epoch; the next takeover reads the same journal.
    let taken = stack.replace_head(head, &head_lock)?;
    // A closed journal is durable, and takes no frame of its last owner.
    let read = match seen.head.closed && ends_at_watermark(&seen.head, before.0.tail) {
        true => before,
        false => read_to_end(&journal, &taken.head, newest)?,
    };
    let fenced = fence(journal, request, taken, read, lock)?;
    drop(head_lock);
    Ok(Some(fenced))
}

/// The generation after a break. Each break raises the epoch too, so a true generation never exceeds the epoch. A higher
/// one was forged: the generation doesn't protect anything, so the break goes on with one that no lock file has.
fn next_generation(head: &Head) -> Generation {
    match head.generation.get() <= head.epoch.get() {
        true => head.generation.next(),
        false => Generation(head.epoch.get().saturating_add(1)),
    }
}

fn check(stack: &Stack, request: &Acquire, head: &Head) -> Result<()> {
    if head.removed {
        let reason = "the stack was removed and can't be written to any more";
        return Err(Error::conflict(stack.dir.path(), reason));
    }
    match request.break_epoch {
        Some(epoch) if epoch != head.epoch => Err(Error::conflict(
            stack.dir.path(),
            format!(
                "its lock is at epoch {} now, not at {epoch}; check who holds it with `statectl lock status`",
                head.epoch
            ),
        )),
        _ => Ok(()),
    }
}

/// Writes a fence at the end of the journal that was read, in a new segment of this epoch.
fn fence(
    journal: Dir,
    request: &Acquire,
    seen: HeadVersion,
    (walked, stored): WholeJournal,
    lock: LockFile,
) -> Result<Takeover, WriteError> {
    let previous = walked.last.map(|(_, previous)| previous);
    let segment = open_segment(
        &journal,
        seen.head.epoch,
        walked.tail,
        previous,
        &request.holder,
        request.fence_nonce,
    )?;
    let mut frames = walked.frames;
    frames.push(segment.fence.clone());
    Ok(Takeover {
        lock,
        seen,
        journal,
        compactor: Compactor::new(stored, &frames),
        frames,
        segment,
    })
}

/// Creates a segment. The file appears with its whole fence or not at all, also after a crash.
pub(crate) fn open_segment(
    journal: &Dir,
    epoch: Epoch,
    tail: Tail,
    previous: Option<Previous>,
    holder: &Holder,
    nonce: Nonce,
) -> Result<NewSegment, WriteError> {
    let name = SegmentName {
        epoch,
        slot: tail.next,
    };
    let payload = Fence {
        previous,
        chain: tail.chain,
        holder: holder.clone(),
    };
    let fence = Frame::new(
        FrameKind::Fence,
        epoch,
        tail.next,
        nonce,
        &payload.encode(),
        &tail.chain,
    )?;
    let object = journal.object(&name.to_string());
    let staged = StagedFile::write(journal, &object, fence.bytes())?;
    let Some(file) = staged.create(&name.to_string())? else {
        let reason = "a segment of this epoch exists already: head.json was restored to an older version";
        return Err(Error::corrupt(object, 0, reason).into());
    };
    journal.sync()?;
    Ok(NewSegment { name, file, fence })
}
