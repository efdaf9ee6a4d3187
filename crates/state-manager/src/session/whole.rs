//! Whole snapshots within an update: the stack is marked before the world changes, and replaced when it has.

use super::{Session, finished, finished_with, started};
use crate::intent::UpdateRequest;
use crate::update::Update;
use state_core::journal::{Rebase, RebaseCause, Record, Vouch};
use state_core::snapshot::Invalidation;
use state_core::state::Loaded;
use state_core::verify::Violation;
use state_core::{Base, Error, MutationId, Result, RevisionId, Snapshot, State, Timestamp, UpdateResult};

impl Session {
    /// Says that the record is right, as one revision, when a writer died who had marked it as unreliable: after a look
    /// at the world.
    ///
    /// # Errors
    /// `Conflict` when nothing is marked, or operations are pending: those are settled one by one.
    pub async fn vouch(&self, request: UpdateRequest) -> Result<RevisionId> {
        let info = self.update_info(request);
        let end = self.now();
        let object = format!("stack {}", self.stack.name().short());
        let build = move |state: &State, base: &Base| {
            let pending = state.pending().count();
            if pending > 0 {
                let reason = format!("{pending} operation(s) are pending: resolve them, one by one");
                return Err(Error::conflict(object, reason));
            }
            if state.invalidated().is_none() {
                return Err(Error::conflict(object, "it isn't marked as unreliable"));
            }
            let records = vec![started(state, info), Record::Validate(Vouch::Resolved)];
            finished(state, base, records, UpdateResult::Succeeded, &end)
        };
        let answer = self.built(build, Loaded::new()).await?;
        self.made(answer)
    }

    /// Starts an update and marks the stack, both at once.
    pub(crate) async fn start_marked(&self, request: UpdateRequest) -> Result<Update> {
        let info = self.update_info(request);
        let id = info.id;
        let build = move |state: &State, _: &Base| {
            let since = info.start.clone();
            let mark = Invalidation { update: id, since };
            Ok(vec![started(state, info), Record::Invalidate(mark)])
        };
        self.built(build, Loaded::new()).await?;
        Ok(Update::new(self.clone(), id))
    }

    /// Marks the stack within the open update.
    pub(crate) async fn invalidate(&self) -> Result<()> {
        let since = self.now();
        let build = move |state: &State, _: &Base| {
            let update = state.update().ok_or_else(ended)?.id;
            Ok(vec![Record::Invalidate(Invalidation { update, since })])
        };
        self.built(build, Loaded::new()).await.map(drop)
    }

    /// Puts a snapshot in place of all that is there, within the open update, and takes the mark back. The rules that it
    /// breaks come back: then it is recorded repaired, and the mark stays. With `end` the update ends with it.
    pub(crate) async fn save(&self, snapshot: Snapshot, end: Option<Timestamp>) -> Result<Vec<Violation>> {
        let lineage = self.stack.lineage();
        if let Some(other) = snapshot.lineage.filter(|other| *other != lineage) {
            let reason = format!("the snapshot is of lineage {other}: the two are unrelated");
            let object = format!("stack {}", self.stack.name().short());
            return Err(Error::conflict(object, reason));
        }
        let _storing = self.storing.read().await;
        let (reference, snapshot, broken) = self.store_whatever_it_is(snapshot).await?;
        let loaded = Loaded::from([(reference.digest, snapshot)]);
        let mut records = vec![Record::Rebase(Rebase {
            id: MutationId::random(&*self.stack.environment().entropy),
            snapshot: reference,
            cause: RebaseCause::Import { foreign: None },
            pending: Vec::new(),
        })];
        let mut result = UpdateResult::Failed;
        if broken.is_empty() {
            records.push(Record::Validate(Vouch::Saved));
            result = UpdateResult::Succeeded;
        }
        let during = loaded.clone();
        let build = move |state: &State, base: &Base| match end {
            None => state.update().map(|_| records).ok_or_else(ended),
            Some(end) => finished_with(state, base, records, result, &end, &during),
        };
        self.built(build, loaded).await?;
        Ok(broken)
    }
}

fn ended() -> Error {
    Error::conflict("the update", "it has ended already")
}
