//! Revisions: which there are, and what each of them holds.

use crate::document::{Made, RevisionDocument};
use crate::horizon::Horizon;
use crate::keys;
use crate::load::{self, Replayed};
use crate::snapshots;
use crate::stack::Stack;
use state_core::backend::{ObjectKind, ObjectName};
use state_core::{Base, Enveloped, Error, Frame, Result, RevisionId, Slot, Snapshot, State, UpdateInfo};
use std::collections::{BTreeMap, BTreeSet};

/// A committed point of a stack's journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Its id.
    pub id: RevisionId,
    /// What made it.
    pub kind: RevisionKind,
    /// How many entries it has.
    pub entries: u64,
    /// Whether it is the current one.
    pub current: bool,
    /// The slot of the frame that made it.
    pub slot: Slot,
}

/// What made a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevisionKind {
    /// An update that ended.
    Update(Box<UpdateInfo>),
    /// A snapshot that was stored and not made current.
    Stored,
}

/// All revisions that weren't deleted, oldest first: those of `updates/` and those of the live journal.
pub(crate) async fn documents(stack: &Stack, tip: &Replayed) -> Result<Vec<RevisionDocument>> {
    let mut all: BTreeMap<RevisionId, RevisionDocument> = BTreeMap::new();
    for id in stored_ids(stack, &tip.horizon).await? {
        if !tip.revisions.iter().any(|live| live.revision == id) && !tip.state.is_forgotten(&id) {
            let document = read_document(stack, &ObjectName::Update(id.clone())).await?;
            keys::authenticate_document(stack, tip, &document).await?;
            all.insert(id, document);
        }
    }
    all.extend(
        tip.revisions
            .iter()
            .map(|live| (live.revision.clone(), live.clone())),
    );
    Ok(all
        .into_values()
        .filter(|document| is_listed(tip, &document.revision))
        .collect())
}

/// Whether a revision was neither deleted nor collected.
fn is_listed(tip: &Replayed, revision: &RevisionId) -> bool {
    !tip.state.is_forgotten(revision) && !tip.horizon.hides(revision.serial())
}

/// The ids of all revisions that `updates/` tells of and that weren't collected.
pub(crate) async fn stored_ids(stack: &Stack, horizon: &Horizon) -> Result<BTreeSet<RevisionId>> {
    let names = stack.backend().list(stack.lineage(), ObjectKind::Update).await?;
    let ids = names.into_iter().filter_map(|name| match name {
        ObjectName::Update(id) => Some(id),
        _ => None,
    });
    Ok(ids.filter(|id| !horizon.hides(id.serial())).collect())
}

/// What `updates/` tells of a revision.
pub(crate) async fn stored_document(stack: &Stack, id: &RevisionId) -> Result<RevisionDocument> {
    read_document(stack, &ObjectName::Update(id.clone())).await
}

/// At most so many revisions, newest first, that are older than `before` (none: from the newest on). Reads only the
/// documents of those.
pub(crate) async fn page(
    stack: &Stack,
    tip: &Replayed,
    before: Option<&RevisionId>,
    limit: usize,
) -> Result<Vec<Revision>> {
    let mut ids: BTreeSet<RevisionId> = tip.revisions.iter().map(|live| live.revision.clone()).collect();
    ids.extend(stored_ids(stack, &tip.horizon).await?);
    let older = |id: &&RevisionId| before.is_none_or(|before| *id < before);
    let wanted = ids.iter().rev().filter(older);
    let wanted = wanted.filter(|id| is_listed(tip, id)).take(limit);
    let mut page = Vec::new();
    for id in wanted {
        let document = document(stack, tip, id).await?;
        page.push(document.into_revision(tip.state.current()));
    }
    Ok(page)
}

