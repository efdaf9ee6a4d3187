//! What the world says of an entry: recorded, never executed. Outputs are compared, not inputs.

use super::{Deployment, StepError};
use crate::call::CallError;
use crate::event::Event;
use crate::plan::tell;
use crate::provider::{Found, Object};
use crate::source::Refreshed;
use crate::step::{Step, StepOp};
use state_core::{Entry, EntryType, LogLevel, SharedEntry};

impl Deployment {
    /// Records what was found of an entry's object.
    pub(super) async fn refreshed(&self, refreshed: Refreshed) {
        let (read, found) = refreshed.into_parts();
        // As it is recorded now: what it referred to may have gone since it was read.
        let old = match self.live(&read.key()) {
            Ok(Some(old)) => old,
            Ok(None) => return,
            Err(error) => return self.note(error),
        };
        let recorded = match found {
            Ok(Found::Object(object)) => self.drifted(&old, Some(as_found(&old, &object))).await,
            Ok(Found::Gone) => self.drifted(&old, None).await,
            Ok(Found::CannotTell) => {
                let log = self.caller.logger.about(&old.address);
                log.say(
                    LogLevel::Warning,
                    format!("{} has no id to read it by", old.key()),
                );
                Ok(())
            }
            // What couldn't be read stays as it is recorded.
            Err(error) => Err(self.unread(&old, error)),
        };
        if let Err(error) = recorded {
            self.note(error);
        }
    }

    async fn drifted(&self, old: &SharedEntry, new: Option<Entry>) -> Result<(), StepError> {
        let key = old.key();
        let shared = new.clone().map(SharedEntry::new);
        let step = Step::new(StepOp::Refresh, Some(SharedEntry::clone(old)), shared);
        let Some(step) = step else {
            return Ok(());
        };
        self.tell(&Event::Planned(step.clone()));
        if step.is_change() {
            let recorded = self.recorder.refresh(key.clone(), new).await;
            recorded.map_err(|error| StepError::recording(&key, Some(&step), None, error))?;
        }
        // It changed in its place: nothing was brought into the order of this run.
        self.refreshed_step(step);
        Ok(())
    }

    fn refreshed_step(&self, step: Step) {
        self.shared().report.steps.push(step.clone());
        self.tell(&Event::Committed(step));
    }

    fn unread(&self, old: &SharedEntry, error: CallError) -> StepError {
        let uncalled = self.uncalled(&old.key(), error);
        StepError {
            step: Step::new(StepOp::Refresh, Some(SharedEntry::clone(old)), None).map(Box::new),
            ..uncalled
        }
    }
}

/// Whether an entry has an object that can be read.
pub(crate) fn is_readable(entry: &Entry) -> bool {
    entry.entry_type == EntryType::Leaf && !entry.pending_replacement && entry.id.is_some()
}

/// The entry as the world has it. That it was modified is for the engine to say only of what the engine did.
pub(crate) fn as_found(old: &Entry, object: &Object) -> Entry {
    let mut entry = old.clone();
    tell(&mut entry, object);
    if let Some(inputs) = &object.inputs {
        entry.inputs = Some(inputs.clone());
    }
    entry
}
