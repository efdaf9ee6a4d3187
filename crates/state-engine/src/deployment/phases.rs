//! The phases of a plan or a run: refresh, update from the source, deletions.

use super::drive::task_failure;
use super::refresh::{RefreshSource, is_readable};
use super::{Deployment, StepError};
use crate::ledger::Ledger;
use crate::planner::{
    DeletionMethod, DesiredResources, PlannedDeletion, Schedule, needed_by_pending, planned_deletions,
};
use crate::report::Report;
use crate::run::Operation;
use crate::source::{Source, SourceOutputs};
use state_core::mutation::StackOutputs;
use state_core::{EntryKey, SharedEntry, UpdateResult};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::task::JoinSet;

impl Deployment {
    /// Runs all phases of an operation.
    pub(crate) async fn deploy(self: &Arc<Self>, operation: &mut Operation) -> Report {
        let refreshes = self.options.refresh || matches!(operation, Operation::Refresh);
        let can_continue = !refreshes || self.refresh().await;
        let can_continue = can_continue
            && match operation {
                Operation::Refresh => true,
                Operation::Destroy => self.destroy().await,
                Operation::Update(source) => self.update_all(&mut **source).await,
            };
        self.finish_report(can_continue)
    }

    /// Reads the objects of all targeted entries without a pending operation, and records the results. Returns whether
    /// the run can continue.
    async fn refresh(self: &Arc<Self>) -> bool {
        let state = self.recorder.state();
        let is_pending = |key: &EntryKey| state.pending().any(|operation| operation.target == *key);
        let mut entries = Vec::new();
        for entry in state.entries() {
            let is_wanted = is_readable(entry) && self.is_target(&entry.address) && !is_pending(&entry.key());
            if is_wanted {
                match self.open(entry) {
                    Ok(open) => entries.push(open),
                    Err(error) => self.record_failure(error),
                }
            }
        }
        if !self.may_read(&entries) {
            return false;
        }
        let mut source = RefreshSource::new(Arc::clone(self), entries);
        let mut ledger = Ledger::new(StackOutputs::default());
        self.drive(&mut source, &mut ledger).await && self.can_continue()
    }

    /// Creates and updates the resources of a program, deletes the resources that the program doesn't contain, and
    /// records the stack outputs. Returns `false` in three cases: the source failed, the outputs can't be read or
    /// recorded, or the run was stopped before the deletions.
    async fn update_all(self: &Arc<Self>, source: &mut dyn Source) -> bool {
        let outputs = match self.recorder.outputs().await {
            Ok(outputs) => outputs,
            Err(error) => return self.fail_source(error.to_string()),
        };
        let mut ledger = Ledger::new(outputs);
        if !self.drive(source, &mut ledger).await {
            return false;
        }
        let recorded = ledger
            .addresses()
            .filter(|address| ledger.committed(address).is_some() && self.is_target(address))
            .cloned()
            .collect();
        let desired = DesiredResources {
            named: ledger.addresses().cloned().collect(),
            recorded,
            ..DesiredResources::default()
        };
        // Deletions come last: only now the run knows which resources failed. The dependencies of a failed resource
        // must not be deleted.
        self.delete_undesired(desired).await;
        match source.outputs(&ledger).await {
            Ok(Some(SourceOutputs { outputs, unknown })) if self.can_continue() => {
                self.shared().report.unknown_outputs = unknown;
                self.set_outputs(outputs).await
            }
            Ok(_) => true,
            Err(error) => self.fail_source(error.to_string()),
        }
    }

    /// Deletes all targeted resources. When the last entry is deleted, the stack outputs are cleared too,
    /// because they describe deleted resources. Returns `false` if clearing the outputs failed.
    async fn destroy(self: &Arc<Self>) -> bool {
        self.delete_undesired(DesiredResources::default()).await;
        let is_empty = self.recorder.state().entries().next().is_none();
        match is_empty && self.can_continue() {
            true => self.set_outputs(StackOutputs::default()).await,
            false => true,
        }
    }

    /// Records new stack outputs. Returns whether this succeeded.
    async fn set_outputs(&self, outputs: StackOutputs) -> bool {
        match self.recorder.set_outputs(outputs.clone()).await {
            Ok(old) => {
                self.shared().report.outputs = old.map(|old| (old, outputs));
                true
            }
            Err(error) => self.fail_source(error.to_string()),
        }
    }

