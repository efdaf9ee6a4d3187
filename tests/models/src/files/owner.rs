//! The steps of a writer that took the stack over: appends, rotation, changes of the head, collection.

use super::disk::{Compaction, Head, Segment};
use super::state::{Append, Change, Files, Flaw, Phase, State, Swap, Writer, process};
use crate::extensions::Extension;

/// A step of a writer that may append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Writes a frame at the end of its segment.
    Write,
    /// Syncs the frame with its segment.
    Sync,
    /// The sync fails: the writer reports an unknown outcome, and writes nothing more.
    SyncFails,
    /// Reads the head's epoch, and acknowledges the append if it is the own one.
    Acknowledge,
    /// Creates a segment for a new base.
    Rotate(Change),
    /// Syncs the folder of the journal, and reads the head's epoch.
    SyncRotation,
    /// Begins a change of the head.
    Begin(Change),
    /// Takes `head.lock`, once it is free.
    TakeHeadLock,
    /// Compares the head, and replaces it.
    ReplaceHead,
    /// Syncs the folder of the head, and frees `head.lock`.
    SyncHead,
    /// Leaves the nonce of the closed head in the lock file, and frees the lock.
    Release,
    /// Reads the head before a deletion.
    BeginDeletion,
    /// Deletes a segment below the floor.
    DeleteSegment,
}

impl Owner {
    /// Adds the steps that a writer may take next.
    pub fn next(model: &Files, state: &State, at: usize, add: &mut impl FnMut(Self)) {
        let writer = &state.writers[at];
        match writer.phase {
            Phase::Closed => add(Self::Release),
            Phase::Open => {
                append_steps(model, state, writer, add);
                swap_steps(model, state, at, add);
                collection_steps(model, state, writer, add);
            }
            _ => {}
        }
    }

    /// Changes the state as the step does.
    pub fn take(self, model: &Files, state: &mut State, at: usize) {
        match self {
            Self::Write => write(state, at),
            Self::Sync => {
                let writer = &mut state.writers[at];
                if let (Some(segment), Append::Written(record)) =
                    (state.disk.segment_mut(writer.segment), writer.append)
                {
                    segment.sync();
                    writer.append = Append::Synced(record);
                }
            }
            Self::SyncFails => {
                state.count.failed_syncs += 1;
                if let Some(segment) = state.disk.segment_mut(state.writers[at].segment) {
                    segment.dropped = true;
                }
                state.stop(at);
            }
            Self::Acknowledge => acknowledge(model, state, at),
            Self::Rotate(change) => rotate(state, at, change),
            Self::SyncRotation => sync_rotation(state, at),
            Self::Begin(change) => {
                state.count.client_locks += u8::from(matches!(change, Change::ClientLock(Some(_))));
                state.writers[at].swap = Swap::Due(change);
            }
            Self::TakeHeadLock => {
                if let Swap::Due(change) = state.writers[at].swap {
                    state.disk.head_lock = Some(process(at));
                    state.writers[at].swap = Swap::Locked(change);
                }
            }
            Self::ReplaceHead => replace_head(model, state, at),
            Self::SyncHead => sync_head(model, state, at),
            Self::Release => {
                let writer = &state.writers[at];
                state.disk.proof = Some((writer.generation, writer.seen.version));
                state.stop(at);
            }
            Self::BeginDeletion => begin_deletion(model, state, at),
            Self::DeleteSegment => {
                let deleting = state.writers[at].deleting;
                state.disk.segments.remove(0);
                if !is_deletable(state, deleting) {
                    state.writers[at].deleting = 0;
                }
            }
        }
    }
}

/// Whether this change ends the queue of appends.
fn ends_queue(model: &Files, swap: Swap) -> bool {
    match swap {
        Swap::None => false,
        // Between two appends: a frame in the old segment would not count after the new one has its name.
        Swap::Rotated(_) => true,
        Swap::Due(change) | Swap::Locked(change) | Swap::Replaced(change) => match change {
            Change::Close | Change::CloseWithCheckpoint(..) => !model.is(Flaw::AppendAfterClose),
            Change::Remove | Change::RotateKey(_) => true,
            Change::Checkpoint(..) | Change::RaiseFloor | Change::ClientLock(_) => false,
        },
    }
}

