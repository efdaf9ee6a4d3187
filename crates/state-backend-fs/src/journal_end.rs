//! The end of the journal: the segment that takes the next frame, and the space that is preallocated in its file.
//!
//! ```text
//!  0          length          zeroed     file_length
//!  ├─ frames ──┼─ guard ─┼─ 0 0 0 ─┼─ (hole) ─┤
//! ```
//!
//! The guard shows whether the disk lost the end of the last frame (see `torn`). It has at most seven bytes.
//!
//! An append to a growing file changes the file's metadata, which each sync then writes too. So a session that has appended
//! some batches writes zeros ahead of its frames, and appends replace them. Unwritten blocks (`fallocate`) wouldn't do: the
//! conversion of each is metadata as well. The session cuts the space off when it ends or rotates the segment; after a crash it
//! stays, and readers end the journal at it.
//!
//! Nothing depends on these calls. If one fails, such as on a full disk, the session goes on without preallocated space.

use crate::counts::Call;
use crate::dir::Dir;
use crate::error::WriteError;
use crate::files::{FileHandle, SyncScope};
use crate::layout::{MAX_SEGMENT, SegmentName};
use crate::takeover::NewSegment;
use crate::torn::{MIN_ZERO_RUN, guard};
use state_core::Frame;
use state_core::backend::Tail;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The batch of a session after which space is preallocated. Shorter sessions write only their frames, and guards.
const FIRST_PREALLOCATED_BATCH: u64 = 8;

/// How many bytes of zeros are written at once. With 16 KiB a commit takes longer on average; from 128 KiB on it doesn't change.
const PREALLOCATED_STEP: u64 = 128 << 10;

/// The zeros of one write into the preallocated space.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Space is preallocated again once less than this is left.
const LOW: u64 = PREALLOCATED_STEP / 2;

/// Zeros begin and end at multiples of this, the size of a page.
const PAGE: u64 = 4096;

/// The end of the journal, shared with the job that preallocates space.
#[derive(Clone, Debug)]
pub(crate) struct SharedEnd(Arc<Mutex<JournalEnd>>);

