//! Records the results that providers return for mutations. A result that is too large, or whose values can't be
//! sealed, is recorded without these values: discarding it would lose the id of the real resource.

use crate::objects::snapshots::too_large;
use crate::write::locked_stack::LockedStack;
use crate::write::queue::batch::Prepared;
use crate::write::spool;
use state_core::journal::Record;
use state_core::mutation::End;
use state_core::sensitive::SecretStrings;
use state_core::verify::{Rule, Violation};
use state_core::{Entry, EntryKey, Error, MutationId, Outcome, Result};
use std::sync::Arc;

/// The result that a provider returned for a mutation.
pub(crate) struct ProviderResult {
    pub(crate) outcome: Outcome,
    /// The resource as the provider returned it, with the uid that `begin` recorded. None for a deletion, a discard and
    /// a failure.
    pub(crate) entry: Option<Entry>,
    /// Explanations of the provider for a result that isn't a success.
    pub(crate) reasons: Vec<String>,
}

/// Records the result of the mutation `id` on the entry `target`. Returns the integrity rules that the result breaks.
/// If the state refuses the result for such a violation, the result is kept on the pending operation. A result that was
/// only reduced also reports a violation, but ends the operation. `parked` is called when the result waits for the intent
/// of the next step; without it, the result doesn't wait.
pub(crate) async fn end(
    locked: &LockedStack,
    id: MutationId,
    target: &EntryKey,
    result: ProviderResult,
    parked: Option<Box<dyn FnOnce() + Send>>,
) -> Result<Vec<Violation>> {
    let (sealed, mut left_out) = result.sealed(locked, id, target);
    let mut end = sealed.into_end(id);
    let mut record = Prepared::from(Record::End(end.clone()));
    if record.is_long()
        && let Some(detail) = end.entry.as_deref().and_then(too_large)
    {
        // The real resource was already changed: refusing the result would lose its id. Only the outputs are left out.
        let detail = format!("the outputs were not recorded: {detail}");
        end = without_outputs(end, detail.clone());
        left_out = Some(detail);
        record = Prepared::from(Record::End(end.clone()));
    }
    let submitted = match parked {
        Some(parked) => locked.submit_parked(vec![record], parked).await,
        None => locked.submit(vec![record], true).await,
    };
    let answer = match submitted {
        Ok(answer) => answer,
        Err(error) => return Err(spool::keep(locked, end, error).await),
    };
    let violation = left_out.map(|detail| Violation::of(Rule::Size, target.clone(), detail));
    Ok(violation.into_iter().chain(answer.refused).collect())
}

impl ProviderResult {
    fn into_end(self, id: MutationId) -> End {
        End {
            id,
            outcome: self.outcome,
            entry: self.entry.map(Arc::new),
            reasons: self.reasons,
        }
    }

    /// Returns the result sealed for storage. If its entry can't be sealed, the result keeps the id of the resource and
    /// the inputs that `begin` recorded sealed, and the returned string says why the other values are left out.
    fn sealed(self, locked: &LockedStack, id: MutationId, target: &EntryKey) -> (Self, Option<String>) {
        let state = locked.state();
        let begun = state.pending().find(|operation| operation.id == id);
        let begun = begun.and_then(|operation| operation.entry.as_deref());
        let with_reasons = |entry: &Entry| Entry {
            // Reasons may quote secrets of the entry, so they are sealed together with it.
            init_errors: self.reasons.clone(),
            ..entry.clone()
        };
        let stated = match &self.entry {
            Some(entry) => Some(with_reasons(entry)),
            // The result has no entry, so the reasons are sealed together with the present entry of the state. A failed
            // create has none either: then they are sealed together with the entry of the intent.
            None => state
                .entry(target)
                .map(AsRef::as_ref)
                .or(begun)
                .filter(|_| !self.reasons.is_empty())
                .map(with_reasons),
        };
        match stated.map(|entry| locked.seal.entry(entry)) {
            None => (self, None),
            Some(Ok(sealed)) => {
                let sealed = Self {
                    reasons: sealed.init_errors.clone(),
                    entry: self.entry.is_some().then_some(sealed),
                    ..self
                };
                (sealed, None)
            }
            Some(Err(error)) => self.without_values(begun, &error),
        }
    }

    /// Returns the result without the values that couldn't be sealed; a result with an entry becomes partial. `begun` is
    /// the sealed entry of the intent.
    fn without_values(self, begun: Option<&Entry>, error: &Error) -> (Self, Option<String>) {
        let detail = format!("the values were not recorded: {error}");
        let secrets = self
            .entry
            .as_ref()
            .map(SecretStrings::of_entry)
            .unwrap_or_default();
        let entry = self.entry.map(|entry| Entry {
            // An id that is itself one of the secrets is left out as well.
            id: entry.id.clone().filter(|id| !secrets.contains(id)),
            // The intent was sealed before the provider call, so its inputs can be recorded without sealing anything.
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
        let kept = Self {
            // The state refuses a partial outcome without an entry, and the operation would stay pending.
            outcome: match entry {
                Some(_) => Outcome::Partial,
                None => self.outcome,
            },
            entry,
            reasons: vec![detail.clone()],
        };
        (kept, Some(detail))
    }
}

/// The result without the outputs that are too large.
fn without_outputs(mut end: End, detail: String) -> End {
    end.outcome = Outcome::Partial;
    end.reasons.push(detail);
    if let Some(entry) = &mut end.entry {
        let entry = Arc::make_mut(entry);
        entry.outputs = None;
        entry.sensitive_outputs.clear();
    }
    end
}