fn append_steps(model: &Files, state: &State, writer: &Writer, add: &mut impl FnMut(Owner)) {
    match writer.append {
        Append::None if state.count.appends < model.appends && !ends_queue(model, writer.swap) => {
            add(Owner::Write);
        }
        Append::None => {}
        Append::Written(_) => {
            add(Owner::Sync);
            if state.count.failed_syncs < model.failed_syncs {
                add(Owner::SyncFails);
            }
        }
        Append::Synced(_) => add(Owner::Acknowledge),
    }
}

fn swap_steps(model: &Files, state: &State, at: usize, add: &mut impl FnMut(Owner)) {
    let writer = &state.writers[at];
    match writer.swap {
        Swap::None => begin_steps(model, state, at, add),
        Swap::Rotated(_) => add(Owner::SyncRotation),
        Swap::Due(_) if state.disk.head_lock.is_none() => add(Owner::TakeHeadLock),
        Swap::Due(_) => {}
        Swap::Locked(_) => add(Owner::ReplaceHead),
        Swap::Replaced(_) => add(Owner::SyncHead),
    }
}

fn begin_steps(model: &Files, state: &State, at: usize, add: &mut impl FnMut(Owner)) {
    let writer = &state.writers[at];
    if model.removals > 0 {
        add(Owner::Begin(Change::Remove));
    }
    if model.has(Extension::ClientLock) {
        match writer.seen.client_lock {
            None if state.count.client_locks == 0 => {
                add(Owner::Begin(Change::ClientLock(Some(process(at)))));
            }
            None => {}
            Some(_) => add(Owner::Begin(Change::ClientLock(None))),
        }
    }
    if model.has(Extension::Collection) && writer.seen.floor < writer.seen.start {
        add(Owner::Begin(Change::RaiseFloor));
    }
    if writer.append != Append::None {
        return;
    }
    add(Owner::Begin(Change::Close));
    let next = writer.segment + 1;
    if next == Segment::first_of(writer.epoch + 1) {
        return;
    }
    let known = writer.journal.records;
    if state.count.checkpoints < model.checkpoints && known != writer.seen.content {
        add(Owner::Rotate(Change::Checkpoint(next, known)));
        add(Owner::Rotate(Change::CloseWithCheckpoint(next, known)));
    }
    if model.has(Extension::KeyRotation) && writer.seen.key == 0 {
        add(Owner::Rotate(Change::RotateKey(next)));
    }
}

fn collection_steps(model: &Files, state: &State, writer: &Writer, add: &mut impl FnMut(Owner)) {
    if !model.has(Extension::Collection) {
        return;
    }
    let below = match model.is(Flaw::DeletedAboveFloor) {
        true => writer.segment,
        false => state.disk.head.floor,
    };
    if writer.deleting == 0 && is_deletable(state, below) {
        add(Owner::BeginDeletion);
    }
    if is_deletable(state, writer.deleting) {
        add(Owner::DeleteSegment);
    }
}

fn is_deletable(state: &State, below: u8) -> bool {
    state
        .disk
        .segments
        .first()
        .is_some_and(|first| first.number < below)
}

fn write(state: &mut State, at: usize) {
    let writer = &mut state.writers[at];
    let record = state.count.appends;
    state.count.appends += 1;
    writer.append = Append::Written(record);
    match state.disk.segment_mut(writer.segment) {
        Some(segment) => segment.frames.push(record),
        // A collection deleted the segment of this fenced writer: its frames go to a file without a name.
        None => writer.append = Append::Synced(record),
    }
}

fn acknowledge(model: &Files, state: &mut State, at: usize) {
    let writer = &mut state.writers[at];
    let Append::Synced(record) = writer.append else {
        return;
    };
    if state.disk.head.epoch != writer.epoch && !model.is(Flaw::EpochNotChecked) {
        return state.stop(at);
    }
    writer.append = Append::None;
    writer.journal.records = writer.journal.records.with(record);
    state.acknowledged = state.acknowledged.with(record);
    state.late_acknowledgement |= state.disk.head.removed;
}

