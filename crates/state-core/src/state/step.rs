//! How records of mutations change a state: the table of [`crate::mutation`], implemented cell by cell.

use super::apply::ApplyReport;
use super::check::{self, TouchedEntries};
use super::prune;
use super::{Checked, State, refuse};
use crate::address::{Address, EntryKey};
use crate::entry::{Entry, SharedEntry};
use crate::id::Uid;
use crate::mutation::{Begin, End, Op, Outcome, Resolution, Resolve, Step, StepChange};
use crate::pending::{PendingOperation, RefusedResult};
use crate::verify::{Rule, Violation};
use std::sync::Arc;

impl State {
    /// Records the intent of a mutation as a pending operation. Refuses a step whose success would violate a rule,
    /// because after the provider has changed the resource it is too late to refuse.
    pub(super) fn begin(&mut self, begin: &Begin) -> Checked {
        self.require_update()?;
        let mut found = self.begin_violations(begin);
        let operation = PendingOperation::of(begin);
        if found.is_empty() {
            found = self.predicted_violations(&operation);
        }
        if found.is_empty() {
            self.pending.push_back(Arc::new(operation));
            return Ok(());
        }
        Err(found)
    }

    /// The violations that the step would cause if it succeeded now.
    fn predicted_violations(&self, operation: &PendingOperation) -> Vec<Violation> {
        if let Some(entry) = &operation.entry
            && entry.group.is_none()
            && self.entries.get(&operation.target).is_none()
        {
            // The entry replaces no other and belongs to no group, so only its own fields and references can violate
            // a rule. Checking these is cheaper than applying the outcome to a copy of the state.
            return check::entry_violations(&self.entries, &as_recorded(entry, None, &[]), self.front);
        }
        let outcome = self.outcome_of(operation, operation.entry.as_ref(), &[]);
        outcome.err().unwrap_or_default()
    }

    /// Returns the violations of the begin record itself, without a look at the result that the step would have.
    fn begin_violations(&self, begin: &Begin) -> Vec<Violation> {
        let Begin {
            id,
            op,
            target,
            entry,
            deposes,
            ..
        } = begin;
        let mut found = Vec::new();
        let mut reject = |rule, detail: &str| found.push(Violation::of(rule, target.clone(), detail));
        // `lookup` finds a mutation by its id, so an id must not be used twice.
        if self.pending.iter().any(|p| p.id == *id) || self.recent.get(*id).is_some() {
            reject(Rule::Begun, "this mutation has already begun");
        }
        if self.pending.iter().any(|p| p.target == *target) {
            reject(
                Rule::Begun,
                "the resource has a pending operation: resolve it first",
            );
        }
        let old = self.entries.get(target);
        match op {
            Op::Create | Op::Import => match (old, deposes) {
                (None, Some(_)) => reject(Rule::Target, "the resource to replace does not exist"),
                (Some(old), None) if !old.pending_replacement => {
                    reject(Rule::Target, "the resource already exists");
                }
                (Some(_) | None, _) => {}
            },
            Op::Update if old.is_none() => reject(Rule::Target, "the resource does not exist"),
            Op::Delete | Op::Discard => match old {
                None => reject(Rule::Target, "the resource does not exist"),
                Some(old) if old.protect && *op == Op::Delete && target.is_live() => {
                    reject(Rule::Protected, "the resource is protected: unprotect it first");
                }
                Some(_) => {}
            },
            Op::Update | Op::Read => {}
            _ => reject(Rule::Begun, "a step of this kind has no begin record"),
        }
        match entry {
            Some(entry) if matches!(op, Op::Delete | Op::Discard) || entry.key() != *target => {
                reject(Rule::Target, "the requested resource doesn't match the target");
            }
            None if !matches!(op, Op::Delete | Op::Discard) => {
                reject(Rule::Target, "the requested resource is missing");
            }
            _ => {}
        }
        found
    }

    /// Records the provider's result. A result that violates a rule is stored in the pending operation, because the
    /// resource has changed and the result must not be lost.
    pub(super) fn end(&mut self, end: &End) -> Checked<ApplyReport> {
        let place = self.pending_index(end.id)?;
        let operation = PendingOperation::clone(&self.pending[place]);
        if end.outcome == Outcome::Failed {
            self.pending.remove(place);
            self.recent.push(end.id, false);
            return Ok(ApplyReport::default());
        }
        match self.outcome(&operation, end) {
            Ok(mut next) => {
                next.pending.remove(place);
                next.recent.push(end.id, true);
                next.count(operation.op);
                *self = next;
                Ok(ApplyReport::default())
            }
            Err(refused) => {
                let violations = refused.iter().map(Violation::to_string).collect();
                let result = RefusedResult {
                    outcome: end.outcome,
                    entry: end.entry.clone(),
                    violations,
                };
                self.pending.set(
                    place,
                    Arc::new(PendingOperation {
                        result: Some(result),
                        ..operation
                    }),
                );
                // The resource has changed, so a later lookup must report that the mutation took effect.
                self.recent.push(end.id, true);
                Ok(ApplyReport { refused })
            }
        }
    }

