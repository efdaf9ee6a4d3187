//! Acquire and break: how a stack gets another owner.
//!
//! ```text
//!  acquire: read head ── lock.<gen> ── read head again ┐
//!  break:   read head ── lock.<gen+1> ─────────────────┤
//!                                                      ▼
//!  head.lock: [ compare the whole head ── head (epoch + 1) ── read and sync segments ── segment with fence ]
//! ```
//!
//! The head is swapped before the segments are read: an owner that is fenced may still write, but finds the new
//! epoch before it acknowledges; and what it acknowledged before is read here.

use crate::dir::Dir;
use crate::failure::Failure;
use crate::files::FileHandle;
use crate::layout::{SegmentName, lock_file};
use crate::lock::LockFile;
use crate::reader::read_segments;
use crate::stack::{Seen, Stack};
use crate::staged::Staged;
use state_core::backend::{Acquire, Holder, Tail};
use state_core::journal::{Fence, FrameKind, Previous};
use state_core::{Epoch, Error, Frame, Head, Nonce, Result};

/// How often a takeover starts over because the head changed.
const ATTEMPTS: usize = 16;

/// A stack that was taken over.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) lock: LockFile,
    pub(crate) seen: Seen,
    pub(crate) journal: Dir,
    pub(crate) frames: Vec<Frame>,
    pub(crate) opened: Opened,
}

/// A segment that is new and open for appending.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) name: SegmentName,
    pub(crate) file: FileHandle,
    pub(crate) fence: Frame,
}

impl Opened {
    /// The end of the journal right after the fence.
    pub(crate) fn tail(&self) -> Tail {
        Tail::after(&self.fence)
    }
}

/// Takes a stack over, at once or not at all.
pub(crate) fn take_over(stack: &Stack, request: &Acquire) -> Result<Taken> {
    stack.check_meta()?;
    for _ in 0..ATTEMPTS {
        if let Some(taken) = attempt(stack, request)? {
            return Ok(taken);
        }
    }
    Err(Error::conflict(
        stack.dir.path(),
        "others keep changing its head; try again",
    ))
}

/// None when the head changed meanwhile.
fn attempt(stack: &Stack, request: &Acquire) -> Result<Option<Taken>> {
    let first = stack.head()?;
    check(stack, request, &first.head)?;
    let breaks = request.break_epoch.is_some();
    let generation = if breaks {
        first.head.generation.next()
    } else {
        first.head.generation
    };
    let lock = LockFile::take(&stack.dir, &lock_file(generation), &request.holder)?;
    let seen = if breaks { first } else { stack.head_after(&first)? };
    if !breaks && seen.head.generation != generation {
        return Ok(None);
    }
    check(stack, request, &seen.head)?;
    let head_lock = stack.lock_head(&request.holder)?;
    if stack.head_after(&seen)?.bytes != seen.bytes {
        return Ok(None);
    }
    let mut head = seen.head.clone();
    head.epoch = head.epoch.next();
    head.generation = generation;
    head.nonce = request.head_nonce;
    let newest = seen.head.epoch;
    let taken = stack.replace_head(head, &head_lock)?;
    let fenced = fence(stack, request, taken, newest, lock)?;
    drop(head_lock);
    Ok(Some(fenced))
}

fn check(stack: &Stack, request: &Acquire, head: &Head) -> Result<()> {
    if head.removed {
        let reason = "the stack was removed; nobody can write to it again";
        return Err(Error::conflict(stack.dir.path(), reason));
    }
    match request.break_epoch {
        Some(epoch) if epoch != head.epoch => Err(Error::conflict(
            stack.dir.path(),
            format!(
                "its lock is at epoch {} now, not at {epoch}: look who holds it",
                head.epoch
            ),
        )),
        _ => Ok(()),
    }
}

/// Reads what counts, and ends it with a fence.
fn fence(
    stack: &Stack,
    request: &Acquire,
    seen: Seen,
    newest: Epoch,
    lock: LockFile,
) -> Result<Taken, Failure> {
    let journal = stack.journal()?;
    let walked = read_segments(&journal, &seen.head, newest, None)?;
    let previous = walked.last.map(|(_, previous)| previous);
    let opened = open_segment(
        &journal,
        seen.head.epoch,
        walked.tail,
        previous,
        &request.holder,
        request.fence_nonce,
    )?;
    let mut frames = walked.frames;
    frames.push(opened.fence.clone());
    Ok(Taken {
        lock,
        seen,
        journal,
        frames,
        opened,
    })
}

/// Makes a segment. It appears with its whole fence, or not at all.
pub(crate) fn open_segment(
    journal: &Dir,
    epoch: Epoch,
    tail: Tail,
    previous: Option<Previous>,
    holder: &Holder,
    nonce: Nonce,
) -> Result<Opened, Failure> {
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
    let staged = Staged::write(journal, &object, fence.bytes())?;
    let Some(file) = staged.create(&name.to_string())? else {
        let reason = "there is a segment of this epoch already: the head went back";
        return Err(Error::corrupt(object, 0, reason).into());
    };
    journal.sync()?;
    Ok(Opened { name, file, fence })
}
