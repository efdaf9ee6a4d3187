//! Reads a whole history, finds where it can be cut, and determines which stored items a cut makes unused. The
//! collection in `collect` carries out the cut.

use crate::context::StackContext;
use crate::gc::retention::{Retention, oldest_kept};
use crate::keys::authenticate::{self, Authenticated, OpenedJournal, frame_object};
use crate::keys::wrapped;
use crate::objects::document::{RevisionDocument, RevisionRecord};
use crate::objects::{history_index, history_page, snapshots};
use crate::read::open::{self, Extent};
use crate::read::tip::Tip;
use crate::read::{replay, retrying};
use state_core::backend::{ObjectName, StoredItem, StoredItemName};
use state_core::head::Collection;
use state_core::history::{History, HistoryPageRef};
use state_core::journal::{Fence, FrameKind};
use state_core::{Base, Digest, Head, KeyId, Result, RevisionId, Serial, Slot, Timestamp, Writer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of revisions deleted by hand that one head lists. The next collection takes the rest.
const MAX_FORGOTTEN: usize = 1000;

/// The history of a stack from its floor on: the journal, the revisions, and the stored objects that they need.
pub(super) struct Survey {
    journal: OpenedJournal,
    pub(super) tip: Tip,
    /// The revisions that were not deleted, oldest first.
    pub(super) documents: Vec<Authenticated<RevisionDocument>>,
    /// The pages of the history, each with all revisions on it, also those that were deleted by hand.
    pages: Vec<(HistoryPageRef, Vec<RevisionId>)>,
    /// The bases (snapshots from which the journal can be replayed) at or after the floor that the head or an
    /// authenticated frame names, by the slot at which replay begins.
    bases: BTreeMap<Slot, Authenticated<Base>>,
    /// The stored snapshots that frames refer to, each with the slot of the frame. The last field is the detached
    /// revision (stored without becoming the current one) whose content the snapshot is. It is `None` if replay resets
    /// the state to the snapshot.
    needed: Vec<(Slot, ObjectName, Option<RevisionId>)>,
}

/// The slot at which history begins after the collection, and the revisions that the collection drops.
#[derive(Debug)]
pub(super) struct HistoryCut {
    /// The slot at which history begins.
    pub(super) start: Slot,
    /// Chain digest of the journal before `start`.
    chain: Digest,
    /// The cut removes all revisions with a lower serial.
    pub(super) serial: Serial,
    /// The revisions that the cut removes because of their serial, oldest first.
    pub(super) dropped: Vec<RevisionId>,
    /// The revisions that were deleted by hand and whose stored objects the collection drops.
    pub(super) forgotten: BTreeSet<RevisionId>,
    /// Number of revisions after the cut that the retention doesn't keep.
    pub(super) held_back: usize,
}

impl HistoryCut {
    /// Returns the cut that an earlier collection made, from the head's record of it. `dropped` is empty, because the
    /// record doesn't list the dropped revisions.
    pub(super) fn again(made: &Collection) -> Self {
        Self {
            start: made.base.start,
            chain: made.base.chain,
            serial: made.serial,
            dropped: Vec::new(),
            forgotten: made.forgotten.clone(),
            held_back: 0,
        }
    }

    /// Whether the cut removes a revision from the history.
    fn removes(&self, revision: &RevisionId) -> bool {
        revision.serial() < self.serial || self.forgotten.contains(revision)
    }
}

impl Survey {
    /// Reads the head, the journal and all revision documents of a stack.
    pub(super) async fn of(stack: &StackContext) -> Result<Self> {
        loop {
            let journal = open::journal(stack, Extent::Whole).await?.journal;
            let before = Head::clone(&journal.head);
            let survey = Self::at(stack, journal).await;
            // A plan is made without the lock: another process may collect meanwhile.
            if !retrying::must_start_over(stack, &survey, &before).await? {
                return survey;
            }
        }
    }

    async fn at(stack: &StackContext, journal: OpenedJournal) -> Result<Self> {
        let tip = Tip::of(stack, &journal).await?;
        let (mut pages, mut documents) = (Vec::new(), Vec::new());
        let named = authenticate::pages(stack, &tip.head).await?;
        for page in named.as_slice() {
            let read = authenticate::page(stack, &named, page).await?;
            pages.push((
                *page,
                read.iter().map(|document| document.revision.clone()).collect(),
            ));
            documents.extend(read);
        }
        documents.extend(tip.revisions().iter().cloned());
        documents.retain(|document| tip.lists(&document.revision));
        let mut survey = Self {
            bases: BTreeMap::new(),
            needed: Vec::new(),
            tip,
            documents,
            pages,
            journal,
        };
        let head = &survey.journal.head;
        let base = head.base().cloned();
        // A base needs the snapshot with its content, which was stored before the base, for as long as it is used.
        let kept = head
            .bases()
            .filter_map(|(_, base)| Some((base.start, base.content.as_ref()?.object(), None)));
        survey.needed.extend(kept);
        let mut candidates = vec![survey.tip.floor.beginning.clone(), base];
        for frame in survey.journal.frames().each() {
            for reference in authenticate::rebases(stack.lineage(), frame)? {
                survey.needed.push((frame.slot(), reference.object(), None));
            }
            candidates.extend(authenticate::checkpoints(stack.lineage(), frame)?);
            let Some(document) = authenticate::document(stack.lineage(), frame)? else {
                continue;
            };
            if let Some(stored) = document.detached_snapshot() {
                let revision = document.revision.clone();
                survey
                    .needed
                    .push((frame.slot(), stored.object(), Some(revision)));
            }
            let base = document.base();
            candidates.extend(base.map(Authenticated::cloned));
        }
        let floor = candidates.first().map_or(Slot::ZERO, |base| base.start);
        // A record after the floor may name a base before the floor. A collection may have deleted the snapshot of such
        // a base.
        candidates.retain(|base| base.start >= floor);
        let content = candidates
            .iter()
            .filter_map(|base| Some((base.start, base.content.as_ref()?.object(), None)));
        survey.needed.extend(content);
        survey.bases = candidates.into_iter().map(|base| (base.start, base)).collect();
        Ok(survey)
    }

    /// The latest cut of the journal that loses no revision that the retention keeps.
    pub(super) fn cut(&self, retention: &Retention, now: &Timestamp) -> Result<HistoryCut> {
        let made: Vec<Option<&Timestamp>> = self.documents.iter().map(|document| moment(document)).collect();
        let current = self.tip.replayed.state.current();
        let current = self.documents.iter().position(|d| Some(&d.revision) == current);
        let oldest = oldest_kept(&made, current, retention, now)?;
        let limit = self
            .documents
            .get(oldest)
            .map_or(Slot::ZERO, |document| document.slot);
        let (start, chain) = self.border(limit)?;
        let behind = self.documents.partition_point(|document| document.slot < start);
        let (serial, start, chain) = match self.documents.get(behind) {
            Some(first) if behind > 0 => (first.revision.serial(), start, chain),
            // No revision would be dropped, so history keeps its present beginning.
            _ => {
                let beginning = &self.tip.floor.beginning;
                (self.tip.floor.serial(), beginning.start, beginning.chain)
            }
        };
        Ok(HistoryCut {
            start,
            chain,
            serial,
            dropped: self.documents[..behind.min(oldest)]
                .iter()
                .map(|document| document.revision.clone())
                .collect(),
            forgotten: BTreeSet::new(),
            held_back: oldest.saturating_sub(behind),
        })
    }

    /// The latest slot, at or before `limit`, at which the journal can be cut, and the chain digest before that slot.
    /// The journal can be cut at a base, which has a snapshot. It can also be cut at a fence (a frame without records
    /// that begins a segment of the journal), for which a snapshot can be made. Without either, the result is the
    /// present beginning of the history.
    fn border(&self, limit: Slot) -> Result<(Slot, Digest)> {
        let base = self.bases.range(..=limit).next_back();
        let base = base.map(|(slot, base)| (*slot, base.chain));
        let fences = self.journal.frames.iter().filter(|frame| frame.slot() <= limit);
        // A fence contains the chain digest before it, so replay can start at a fence. Any other frame can be verified
        // only with that digest, which it doesn't contain.
        let fence = fences.rev().find(|frame| frame.kind() == FrameKind::Fence);
        let fence = match fence {
            None => None,
            Some(frame) => {
                let object = frame_object(self.journal.head.lineage, frame);
                Some((frame.slot(), Fence::decode(&object, frame.payload())?.chain))
            }
        };
        let beginning = &self.tip.floor.beginning;
        let borders = [Some((beginning.start, beginning.chain)), fence, base];
        Ok(borders
            .into_iter()
            .flatten()
            .max_by_key(|(slot, _)| *slot)
            .unwrap_or((Slot::ZERO, beginning.chain)))
    }

    /// The base from which readers replay the history after a cut. Stores the snapshot of this base if there is none
    /// yet.
    pub(super) async fn base_of(
        &self,
        stack: &StackContext,
        writer: &dyn Writer,
        cut: &HistoryCut,
    ) -> Result<Base> {
        let nearest = self.bases.range(..=cut.start).next_back();
        let nearest = nearest.map_or(&self.tip.floor.beginning, |(_, base)| base);
        if nearest.start == cut.start {
            return Ok(Base::clone(nearest));
        }
        let between = self.journal.frames().starting_at(nearest.start);
        let between = between.ending_before(cut.start);
        let led_to = replay::from_base(stack, nearest.by_ref(), between, self.tip.loaded()).await?;
        // The snapshot is dated by the replayed records, not by the clock, so that a repeated run writes identical
        // bytes.
        let mut snapshot = led_to
            .state
            .snapshot(self.journal.head.name.to_string(), led_to.moment);
        snapshot.continuation = Some(led_to.state.continuation());
        let reference = snapshots::store(writer, Arc::new(snapshot), cut.start).await?;
        Ok(Base {
            snapshot: Some(reference),
            content: None,
            start: cut.start,
            chain: cut.chain,
        })
    }

    /// Adds to the cut at most [`MAX_FORGOTTEN`] revisions that were deleted by hand, are not below the cut, and still
    /// have stored objects.
    pub(super) fn add_forgotten(&self, cut: &mut HistoryCut, stored_items: &[StoredItem]) {
        let existing: BTreeSet<&StoredItemName> = stored_items.iter().map(|item| &item.name).collect();
        let exists = |object| existing.contains(&StoredItemName::Object(object));
        let paged = self.pages.iter().flat_map(|(_, revisions)| revisions);
        let live = self.tip.revisions().iter().map(|document| &document.revision);
        let logged = live.filter(|revision| {
            let serial = revision.serial();
            exists(ObjectName::Log(serial)) || exists(ObjectName::Outputs(serial))
        });
        let kept = self.needed_from(cut.start, &|other| self.tip.replayed.state.is_forgotten(other));
        let stored = self.needed.iter().filter_map(|(_, object, by)| {
            let by = by.as_ref()?;
            (!kept.contains(object) && exists(object.clone())).then_some(by)
        });
        let forgotten = paged.chain(logged).chain(stored).filter(|revision| {
            revision.serial() >= cut.serial && self.tip.replayed.state.is_forgotten(revision)
        });
        let forgotten: BTreeSet<RevisionId> = forgotten.cloned().collect();
        cut.forgotten = forgotten.into_iter().take(MAX_FORGOTTEN).collect();
    }

    /// Returns those of the stored items that no reader needs after the cut.
    pub(super) fn unused_after(&self, stored_items: Vec<StoredItem>, cut: &HistoryCut) -> Vec<StoredItem> {
        let serials: BTreeSet<Serial> = cut.forgotten.iter().map(RevisionId::serial).collect();
        let is_forgotten = |revision: &RevisionId| cut.forgotten.contains(revision);
        let released: BTreeSet<&ObjectName> = self
            .needed
            .iter()
            .filter(|(_, _, by)| by.as_ref().is_some_and(is_forgotten))
            .map(|(_, object, _)| object)
            .collect();
        let kept = self.needed_from(cut.start, &is_forgotten);
        let is_unused = |item: &StoredItem| match &item.name {
            // The backend lists only parts of the journal that lie before the cut, and leaves out the parts that keep
            // former writers fenced. So all listed parts are unused.
            StoredItemName::Journal(_) => true,
            StoredItemName::Object(name @ ObjectName::HistoryPage { .. }) => {
                !self.kept_pages(cut).any(|page| page.object() == *name)
            }
            // The index that the head names is kept until the next collection, also if the cut makes a new one.
            StoredItemName::Object(name @ ObjectName::HistoryIndex { .. }) => {
                let index = self.tip.head.history.index;
                index.is_none_or(|index| index.object() != *name)
            }
            StoredItemName::Object(ObjectName::Log(serial) | ObjectName::Outputs(serial)) => {
                *serial < cut.serial || serials.contains(serial)
            }
            StoredItemName::Object(name @ ObjectName::Snapshot { slot, .. }) => {
                // Frames with equal content share a snapshot: it stays as long as one remaining frame refers to it.
                (*slot < cut.start || released.contains(name)) && !kept.contains(name)
            }
            StoredItemName::Object(ObjectName::Key { number, id }) => self.is_unneeded_key(*number, *id),
            // Unknown kinds of objects belong to other tools.
            StoredItemName::Object(_) => false,
        };
        let mut unused_after = stored_items;
        unused_after.retain(is_unused);
        unused_after.sort_by(|left, right| left.name.cmp(&right.name));
        unused_after
    }

    /// Whether a stored key file opens nothing: an interrupted rotation left it, or the recipients were changed since. Replaced
    /// data keys stay, because earlier revisions and logs need them. No head that names the file can become current any
    /// more: the lock holder replaced the head when it took the lock.
    fn is_unneeded_key(&self, number: u64, id: KeyId) -> bool {
        let head = &self.tip.head;
        match &head.keys {
            Some(keys) if head.key_id == Some(id) => !keys.files.contains(&number),
            Some(_) => !wrapped::keys_of(head).contains(&id),
            None => false,
        }
    }

    /// Number of stored items that are key files which open nothing.
    pub(super) fn unneeded_keys(&self, stored_items: &[StoredItem]) -> usize {
        let is_unneeded = |item: &&StoredItem| match &item.name {
            StoredItemName::Object(ObjectName::Key { number, id }) => self.is_unneeded_key(*number, *id),
            _ => false,
        };
        stored_items.iter().filter(is_unneeded).count()
    }

    /// The pages from which a cut removes no revision.
    fn kept_pages<'a>(&'a self, cut: &'a HistoryCut) -> impl Iterator<Item = &'a HistoryPageRef> {
        let is_kept = |revisions: &[RevisionId]| !revisions.iter().any(|revision| cut.removes(revision));
        let kept = self.pages.iter().filter(move |(_, revisions)| is_kept(revisions));
        kept.map(|(page, _)| page)
    }

    /// The history after a cut. A page from which the cut removes revisions is stored again without these revisions.
    pub(super) async fn history_after(
        &self,
        stack: &StackContext,
        writer: &dyn Writer,
        cut: &HistoryCut,
    ) -> Result<History> {
        let named = authenticate::pages(stack, &self.tip.head).await?;
        let mut pages = Vec::new();
        for (page, revisions) in &self.pages {
            if !revisions.iter().any(|revision| cut.removes(revision)) {
                pages.push(*page);
                continue;
            }
            let kept = authenticate::page(stack, &named, page).await?.into_iter();
            let kept = kept.filter(|document| !cut.removes(&document.revision));
            let kept = kept.map(Authenticated::into_value).collect();
            pages.extend(history_page::store(stack, writer, kept).await?);
        }
        history_index::history_of(stack, writer, pages).await
    }

    /// The snapshots to which the frames from slot `from` on refer. References of a detached revision for which
    /// `is_gone` returns true are ignored.
    fn needed_from(&self, from: Slot, is_gone: &dyn Fn(&RevisionId) -> bool) -> BTreeSet<&ObjectName> {
        let needed = self.needed.iter();
        let needed = needed.filter(|(slot, _, by)| *slot >= from && !by.as_ref().is_some_and(is_gone));
        needed.map(|(_, object, _)| object).collect()
    }

    /// The oldest revision with at least this serial.
    pub(super) fn first_from(&self, serial: Serial) -> Option<RevisionId> {
        let mut revisions = self.documents.iter().map(|document| &document.revision);
        revisions.find(|revision| revision.serial() >= serial).cloned()
    }
}

/// The time at which a revision was made; none for a detached one, whose record has no timestamp.
fn moment(document: &RevisionDocument) -> Option<&Timestamp> {
    match &document.made {
        RevisionRecord::UpdateEnd(mark) => Some(replay::moment(mark)),
        RevisionRecord::DetachedRevision(_) => None,
    }
}
