//! History collection: revisions that the retention doesn't keep are dropped, and deleted after a grace period.
//!
//! ```text
//!  revisions    1    2    3    4    5    6 ◄ current      retention keeps 4 and later
//!  journal    ──┼────┼────┼─┬──┼────┼────┤
//!                           └ floor: the latest slot (position of a frame in the journal) at or before revision 4 at
//!                             which the journal can be cut. A full snapshot of that slot is written if there is none.
//! ```
//!
//! To drop a revision is to hide it from readers. The objects that only dropped revisions use are deleted later.
//!
//! One run has two phases. First it deletes the items that an earlier run dropped, if the grace period has passed. Then
//! it replaces the head, the one mutable document of a stack, by a head with a higher floor. From then on no reader
//! sees revisions below the floor, and readers that began before have the grace period to finish. A deletion may be
//! interrupted anywhere: no remaining object refers to a deleted one, and the next run deletes the rest.
//!
//! While dropped revisions wait for their grace period, nothing more is dropped. Otherwise a run every hour would raise
//! the floor each time and postpone the deletion forever.

use crate::context::StackContext;
use crate::gc::retention::{Retention, after, has_passed};
use crate::gc::survey::{HistoryCut, Survey};
use crate::read::history_floor::HistoryFloor;
use crate::write::locked_stack::LockedStack;
use crate::write::session_history;
use serde::Serialize;
use state_core::backend::{LeftoverAction, ObjectName, StoredItem, StoredItemName};
use state_core::head::Collection;
use state_core::journal::{CheckpointNote, Record};
use state_core::{ErrorKind, Head, Result, RevisionId, Timestamp, Writer};
use std::time::Duration;

/// Number of stored items that are deleted with one call.
const CHUNK: usize = 64;

/// The age from which a temporary file can be a leftover, also with a shorter grace period.
const MIN_LEFTOVER_AGE: Duration = Duration::from_secs(60 * 60);

/// The result of a collection, or of its preview.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct CollectionReport {
    /// Revisions that are dropped from the history by this run, oldest first.
    pub dropped: Vec<RevisionId>,
    /// Revisions that were deleted by hand before, and whose stored objects this collection drops.
    pub forgotten: Vec<RevisionId>,
    /// Number of key files that this collection drops, because an interrupted rotation left them or the recipients were
    /// changed since.
    pub unneeded_keys: usize,
    /// Number of remaining revisions.
    pub kept: usize,
    /// Number of remaining revisions that the retention doesn't keep. They remain because the journal can be cut only
    /// where a writer took the lock, or at a checkpoint. Zero if this run drops nothing because items of an earlier
    /// drop wait for the end of their grace period.
    pub held_back: usize,
    /// The oldest remaining revision; none if the stack has no revisions.
    pub oldest: Option<RevisionId>,
    /// Number and size of the items that this collection deletes.
    pub deleted: Amount,
    /// The dropped items that wait for the end of their grace period; none if no item waits.
    pub waiting: Option<PendingDeletion>,
    /// Number and size of the temporary files of crashed processes that this collection deletes.
    pub temporary: Amount,
}

impl CollectionReport {
    /// Whether there was nothing to drop or to delete.
    pub fn is_idle(&self) -> bool {
        let deletes = self.deleted.files > 0 || self.temporary.files > 0;
        self.dropped.is_empty() && self.forgotten.is_empty() && self.unneeded_keys == 0 && !deletes
    }
}

/// Number and size of stored items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Amount {
    /// Number of items: files, objects, or slots of the journal, depending on the store.
    pub files: u64,
    /// Total size in bytes.
    pub bytes: u64,
}

impl Amount {
    fn of(stored_items: &[StoredItem]) -> Self {
        Self {
            files: stored_items.len() as u64,
            bytes: stored_items.iter().map(|item| item.bytes).sum(),
        }
    }

    fn add(&mut self, stored_items: &[StoredItem]) {
        let more = Self::of(stored_items);
        self.files += more.files;
        self.bytes += more.bytes;
    }
}

/// Dropped items that wait for the end of their grace period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PendingDeletion {
    /// Number and size of the items.
    #[serde(flatten)]
    pub amount: Amount,
    /// A collection after this time deletes the items.
    pub until: Timestamp,
}

