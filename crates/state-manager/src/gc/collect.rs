//! History collection: what retention no longer asks for is dropped, and deleted a grace later.
//!
//! ```text
//!  revisions   1    2    3 │  4    5    6 ◄ current      retention keeps 4 and later
//!  journal    ├────┼────┼──┴─┼────┼────┤
//!                       └ floor: a full snapshot stands here, written now if there is none
//! ```
//!
//! One run does two things. It deletes what an earlier run dropped, if that is a grace ago. Then it swaps a head whose
//! floor is higher: from that moment on no reader sees what is below, and whoever began before has the grace to finish.
//! So a deletion may end anywhere: nothing that is left leads to what is gone, and the next run finds the rest.
//!
//! While something waits for its grace nothing more is dropped: a run an hour can't put the deletion off for ever.

use crate::context::StackContext;
use crate::gc::retention::{Retention, after, has_passed};
use crate::gc::survey::{Cut, Survey};
use crate::read::history_floor::HistoryFloor;
use crate::write::locked_stack::LockedStack;
use serde::Serialize;
use state_core::backend::{StoredItem, StoredItemName};
use state_core::head::Collection;
use state_core::{ErrorKind, Head, Result, RevisionId, Timestamp, Writer};

/// How many pieces are deleted with one call.
const CHUNK: usize = 64;

/// What a collection did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct CollectionReport {
    /// Revisions that are gone from the history from now on, oldest first.
    pub dropped: Vec<RevisionId>,
    /// Revisions that were deleted by hand before, and whose bytes go with this collection.
    pub forgotten: Vec<RevisionId>,
    /// How many revisions are left.
    pub kept: usize,
    /// How many of them retention doesn't ask for: the journal can be cut only where a writer took the lock, or where a
    /// checkpoint was made.
    pub held_back: usize,
    /// The oldest revision that is left.
    pub oldest: Option<RevisionId>,
    /// What was deleted.
    pub deleted: Amount,
    /// What was dropped and waits for its grace.
    pub waiting: Option<Waiting>,
}

impl CollectionReport {
    /// Whether there was nothing to do.
    pub fn is_idle(&self) -> bool {
        self.dropped.is_empty() && self.forgotten.is_empty() && self.deleted.files == 0
    }
}

/// Stored things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Amount {
    /// How many: files, objects, or slots of the journal, as the store keeps them.
    pub files: u64,
    /// How many bytes they take.
    pub bytes: u64,
}

impl Amount {
    fn of(stored_items: &[StoredItem]) -> Self {
        Self {
            files: stored_items.len() as u64,
            bytes: stored_items.iter().map(|piece| piece.bytes).sum(),
        }
    }

    fn add(&mut self, stored_items: &[StoredItem]) {
        let more = Self::of(stored_items);
        self.files += more.files;
        self.bytes += more.bytes;
    }
}

/// What waits for its grace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Waiting {
    /// How much it is.
    #[serde(flatten)]
    pub amount: Amount,
    /// A collection after this moment deletes it.
    pub until: Timestamp,
}

/// What there is to do.
#[derive(Default)]
struct Plan {
    report: CollectionReport,
    /// What an earlier collection dropped, its grace ago.
    earlier: Vec<StoredItem>,
    cut: Option<Cut>,
    /// What the cut drops, if it has no grace.
    at_once: Vec<StoredItem>,
}

/// What [`collect`] would do now. Takes no lock and changes nothing.
pub(crate) async fn plan(stack: &StackContext, retention: &Retention) -> Result<CollectionReport> {
    let survey = Survey::of(stack).await?;
    // A client that may only read can't ask a store what time it is.
    let now = match store_time(stack).await {
        Err(error) if error.kind() == ErrorKind::Denied => stack.now(),
        other => other?,
    };
    Ok(Plan::new(stack, &survey, retention, &now).await?.report)
}

/// Drops the revisions that retention doesn't ask for, and deletes what was dropped a grace ago.
pub(crate) async fn collect(locked: &LockedStack, retention: &Retention) -> Result<CollectionReport> {
    // A snapshot that was stored and that no record names yet would look like one that is not needed.
    let _alone = locked.storing.write().await;
    let (stack, writer) = (&locked.stack, &*locked.writer);
    let survey = Survey::of(stack).await?;
    let now = store_time(stack).await?;
    let plan = Plan::new(stack, &survey, retention, &now).await?;
    delete(writer, &plan.earlier).await?;
    if let Some(cut) = plan.cut {
        let base = survey.base_of(stack, writer, &cut).await?;
        let collection = Collection {
            base,
            serial: cut.serial,
            since: now,
            forgotten: cut.forgotten,
        };
        locked.swap_head(&|head| raise(head, &collection)).await?;
        delete(writer, &plan.at_once).await?;
    }
    Ok(plan.report)
}

/// The time by which a grace is measured: the store's, if it has one.
async fn store_time(stack: &StackContext) -> Result<Timestamp> {
    if let Some(store) = stack.backend().extensions().remote
        && let Ok(time) = jiff::Timestamp::from_millisecond(store.time(stack.lineage()).await?)
    {
        return Ok(Timestamp::new(time.to_string()));
    }
    Ok(stack.now())
}

/// The swap that drops. A base below the floor would lead readers to what is gone, so it moves up: the state there is
/// on the way from it to the tip, and to the current revision, which is never below the floor.
fn raise(head: &mut Head, collection: &Collection) {
    for base in std::iter::once(&mut head.base).chain(&mut head.rev_base) {
        if base.start < collection.base.start {
            *base = collection.base.clone();
        }
    }
    head.floor = collection.base.start;
    head.collection = Some(collection.clone());
}

async fn delete(writer: &dyn Writer, stored_items: &[StoredItem]) -> Result<()> {
    let names: Vec<StoredItemName> = stored_items.iter().map(|piece| piece.name.clone()).collect();
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
        if let Some(earlier) = &survey.tip.floor.0 {
            let stored_items = store.stored_items(stack.lineage(), earlier.base.start).await?;
            let stored_items = survey.doomed(stored_items, &Cut::again(earlier));
            if !stored_items.is_empty() && !has_passed(&earlier.since, retention.grace, now)? {
                plan.wait(&stored_items, after(&earlier.since, retention.grace)?);
                return Ok(plan);
            }
            plan.report.deleted = Amount::of(&stored_items);
            plan.earlier = stored_items;
        }
        plan.add_cut(stack, survey, retention, now).await?;
        Ok(plan)
    }

    /// Which revisions stay.
    fn keep(&mut self, survey: &Survey, floor: &HistoryFloor) {
        let mut left = survey.documents.iter().map(|document| &document.revision);
        let mut left = left.by_ref().filter(|revision| !floor.hides(revision.serial()));
        self.report.oldest = left.next().cloned();
        self.report.kept = left.count() + usize::from(self.report.oldest.is_some());
    }

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
        if cut.dropped.is_empty() && cut.forgotten.is_empty() {
            return Ok(());
        }
        let mut stored_items = survey.doomed(stored_items, &cut);
        stored_items.retain(|piece| !self.earlier.contains(piece));
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

    fn wait(&mut self, stored_items: &[StoredItem], until: Timestamp) {
        self.report.waiting = Some(Waiting {
            amount: Amount::of(stored_items),
            until,
        });
    }
}
