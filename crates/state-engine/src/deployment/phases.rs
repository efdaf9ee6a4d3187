//! The phases of planning and of a run: refresh, what the source says, deletions.

use super::drive::broken;
use super::refresh::{RefreshSource, is_readable};
use super::{Deployment, StepError};
use crate::ledger::Ledger;
use crate::planner::{Condemned, How, Schedule, Wanted, condemned, needed_by_unsettled};
use crate::report::Report;
use crate::run::Operation;
use crate::source::{Source, SourceOutputs};
use state_core::mutation::StackOutputs;
use state_core::{EntryKey, SharedEntry, UpdateResult};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::task::JoinSet;

impl Deployment {
    /// All phases of an operation.
    pub(crate) async fn deploy(self: &Arc<Self>, operation: &mut Operation) -> Report {
        let refreshes = self.options.refresh || matches!(operation, Operation::Refresh);
        let goes_on = !refreshes || self.refresh().await;
        let goes_on = goes_on
            && match operation {
                Operation::Refresh => true,
                Operation::Destroy => self.destroy().await,
                Operation::Update(source) => self.update_all(&mut **source).await,
            };
        self.finished(goes_on)
    }

    /// Reads all recorded objects, and records what it found.
    async fn refresh(self: &Arc<Self>) -> bool {
        let state = self.recorder.state();
        let is_pending = |key: &EntryKey| state.pending().any(|operation| operation.target == *key);
        let mut entries = Vec::new();
        for entry in state.entries() {
            let is_wanted = is_readable(entry) && self.is_target(&entry.address) && !is_pending(&entry.key());
            if is_wanted {
                match self.open(entry) {
                    Ok(open) => entries.push(open),
                    Err(error) => self.note(error),
                }
            }
        }
        let mut source = RefreshSource::new(Arc::clone(self), entries);
        let mut ledger = Ledger::new(StackOutputs::default());
        self.drive(&mut source, &mut ledger).await && self.goes_on()
    }

    /// Does what a program says, then deletes what it doesn't say any more.
    async fn update_all(self: &Arc<Self>, source: &mut dyn Source) -> bool {
        let outputs = match self.recorder.outputs().await {
            Ok(outputs) => outputs,
            Err(error) => return self.wrong(error.to_string()),
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
        let wanted = Wanted {
            named: ledger.addresses().cloned().collect(),
            recorded,
            ..Wanted::default()
        };
        self.clear(wanted).await;
        match source.outputs(&ledger).await {
            Ok(Some(SourceOutputs { outputs, unknown })) if self.goes_on() => {
                self.shared().report.unknown_outputs = unknown;
                self.set_outputs(outputs).await
            }
            Ok(_) => true,
            Err(error) => self.wrong(error.to_string()),
        }
    }

    /// Deletes all that may be touched. With the last entry the stack's own outputs go: they told of what is gone.
    async fn destroy(self: &Arc<Self>) -> bool {
        self.clear(Wanted::default()).await;
        let is_empty = self.recorder.state().entries().next().is_none();
        match is_empty && self.goes_on() {
            true => self.set_outputs(StackOutputs::default()).await,
            false => true,
        }
    }

    async fn set_outputs(&self, outputs: StackOutputs) -> bool {
        match self.recorder.set_outputs(outputs.clone()).await {
            Ok(old) => {
                self.shared().report.outputs = old.map(|old| (old, outputs));
                true
            }
            Err(error) => self.wrong(error.to_string()),
        }
    }

    fn finished(&self, goes_on: bool) -> Report {
        let mut report = std::mem::replace(&mut self.shared().report, Report::new());
        report.pending = self.recorder.state().pending().cloned().collect();
        report.interrupted = self.caller.interrupt.is_stopping();
        let is_whole = goes_on
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

    /// Deletes what isn't wanted any more, and what was replaced, in reverse order.
    async fn clear(self: &Arc<Self>, mut wanted: Wanted) {
        wanted.unsettled = needed_by_unsettled(&self.recorder.state());
        match self.sentence(&wanted).await {
            Ok((list, pairs)) => self.execute(list, pairs).await,
            Err(error) => self.note(error),
        }
    }

    async fn sentence(&self, wanted: &Wanted) -> Result<(Vec<Condemned>, Vec<(usize, usize)>), StepError> {
        let state = self.recorder.state();
        let entries: Vec<SharedEntry> = state.entries().cloned().collect();
        let (mut list, pairs) = condemned(&entries, wanted, |entry| self.is_target(&entry.address));
        for item in &mut list {
            item.entry = self.open(&item.entry)?;
        }
        Ok((list, pairs))
    }

    async fn execute(self: &Arc<Self>, list: Vec<Condemned>, pairs: Vec<(usize, usize)>) {
        let mut schedule = Schedule::new(list.len(), pairs);
        // What may not go keeps what it needs, and nothing else.
        let refused: Vec<usize> = (0..list.len())
            .filter(|item| matches!(list[*item].how, How::Refuse(_)))
            .collect();
        for item in &refused {
            self.lose(&list, &mut schedule, *item);
        }
        self.execute_rest(&list, schedule).await;
        for item in refused {
            if let Err(error) = self.remove(list[item].clone()).await {
                self.note(error);
            }
        }
    }

    async fn execute_rest(self: &Arc<Self>, list: &[Condemned], mut schedule: Schedule) {
        let mut tasks: JoinSet<Result<(), StepError>> = JoinSet::new();
        let mut items = HashMap::new();
        loop {
            while tasks.len() < self.parallel() && self.goes_on() {
                let Some(item) = schedule.begin() else {
                    break;
                };
                let deployment = Arc::clone(self);
                let condemned = list[item].clone();
                let handle = tasks.spawn(async move { deployment.remove(condemned).await });
                items.insert(handle.id(), item);
            }
            let Some(ended) = tasks.join_next_with_id().await else {
                return;
            };
            let id = match &ended {
                Ok((id, _)) => *id,
                Err(error) => error.id(),
            };
            let Some(item) = items.remove(&id) else {
                continue;
            };
            let ended = ended.map(|(_, ended)| ended);
            let ended = ended.unwrap_or_else(|error| Err(broken(&list[item].key(), &error)));
            match ended {
                Ok(()) => schedule.succeeded(item),
                Err(error) => {
                    self.note(error);
                    self.lose(list, &mut schedule, item);
                }
            }
        }
    }

    /// Those that wait for one that didn't go can't go either.
    fn lose(&self, list: &[Condemned], schedule: &mut Schedule, item: usize) {
        let key = list[item].key();
        for lost in schedule.failed(item) {
            self.skip(list[lost].entry.address.clone(), format!("{key} still needs it"));
        }
    }
}
