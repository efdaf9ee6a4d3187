//! Revisions: which there are, what made each of them, and what it holds.

use crate::context::StackContext;
use crate::keys::trust;
use crate::objects::document::{Made, Revision, RevisionDocument};
use crate::objects::snapshots;
use crate::read::history_floor::HistoryFloor;
use crate::read::replay::{self, Replayed};
use crate::read::tip::Tip;
use state_core::backend::{ObjectKind, ObjectName};
use state_core::{Base, Enveloped, Error, Frame, Head, Result, RevisionId, Slot, Snapshot, State};
use std::collections::{BTreeMap, BTreeSet};

/// A stack's revisions as they were when this was made, newest first. Only their ids are held.
#[derive(Debug)]
pub struct Revisions {
    stack: StackContext,
    head: Head,
    floor: HistoryFloor,
    current: Option<RevisionId>,
    /// Ids of the revisions that are still to be read.
    ids: BTreeSet<RevisionId>,
    /// Documents that the live journal holds.
    live: BTreeMap<RevisionId, RevisionDocument>,
}

impl Revisions {
    /// The revisions of `updates/` and those of the live journal, without deleted and collected ones.
    pub(crate) async fn of(stack: &StackContext, tip: &Tip) -> Result<Self> {
        let live = tip.replayed.revisions.iter();
        let live: BTreeMap<_, _> = live
            .map(|document| (document.revision.clone(), document.clone()))
            .collect();
        let names = stack.backend().list(stack.lineage(), ObjectKind::Update).await?;
        let stored = names.into_iter().filter_map(|name| match name {
            ObjectName::Update(id) => Some(id),
            _ => None,
        });
        let ids = stored.chain(live.keys().cloned());
        Ok(Self {
            ids: ids.filter(|id| tip.lists(id)).collect(),
            live,
            stack: stack.clone(),
            head: tip.head.clone(),
            floor: tip.floor.clone(),
            current: tip.replayed.state.current().cloned(),
        })
    }

    /// Only the revisions that are older than this one.
    pub(crate) fn before(mut self, revision: &RevisionId) -> Self {
        self.ids.split_off(revision);
        self
    }

    /// The next older revision; none after the oldest.
    ///
    /// # Errors
    /// `Corrupt` when what is stored of it is damaged, `Sealed` when it was forged; a call after that goes on with the
    /// one before it.
    ///
    /// # Cancellation
    /// A call that is dropped may skip a revision.
    pub async fn next(&mut self) -> Result<Option<Revision>> {
        let document = self.next_document().await?;
        Ok(document.map(|document| document.into_revision(self.current.as_ref())))
    }

    /// As [`Self::next`], with all that is known of it.
    pub(crate) async fn next_document(&mut self) -> Result<Option<RevisionDocument>> {
        while let Some(id) = self.ids.pop_last() {
            if let Some(live) = self.live.remove(&id) {
                return Ok(Some(live));
            }
            match read_document(&self.stack, &self.head, &id).await {
                Err(Error::NotFound { .. }) if self.was_collected(&id).await? => {}
                document => return document.map(Some),
            }
        }
        Ok(None)
    }

    /// Whether a revision was collected while this went from one to the next.
    async fn was_collected(&self, id: &RevisionId) -> Result<bool> {
        let now = HistoryFloor::of(&self.stack.head().await?);
        Ok(now.hides(id.serial()) || now.0.is_some_and(|collection| collection.forgotten.contains(id)))
    }

    /// Where replay begins to get to a mark that is left.
    pub(crate) fn base_of<'a>(&'a self, mark: &'a state_core::journal::UpdateEnd) -> &'a Base {
        self.floor.base_of(mark)
    }

    /// The current revision.
    pub(crate) const fn current(&self) -> Option<&RevisionId> {
        self.current.as_ref()
    }
}

/// All revisions, oldest first.
pub(crate) async fn documents(stack: &StackContext, tip: &Tip) -> Result<Vec<RevisionDocument>> {
    let mut revisions = Revisions::of(stack, tip).await?;
    let mut documents = Vec::new();
    while let Some(document) = revisions.next_document().await? {
        documents.push(document);
    }
    documents.reverse();
    Ok(documents)
}

