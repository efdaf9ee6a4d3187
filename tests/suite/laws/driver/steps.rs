//! The actions of the driver within an update that write no begin or end, and its actions on earlier revisions.

use super::super::actions::Action;
use super::super::resolver::number;
use super::{Checked, Driver, equal_up_to_new_uids, failed, tolerated};
use proptest::prelude::*;
use proptest::sample::Index;
use state_core::mutation::StackOutputs;
use state_core::snapshot::Plugin;
use state_core::target::SnapshotPersister;
use state_core::{Entry, Result, RevisionId, Snapshot, UpdateKind};
use state_manager::{Update, UpdateRequest};

impl Driver {
    /// Performs an action that needs an earlier revision: delete, rollback, import or write.
    pub(super) async fn act_on_revisions(&mut self, action: &Action) -> Checked {
        let revisions = self.reader.revisions();
        if revisions.is_empty() {
            return Ok(());
        }
        let before = self.session.state();
        match action {
            Action::Forget(which) => {
                let revision = which.get(&revisions).clone();
                let deleted = self.session.delete(&revision).await;
                let is_current = before.current() == Some(&revision);
                prop_assert_eq!(deleted.is_err(), is_current, "{:?}", deleted);
                if deleted.is_ok() {
                    self.reader.forget(&revision);
                }
                Ok(())
            }
            Action::Restore(which) => {
                let revision = which.get(&revisions);
                let restored = self.session.set_current(revision).await;
                let is_allowed = before.update().is_none() && before.pending().next().is_none();
                prop_assert_eq!(restored.is_ok(), is_allowed, "{:?}", restored);
                self.check_revision(tolerated(restored)?).await?;
                if is_allowed {
                    let held = self.reader.stored(revision);
                    let now: Vec<_> = self.session.state().entries().cloned().collect();
                    prop_assert!(
                        equal_up_to_new_uids(&held.entries, &now),
                        "{revision} wasn't restored"
                    );
                }
                Ok(())
            }
            Action::Import(which, length, serial) => {
                let snapshot = self.first_of(which.get(&revisions), length);
                let foreign = Some(("terraform".to_owned(), u64::from(*serial)));
                let request = UpdateRequest::new(UpdateKind::Import);
                let imported = self.session.import(request, snapshot, foreign).await;
                prop_assert_eq!(imported.is_err(), before.update().is_some(), "{:?}", imported);
                self.check_revision(tolerated(imported)?).await
            }
            Action::Write(which, length) => {
                let snapshot = self.first_of(which.get(&revisions), length);
                let revision = self.session.write(snapshot.clone()).await.map_err(failed)?;
                self.reader.remember_stored(revision, &snapshot)
            }
            other => unreachable!("not an action on revisions: {other:?}"),
        }
    }

    /// Returns a revision's snapshot with only its first entries, which are still in topological order.
    fn first_of(&self, revision: &RevisionId, length: &Index) -> Snapshot {
        let mut snapshot = self.reader.stored(revision).clone();
        snapshot
            .entries
            .truncate(length.index(snapshot.entries.len() + 1));
        snapshot
    }

    /// Replaces the state within the update by the first entries of a revision. Does nothing if there is no revision.
    async fn save(&self, update: &Update, which: &Index, length: &Index) -> Result<()> {
        let revisions = self.reader.revisions();
        if revisions.is_empty() {
            return Ok(());
        }
        let snapshot = self.first_of(which.get(&revisions), length);
        update.save(snapshot).await.map(drop)
    }

    /// Performs an action within the open update. Does nothing if no update is open.
    pub(super) async fn step(&mut self, action: &Action) -> Checked {
        let Some(update) = self.update.clone() else {
            return Ok(());
        };
        let state = self.session.state();
        let resolver = self.resolver(&state);
        let done = match action {
            Action::Same(target, change) => {
                let target = resolver.target(target);
                let old = state.entry(&target);
                let entry = match old {
                    Some(old) if change.size > 0 => Entry::clone(old),
                    _ => resolver.changed(old, &target, change),
                };
                update.same(entry).await
            }
            Action::Replace(target) => update.replace(resolver.target(target)).await,
            Action::Refresh(target, change) => {
                let target = resolver.target(target);
                let old = state.entry(&target);
                let entry = change
                    .as_ref()
                    .map(|change| resolver.changed(old, &target, change));
                update.refresh(target, entry).await
            }
            Action::RemovePendingReplace(target) => {
                update.remove_pending_replace(resolver.target(target)).await
            }
            Action::Outputs(target, value) => {
                update
                    .outputs(resolver.target(target), number("out", *value), Vec::new())
                    .await
            }
            Action::Invalidate => update.invalidate().await,
            Action::Save(which, length) => self.save(&update, which, length).await,
            Action::Edit(hands) => {
                let changes = hands.iter().map(|hand| resolver.hand(hand)).collect();
                update.edit(changes).await
            }
            Action::Plugin(number) => {
                let (kind, name) = ("resource".to_owned(), format!("p{number}"));
                let version = String::new();
                let plugin = Plugin { kind, name, version };
                update.record_plugin(plugin).await
            }
            Action::StackOutputs(value) => {
                let values = [("v".to_owned(), number("n", *value).json().clone())];
                let outputs = StackOutputs {
                    values: values.into_iter().collect(),
                    sensitive: Vec::new(),
                };
                update.set_outputs(outputs).await
            }
            other => unreachable!("not a step: {other:?}"),
        };
        tolerated(done).map(drop)
    }
}
