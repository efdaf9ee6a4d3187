//! Changes by hand: each is one revision, all of it or nothing.

use super::{Session, finished, started};
use crate::history::RevisionKind;
use crate::intent::UpdateRequest;
use crate::update::{check_size, sealed_change};
use state_core::journal::{RebaseCause, Record};
use state_core::mutation::{Edit, EditChange};
use state_core::state::Loaded;
use state_core::{Base, Error, MutationId, Result, RevisionId, Snapshot, State, UpdateKind, UpdateResult};

impl Session {
    /// Changes entries by hand, as one revision. `expected` is the state that the changes were made for: its current
    /// revision must be current still.
    ///
    /// # Errors
    /// `Conflict` when another revision was made in the meantime; `Integrity` with every rule that the changes would
    /// break. Nothing is written then.
    pub async fn edit(
        &self,
        request: UpdateRequest,
        expected: &State,
        changes: Vec<EditChange>,
    ) -> Result<RevisionId> {
        let changes = changes
            .into_iter()
            .map(|change| sealed_change(&self.seal, change))
            .collect::<Result<Vec<_>>>()?;
        for change in &changes {
            if let EditChange::Put { entry, .. } | EditChange::Append(entry) = change {
                check_size(entry)?;
            }
        }
        let current = expected.current().cloned();
        let object = self.object();
        let info = self.update_info(request);
        let end = self.now();
        let id = MutationId::random(&*self.stack.environment().entropy);
        let build = move |state: &State, base: &Base| {
            if state.current() != current.as_ref() {
                let reason = "another revision was made in the meantime; nothing was changed";
                return Err(Error::conflict(object, reason));
            }
            let edit = Record::Edit(Edit { id, changes });
            let records = vec![started(state, info), edit];
            finished(state, base, records, UpdateResult::Succeeded, &end)
        };
        self.built(build, Loaded::new())
            .await
            .and_then(|answer| self.made(answer))
    }

    /// Replaces all entries, the outputs and the header by those of a snapshot that a person edited or repaired, as one
    /// revision. Entries that were there before under the same key, and with the same id, keep their uid; pending
    /// operations stay.
    ///
    /// # Errors
    /// `Integrity` with all violations when the snapshot breaks a rule: nothing is written.
    pub async fn replace_entries(&self, request: UpdateRequest, snapshot: Snapshot) -> Result<RevisionId> {
        self.rebase(request, snapshot, RebaseCause::Edit, None).await
    }

    /// The revision that [`Session::undo`] brings back: the one from which the update began that made the current one.
    ///
    /// # Errors
    /// `NoCurrent` when there is no current revision; `Conflict` when it is the first one.
    pub async fn before_current(&self) -> Result<RevisionId> {
        let state = self.state();
        let current = state.current().ok_or_else(|| Error::NoCurrent {
            object: self.object(),
        })?;
        let history = self.stack.history().await?;
        let made = history.into_iter().find(|revision| revision.id == *current);
        match made.map(|revision| revision.kind) {
            Some(RevisionKind::Update(info)) => info.parent.ok_or_else(|| {
                Error::conflict(
                    self.object(),
                    "its current revision is the first one: nothing to undo",
                )
            }),
            _ => Err(Error::not_found(format!("revision {current}"))),
        }
    }

    /// Takes back what made the current revision: the revision before it comes back, as a new one on top. So undoing an
    /// undo redoes.
    ///
    /// # Errors
    /// As [`Session::before_current`] and [`Session::rollback`].
    pub async fn undo(&self, message: String) -> Result<RevisionId> {
        let before = self.before_current().await?;
        let request = UpdateRequest::new(UpdateKind::Rollback).with_message(message);
        self.rollback(request, &before).await
    }

    pub(super) fn object(&self) -> String {
        format!("stack {}", self.stack.name().short())
    }
}