/// The work of one run.
#[derive(Default)]
struct Plan {
    report: CollectionReport,
    /// Items that an earlier collection dropped and whose grace period has passed.
    earlier: Vec<StoredItem>,
    /// Where this run cuts the history; none if it drops nothing.
    cut: Option<HistoryCut>,
    /// Items that this run drops and also deletes, because the grace period is zero. Otherwise empty.
    at_once: Vec<StoredItem>,
}

/// The report that [`collect`] would return now. Takes no lock and doesn't change the stack.
pub(crate) async fn plan(stack: &StackContext, retention: &Retention) -> Result<CollectionReport> {
    let survey = Survey::of(stack).await?;
    // Reading the store's clock may need write permission (it stores a probe object), so a read-only client uses its
    // own clock.
    let now = match store_time(stack).await {
        Err(error) if error.kind() == ErrorKind::Denied => stack.now(),
        other => other?,
    };
    let mut report = Plan::new(stack, &survey, retention, &now).await?.report;
    report.temporary = match leftovers(stack, retention, LeftoverAction::Count).await {
        // The age of a file is measured with a new file, which a read-only client can't create.
        Err(error) if error.kind() == ErrorKind::Denied => Amount::default(),
        other => other?,
    };
    Ok(report)
}

/// Counts or deletes the temporary files of crashed processes.
async fn leftovers(stack: &StackContext, retention: &Retention, action: LeftoverAction) -> Result<Amount> {
    let store = stack.backend().collectable()?;
    let min_age = retention.grace.max(MIN_LEFTOVER_AGE);
    let found = store.leftovers(stack.lineage(), min_age, action).await?;
    Ok(Amount {
        files: found.files,
        bytes: found.bytes,
    })
}

/// Drops the revisions that the retention doesn't keep. Deletes the items that an earlier run dropped, if their grace
/// period has passed.
pub(crate) async fn collect(locked: &LockedStack, retention: &Retention) -> Result<CollectionReport> {
    // This lock excludes imports: the collection would delete a snapshot that an import has stored and that no record
    // names yet.
    let _alone = locked.storing.write().await;
    // This lock excludes checkpoints: the collection would delete a history page that a checkpoint has stored and that
    // the head doesn't name yet.
    let _paging = locked.history.begin().await;
    let (stack, writer) = (&locked.stack, &*locked.writer);
    let survey = Survey::of(stack).await?;
    let now = store_time(stack).await?;
    let plan = Plan::new(stack, &survey, retention, &now).await?;
    let before = &survey.tip.head.history;
    if plan.earlier.iter().any(is_page) {
        // A head swap whose answer was lost could still take effect and name one of these pages. After the following
        // swap, such a late swap fails, because it expects a head that is no longer stored.
        locked
            .swap_head(&|head| session_history::require(&stack.object(), head, before))
            .await?;
    }
    // The items of the earlier drop are deleted before a new drop, because the head can name only one collection.
    delete(writer, &plan.earlier).await?;
    if let Some(cut) = plan.cut {
        let base = survey.base_of(stack, writer, &cut).await?;
        let history = survey.history_after(stack, writer, &cut).await?;
        let collection = Collection {
            base: base.clone(),
            serial: cut.serial,
            since: now,
            forgotten: cut.forgotten,
        };
        // The base's snapshot and the pages are durable before the head names them.
        let change = |head: &mut Head| {
            session_history::require(&stack.object(), head, before)?;
            raise_floor(head, &collection);
            head.history = history.clone();
            Ok(())
        };
        locked.swap_head(&change).await?;
        if base.snapshot.is_some() {
            // If the head is lost later, only this record says that the history can be replayed from the snapshot. It is
            // durable before the frames that come before the base are deleted.
            let note = Record::Checkpoint(CheckpointNote { base });
            locked.submit(vec![note.into()], true).await?;
        }
        delete(writer, &plan.at_once).await?;
    }
    let mut report = plan.report;
    report.temporary = leftovers(stack, retention, LeftoverAction::Delete).await?;
    Ok(report)
}

/// The present time, from which grace periods are measured. A store with a clock gives this time, because the clocks of
/// clients differ. For any other store, this client's clock gives it.
async fn store_time(stack: &StackContext) -> Result<Timestamp> {
    if let Some(store) = stack.backend().extensions().remote
        && let Ok(time) = jiff::Timestamp::from_millisecond(store.time(stack.lineage()).await?)
    {
        return Ok(Timestamp::new(time.to_string()));
    }
    Ok(stack.now())
}

