//! An oracle that derives the allowed states of a stack from the output of the workers, without reading journals.
//!
//! The state must contain the effect of every acknowledged mutation. Each task has at most one unacknowledged step,
//! whose effect may be in the state or not. The state must contain nothing else.

use state_core::{MutationId, Op, PendingOperation, RevisionId, State};
use state_tests::line::{Ending, Line, Plan};
use state_tests::workload;
use std::collections::{BTreeMap, BTreeSet};

/// The expected content of a stack.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// Tags of the live entries by address.
    entries: BTreeMap<String, String>,
    /// Operations that must be pending: their begin took effect, and their worker dropped them or was killed before
    /// their end.
    pending: BTreeMap<MutationId, Plan>,
    /// The unacknowledged step of each task.
    unacknowledged: BTreeMap<u64, Unacknowledged>,
    /// An unacknowledged resolution: the operation and, if it is resolved as done, the tag of its entry.
    resolving: Option<(MutationId, Option<String>)>,
    /// The revisions whose commit was acknowledged.
    revisions: BTreeSet<RevisionId>,
    /// Number of acknowledged ends.
    acknowledged: u64,
}

/// A step without an acknowledgement.
#[derive(Clone, Debug)]
enum Unacknowledged {
    /// The begin isn't acknowledged.
    Begin(Plan),
    /// The begin was acknowledged; the end may have been sent and isn't acknowledged.
    End(MutationId, Plan),
}

impl Model {
    /// Returns the number of mutations whose end was acknowledged.
    pub(crate) const fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Returns the revisions whose commit was acknowledged.
    pub(crate) const fn revisions(&self) -> &BTreeSet<RevisionId> {
        &self.revisions
    }

    /// Updates the model by one line of a worker's output.
    pub(crate) fn observe(&mut self, line: &Line) {
        match line {
            Line::Trying(task, plan) => {
                self.unacknowledged
                    .insert(*task, Unacknowledged::Begin(plan.clone()));
            }
            Line::Begun(task, id) => {
                let plan = match self.unacknowledged.remove(task) {
                    Some(Unacknowledged::Begin(plan)) => plan,
                    other => panic!("task {task} began a step that it didn't announce: {other:?}"),
                };
                if plan.ending == Ending::Drop {
                    self.pending.insert(*id, plan);
                } else {
                    self.unacknowledged.insert(*task, Unacknowledged::End(*id, plan));
                }
            }
            Line::Acked(task) => {
                self.acknowledged += 1;
                match self.unacknowledged.remove(task) {
                    Some(Unacknowledged::End(_, plan)) => self.apply(&plan),
                    other => panic!("task {task} ended a step that it didn't begin: {other:?}"),
                }
            }
            Line::Resolving(id, tag) => self.resolving = Some((*id, tag.clone())),
            Line::Resolved(id) => self.resolved(*id),
            Line::Finished(revision) => {
                self.revisions.insert(revision.clone());
            }
            Line::Locked | Line::Closed => {}
            other => panic!("unexpected line: {other}"),
        }
    }

    /// Applies the effect of an ended step to the entries.
    fn apply(&mut self, plan: &Plan) {
        match (plan.ending, plan.op) {
            (Ending::Succeed, Op::Delete) => {
                self.entries.remove(&plan.address);
            }
            (Ending::Succeed, _) => {
                self.entries.insert(plan.address.clone(), plan.tag.clone());
            }
            _ => {}
        }
    }

    /// Applies the resolution of a pending operation.
    fn resolved(&mut self, id: MutationId) {
        let plan = self
            .pending
            .remove(&id)
            .expect("only pending operations are resolved");
        if let Some((_, Some(tag))) = self.resolving.take() {
            self.entries.insert(plan.address, tag);
        }
    }

    /// Adds those unacknowledged steps to the model that took effect in the state. Then asserts that the state has
    /// exactly the entries and the pending operations of the model. The worker must have exited or be suspended.
    pub(crate) fn settle(&mut self, state: &State, replay: &str) {
        let found: BTreeMap<MutationId, &PendingOperation> = state
            .pending()
            .map(|operation| (operation.id, operation))
            .collect();
        if let Some((id, _)) = &self.resolving
            && !found.contains_key(id)
        {
            self.resolved(*id);
        }
        self.resolving = None;
        for step in std::mem::take(&mut self.unacknowledged).into_values() {
            self.settle_step(step, &found);
        }
        let known: BTreeMap<_, _> = self
            .pending
            .iter()
            .map(|(id, plan)| (*id, (plan.op, plan.address.clone())))
            .collect();
        let there: BTreeMap<_, _> = found
            .iter()
            .map(|(id, operation)| (*id, (operation.op, operation.target.address.to_string())))
            .collect();
        assert_eq!(
            there, known,
            "exactly the operations that began and didn't end must be pending; {replay}"
        );
        self.check_entries(state, replay);
    }

    /// Adds an unacknowledged step to the model if it took effect. `found` contains the state's pending operations.
    ///
    /// An end took effect if its operation isn't pending. A begin took effect if the state has a pending operation that
    /// fits the plan and is not yet in the model.
    fn settle_step(&mut self, step: Unacknowledged, found: &BTreeMap<MutationId, &PendingOperation>) {
        match step {
            Unacknowledged::End(id, plan) => {
                if found.contains_key(&id) {
                    self.pending.insert(id, plan);
                } else {
                    self.apply(&plan);
                }
            }
            Unacknowledged::Begin(plan) => {
                let begun = found.values().find(|operation| {
                    !self.pending.contains_key(&operation.id)
                        && operation.op == plan.op
                        && operation.target.address.as_str() == plan.address
                });
                if let Some(operation) = begun {
                    self.pending.insert(operation.id, plan);
                }
            }
        }
    }

    /// Asserts that the state has exactly the entries of the model, with the outputs of their tags.
    fn check_entries(&self, state: &State, replay: &str) {
        let there: BTreeMap<String, String> = state
            .entries()
            .map(|entry| (entry.address.to_string(), entry.id.clone().unwrap_or_default()))
            .collect();
        assert_eq!(
            there, self.entries,
            "the state must contain exactly the entries of the model; {replay}"
        );
        for entry in state.entries() {
            let tag = entry.id.clone().unwrap_or_default();
            assert!(
                entry.outputs == Some(workload::outputs(&tag)),
                "{} must have the outputs of its tag; {replay}",
                entry.address
            );
        }
    }
}
