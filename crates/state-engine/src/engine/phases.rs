//! The phases of a run: refresh, what the source says, what goes.

use super::Operation;
use crate::deployment::refresh::is_readable;
use crate::deployment::{Deployment, StepError};
use crate::ledger::Ledger;
use crate::plan::Wanted;
use crate::report::Report;
use crate::source::{RefreshSource, Source, SourceOutputs};
use state_core::mutation::StackOutputs;
use state_core::{EntryKey, UpdateResult};
use std::sync::Arc;

/// All phases of a run.
pub(super) async fn deploy(deployment: &Arc<Deployment>, operation: Operation) -> Report {
    let refreshes = deployment.options.refresh || matches!(operation, Operation::Refresh);
    let mut goes_on = !refreshes || refresh(deployment).await;
    goes_on &= match operation {
        Operation::Refresh => true,
        Operation::Destroy if goes_on => destroy(deployment).await,
        Operation::Destroy => false,
        Operation::Update(source) if goes_on => update(deployment, source).await,
        Operation::Update(_) => false,
    };
    finished(deployment, goes_on)
}

/// Reads all that is recorded, and records what it found.
async fn refresh(deployment: &Arc<Deployment>) -> bool {
    let state = deployment.recorder.state();
    let is_pending = |key: &EntryKey| state.pending().any(|operation| operation.target == *key);
    let mut entries = Vec::new();
    for entry in state.entries() {
        let is_wanted =
            is_readable(entry) && deployment.is_target(&entry.address) && !is_pending(&entry.key());
        if is_wanted {
            match deployment.recorder.reveal(entry) {
                Ok(open) => entries.push(open),
                Err(error) => deployment.note(StepError::recording(&entry.key(), None, None, error)),
            }
        }
    }
    let mut source = RefreshSource::new(Arc::clone(deployment), entries);
    let mut ledger = Ledger::new(deployment.options.preview);
    deployment.drive(&mut source, &mut ledger).await && deployment.goes_on()
}

/// Does what a program says, then deletes what it doesn't say any more.
async fn update(deployment: &Arc<Deployment>, mut source: Box<dyn Source>) -> bool {
    let outputs = match deployment.recorder.outputs().await {
        Ok(outputs) => outputs,
        Err(error) => {
            deployment.wrong(error.to_string());
            return false;
        }
    };
    let mut ledger = Ledger::new(deployment.options.preview).over(outputs);
    if !deployment.drive(&mut *source, &mut ledger).await {
        return false;
    }
    let recorded = ledger
        .addresses()
        .filter(|address| ledger.committed(address).is_some() && deployment.is_target(address))
        .cloned()
        .collect();
    let wanted = Wanted {
        named: ledger.addresses().cloned().collect(),
        recorded,
        ..Wanted::default()
    };
    deployment.clear(wanted).await;
    match source.outputs(&ledger).await {
        Ok(Some(SourceOutputs { outputs, unknown })) if deployment.goes_on() => {
            deployment.shared().report.unknown_outputs = unknown;
            set_outputs(deployment, outputs).await
        }
        Ok(_) => true,
        Err(error) => {
            deployment.wrong(error.to_string());
            false
        }
    }
}

/// Deletes all that may be touched. With the last entry the stack's own outputs go: they told of what is gone.
async fn destroy(deployment: &Arc<Deployment>) -> bool {
    deployment.clear(Wanted::default()).await;
    let is_empty = deployment.recorder.state().entries().next().is_none();
    match is_empty && deployment.goes_on() {
        true => set_outputs(deployment, StackOutputs::default()).await,
        false => true,
    }
}

async fn set_outputs(deployment: &Deployment, outputs: StackOutputs) -> bool {
    match deployment.recorder.set_outputs(outputs.clone()).await {
        Ok(old) => {
            deployment.shared().report.outputs = old.map(|old| (old, outputs));
            true
        }
        Err(error) => {
            deployment.wrong(error.to_string());
            false
        }
    }
}

fn finished(deployment: &Deployment, goes_on: bool) -> Report {
    let mut report = std::mem::replace(&mut deployment.shared().report, Report::new());
    report.pending = deployment.recorder.state().pending().cloned().collect();
    report.interrupted = deployment.interrupt.is_stopping();
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