async fn read_document(stack: &Stack, name: &ObjectName) -> Result<RevisionDocument> {
    let object = format!("stack {}: {name}", stack.lineage());
    let bytes = stack.backend().read(stack.lineage(), name).await?;
    let document = RevisionDocument::decode(&object, &bytes)?;
    if ObjectName::Update(document.revision.clone()) == *name
        && RevisionId::new(document.revision.serial(), &document.chain) == document.revision
    {
        return Ok(document);
    }
    Err(Error::corrupt(
        object,
        0,
        "it tells of another revision than its name",
    ))
}

/// What made a revision.
pub(crate) async fn document(
    stack: &Stack,
    tip: &Replayed,
    revision: &RevisionId,
) -> Result<RevisionDocument> {
    let missing = || Error::not_found(format!("revision {revision} of stack {}", stack.name().short()));
    if tip.horizon.hides(revision.serial()) {
        return Err(tip.horizon.collected(stack, revision));
    }
    if tip.state.is_forgotten(revision) {
        return Err(missing());
    }
    let live = tip
        .revisions
        .iter()
        .find(|live| live.revision == *revision)
        .cloned();
    match live {
        Some(document) => Ok(document),
        None => match read_document(stack, &ObjectName::Update(revision.clone())).await {
            Err(Error::NotFound { .. }) => Err(missing()),
            Err(other) => Err(other),
            Ok(document) => {
                keys::authenticate_document(stack, tip, &document).await?;
                Ok(document)
            }
        },
    }
}

/// What a revision holds.
pub(crate) async fn snapshot(stack: &Stack, tip: &Replayed, revision: &RevisionId) -> Result<Snapshot> {
    let document = document(stack, tip, revision).await?;
    match &document.made {
        Made::Mark(mark) => {
            let moment = mark
                .update
                .end
                .clone()
                .unwrap_or_else(|| mark.update.start.clone());
            let unchanged = tip.ends_with_mark && tip.state.update().is_none();
            let is_tip = unchanged && tip.state.current() == Some(revision);
            let mut snapshot = if is_tip {
                tip.state.snapshot(stack.name().to_string(), moment)
            } else {
                state_at(stack, &document, tip.horizon.base_of(mark))
                    .await?
                    .state
                    .snapshot(stack.name().to_string(), moment)
            };
            snapshot.serial = Some(mark.serial);
            Ok(snapshot)
        }
        Made::Stored(stored) => {
            let mut snapshot = snapshots::read(stack.backend(), stack.lineage(), &stored.snapshot).await?;
            snapshot.serial = Some(stored.serial);
            Ok(snapshot)
        }
    }
}

/// What `pick` finds in the state at a mark and at each one before it from the same base, oldest first.
pub(crate) async fn at_marks<T>(
    stack: &Stack,
    document: &RevisionDocument,
    base: &Base,
    pick: impl Fn(&State) -> T,
) -> Result<Vec<(RevisionId, T)>> {
    let frames = frames_until(stack, base, document.slot).await?;
    let picked = load::at_marks(stack.backend(), stack.lineage(), base, &frames, pick).await?;
    if picked.last().is_some_and(|(last, _)| *last == document.revision) {
        return Ok(picked);
    }
    Err(not_reached(stack, &document.revision))
}

fn not_reached(stack: &Stack, revision: &RevisionId) -> Error {
    let object = format!("revision {revision} of stack {}", stack.lineage());
    Error::corrupt(object, 0, "the journal doesn't lead to it")
}

async fn frames_until(stack: &Stack, base: &Base, last: Slot) -> Result<Vec<Frame>> {
    let view = stack
        .backend()
        .read_journal(stack.lineage(), Some(base.start))
        .await?;
    let frames = view.frames.into_iter();
    Ok(frames.take_while(|frame| frame.slot() <= last).collect())
}

/// The state at a mark: from a base before it, replayed up to its frame.
async fn state_at(stack: &Stack, document: &RevisionDocument, base: &Base) -> Result<Replayed> {
    let frames = frames_until(stack, base, document.slot).await?;
    let replayed = load::from_base(stack.backend(), stack.lineage(), base, &frames).await?;
    if replayed.state.current() == Some(&document.revision) {
        return Ok(replayed);
    }
    Err(not_reached(stack, &document.revision))
}