impl SharedEnd {
    pub(crate) fn new(end: JournalEnd) -> Self {
        Self(Arc::new(Mutex::new(end)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, JournalEnd> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Preallocates space if little is left. Runs after a batch was acknowledged, so that no commit waits for it.
    pub(crate) fn preallocate(&self) {
        let mut end = self.lock();
        // Zeros must not replace a frame whose append failed: the next owner may have read it.
        let is_due = end.batches >= FIRST_PREALLOCATED_BATCH && end.zeroed < end.length + LOW;
        if !is_due || end.is_in_doubt || end.ended || !end.may_preallocate {
            return;
        }
        if end.write_zeros().is_err() {
            end.may_preallocate = false;
            // A full disk may need the space for something else.
            end.trim();
        }
    }
}

/// The segment that takes the next frame, and its length.
#[derive(Debug)]
pub(crate) struct JournalEnd {
    journal: Dir,
    pub(crate) name: SegmentName,
    /// Path of the file, for messages.
    pub(crate) object: String,
    file: FileHandle,
    /// Length of the frames in bytes.
    pub(crate) length: u64,
    /// The end of the zeros that were written after the frames, or an earlier offset.
    zeroed: u64,
    /// Length of the file in bytes.
    file_length: u64,
    pub(crate) tail: Tail,
    /// Number of batches that this session has appended.
    batches: u64,
    /// Whether a write began that wasn't acknowledged.
    is_in_doubt: bool,
    may_preallocate: bool,
    /// Whether the owner closed the journal, or tried to: readers of that head expect no further frame.
    pub(crate) ended: bool,
}

impl JournalEnd {
    /// The end of the journal right after a segment was created, which holds only its fence.
    pub(crate) fn of(journal: &Dir, segment: NewSegment) -> Self {
        let length = segment.fence.bytes().len() as u64;
        Self {
            journal: journal.clone(),
            object: journal.object(&segment.name.to_string()),
            length,
            zeroed: length,
            file_length: length,
            tail: segment.tail(),
            batches: 0,
            is_in_doubt: false,
            may_preallocate: true,
            ended: false,
            name: segment.name,
            file: segment.file,
        }
    }

    /// Goes on with a new segment of the same session.
    pub(crate) fn rotate(&mut self, segment: NewSegment) {
        // The new fence names the length of the frames, so nothing behind them counts.
        self.trim();
        let (batches, may_preallocate) = (self.batches, self.may_preallocate);
        *self = Self {
            batches,
            may_preallocate,
            ..Self::of(&self.journal, segment)
        };
    }

    /// Writes a frame and makes it durable. The end moves only with [`Self::acknowledge`].
    pub(crate) fn write(&mut self, frame: &Frame) -> Result<(), WriteError> {
        let end = self.length + frame.bytes().len() as u64;
        self.make_room(end);
        self.is_in_doubt = true;
        let bytes = frame.bytes();
        // In one call, so that one sync covers both. The buffer has room for any guard, so that the cost of a commit doesn't
        // depend on its offset.
        let mut guarded = Vec::with_capacity(bytes.len() + MIN_ZERO_RUN);
        guarded.extend_from_slice(bytes);
        guarded.extend_from_slice(guard(end));
        self.write_all(&guarded, bytes.len())?;
        let sync = || self.file.sync(SyncScope::Data);
        let synced = self.journal.meter().run(Call::Sync, &self.object, sync);
        synced.map_err(|e| WriteError::indeterminate(&self.object, e))
    }

    /// Moves the end behind a frame that was written and checked.
    pub(crate) fn acknowledge(&mut self, frame: &Frame) {
        self.length += frame.bytes().len() as u64;
        self.file_length = self.file_length.max(self.guarded_length());
        self.tail = Tail::after(frame);
        self.batches += 1;
        self.is_in_doubt = false;
    }

    /// The end of the guard after the last frame: the length of a file without preallocated space.
    fn guarded_length(&self) -> u64 {
        self.length + guard(self.length).len() as u64
    }

    /// Extends the preallocated space, if there is some, for a frame up to this offset.
    fn make_room(&mut self, end: u64) {
        // Zeros must follow the frame, so that readers recognize a frame that was cut.
        if self.file_length <= self.guarded_length() || end + MIN_ZERO_RUN as u64 <= self.file_length {
            return;
        }
        let length = end.next_multiple_of(PAGE) + PAGE;
        if length > MAX_SEGMENT || self.set_length(length).is_err() {
            self.trim();
        }
    }

    /// Writes bytes at the end; the first `counted` of them are those of a frame.
    fn write_all(&self, bytes: &[u8], counted: usize) -> Result<(), WriteError> {
        let mut written = 0;
        while written < bytes.len() {
            let rest = &bytes[written..];
            let write = || self.file.write_at(rest, self.length + written as u64);
            let call = Call::Write(counted.saturating_sub(written));
            match self.journal.meter().run(call, &self.object, write) {
                Ok(0) => {
                    let error = io::ErrorKind::WriteZero.into();
                    return Err(WriteError::append_failed(&self.object, written, error));
                }
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(WriteError::append_failed(&self.object, written, error)),
            }
        }
        Ok(())
    }

    /// Writes zeros after the frames, and makes them durable. A sync of their own keeps their errors and their time out of the
    /// next commit.
    fn write_zeros(&mut self) -> io::Result<()> {
        let end = (self.length + PREALLOCATED_STEP).next_multiple_of(PAGE);
        if end > MAX_SEGMENT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let start = self.guarded_length().max(self.zeroed);
        // No guard was written after a fence.
        let guard = guard(self.length);
        let length = usize::try_from(end - start).map_err(io::Error::other)?;
        // After an error, some of the bytes may have been written.
        self.file_length = self.file_length.max(end);
        // Without a buffer of its own: the allocations of a commit don't depend on what was preallocated beside it.
        let write = || -> io::Result<()> {
            self.file.write_all_at(guard, self.length)?;
            let mut at = start;
            while at < end {
                let step = ZEROS.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
                self.file.write_all_at(&ZEROS[..step], at)?;
                at += step as u64;
            }
            Ok(())
        };
        self.journal
            .meter()
            .run(Call::Preallocate(length), &self.object, write)?;
        let sync = || self.file.sync(SyncScope::Data);
        self.journal
            .meter()
            .run(Call::SyncPreallocated, &self.object, sync)?;
        self.zeroed = end;
        Ok(())
    }

    /// Cuts the preallocated space off. An error is ignored, and the cut isn't synced: readers end the journal at zeros, too.
    ///
    /// After a failed append the file stays as it is: the next owner may count the frame.
    pub(crate) fn trim(&mut self) {
        let has_space = self.file_length != self.length;
        if has_space && !self.is_in_doubt && self.set_length(self.length).is_ok() {
            self.zeroed = self.length;
        }
    }

    fn set_length(&mut self, length: u64) -> io::Result<()> {
        let set = || self.file.set_length(length);
        self.journal.meter().run(Call::SetLength, &self.object, set)?;
        self.file_length = length;
        Ok(())
    }
}
