//! Revisions of a stack: their list, the records that made them, and their content.

use crate::context::StackContext;
use crate::keys::authenticate::{self, Authenticated};
use crate::objects::document::{Revision, RevisionDocument, RevisionRecord};
use crate::objects::snapshots;
use crate::read::history_floor::HistoryFloor;
use crate::read::replay::{self, ReplayResult};
use crate::read::tip::Tip;
use state_core::backend::{ObjectKind, ObjectName};
use state_core::{Base, Enveloped, Error, Frame, Head, Result, RevisionId, Slot, Snapshot, State};
use std::collections::{BTreeMap, BTreeSet};

/// The revisions of a stack at the time when this list was made, newest first. Holds only their ids.
#[derive(Debug)]
pub struct Revisions {
    stack: StackContext,
    head: Authenticated<Head>,
    floor: HistoryFloor,
    current: Option<RevisionId>,
    /// Ids of the revisions that were not returned yet.
    ids: BTreeSet<RevisionId>,
    /// Documents of the live journal.
    live: BTreeMap<RevisionId, RevisionDocument>,
}

impl Revisions {
    /// The revisions in `updates/` and in the live journal, without deleted and collected ones.
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
    /// `Corrupt` when the stored document is damaged, `Sealed` when its tag is wrong. The next call continues with the
    /// revision before it.
    ///
    /// # Cancellation
    /// A call that is dropped may skip a revision.
    pub async fn next(&mut self) -> Result<Option<Revision>> {
        let document = self.next_document().await?;
        Ok(document.map(|document| document.into_revision(self.current.as_ref())))
    }

    /// As [`Self::next`], but returns the document.
    pub(crate) async fn next_document(&mut self) -> Result<Option<RevisionDocument>> {
        while let Some(id) = self.ids.pop_last() {
            if let Some(live) = self.live.remove(&id) {
                return Ok(Some(live));
            }
            match read_document(&self.stack, &self.head, &id).await {
                // Its document may be missing because a collection ran since the ids were listed.
                Err(Error::NotFound { .. }) if self.was_collected(&id).await? => {}
                document => return document.map(Some),
            }
        }
        Ok(None)
    }

    /// Whether a revision was collected since the list was made.
    async fn was_collected(&self, id: &RevisionId) -> Result<bool> {
        let now = HistoryFloor::of(&authenticate::head(&self.stack).await?.head);
        Ok(now.hides(id.serial()) || now.0.is_some_and(|collection| collection.forgotten.contains(id)))
    }

    /// The base from which the state at this update end can be replayed.
    pub(crate) fn base_of<'a>(&'a self, mark: &'a state_core::journal::UpdateEnd) -> &'a Base {
        self.floor.base_of(mark)
    }

    /// The current revision when the list was made.
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

/// At most `limit` revisions that are older than `before`, newest first; without `before`, from the newest one on.
/// Reads only the documents of these revisions.
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
async fn read_document(
    stack: &StackContext,
    head: &Authenticated<Head>,
    id: &RevisionId,
) -> Result<RevisionDocument> {
    let name = ObjectName::Update(id.clone());
    let object = format!("stack {}: {name}", stack.lineage());
    let bytes = stack.backend().read(stack.lineage(), &name).await?;
    let document = RevisionDocument::decode(&object, &bytes)?;
    if document.revision != *id || RevisionId::new(id.serial(), &document.chain) != *id {
        return Err(Error::corrupt(
            object,
            0,
            "it describes another revision than the one in its name",
        ));
    }
    authenticate::check_document(stack, head, &document).await?;
    Ok(document)
}

/// The document of a revision.
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

/// The content of a revision.
pub(crate) async fn snapshot(stack: &StackContext, tip: &Tip, revision: &RevisionId) -> Result<Snapshot> {
    let document = document(stack, tip, revision).await?;
    match &document.made {
        RevisionRecord::UpdateEnd(mark) => {
            let unchanged = tip.replayed.ends_with_mark && tip.replayed.state.update().is_none();
            // Shortcut: if the tip is the revision itself, its state needs no second replay.
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
        RevisionRecord::DetachedRevision(stored) => {
            let mut snapshot = snapshots::read(stack, &stored.snapshot).await?;
            snapshot.serial = Some(stored.serial);
            Ok(snapshot)
        }
    }
}

/// Calls `pick` on the state at a revision and at each earlier revision after the same base. Returns the results,
/// oldest first.
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

/// The state at a revision: replayed from a base before it up to its frame.
async fn state_at(stack: &StackContext, document: &RevisionDocument, base: &Base) -> Result<ReplayResult> {
    let frames = frames_until(stack, base, document.slot).await?;
    let replayed = replay::from_base(stack, base, &frames).await?;
    if replayed.state.current() == Some(&document.revision) {
        return Ok(replayed);
    }
    Err(not_reached(stack, &document.revision))
}

async fn frames_until(stack: &StackContext, base: &Base, last: Slot) -> Result<Vec<Frame>> {
    let journal = authenticate::journal(stack, Some(base.start)).await?;
    let frames = journal.frames.into_iter();
    Ok(frames.take_while(|frame| frame.slot() <= last).collect())
}

fn not_reached(stack: &StackContext, revision: &RevisionId) -> Error {
    let object = format!("revision {revision} of stack {}", stack.lineage());
    Error::corrupt(object, 0, "replaying the journal doesn't reach it")
}
