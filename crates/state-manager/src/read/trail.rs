//! Follows one resource back through the revisions. The documents of the revisions list which resources each one changed,
//! so most steps need no state. A state is read only for a revision that lists no changes: one that changed very many
//! resources, one whose writer took over an open update, and one before which a revision was deleted.

use crate::context::StackContext;
use crate::keys::authenticate::Authenticated;
use crate::objects::document::{Revision, RevisionDocument};
use crate::objects::encoded_document::JsonText;
use crate::read::history::Revisions;
use crate::read::listed_document::ListedDocument;
use crate::read::revision_state;
use crate::read::tip::Tip;
use state_core::diff;
use state_core::journal::{ChangeKind, EntryChange, RevisionChanges};
use state_core::{Entry, EntryKey, Result, RevisionId, SharedEntry, State, Uid};

/// What a revision did to a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResourceChange {
    Unchanged,
    Created,
    /// The key changed, or the properties with these JSON pointers.
    Updated {
        moved: bool,
        properties: Vec<String>,
    },
    Removed,
}

/// What identifies a resource in the revisions that were not visited yet.
#[derive(Clone, Debug)]
struct Identity {
    key: EntryKey,
    uid: Option<Uid>,
    /// Whether the newest of these revisions contains the resource.
    exists: bool,
}

/// The texts of which one occurs in the record of each revision that changed a resource or its address.
#[derive(Clone, Debug)]
struct ResourceTexts {
    address: JsonText,
    uid: Option<JsonText>,
}

impl ResourceTexts {
    fn of(resource: &Identity) -> Self {
        Self {
            address: JsonText::string(resource.key.address.as_str()),
            uid: resource.uid.map(|uid| JsonText::string(&uid.to_string())),
        }
    }

    /// Whether a revision surely changed neither the resource nor what is at its address. Decides this for most revisions
    /// without decoding their records.
    fn are_missing_in(&self, listed: &ListedDocument) -> bool {
        let mut texts = std::iter::once(&self.address).chain(&self.uid);
        listed.lists_changes() && !texts.any(|text| listed.may_contain(text))
    }
}

/// The revisions of a stack, newest first, each with its change of one resource. Skips detached revisions, which never
/// were current. A change in a deleted revision counts for the next later one.
pub(super) struct Trail<'a> {
    stack: &'a StackContext,
    tip: &'a Tip,
    revisions: Revisions,
    resource: Identity,
    /// The texts of `resource`, once they were needed.
    texts: Option<ResourceTexts>,
    /// The revision to visit next, once it was read.
    next: Option<ListedDocument>,
    /// The revision that was visited last.
    visited: Option<ListedDocument>,
    /// The resource at older revisions, which were replayed together; the last element is the next older revision.
    known: Vec<(RevisionId, Option<SharedEntry>)>,
}

impl<'a> Trail<'a> {
    /// Starts with a resource of the state.
    pub(super) fn of_entry(stack: &'a StackContext, tip: &'a Tip, entry: &Entry) -> Self {
        Self::new(stack, tip, entry.key(), entry.uid, true)
    }

    /// Starts with the resource that was last at this address, which is empty now.
    pub(super) fn of_former(stack: &'a StackContext, tip: &'a Tip, key: EntryKey) -> Self {
        Self::new(stack, tip, key, None, false)
    }

    fn new(stack: &'a StackContext, tip: &'a Tip, key: EntryKey, uid: Option<Uid>, exists: bool) -> Self {
        Self {
            stack,
            tip,
            revisions: Revisions::of(stack, tip),
            resource: Identity { key, uid, exists },
            texts: None,
            next: None,
            visited: None,
            known: Vec::new(),
        }
    }

    /// The change of the resource since the newest revision. Call it before [`Self::next_change`].
    pub(super) async fn since_newest(&mut self) -> Result<ResourceChange> {
        let state = &self.tip.replayed.state;
        if state.is_committed() {
            return Ok(ResourceChange::Unchanged);
        }
        let (newest, _) = self.older_than(None).await?;
        let now = self.resource.in_state(state).cloned();
        let change = self.step(state.changes().as_ref(), now, newest.as_ref()).await?;
        self.next = newest;
        Ok(change)
    }