    fn finish_report(&self, can_continue: bool) -> Report {
        let mut report = std::mem::replace(&mut self.shared().report, Report::new());
        report.pending = self.recorder.state().pending().cloned().collect();
        report.interrupted = self.caller.interrupt.is_stopping();
        let is_whole = can_continue
            && report.failures.is_empty()
            && report.skipped.is_empty()
            && report.source_error.is_none()
            && report.stopped_by.is_none()
            && !report.interrupted;
        report.result = match is_whole {
            true => UpdateResult::Succeeded,
            false if report.interrupted => UpdateResult::Interrupted,
            false => UpdateResult::Failed,
        };
        report
    }

    /// Deletes undesired resources and replaced objects, dependents before their dependencies.
    async fn delete_undesired(self: &Arc<Self>, mut desired: DesiredResources) {
        desired.needed_by_pending = needed_by_pending(&self.recorder.state());
        match self.plan_deletions(&desired).await {
            Ok((list, _)) if !self.may_delete(&list) => {}
            Ok((list, pairs)) => self.execute(list, pairs).await,
            Err(error) => self.record_failure(error),
        }
    }

    /// Returns the deletions with decrypted entries, and pairs of their indices: the first deletion of a pair must end
    /// before the second begins.
    async fn plan_deletions(
        &self,
        desired: &DesiredResources,
    ) -> Result<(Vec<PlannedDeletion>, Vec<(usize, usize)>), StepError> {
        let state = self.recorder.state();
        let entries: Vec<SharedEntry> = state.entries().cloned().collect();
        let (mut list, pairs) = planned_deletions(&entries, desired, |entry| self.is_target(&entry.address));
        for item in &mut list {
            item.entry = self.open(&item.entry)?;
        }
        Ok((list, pairs))
    }

    async fn execute(self: &Arc<Self>, list: Vec<PlannedDeletion>, pairs: Vec<(usize, usize)>) {
        let mut schedule = Schedule::new(list.len(), pairs);
        // If an entry must not be deleted, its dependencies must stay too. So the deletions of these dependencies are
        // skipped before any other deletion begins.
        let refused: Vec<usize> = (0..list.len())
            .filter(|item| matches!(list[*item].method, DeletionMethod::Refuse(_)))
            .collect();
        for item in &refused {
            self.skip_dependents(&list, &mut schedule, *item);
        }
        self.execute_rest(&list, schedule).await;
        for item in refused {
            if let Err(error) = self.remove(list[item].clone()).await {
                self.record_failure(error);
            }
        }
    }

    async fn execute_rest(self: &Arc<Self>, list: &[PlannedDeletion], mut schedule: Schedule) {
        let mut tasks: JoinSet<Result<(), StepError>> = JoinSet::new();
        let mut items = HashMap::new();
        loop {
            while tasks.len() < self.parallel() && self.can_continue() {
                let Some(item) = schedule.begin() else {
                    break;
                };
                let deployment = Arc::clone(self);
                let deletion = list[item].clone();
                let handle = tasks.spawn(async move { deployment.remove(deletion).await });
                items.insert(handle.id(), item);
            }
            // After a stop no deletion begins. Deletions in flight are awaited, because their results must be recorded.
            let Some(ended) = tasks.join_next_with_id().await else {
                return;
            };
            // A panicked task has an id too. Its item must fail in the schedule, or the deletions that wait for the
            // item would begin.
            let id = match &ended {
                Ok((id, _)) => *id,
                Err(error) => error.id(),
            };
            let Some(item) = items.remove(&id) else {
                continue;
            };
            let ended = ended.map(|(_, ended)| ended);
            let ended = ended.unwrap_or_else(|error| Err(task_failure(&list[item].key(), &error)));
            match ended {
                Ok(()) => schedule.succeeded(item),
                Err(error) => {
                    self.record_failure(error);
                    self.skip_dependents(list, &mut schedule, item);
                }
            }
        }
    }

    /// Skips the deletions that wait for a failed deletion, such as those of the failed entry's dependencies.
    fn skip_dependents(&self, list: &[PlannedDeletion], schedule: &mut Schedule, item: usize) {
        let key = list[item].key();
        for lost in schedule.failed(item) {
            self.skip(
                list[lost].entry.address.clone(),
                format!("{key} still depends on it"),
            );
        }
    }
}
