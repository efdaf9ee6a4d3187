//! What came back from the world, made fit to be recorded: sealed, and not too large. It is never thrown away.

use crate::session::Session;
use crate::update::too_large;
use state_core::sensitive::SecretStrings;
use state_core::verify::{Rule, Violation};
use state_core::{Entry, EntryKey, Error, MutationId, Outcome};

/// How a mutation ended.
pub(crate) struct CameBack {
    pub(crate) outcome: Outcome,
    pub(crate) entry: Option<Entry>,
    pub(crate) reasons: Vec<String>,
    /// Why not all of it is recorded.
    pub(crate) violation: Option<Violation>,
}

impl CameBack {
    /// As it is stored. Of what can't be sealed only that is recorded which is no value: that it is there, and its id.
    pub(crate) fn sealed(self, session: &Session, id: MutationId, target: &EntryKey) -> Self {
        let state = session.state();
        let with_reasons = |entry: &Entry| Entry {
            init_errors: self.reasons.clone(),
            ..entry.clone()
        };
        let stated = match &self.entry {
            Some(entry) => Some(with_reasons(entry)),
            // The entry that is there keeps its values and learns what went wrong.
            None => state
                .entry(target)
                .filter(|_| !self.reasons.is_empty())
                .map(|old| with_reasons(old)),
        };
        match stated.map(|entry| session.seal().entry(entry)) {
            None => self,
            Some(Ok(sealed)) => Self {
                reasons: sealed.init_errors.clone(),
                entry: self.entry.is_some().then_some(sealed),
                ..self
            },
            Some(Err(error)) => {
                let begun = state.pending().find(|operation| operation.id == id);
                let begun = begun.and_then(|operation| operation.entry.as_deref());
                self.without_values(begun, target, &error)
            }
        }
    }

    fn without_values(self, begun: Option<&Entry>, target: &EntryKey, error: &Error) -> Self {
        let detail = format!("its values were not recorded: {error}");
        let secrets = self
            .entry
            .as_ref()
            .map(SecretStrings::of_entry)
            .unwrap_or_default();
        let entry = self.entry.map(|entry| Entry {
            id: entry.id.clone().filter(|id| !secrets.contains(id)),
            inputs: begun.and_then(|begun| begun.inputs.clone()),
            sensitive_inputs: begun
                .map(|begun| begun.sensitive_inputs.clone())
                .unwrap_or_default(),
            outputs: None,
            sensitive_outputs: Vec::new(),
            extensions: begun.map(|begun| begun.extensions.clone()).unwrap_or_default(),
            unknown: begun.map(|begun| begun.unknown.clone()).unwrap_or_default(),
            ..entry
        });
        Self {
            outcome: Outcome::Partial,
            entry,
            reasons: vec![detail.clone()],
            violation: Some(Violation::of(Rule::Size, target.clone(), detail)),
        }
    }

    /// What came back may be too large to be recorded: then all but its outputs is, and says so.
    pub(crate) fn fit(self, target: &EntryKey) -> Self {
        let Some(detail) = self.entry.as_ref().and_then(too_large) else {
            return self;
        };
        let detail = format!("its outputs were not recorded: {detail}");
        let mut reasons = self.reasons;
        reasons.push(detail.clone());
        let kept = self.entry.map(|entry| Entry {
            outputs: None,
            sensitive_outputs: Vec::new(),
            ..entry
        });
        Self {
            outcome: Outcome::Partial,
            entry: kept,
            reasons,
            violation: Some(Violation::of(Rule::Size, target.clone(), detail)),
        }
    }
}