fn rotate(state: &mut State, at: usize, change: Change) {
    let writer = &mut state.writers[at];
    let key = writer.seen.key + u8::from(matches!(change, Change::RotateKey(_)));
    let segment = Segment::new(writer.segment + 1, writer.end(&state.disk), key);
    state.went_back |= !state.disk.create_segment(segment);
    state.count.checkpoints += u8::from(!matches!(change, Change::RotateKey(_)));
    writer.swap = Swap::Rotated(change);
}

fn sync_rotation(state: &mut State, at: usize) {
    state.disk.sync_names();
    let writer = &mut state.writers[at];
    let Swap::Rotated(change) = writer.swap else {
        return;
    };
    writer.segment += 1;
    writer.swap = Swap::Due(change);
    if state.disk.head.epoch != writer.epoch {
        state.stop(at);
    }
}

fn replace_head(model: &Files, state: &mut State, at: usize) {
    let writer = state.writers[at];
    let Swap::Locked(change) = writer.swap else {
        return;
    };
    let current = state.disk.head;
    let blind = model.is(Flaw::HeadNotCompared);
    if current.epoch != writer.epoch && !blind {
        return state.stop(at);
    }
    let from = if blind { writer.seen } else { current };
    let head = changed(model, state, &writer, change, from);
    let head = state.disk.replace_head(head);
    state.went_back |= head.epoch < current.epoch;
    if head.closed && model.is(Flaw::ProofBeforeSync) {
        state.disk.proof = Some((writer.generation, head.version));
    }
    let writer = &mut state.writers[at];
    writer.seen = head;
    writer.swap = Swap::Replaced(change);
}

fn changed(model: &Files, state: &mut State, writer: &Writer, change: Change, from: Head) -> Head {
    match change {
        Change::Checkpoint(start, content) => moved_base(from, start, content),
        Change::RotateKey(start) => Head {
            key: from.key + 1,
            watermark: writer.end(&state.disk),
            ..moved_base(from, start, writer.journal.records)
        },
        Change::CloseWithCheckpoint(start, content) => {
            closed(model, state, writer, moved_base(from, start, content))
        }
        Change::Close => closed(model, state, writer, from),
        Change::Remove => Head {
            removed: true,
            epoch: from.epoch + u8::from(!model.is(Flaw::RemovalKeepsEpoch)),
            ..from
        },
        Change::RaiseFloor => Head {
            floor: from.start,
            ..from
        },
        Change::ClientLock(client_lock) => Head { client_lock, ..from },
    }
}

const fn moved_base(head: Head, start: u8, content: crate::records::Records) -> Head {
    Head {
        start,
        content,
        compaction: None,
        ..head
    }
}

/// A head that closes the journal. The compaction is written under the same `head.lock`.
fn closed(model: &Files, state: &mut State, writer: &Writer, from: Head) -> Head {
    let end = writer.end(&state.disk);
    let mut head = Head {
        closed: true,
        watermark: end,
        ..from
    };
    if model.has(Extension::Compaction) {
        let compaction = Compaction {
            start: head.start,
            end,
            content: writer.journal.records,
        };
        state.disk.older_compaction = state.disk.compaction.replace(compaction);
        head.compaction = Some(compaction);
    }
    head
}

fn sync_head(model: &Files, state: &mut State, at: usize) {
    if !model.is(Flaw::HeadNameNotSynced) {
        state.disk.sync_head();
    }
    state.disk.head_lock = None;
    let writer = &mut state.writers[at];
    let Swap::Replaced(change) = std::mem::take(&mut writer.swap) else {
        return;
    };
    state.shown_version = state.shown_version.max(writer.seen.version);
    match change {
        Change::Close | Change::CloseWithCheckpoint(..) if !model.is(Flaw::AppendAfterClose) => {
            writer.phase = Phase::Closed;
        }
        // An append that was in flight sees the epoch of the removal.
        Change::Remove if writer.append == Append::None => state.stop(at),
        Change::Remove => writer.swap = Swap::Replaced(change),
        _ => {}
    }
}

fn begin_deletion(model: &Files, state: &mut State, at: usize) {
    let head = state.disk.head;
    let writer = &mut state.writers[at];
    if head.epoch != writer.epoch {
        return state.stop(at);
    }
    writer.deleting = match model.is(Flaw::DeletedAboveFloor) {
        true => writer.segment,
        false => head.floor,
    };
}
