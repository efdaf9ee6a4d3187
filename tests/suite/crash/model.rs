//! An oracle that derives the allowed states of a stack from the output of a worker, without reading journals.
//!
//! All acknowledged mutations must be in the state. Each task has at most one step without an acknowledgement, which
//! may or may not be in the state. The state must contain nothing else.

use state_core::{MutationId, Op, PendingOperation, RevisionId, State};
use state_tests::line::{Ending, Line, Plan};
use state_tests::workload;
use std::collections::{BTreeMap, BTreeSet};

/// The known content of a stack.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// Tags of the live entries by address.
    entries: BTreeMap<String, String>,
    /// Operations whose begin was acknowledged, without an end.
    pending: BTreeMap<MutationId, Plan>,
    /// The step of each task that isn't acknowledged yet.
    under_way: BTreeMap<u64, UnderWay>,
    /// A resolution that was announced and isn't acknowledged: the operation and, if it is resolved as done, the tag of
    /// its entry.
    resolving: Option<(MutationId, Option<String>)>,
    revisions: BTreeSet<RevisionId>,
    acknowledged: u64,
}

#[derive(Clone, Debug)]
enum UnderWay {
    /// A begin was sent and not acknowledged.
    Begin(Plan),
    /// A begin was acknowledged; an end may have been sent.
    End(MutationId, Plan),
}

impl Model {
    /// Number of acknowledged mutations.
    pub(crate) const fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Revisions whose commit was acknowledged.
    pub(crate) const fn revisions(&self) -> &BTreeSet<RevisionId> {
        &self.revisions
    }

    /// Processes one line of a worker's output.
    pub(crate) fn hear(&mut self, line: &Line) {
        match line {
            Line::Trying(task, plan) => {
                self.under_way.insert(*task, UnderWay::Begin(plan.clone()));
            }
            Line::Begun(task, id) => {
                let plan = match self.under_way.remove(task) {
                    Some(UnderWay::Begin(plan)) => plan,
                    other => panic!("task {task} began a step that it didn't announce: {other:?}"),
                };
                if plan.ending == Ending::Drop {
                    self.pending.insert(*id, plan);
                } else {
                    self.under_way.insert(*task, UnderWay::End(*id, plan));
                }
            }
            Line::Acked(task) => {
                self.acknowledged += 1;
                match self.under_way.remove(task) {
                    Some(UnderWay::End(_, plan)) => self.apply(&plan),
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

    fn resolved(&mut self, id: MutationId) {
        let plan = self
            .pending
            .remove(&id)
            .expect("only pending operations are resolved");
        if let Some((_, Some(tag))) = self.resolving.take() {
            self.entries.insert(plan.address, tag);
        }
    }

    /// Compares the state with the model once the worker has ended or is stopped, and adds the unacknowledged steps
    /// that are in the state to the model.
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
        for step in std::mem::take(&mut self.under_way).into_values() {
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

    fn settle_step(&mut self, step: UnderWay, found: &BTreeMap<MutationId, &PendingOperation>) {
        match step {
            UnderWay::End(id, plan) => {
                if found.contains_key(&id) {
                    self.pending.insert(id, plan);
                } else {
                    self.apply(&plan);
                }
            }
            UnderWay::Begin(plan) => {
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

    fn check_entries(&self, state: &State, replay: &str) {
        let there: BTreeMap<String, String> = state
            .entries()
            .map(|entry| (entry.address.to_string(), entry.id.clone().unwrap_or_default()))
            .collect();
        assert_eq!(
            there, self.entries,
            "exactly the acknowledged entries must be in the state; {replay}"
        );
        for entry in state.entries() {
            let tag = entry.id.clone().unwrap_or_default();
            assert!(
                entry.outputs == Some(workload::outputs(&tag)),
                "{} must have its acknowledged content; {replay}",
                entry.address
            );
        }
    }
}
