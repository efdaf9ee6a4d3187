//! What the record tells of a run beyond its report: what failed and stands there unfinished, what was never begun, what
//! was replaced and stays.

use super::outcome::{Outcome, Skipped};
use super::run::Goal;
use super::step::StepView;
use state_core::{Entry, MutationId, State};
use state_engine::{Report, StepFailure};
use std::collections::BTreeSet;

/// What a run left.
pub(super) struct Left {
    /// Whether the record is another one than before, as far as failures go.
    is_changed: bool,
    /// Which of the failures stand on record as unfinished, in their order.
    unfinished: Vec<bool>,
    /// Every object that a step was about, changed or not: its address, and whether it was replaced.
    reached: BTreeSet<(String, bool)>,
    /// The objects that were replaced and are there still, though this run deletes such.
    replaced: Vec<String>,
}

impl Left {
    /// Compares what is recorded before a run and after it.
    pub(super) fn of(goal: Goal<'_>, before: &State, after: &State, report: &Report) -> Self {
        let deletes = matches!(goal, Goal::Update(_));
        let differs = |failure: &StepFailure| before.entry(&failure.key) != after.entry(&failure.key);
        let stands = |failure: &StepFailure| {
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
                .map(|failure| differs(failure) && stands(failure))
                .collect(),
            reached: reached
                .map(|key| (key.address.to_string(), key.deposed.is_some()))
                .collect(),
            replaced: replaced.map(|entry| entry.key().to_string()).collect(),
        }
    }

    /// Adds it to what is told of the run, which was to do what was `seen`.
    pub(super) fn tell(&self, done: &mut Outcome, seen: &[StepView]) {
        done.changed |= self.is_changed || !done.settled.is_empty();
        for (failure, unfinished) in done.failures.iter_mut().zip(&self.unfinished) {
            failure.unfinished = *unfinished;
        }
        if done.went_well() {
            done.warnings.extend(self.replaced());
        } else {
            let open = self.not_begun(done, seen);
            done.skipped.extend(open);
        }
    }

    /// What was to be done and was never begun, because the run stopped before.
    fn not_begun(&self, done: &Outcome, seen: &[StepView]) -> Vec<Skipped> {
        let failures = done.failures.iter().map(|failure| &*failure.address);
        let skipped = done.skipped.iter().map(|skipped| &*skipped.address);
        let pending = done.pending.iter().map(|pending| &*pending.address);
        let mut describe: BTreeSet<&str> = failures.chain(skipped).chain(pending).collect();
        let is_reached = |step: &StepView| {
            self.reached
                .contains(&(step.address.clone(), step.deposed.is_some()))
        };
        let open = seen
            .iter()
            .filter(|step| !is_reached(step) && describe.insert(&step.address));
        open.map(Skipped::not_begun).collect()
    }

    /// That objects are there still that were replaced: a run that went well leaves them only where it left something
    /// alone that may need them.
    fn replaced(&self) -> Option<String> {
        let (first, more) = self.replaced.split_first()?;
        let (more, verb) = match more.len() {
            0 => (String::new(), "is"),
            more => (format!(" and {more} more"), "are"),
        };
        Some(format!(
            "{first}{more} {verb} replaced but not deleted: something that this run left alone may still need it; an `up` \
             of all there is tells"
        ))
    }
}

fn is_unfinished(entry: &Entry) -> bool {
    !entry.init_errors.is_empty() || entry.tainted
}

fn pending(state: &State) -> BTreeSet<MutationId> {
    state.pending().map(|operation| operation.id).collect()
}
