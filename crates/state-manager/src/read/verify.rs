//! Reading a whole stack and checking all that can be checked.

use crate::context::StackContext;
use crate::keys::wrapped;
use crate::objects::document::{Made, RevisionDocument};
use crate::objects::snapshots;
use crate::read::history;
use crate::read::history_floor::{ATTEMPTS, whole_journal};
use crate::read::replay::{self, frame_object};
use crate::read::tip::Tip;
use serde::Serialize;
use state_core::backend::{JournalView, ObjectName, Tail};
use state_core::head::Collection;
use state_core::verify::{self, Report};
use state_core::{Base, Digest, Error, Frame, Result, Slot, State, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// What was read, and what is wrong with it.
#[derive(Clone, Debug, Serialize)]
pub struct VerifyReport {
    /// Frames that were read.
    pub frames: u64,
    /// Stored snapshots that were read.
    pub snapshots: u64,
    /// Revisions that are listed.
    pub revisions: u64,
    /// Entries of the tip.
    pub entries: u64,
    /// Violations and notes.
    #[serde(flatten)]
    pub report: Report,
}

pub(crate) async fn verify(stack: &StackContext, deep: bool) -> Result<VerifyReport> {
    let mut attempt = 1;
    loop {
        let mut read_to = None;
        let verified = verify_once(stack, deep, &mut read_to).await;
        let (Err(_), Some(end), true) = (&verified, read_to, attempt < ATTEMPTS) else {
            return verified;
        };
        let now = stack.backend().read_journal(stack.lineage(), None).await?;
        if (now.tail, now.head.collection) == end {
            return verified;
        }
        attempt += 1;
    }
}

/// `read_to` becomes the end of the journal that was read, and what was collected of it.
async fn verify_once(
    stack: &StackContext,
    deep: bool,
    read_to: &mut Option<(Tail, Option<Collection>)>,
) -> Result<VerifyReport> {
    let view = if deep {
        whole_journal(stack.backend(), stack.lineage()).await?
    } else {
        stack.backend().read_journal(stack.lineage(), None).await?
    };
    *read_to = Some((view.tail, view.head.collection.clone()));
    let tip = Tip::of(stack, &view).await?;
    let revisions = history::documents(stack, &tip).await?;
    let replayed = tip.replayed;
    let mut read = replayed.snapshots;
    if deep {
        for document in &revisions {
            if let Made::DetachedRevision(stored) = &document.made {
                snapshots::read(stack, &stored.snapshot).await?;
                read.insert(stored.snapshot.digest);
            }
        }
        let from = tip.floor.beginning(stack.lineage());
        compare_documents(stack, &view.frames, &revisions)?;
        compare_checkpoints(stack, &view, from, &replayed.state, &mut read).await?;
    }
    let snapshot = replayed.state.snapshot(stack.name().to_string(), replayed.moment);
    Ok(VerifyReport {
        report: snapshots::blocking(move || verify::verify(&snapshot)).await?,
        frames: view.frames.len() as u64,
        snapshots: read.len() as u64,
        revisions: revisions.len() as u64,
        entries: replayed.state.len() as u64,
    })
}

/// The documents of `updates/` are an index of the journal: each must say what the journal says.
fn compare_documents(stack: &StackContext, frames: &[Frame], revisions: &[RevisionDocument]) -> Result<()> {
    let mut made = BTreeMap::new();
    for frame in frames {
        if let Some(document) = RevisionDocument::of_frame(&frame_object(stack.lineage(), frame), frame)? {
            made.insert(document.revision.clone(), document);
        }
    }
    for document in revisions {
        let told = made.get(&document.revision);
        if !told.is_some_and(|told| told.is_unchanged_from(document)) {
            let name = ObjectName::Update(document.revision.clone());
            let object = format!("stack {}: {name}", stack.lineage());
            return Err(Error::corrupt(
                object,
                0,
                "it doesn't tell what the journal tells",
            ));
        }
    }
    Ok(())
}

/// Replays the journal from where history begins and compares every checkpoint, and the tip, with what led to it.
async fn compare_checkpoints(
    stack: &StackContext,
    view: &JournalView,
    mut from: Base,
    tip: &State,
    read: &mut BTreeSet<Digest>,
) -> Result<()> {
    let (frames, base) = (&view.frames, &view.head.base);
    let mut checkpoints: BTreeMap<Slot, Base> = BTreeMap::new();
    for frame in frames {
        let noted = replay::checkpoints(stack.lineage(), frame)?.into_iter();
        checkpoints.extend(noted.map(|base| (base.start, base)));
    }
    checkpoints.insert(base.start, base.clone());
    // A note may tell of a checkpoint from before the beginning.
    let begins = from.start;
    for checkpoint in checkpoints
        .into_values()
        .filter(|checkpoint| checkpoint.snapshot.is_some() && checkpoint.start >= begins)
    {
        let led_to = replay_between(stack, frames, &from, checkpoint.start, read).await?;
        let stored = replay::from_base(stack, &checkpoint, &[]).await?;
        if !means_the_same(stack, &led_to, &stored.state).await? {
            let name = checkpoint
                .snapshot
                .as_ref()
                .map_or_else(String::new, |s| s.object().to_string());
            let object = format!("stack {}: {name}", stack.lineage());
            return Err(Error::corrupt(
                object,
                0,
                "it isn't what the journal before it leads to",
            ));
        }
        read.extend(stored.snapshots);
        from = checkpoint;
    }
    if replay_between(stack, frames, &from, Slot(u64::MAX), read).await? == *tip {
        return Ok(());
    }
    Err(Error::corrupt(
        format!("journal of stack {}", stack.lineage()),
        0,
        "it doesn't lead to the tip",
    ))
}

/// Whether two states are equal, whatever keys their values are sealed with. Without the keys only what is plain can be
/// compared: which entries there are, in which order.
async fn means_the_same(stack: &StackContext, one: &State, other: &State) -> Result<bool> {
    if one == other {
        return Ok(true);
    }
    if one.continuation() != other.continuation() {
        return Ok(false);
    }
    let snapshot = |state: &State| state.snapshot(String::new(), Timestamp::new(""));
    let open = wrapped::reveal(stack, snapshot(one)).await;
    match (open, wrapped::reveal(stack, snapshot(other)).await) {
        (Ok(one), Ok(other)) => Ok(one == other),
        (Err(Error::Sealed { .. }), _) | (_, Err(Error::Sealed { .. })) => {
            let standing = |state: &State| -> Vec<_> {
                let entries = state.entries();
                entries.map(|entry| (entry.key(), entry.uid)).collect()
            };
            Ok(standing(one) == standing(other))
        }
        (one, other) => one.and(other).map(|_| false),
    }
}

/// The state at a slot, replayed from a base.
async fn replay_between(
    stack: &StackContext,
    frames: &[Frame],
    from: &Base,
    to: Slot,
    read: &mut BTreeSet<Digest>,
) -> Result<State> {
    let between: Vec<Frame> = frames
        .iter()
        .filter(|frame| (from.start..to).contains(&frame.slot()))
        .cloned()
        .collect();
    let replayed = replay::from_base(stack, from, &between).await?;
    read.extend(replayed.snapshots);
    Ok(replayed.state)
}