    /// Skips the revisions after this one. If it is a detached revision, returns the difference between `entry`, which is
    /// its content, and the update before it.
    pub(super) async fn skip_to(
        &mut self,
        at: &RevisionId,
        entry: &SharedEntry,
    ) -> Result<Option<(Revision, ResourceChange)>> {
        while let Some(listed) = self.revisions.next_listed().await? {
            if listed.revision() != at {
                continue;
            }
            if !listed.is_detached() {
                self.next = Some(listed);
                return Ok(None);
            }
            let (older, _) = self.older_than(None).await?;
            let change = self.step(None, Some(entry.clone()), older.as_ref()).await?;
            self.next = older;
            let revision = self.revision(&listed).await?;
            self.visited = Some(listed);
            return Ok(Some((revision, change)));
        }
        Ok(None)
    }

    /// The next older revision that changed the resource, with its change; none if no remaining one did.
    pub(super) async fn next_change(&mut self) -> Result<Option<(Revision, ResourceChange)>> {
        while let Some((listed, change)) = self.next().await? {
            let revision = match change {
                ResourceChange::Unchanged => None,
                _ => Some(self.revision(&listed).await?),
            };
            self.visited = Some(listed);
            if let Some(revision) = revision {
                return Ok(Some((revision, change)));
            }
        }
        Ok(None)
    }

    /// The revision that was visited last: the oldest one, once there is no further change.
    pub(super) async fn oldest(&self) -> Result<Option<Revision>> {
        match &self.visited {
            Some(listed) => self.revision(listed).await.map(Some),
            None => Ok(None),
        }
    }

    async fn revision(&self, listed: &ListedDocument) -> Result<Revision> {
        let document = self.revisions.decode(listed).await?.into_value();
        Ok(document.into_revision(self.revisions.current()))
    }

    /// The next older revision, with its change of the resource; none after the oldest.
    async fn next(&mut self) -> Result<Option<(ListedDocument, ResourceChange)>> {
        let listed = match self.next.take() {
            Some(listed) => listed,
            None => match self.older_than(None).await?.0 {
                Some(listed) => listed,
                None => return Ok(None),
            },
        };
        let (older, is_adjacent) = self.older_than(Some(&listed)).await?;
        let texts = self
            .texts
            .get_or_insert_with(|| ResourceTexts::of(&self.resource));
        let change = match is_adjacent && texts.are_missing_in(&listed) {
            true => ResourceChange::Unchanged,
            // Boxed, so that the other revisions don't move a large future.
            false => Box::pin(self.change_by(&listed, is_adjacent, older.as_ref())).await?,
        };
        self.next = older;
        Ok(Some((listed, change)))
    }

    /// Moves from a revision to the one before it, `older`. Returns its change of the resource.
    async fn change_by(
        &mut self,
        listed: &ListedDocument,
        is_adjacent: bool,
        older: Option<&ListedDocument>,
    ) -> Result<ResourceChange> {
        let document = self.revisions.decode(listed).await?;
        let changes = document.changes().filter(|_| is_adjacent);
        let is_whole =
            matches!(changes, Some(RevisionChanges::Listed(list)) if !self.resource.is_rewritten(list));
        let now = match is_whole || (older.is_none() && self.resource.exists) {
            true => None,
            false => self.entry_at(&document).await?,
        };
        self.step(changes, now, older).await
    }

    /// Moves to the revision `older`. `listed` are the changes since then, if they are known; otherwise the resource
    /// `now` is compared with the one in `older`.
    async fn step(
        &mut self,
        listed: Option<&RevisionChanges>,
        now: Option<SharedEntry>,
        older: Option<&ListedDocument>,
    ) -> Result<ResourceChange> {
        let before = (self.resource.exists, self.resource.uid);
        let change = self.identify_older(listed, now, older).await?;
        self.texts = None;
        if !self.resource.exists || before != (self.resource.exists, self.resource.uid) {
            // The known entries were looked up for another resource than the one in older revisions.
            self.known.clear();
        }
        Ok(change)
    }

    async fn identify_older(
        &mut self,
        listed: Option<&RevisionChanges>,
        now: Option<SharedEntry>,
        older: Option<&ListedDocument>,
    ) -> Result<ResourceChange> {
        if let Some(RevisionChanges::Listed(list)) = listed
            && !self.resource.is_rewritten(list)
        {
            return Ok(self.resource.back_over(list));
        }
        let Some(older) = older else {
            let exists = std::mem::replace(&mut self.resource.exists, false);
            return Ok(match exists || now.is_some() {
                true => ResourceChange::Created,
                false => ResourceChange::Unchanged,
            });
        };
        if let Some(now) = &now {
            (self.resource.key, self.resource.uid) = (now.key(), now.uid);
        }
        let older = self.revisions.decode(older).await?;
        let before = self.entry_at(&older).await?;
        let change = match (&before, &now) {
            (None, None) => ResourceChange::Unchanged,
            (None, Some(_)) => ResourceChange::Created,
            (Some(_), None) => ResourceChange::Removed,
            (Some(before), Some(now)) => updated(before, now),
        };
        self.resource.exists = before.is_some();
        match before {
            Some(before) => (self.resource.key, self.resource.uid) = (before.key(), before.uid),
            // Another resource may have been at the address before.
            None => self.resource.uid = None,
        }
        Ok(change)
    }

