//! Compares the state before and after a run to complete its report: resources that failed and are recorded as
//! unfinished, steps that were never begun, and replaced resources that were not deleted.

use super::outcome::{Outcome, SkippedResource};
use super::run::Goal;
use super::step::StepView;
use state_core::{Entry, MutationId, State};
use state_engine::{Report, StepFailure};
use std::collections::BTreeSet;

/// The work that a run left unfinished.
pub(super) struct UnfinishedWork {
    /// Whether failed or pending steps changed the state.
    is_changed: bool,
    /// For each failure, in order: whether the state records its resource as unfinished.
    unfinished: Vec<bool>,
    /// The resources of all steps that were begun: the address, and whether the resource is deposed.
    reached: BTreeSet<(String, bool)>,
    /// Replaced resources that still exist although this kind of run deletes them.
    replaced: Vec<String>,
}

impl UnfinishedWork {
    /// Compares the states before and after a run.
    pub(super) fn compare(goal: Goal<'_>, before: &State, after: &State, report: &Report) -> Self {
        let deletes = matches!(goal, Goal::Update(_));
        let differs = |failure: &StepFailure| before.entry(&failure.key) != after.entry(&failure.key);
        let is_recorded = |failure: &StepFailure| {
            after
                .entry(&failure.key)
                .is_some_and(|entry| is_unfinished(entry))
        };
        let failures = || report.failures.iter();
        let reached = report.steps.iter().map(|step| &step.key);
        let replaced = after.entries().filter(|entry| deletes && !entry.is_live());
        Self {
            is_changed: pending(before) != pending(after) || failures().any(differs),
            unfinished: failures()
                .map(|failure| differs(failure) && is_recorded(failure))
                .collect(),
            reached: reached
                .map(|key| (key.address.to_string(), key.deposed.is_some()))
                .collect(),
            replaced: replaced.map(|entry| entry.key().to_string()).collect(),
        }
    }

    /// Adds the unfinished work to the outcome of a run with these planned steps.
    pub(super) fn add_to(&self, done: &mut Outcome, planned: &[StepView]) {
        done.changed |= self.is_changed || !done.settled.is_empty();
        for (failure, unfinished) in done.failures.iter_mut().zip(&self.unfinished) {
            failure.unfinished = *unfinished;
        }
        if done.succeeded() {
            done.warnings.extend(self.replaced());
        } else {
            let open = self.not_begun(done, planned);
            done.skipped.extend(open);
        }
    }

    /// The planned steps that were never begun because the run stopped before them.
    fn not_begun(&self, done: &Outcome, planned: &[StepView]) -> Vec<SkippedResource> {
        let failures = done.failures.iter().map(|failure| &*failure.address);
        let skipped = done.skipped.iter().map(|skipped| &*skipped.address);
        let pending = done.pending.iter().map(|pending| &*pending.address);
        let mut reported: BTreeSet<&str> = failures.chain(skipped).chain(pending).collect();
        let is_reached = |step: &StepView| {
            self.reached
                .contains(&(step.address.clone(), step.deposed.is_some()))
        };
        let open = planned
            .iter()
            .filter(|step| !is_reached(step) && reported.insert(&step.address));
        open.map(SkippedResource::not_begun).collect()
    }

    /// A warning about replaced resources that still exist. A successful run keeps them only if `--target` or `--exclude`
    /// left out a resource that may still depend on them.
    fn replaced(&self) -> Option<String> {
        let (first, more) = self.replaced.split_first()?;
        let (more, verb) = match more.len() {
            0 => (String::new(), "is"),
            more => (format!(" and {more} more"), "are"),
        };
        Some(format!(
            "{first}{more} {verb} replaced but not deleted, because a resource excluded from this run may depend on it; run \
             `statectl up` without `--target` and `--exclude`"
        ))
    }
}

fn is_unfinished(entry: &Entry) -> bool {
    !entry.init_errors.is_empty() || entry.tainted
}

fn pending(state: &State) -> BTreeSet<MutationId> {
    state.pending().map(|operation| operation.id).collect()
}
