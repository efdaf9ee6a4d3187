//! Whether the real state says the same as the lists.

use super::Naive;
use state_core::{PendingOperation, SharedEntry, State, Timestamp, codec};

impl Naive {
    /// How a state differs from this; none if it doesn't.
    pub(crate) fn difference(&self, state: &State) -> Option<String> {
        let keys = |entries: &[SharedEntry]| -> Vec<String> {
            entries.iter().map(|entry| entry.key().to_string()).collect()
        };
        let (mine, theirs) = (self.entries(), state.entries().cloned().collect::<Vec<_>>());
        if keys(&mine) != keys(&theirs) {
            return Some(format!("order {:?}, not {:?}", keys(&theirs), keys(&mine)));
        }
        for (mine, theirs) in mine.iter().zip(&theirs) {
            if mine != theirs {
                let (mine, theirs) = (codec::entry_text(mine), codec::entry_text(theirs));
                return Some(format!("entry {theirs}, not {mine}"));
            }
            let recorded = self.new.iter().any(|entry| entry.key() == mine.key());
            if state.is_recorded(&theirs.key()) != recorded {
                return Some(format!("{} is recorded: {}", mine.key(), !recorded));
            }
        }
        let pending: Vec<PendingOperation> = state.pending().map(without_words).collect();
        if pending != self.pending {
            return Some(format!("pending {pending:#?}, not {:#?}", self.pending));
        }
        let manifest = state
            .snapshot("", Timestamp::new(""))
            .manifest
            .unwrap_or_default();
        if !manifest.plugins.iter().eq(&self.plugins) {
            return Some(format!("plugins {:?}, not {:?}", manifest.plugins, self.plugins));
        }
        let rest = (state.update().is_some(), state.serial().get(), state.outputs());
        if rest != (self.update_open, self.serial, &self.outputs) {
            return Some(format!(
                "open, serial, outputs: {rest:?}, not {:?}",
                (self.update_open, self.serial, &self.outputs)
            ));
        }
        None
    }
}

/// The words in which violations are told are the real code's own.
fn without_words(operation: &PendingOperation) -> PendingOperation {
    let mut operation = operation.clone();
    if let Some(result) = &mut operation.result {
        assert!(!result.violations.is_empty(), "a refused result says why");
        result.violations.clear();
    }
    operation
}