    /// Resolves a pending operation manually.
    pub(super) fn resolve(&mut self, resolve: &Resolve) -> Checked {
        self.require_update()?;
        let place = self.pending_index(resolve.id)?;
        let operation = PendingOperation::clone(&self.pending[place]);
        // Unlike a provider's result, a manual resolution that violates a rule is refused: the user can correct it.
        let mut next = self.clone();
        if let Resolution::Done(entry) = &resolve.resolution {
            // An entry with `init_errors` is the result of a partial step. The errors must be kept, and an update must
            // keep the old inputs, so that the next run repairs the resource.
            let reasons = entry
                .as_ref()
                .map_or_else(Vec::new, |entry| entry.init_errors.clone());
            let outcome = match reasons.is_empty() {
                true => Outcome::Succeeded,
                false => Outcome::Partial,
            };
            let end = End {
                id: resolve.id,
                outcome,
                entry: entry.clone(),
                reasons,
            };
            next = self.outcome_by_hand(&operation, &end)?;
            next.count(operation.op);
        }
        next.pending.remove(place);
        next.recent
            .push(resolve.id, matches!(resolve.resolution, Resolution::Done(_)));
        *self = next;
        Ok(())
    }

    /// Like [`State::outcome`], but the entry gets the position of the entry that it replaces, or is appended to the
    /// list. The entries that the update has recorded come first in the list; among them, the entry could come before a
    /// dependency that the update hasn't recorded yet.
    fn outcome_by_hand(&self, operation: &PendingOperation, end: &End) -> Checked<Self> {
        let old = self.entries.position(&operation.target);
        let mut placed = self.clone();
        placed.front = old
            .filter(|_| operation.deposes.is_none())
            .unwrap_or_else(|| self.end_position_after_base());
        let mut next = placed.outcome(operation, end)?;
        next.front = self.front;
        Ok(next)
    }

    fn pending_index(&self, id: crate::MutationId) -> Checked<usize> {
        let place = self.pending.iter().position(|p| p.id == id);
        place.map_or_else(
            || refuse(Rule::Begun, format!("mutation {id} is not pending")),
            Ok,
        )
    }

    /// Returns the state after the outcome in `end`. The returned state still contains the pending operation.
    fn outcome(&self, operation: &PendingOperation, end: &End) -> Checked<Self> {
        let deletes = matches!(operation.op, Op::Delete | Op::Discard);
        let violation = |detail| Violation::of(Rule::Target, operation.target.clone(), detail);
        let refuse = |detail| Err(vec![violation(detail)]);
        match &end.entry {
            Some(_) if deletes => refuse("the result of a deletion contains a resource"),
            None if !deletes => refuse("the result contains no resource"),
            Some(entry) if entry.key() != operation.target => refuse("the result is about another resource"),
            entry => match end.outcome {
                Outcome::Partial => self.partial_outcome(operation, entry.as_ref(), &end.reasons),
                _ => self.outcome_of(operation, entry.as_ref(), &[]),
            },
        }
    }

    /// Returns the state after a step that failed halfway, with the reasons of the failure in the entry's
    /// `init_errors`.
    fn partial_outcome(
        &self,
        operation: &PendingOperation,
        entry: Option<&SharedEntry>,
        reasons: &[String],
    ) -> Checked<Self> {
        let old = self.entries.get(&operation.target);
        let Some(entry) = entry else {
            // A deletion failed halfway. The resource still exists, so its entry stays.
            let mut next = self.clone();
            let mut touched = TouchedEntries::default();
            touched.replace(&mut next.entries, &operation.target, |old| Entry {
                init_errors: reasons.to_vec(),
                ..old.clone()
            });
            return next.accepted(touched);
        };
        let mut partial = Entry::clone(entry);
        if let (Op::Update, Some(old)) = (operation.op, old) {
            // The requested inputs were not applied completely, so the old ones stay: the next update must see the
            // difference.
            partial.inputs.clone_from(&old.inputs);
            partial.sensitive_inputs.clone_from(&old.sensitive_inputs);
        }
        self.outcome_of(operation, Some(&Arc::new(partial)), reasons)
    }