    /// The next older revision that an update made, and whether no revision between it and `listed` was deleted.
    async fn older_than(
        &mut self,
        listed: Option<&ListedDocument>,
    ) -> Result<(Option<ListedDocument>, bool)> {
        let mut last = listed.map(|listed| listed.revision().serial().get());
        let mut is_adjacent = true;
        while let Some(older) = self.revisions.next_listed().await? {
            let serial = older.revision().serial().get();
            is_adjacent &= last.is_none_or(|last| serial.checked_add(1) == Some(last));
            last = Some(serial);
            if !older.is_detached() {
                return Ok((Some(older), is_adjacent));
            }
        }
        Ok((None, is_adjacent))
    }

    /// The resource in the state at a revision.
    async fn entry_at(&mut self, document: &Authenticated<RevisionDocument>) -> Result<Option<SharedEntry>> {
        let id = &document.revision;
        let Some(base) = self.revisions.base_of(document) else {
            return Ok(None);
        };
        while self.known.last().is_some_and(|(other, _)| other > id) {
            self.known.pop();
        }
        if self.known.last().is_none_or(|(other, _)| other != id) {
            let pick = |state: &State| self.resource.in_state(state).cloned();
            self.known = revision_state::at_marks(self.stack, self.tip, document, &base, pick).await?;
        }
        Ok(self.known.last().and_then(|(_, entry)| entry.clone()))
    }
}

impl Identity {
    /// The resource in a state: by uid, or by key where an entry has no uid.
    fn in_state<'s>(&self, state: &'s State) -> Option<&'s SharedEntry> {
        match state.entry(&self.key) {
            Some(other) if self.is_uid(other.uid) => Some(other),
            _ => {
                let uid = self.uid?;
                state.entries().find(|other| other.uid == Some(uid))
            }
        }
    }

    fn is_uid(&self, uid: Option<Uid>) -> bool {
        self.uid == uid || self.uid.is_none() || uid.is_none()
    }

    /// Whether a listed change is about this resource, as it is after the change.
    fn fits(&self, change: &EntryChange) -> bool {
        change.change != ChangeKind::Removed
            && match self.uid {
                Some(uid) if change.uid.is_some() => change.uid == Some(uid),
                _ => change.key() == self.key,
            }
    }

    /// Whether the list tells that the resource changed, but not how.
    fn is_rewritten(&self, list: &[EntryChange]) -> bool {
        let is_so = |change: &EntryChange| change.change == ChangeKind::Rewritten && self.fits(change);
        self.exists && list.iter().any(is_so)
    }

    /// Moves to before a revision that made these changes. Returns its change of the resource.
    fn back_over(&mut self, list: &[EntryChange]) -> ResourceChange {
        let found = list.iter().find(|change| self.exists && self.fits(change));
        let change = match found {
            None => ResourceChange::Unchanged,
            Some(change) if change.change == ChangeKind::Created => {
                (self.exists, self.uid) = (false, None);
                ResourceChange::Created
            }
            Some(change) => {
                if let Some(from) = &change.from {
                    self.key = from.clone();
                }
                ResourceChange::Updated {
                    moved: change.from.is_some(),
                    properties: change.properties.clone(),
                }
            }
        };
        if self.exists {
            return change;
        }
        // The address is free, or another resource was there before.
        let left = |other: &&EntryChange| match other.change {
            ChangeKind::Removed => other.key() == self.key,
            _ => other.from.as_ref() == Some(&self.key),
        };
        let Some(left) = list.iter().find(left) else {
            return change;
        };
        (self.exists, self.uid) = (true, left.uid);
        match change {
            ResourceChange::Unchanged => ResourceChange::Removed,
            created => created,
        }
    }
}

fn updated(before: &Entry, now: &Entry) -> ResourceChange {
    let changes = diff::entry_changes(before, now);
    let moved = before.key() != now.key();
    if changes.is_empty() && !moved {
        return ResourceChange::Unchanged;
    }
    ResourceChange::Updated {
        moved,
        properties: changes.into_iter().map(|change| change.pointer).collect(),
    }
}
