//! Reports of ended steps: to the run's report, to the log and to the observer.

use super::{Deployment, StepError};
use crate::call::CallError;
use crate::event::Event;
use crate::report::StepFailure;
use crate::step::Step;
use state_core::{Address, EntryKey, LogLevel};

impl Deployment {
    /// Reports a step whose result is durable.
    pub(super) fn committed(&self, step: Step) {
        let mut shared = self.shared();
        if step.new.is_some() {
            shared.recorded.insert(step.key.clone());
        }
        if step.is_change() {
            shared.changed.insert(step.key.address.clone());
        }
        shared.report.steps.push(step.clone());
        drop(shared);
        if step.is_change() {
            let log = self.caller.logger.for_address(&step.key.address);
            log.emit(LogLevel::Info, format!("{} of {} is recorded", step.op, step.key));
        }
        self.notify(&Event::Committed(step));
    }

    /// Adds a failure to the report, and the error that ends the run, if any. The observer receives `Failed`, or
    /// `Skipped` if the failure happened before a step was planned.
    pub(super) fn record_failure(&self, error: StepError) {
        let StepError {
            key,
            step,
            reasons,
            pending,
            fatal,
        } = error;
        let log = self.caller.logger.for_address(&key.address);
        for reason in &reasons {
            log.emit(LogLevel::Error, reason.clone());
        }
        let event = match &step {
            Some(step) => Event::Failed {
                step: Step::clone(step),
                reasons: reasons.clone(),
                pending,
            },
            None => Event::Skipped {
                address: key.address.clone(),
                reason: reasons.join("; "),
            },
        };
        self.notify(&event);
        let mut shared = self.shared();
        shared.report.failures.push(StepFailure {
            key,
            op: step.map(|step| step.op),
            reasons,
            pending,
        });
        if shared.report.stopped_by.is_none() {
            shared.report.stopped_by = fatal.map(|error| *error);
        }
    }

    /// Reports a resource that is skipped because of another resource.
    pub(super) fn skip(&self, address: Address, reason: String) {
        self.notify(&Event::Skipped {
            address: address.clone(),
            reason: reason.clone(),
        });
        self.shared().report.skipped.push((address, reason));
    }

    /// Converts the failure of a read-only call to the failure of a resource whose step isn't planned yet.
    pub(super) fn call_failure(&self, key: &EntryKey, error: CallError) -> StepError {
        match error {
            CallError::Failed(failure) => StepError::early(key, failure.reasons().to_vec()),
            CallError::Abandoned => StepError::early(key, vec!["the run was asked to stop".to_owned()]),
            CallError::LockLost(error) => StepError::recording(key, None, None, error),
        }
    }
}