/// At most so many revisions, newest first, that are older than `before` (none: from the newest on). Reads only the
/// documents of those.
pub(crate) async fn page(
    stack: &StackContext,
    tip: &Tip,
    before: Option<&RevisionId>,
    limit: usize,
) -> Result<Vec<Revision>> {
    let mut revisions = Revisions::of(stack, tip).await?;
    if let Some(before) = before {
        revisions = revisions.before(before);
    }
    let mut page = Vec::new();
    while page.len() < limit
        && let Some(revision) = revisions.next().await?
    {
        page.push(revision);
    }
    Ok(page)
}

/// The stored document of a revision, authenticated with the key of its time.
async fn read_document(stack: &StackContext, head: &Head, id: &RevisionId) -> Result<RevisionDocument> {
    let name = ObjectName::Update(id.clone());
    let object = format!("stack {}: {name}", stack.lineage());
    let bytes = stack.backend().read(stack.lineage(), &name).await?;
    let document = RevisionDocument::decode(&object, &bytes)?;
    if document.revision != *id || RevisionId::new(id.serial(), &document.chain) != *id {
        return Err(Error::corrupt(
            object,
            0,
            "it tells of another revision than its name",
        ));
    }
    trust::authenticate_document(stack, head, &document).await?;
    Ok(document)
}

/// What made a revision.
pub(crate) async fn document(
    stack: &StackContext,
    tip: &Tip,
    revision: &RevisionId,
) -> Result<RevisionDocument> {
    let object = || format!("revision {revision} of {}", stack.object());
    if tip.floor.hides(revision.serial()) {
        return Err(tip.floor.collected(object()));
    }
    if !tip.lists(revision) {
        return Err(Error::not_found(object()));
    }
    let mut live = tip.replayed.revisions.iter();
    if let Some(document) = live.find(|live| live.revision == *revision) {
        return Ok(document.clone());
    }
    match read_document(stack, &tip.head, revision).await {
        Err(Error::NotFound { .. }) => Err(Error::not_found(object())),
        read => read,
    }
}

/// What a revision holds.
pub(crate) async fn snapshot(stack: &StackContext, tip: &Tip, revision: &RevisionId) -> Result<Snapshot> {
    let document = document(stack, tip, revision).await?;
    match &document.made {
        Made::UpdateEnd(mark) => {
            let unchanged = tip.replayed.ends_with_mark && tip.replayed.state.update().is_none();
            let earlier;
            let state = if unchanged && tip.replayed.state.current() == Some(revision) {
                &tip.replayed.state
            } else {
                earlier = state_at(stack, &document, tip.floor.base_of(mark)).await?.state;
                &earlier
            };
            let mut snapshot = state.snapshot(stack.name().to_string(), replay::moment(mark).clone());
            snapshot.serial = Some(mark.serial);
            Ok(snapshot)
        }
        Made::DetachedRevision(stored) => {
            let mut snapshot = snapshots::read(stack, &stored.snapshot).await?;
            snapshot.serial = Some(stored.serial);
            Ok(snapshot)
        }
    }
}

/// What `pick` finds in the state at a mark and at each one before it from the same base, oldest first.
pub(crate) async fn at_marks<T>(
    stack: &StackContext,
    document: &RevisionDocument,
    base: &Base,
    pick: impl Fn(&State) -> T,
) -> Result<Vec<(RevisionId, T)>> {
    let frames = frames_until(stack, base, document.slot).await?;
    let picked = replay::at_marks(stack, base, &frames, pick).await?;
    if picked.last().is_some_and(|(last, _)| *last == document.revision) {
        return Ok(picked);
    }
    Err(not_reached(stack, &document.revision))
}

/// The state at a mark: from a base before it, replayed up to its frame.
async fn state_at(stack: &StackContext, document: &RevisionDocument, base: &Base) -> Result<Replayed> {
    let frames = frames_until(stack, base, document.slot).await?;
    let replayed = replay::from_base(stack, base, &frames).await?;
    if replayed.state.current() == Some(&document.revision) {
        return Ok(replayed);
    }
    Err(not_reached(stack, &document.revision))
}

async fn frames_until(stack: &StackContext, base: &Base, last: Slot) -> Result<Vec<Frame>> {
    let from = Some(base.start);
    let view = stack.backend().read_journal(stack.lineage(), from).await?;
    let frames = view.frames.into_iter();
    Ok(frames.take_while(|frame| frame.slot() <= last).collect())
}

fn not_reached(stack: &StackContext, revision: &RevisionId) -> Error {
    let object = format!("revision {revision} of stack {}", stack.lineage());
    Error::corrupt(object, 0, "the journal doesn't lead to it")
}
