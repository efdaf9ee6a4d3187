//! Stacks that are copied from another store, and later copies to the same stack.
//!
//! Such a stack keeps the whole journal of its source in one segment:
//!
//! ```text
//! journal/<slot:020>-0.log      the chain before the first frame, 32 bytes; then the frames of all epochs, unchanged
//! ```
//!
//! Writers have epochs from 1 on, so epoch 0 marks such a segment. The head is written last and under `head.lock`:
//! until then the stack doesn't exist, no reader opens the segment, and a second attempt replaces it.
//!
//! A later copy replaces the segment by a longer one, under the writer lock and `head.lock`. A reader sees the old
//! segment or the new one. It can read both with the old head, whose epoch is raised before:
//!
//! ```text
//!  lock.<generation> ── head.lock: [ head (epoch of the source) ── segment with the new frames ── head of the source ]
//! ```

use crate::dir::Dir;
use crate::layout::{HEAD, MAX_SEGMENT, SegmentName, lock_file};
use crate::lock::LockFile;
use crate::segment::Segment;
use crate::stack::Stack;
use state_core::backend::{CopyUpdate, Holder, ObjectName, Tail};
use state_core::{Enveloped, Epoch, Error, Frame, Head, Lineage, Result};
use std::time::Duration;

impl Stack {
    /// Stores an object of a stack that is being copied from another store and has no head here yet.
    pub(crate) fn adopt_object(root: &Dir, lineage: Lineage, name: &ObjectName, bytes: &[u8]) -> Result<()> {
        let folder = Self::make(root, lineage, Duration::ZERO)?.make_objects(name.kind())?;
        Ok(folder.create(&name.file_name(), bytes)?)
    }

    /// Stores the journal and then the head of a stack that is copied from another store.
    pub(crate) fn adopt(
        root: &Dir,
        head: &Head,
        before: Tail,
        frames: &[Frame],
        lock_timeout: Duration,
    ) -> Result<()> {
        let stack = Self::make(root, head.lineage, lock_timeout)?;
        let journal = stack.make_folders()?;
        stack.make_meta()?;
        let holder = Holder::new("a stack copy", "", std::process::id(), "copy", None);
        let lock = stack.lock_head(&holder)?;
        // Checked under the lock, because another copy may have finished since the objects were stored.
        if stack.dir.is_file(HEAD) {
            return Err(Error::conflict(stack.dir.path(), "the stack exists already"));
        }
        if !frames.is_empty() {
            let name = SegmentName {
                epoch: Epoch::ZERO,
                slot: before.next,
            };
            let mut bytes = before.chain.as_bytes().to_vec();
            for frame in frames {
                bytes.extend_from_slice(frame.bytes());
            }
            journal.replace(&name.to_string(), &bytes)?;
        }
        // The head is written last: until it exists, no reader opens the segment above.
        stack.dir.create(HEAD, &head.encode())?;
        drop(lock);
        Ok(())
    }

    /// Brings a copy up to date.
    pub(crate) fn update_copy(&self, update: &CopyUpdate) -> Result<()> {
        let object = self.dir.path();
        let seen = self.head()?;
        if update.is_made(object, &seen.head)? {
            return Ok(());
        }
        let holder = &update.lock.holder;
        let _writer = LockFile::take(&self.dir, &lock_file(seen.head.generation), holder)?;
        let head_lock = self.lock_head(holder)?;
        // Compared under both locks: since then no takeover can begin, and no writer can append.
        if !self.is_head(&seen.bytes)? {
            return Err(update.overtaken(object));
        }
        let journal = self.journal()?;
        let (name, mut bytes) = copied_segment(&journal, &seen.head, update)?;
        let first = update.first_head(object, &seen.head)?;
        if !update.frames.is_empty() {
            self.replace_head(first.clone(), &head_lock)?;
            for frame in &update.frames {
                bytes.extend_from_slice(frame.bytes());
            }
            journal.replace(&name.to_string(), &bytes)?;
        }
        self.replace_head(update.last_head(&first), &head_lock)?;
        Ok(())
    }
}

/// Returns the segment of a copy, to which the frames of an update are added.
fn copied_segment(journal: &Dir, head: &Head, update: &CopyUpdate) -> Result<(SegmentName, Vec<u8>)> {
    let files = journal.entries()?;
    let Some(name) = files.iter().filter_map(|file| SegmentName::parse(file)).max() else {
        let empty = Tail::genesis(head.lineage);
        update.require_follows(journal.path(), empty)?;
        let name = SegmentName {
            epoch: Epoch::ZERO,
            slot: empty.next,
        };
        return Ok((name, empty.chain.as_bytes().to_vec()));
    };
    let file = name.to_string();
    // A segment of another epoch has a fence: a writer took the copy over.
    let bytes = match journal.read(&file, MAX_SEGMENT)? {
        Some((bytes, _)) if name.epoch == Epoch::ZERO => bytes,
        _ => return Err(update.overtaken(journal.path())),
    };
    let segment = Segment {
        name,
        object: journal.object(&file),
        bytes,
    };
    let chain = segment.beginning()?.chain;
    let content = segment.content(chain, None)?;
    let before = Tail {
        next: name.slot,
        chain,
    };
    let end = content.frames.last().map_or(before, Tail::after);
    update.require_follows(journal.path(), end)?;
    let length = usize::try_from(content.length).unwrap_or(usize::MAX);
    let whole = segment.bytes.get(..length).unwrap_or(&segment.bytes);
    Ok((name, whole.to_vec()))
}