/// Raises the floor of the head to the base of `collection`. A base below the floor would lead readers to deleted
/// frames, so it is raised too. Replay from the floor yields the same states, because the floor precedes the tip and
/// the current revision.
fn raise_floor(head: &mut Head, collection: &Collection) {
    for base in std::iter::once(&mut head.base).chain(&mut head.rev_base) {
        if base.start < collection.base.start {
            *base = collection.base.clone();
        }
    }
    head.floor = collection.base.start;
    head.collection = Some(collection.clone());
}

fn is_page(item: &StoredItem) -> bool {
    let StoredItemName::Object(name) = &item.name else {
        return false;
    };
    matches!(
        name,
        ObjectName::HistoryPage { .. } | ObjectName::HistoryIndex { .. }
    )
}

async fn delete(writer: &dyn Writer, stored_items: &[StoredItem]) -> Result<()> {
    let names: Vec<StoredItemName> = stored_items.iter().map(|item| item.name.clone()).collect();
    // Each call checks the epoch in the head first. A collector that lost its lock to another writer therefore deletes
    // at most the rest of one chunk.
    for chunk in names.chunks(CHUNK) {
        writer.delete(chunk).await?;
    }
    Ok(())
}

impl Plan {
    async fn new(
        stack: &StackContext,
        survey: &Survey,
        retention: &Retention,
        now: &Timestamp,
    ) -> Result<Self> {
        let store = stack.backend().collectable()?;
        let mut plan = Self::default();
        plan.keep(survey, &survey.tip.floor);
        if let Some(earlier) = &survey.tip.head.collection {
            let stored_items = store.stored_items(stack.lineage(), earlier.base.start).await?;
            let stored_items = survey.unused_after(stored_items, &HistoryCut::again(earlier));
            if !stored_items.is_empty() && !has_passed(&earlier.since, retention.grace, now)? {
                // Readers that began before the drop may still read these items, so nothing is dropped or deleted
                // before the grace period ends.
                plan.wait(&stored_items, after(&earlier.since, retention.grace)?);
                return Ok(plan);
            }
            plan.report.deleted = Amount::of(&stored_items);
            plan.earlier = stored_items;
        }
        plan.add_cut(stack, survey, retention, now).await?;
        Ok(plan)
    }

    /// Adds to the report the oldest revision that `floor` doesn't hide, and the number of all such revisions.
    fn keep(&mut self, survey: &Survey, floor: &HistoryFloor) {
        let mut left = survey.documents.iter().map(|document| &document.revision);
        let mut left = left.by_ref().filter(|revision| !floor.hides(revision.serial()));
        self.report.oldest = left.next().cloned();
        self.report.kept = left.count() + usize::from(self.report.oldest.is_some());
    }

    /// Determines what this run drops, and adds it to the plan and the report.
    async fn add_cut(
        &mut self,
        stack: &StackContext,
        survey: &Survey,
        retention: &Retention,
        now: &Timestamp,
    ) -> Result<()> {
        let mut cut = survey.cut(retention, now)?;
        let store = stack.backend().collectable()?;
        let stored_items = store.stored_items(stack.lineage(), cut.start).await?;
        survey.add_forgotten(&mut cut, &stored_items);
        self.report.held_back = cut.held_back;
        // The same run deletes the items of the earlier drop first.
        let is_new = |item: &&StoredItem| !self.earlier.contains(item);
        let new: Vec<StoredItem> = stored_items.iter().filter(is_new).cloned().collect();
        self.report.unneeded_keys = survey.unneeded_keys(&new);
        if cut.dropped.is_empty() && cut.forgotten.is_empty() && self.report.unneeded_keys == 0 {
            return Ok(());
        }
        // Counting the items of the earlier drop here would report them twice.
        let stored_items = survey.unused_after(new, &cut);
        self.report.dropped.clone_from(&cut.dropped);
        self.report.forgotten = cut.forgotten.iter().cloned().collect();
        self.report.kept -= cut.dropped.len();
        self.report.oldest = survey.first_from(cut.serial);
        if retention.grace.is_zero() {
            self.report.deleted.add(&stored_items);
            self.at_once = stored_items;
        } else {
            self.wait(&stored_items, after(now, retention.grace)?);
        }
        self.cut = Some(cut);
        Ok(())
    }

    /// Reports items as waiting for the end of their grace period.
    fn wait(&mut self, stored_items: &[StoredItem], until: Timestamp) {
        self.report.waiting = Some(PendingDeletion {
            amount: Amount::of(stored_items),
            until,
        });
    }
}
