//! Reading a whole stack and checking all that can be checked.

use crate::document::Made;
use crate::load;
use crate::stack::Stack;
use crate::{history, snapshots};
use state_core::journal::{FrameKind, Record, decode_records};
use state_core::verify::{self, Report};
use state_core::{Base, Error, Result, State};
use std::collections::BTreeMap;

/// What was read, and what is wrong with it.
#[derive(Clone, Debug)]
pub struct VerifyReport {
    /// Violations and notes.
    pub report: Report,
    /// Frames that were read.
    pub frames: u64,
    /// Stored snapshots that were read.
    pub snapshots: u64,
    /// Revisions that are listed.
    pub revisions: u64,
    /// Entries of the tip.
    pub entries: u64,
}

pub(crate) async fn verify(stack: &Stack, deep: bool) -> Result<VerifyReport> {
    let view = stack.backend().read_journal(stack.lineage(), None).await?;
    let tip = load::tip(stack.backend(), &view).await?;
    let revisions = history::documents(stack, &tip).await?;
    let snapshot = tip.state.snapshot(stack.name().to_string(), tip.moment.clone());
    let mut found = VerifyReport {
        report: snapshots::blocking(move || verify::verify(&snapshot)).await?,
        frames: view.frames.len() as u64,
        snapshots: u64::from(view.head.base.snapshot.is_some()),
        revisions: revisions.len() as u64,
        entries: tip.state.len() as u64,
    };
    if deep {
        for document in &revisions {
            if let Made::Stored(stored) = &document.made {
                snapshots::read(stack.backend(), stack.lineage(), &stored.snapshot).await?;
                found.snapshots += 1;
            }
        }
        verify_history(stack, &view.head.base, &tip.state, &mut found).await?;
    }
    Ok(found)
}

/// Replays the journal from its first frame and compares every checkpoint with what led to it.
async fn verify_history(stack: &Stack, base: &Base, tip: &State, found: &mut VerifyReport) -> Result<()> {
    let lineage = stack.lineage();
    let all = stack
        .backend()
        .read_journal(lineage, Some(state_core::Slot::ZERO))
        .await?;
    found.frames = all.frames.len() as u64;
    let mut checkpoints: BTreeMap<u64, Base> = BTreeMap::new();
    for frame in all.frames.iter().filter(|frame| frame.kind() == FrameKind::Data) {
        let object = format!("journal frame {} of stack {lineage}", frame.slot());
        for record in decode_records(&object, frame.payload())? {
            if let Record::Checkpoint(note) = record {
                checkpoints.insert(note.base.start.get(), note.base);
            }
        }
    }
    checkpoints.insert(base.start.get(), base.clone());
    let mut from = Base::empty(lineage);
    for checkpoint in checkpoints
        .into_values()
        .filter(|checkpoint| checkpoint.snapshot.is_some())
    {
        let between: Vec<_> = slots(&all.frames, &from, Some(&checkpoint)).cloned().collect();
        let replayed = load::from_base(stack.backend(), lineage, &from, &between).await?;
        let loaded = load::from_base(stack.backend(), lineage, &checkpoint, &[]).await?;
        found.snapshots += 1;
        if replayed.state != loaded.state {
            let name = checkpoint
                .snapshot
                .as_ref()
                .map_or_else(String::new, |s| s.object().to_string());
            let object = format!("stack {lineage}: {name}");
            return Err(Error::corrupt(
                object,
                0,
                "it isn't what the journal before it leads to",
            ));
        }
        from = checkpoint;
    }
    let rest: Vec<_> = slots(&all.frames, &from, None).cloned().collect();
    if load::from_base(stack.backend(), lineage, &from, &rest)
        .await?
        .state
        == *tip
    {
        return Ok(());
    }
    Err(Error::corrupt(
        format!("journal of stack {lineage}"),
        0,
        "it doesn't lead to the tip",
    ))
}

fn slots<'a>(
    frames: &'a [state_core::Frame],
    from: &Base,
    to: Option<&Base>,
) -> impl Iterator<Item = &'a state_core::Frame> {
    let range = from.start..to.map_or(state_core::Slot(u64::MAX), |base| base.start);
    frames.iter().filter(move |frame| range.contains(&frame.slot()))
}