    /// Returns the state after `operation` took effect. `entry` is the resulting entry, `None` for a deletion;
    /// `reasons` are empty if the step succeeded.
    fn outcome_of(
        &self,
        operation: &PendingOperation,
        entry: Option<&SharedEntry>,
        reasons: &[String],
    ) -> Checked<Self> {
        let PendingOperation {
            op,
            target,
            deposes,
            tombstone,
            ..
        } = operation;
        let mut next = self.clone();
        let mut touched = TouchedEntries::default();
        let mut uid = None;
        if next.entries.get(target).is_some()
            && let Some((position, old)) = touched.take(&mut next.entries, target)
        {
            match (op, deposes) {
                // A replacement removes a tombstone instead of deposing it: its resource has already been deleted.
                (Op::Create | Op::Import, Some(key)) if !old.pending_replacement => {
                    let deposed = Entry {
                        deposed: Some(key.clone()),
                        ..Entry::clone(&old)
                    };
                    touched.put(&mut next.entries, position, Arc::new(deposed));
                }
                (Op::Create | Op::Import, None) if !old.pending_replacement => {
                    touched.reject(Rule::UniqueKey, target, "the resource already exists");
                }
                (Op::Delete | Op::Discard, _) if *tombstone => {
                    let kept = Entry {
                        pending_replacement: true,
                        ..Entry::clone(&old)
                    };
                    touched.put(&mut next.entries, position, Arc::new(kept));
                }
                (Op::Update | Op::Read, _) => uid = old.uid,
                _ => {}
            }
        } else if matches!(op, Op::Update | Op::Delete | Op::Discard) {
            touched.reject(Rule::Target, target, "the resource no longer exists");
        }
        if let Some(entry) = entry {
            next.record(Arc::new(as_recorded(entry, uid, reasons)), &mut touched);
        }
        next.accepted(touched)
    }

    /// Inserts an entry after those that the open update has recorded.
    fn record(&mut self, entry: SharedEntry, touched: &mut TouchedEntries) {
        touched.put(&mut self.entries, self.front, entry);
        self.front = self.front.next();
    }

    /// Applies a step that consists of a single record.
    pub(super) fn step(&mut self, step: &Step) -> Checked {
        self.require_update()?;
        let mut next = self.clone();
        let mut touched = TouchedEntries::default();
        match &step.change {
            StepChange::Same(entry) => next.same(entry, &mut touched),
            StepChange::Replace(target) => {
                if self.entries.get(target).is_none() {
                    touched.reject(Rule::Target, target, "the resource does not exist");
                }
            }
            StepChange::Refresh {
                target,
                entry: Some(entry),
            } => {
                touched.replace(&mut next.entries, target, |old| Entry {
                    uid: old.uid,
                    address: old.address.clone(),
                    deposed: old.deposed.clone(),
                    ..Entry::clone(entry)
                });
            }
            StepChange::Refresh { target, entry: None } => {
                prune::forget(&mut next.entries, target, &mut touched);
            }
            StepChange::RemovePendingReplace(target) => {
                let taken = touched.take(&mut next.entries, target);
                if taken.is_some_and(|(_, old)| !old.pending_replacement) {
                    touched.reject(Rule::Target, target, "the resource is not pending replacement");
                }
            }
            StepChange::Outputs {
                target,
                outputs,
                sensitive,
            } => {
                touched.replace(&mut next.entries, target, |old| Entry {
                    outputs: Some(outputs.clone()),
                    sensitive_outputs: sensitive.clone(),
                    ..old.clone()
                });
            }
        }
        next.recent.push(step.id, true);
        next.count(step.change.op());
        *self = next.accepted(touched)?;
        Ok(())
    }

    /// Moves an entry that needs no change from the base to the recorded entries, with the content of `entry`.
    fn same(&mut self, entry: &SharedEntry, touched: &mut TouchedEntries) {
        if let Some(old) = self.take_from_base(&entry.key(), touched) {
            let mut same = Entry::clone(entry);
            same.uid = old.uid;
            self.record(Arc::new(same), touched);
        }
    }

    /// Moves live entries from the base to the recorded entries, and keeps their content.
    pub(super) fn unchanged(&mut self, addresses: &[Address]) -> Checked {
        self.require_update()?;
        let mut next = self.clone();
        let mut touched = TouchedEntries::default();
        for address in addresses {
            let target = EntryKey::live(address.clone());
            if let Some(entry) = next.take_from_base(&target, &mut touched) {
                next.record(entry, &mut touched);
                next.count(Op::Same);
            }
        }
        *self = next.accepted(touched)?;
        Ok(())
    }

    /// Removes an entry from the base. Adds a violation and returns `None` if the base doesn't contain the entry.
    fn take_from_base(&mut self, target: &EntryKey, touched: &mut TouchedEntries) -> Option<SharedEntry> {
        if self.is_recorded(target) {
            let detail = "this update has already recorded the resource";
            touched.reject(Rule::Target, target, detail);
            return None;
        }
        Some(touched.take(&mut self.entries, target)?.1)
    }
}

/// Returns the entry of a result as the state stores it. `uid` is the uid of the updated entry, which stays the same;
/// `None` for a new resource.
fn as_recorded(entry: &Entry, uid: Option<Uid>, reasons: &[String]) -> Entry {
    Entry {
        uid: uid.or(entry.uid),
        init_errors: reasons.to_vec(),
        pending_replacement: false,
        ..entry.clone()
    }
}
