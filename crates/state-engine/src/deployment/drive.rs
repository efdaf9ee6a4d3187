//! Drives a [`Source`]: asks it for ready resources and executes their steps in parallel, each step after the
//! dependencies of its resource are committed.

use super::resource::{PlannedStep, StepOutcome};
use super::{Deployment, StepError};
use crate::goal::Goal;
use crate::ledger::{Ledger, ResourceStatus};
use crate::source::{Next, Source};
use state_core::entry::Provider;
use state_core::{Address, EntryKey};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use tokio::task::{Id, JoinError, JoinSet};

/// The steps in flight.
#[derive(Default)]
struct InFlightSteps {
    tasks: JoinSet<Result<StepOutcome, StepError>>,
    /// The address of each task's resource.
    names: HashMap<Id, Address>,
    /// Steps that must run while no other step is in flight.
    exclusive: VecDeque<PlannedStep>,
    /// Whether an exclusive step is in flight.
    is_exclusive: bool,
    /// Number of steps that were started so far.
    started: usize,
}

impl InFlightSteps {
    fn start(&mut self, deployment: &Arc<Deployment>, planned: PlannedStep) {
        let deployment = Arc::clone(deployment);
        let address = planned.goal.address.clone();
        self.is_exclusive = planned.exclusive;
        self.started += 1;
        let handle = self
            .tasks
            .spawn(async move { deployment.resource(planned).await });
        self.names.insert(handle.id(), address);
    }
}

impl Deployment {
    /// Reads a source to its end and runs the steps of its resources. Returns whether the source ended without an error
    /// and the run can continue.
    pub(super) async fn drive(self: &Arc<Self>, source: &mut dyn Source, ledger: &mut Ledger) -> bool {
        let mut in_flight = InFlightSteps::default();
        let (mut has_ended, mut waits) = (false, false);
        loop {
            let before = in_flight.started;
            // While an exclusive step waits, no other step begins. If others kept beginning, some step might always be
            // in flight, and the exclusive step would never begin.
            while !has_ended
                && !waits
                && !in_flight.is_exclusive
                && in_flight.exclusive.is_empty()
                && self.has_room(&in_flight)
            {
                match source.next(ledger).await {
                    Ok(Next::Ready(registration)) => {
                        self.start_goal(registration.into_goal(), ledger, &mut in_flight);
                    }
                    Ok(Next::Refreshed(refreshed)) => {
                        let key = refreshed.entry().key();
                        self.record_refresh(*refreshed).await;
                        ledger.set_refreshed(key);
                    }
                    Ok(Next::Blocked { address, reason }) => {
                        ledger.set(address.clone(), ResourceStatus::Skipped);
                        self.skip(address, reason);
                    }
                    // Only a step that ends changes the ledger, so without a step in flight the source would wait for
                    // ever.
                    Ok(Next::Wait) if in_flight.tasks.is_empty() => {
                        return self.fail_source("the source waits although no step is in flight".to_owned());
                    }
                    Ok(Next::Wait) => waits = true,
                    Ok(Next::End) => has_ended = true,
                    Err(error) => {
                        // Steps in flight must end and be recorded; no new step begins.
                        self.fail_source(error.to_string());
                        while !in_flight.tasks.is_empty() {
                            self.wait_for_step(&mut in_flight, ledger).await;
                        }
                        return false;
                    }
                }
            }
            if in_flight.tasks.is_empty() {
                // Exclusive steps begin only after all steps in flight have ended.
                match in_flight.exclusive.pop_front().filter(|_| self.can_continue()) {
                    Some(planned) => in_flight.start(
                        self,
                        PlannedStep {
                            exclusive: true,
                            ..planned
                        },
                    ),
                    None if has_ended || !self.can_continue() => return has_ended && self.can_continue(),
                    None => continue,
                }
            }
            if in_flight.started == before {
                self.recorder.send_results().await;
            }
            tokio::select! {
                () = self.recording.begun() => {}
                // The ledger has changed, so a source that waited may have a step now.
                () = self.wait_for_step(&mut in_flight, ledger) => waits = false,
            }
        }
    }

    /// Whether another step may begin. A step whose result is being recorded calls no provider any more.
    fn has_room(&self, in_flight: &InFlightSteps) -> bool {
        let calling = in_flight.tasks.len().saturating_sub(self.recording.number());
        calling < self.parallel() && self.can_continue()
    }

    /// Records an error that ends the source. Returns `false`: the run can't continue.
    pub(super) fn fail_source(&self, reason: String) -> bool {
        let mut shared = self.shared();
        shared.report.source_error.get_or_insert(reason.clone());
        drop(shared);
        self.caller.logger.emit(state_core::LogLevel::Error, reason);
        false
    }

    fn start_goal(self: &Arc<Self>, goal: Goal, ledger: &mut Ledger, in_flight: &mut InFlightSteps) {
        ledger.set(goal.address.clone(), ResourceStatus::UnderWay);
        // The commands are declared before the step is planned: planning may replace ignored inputs (`ignore_changes`)
        // by recorded inputs, and a command in a recorded input must not count as declared by the program.
        self.caller.declare(&goal);
        let planned = self.plan_step(goal, ledger);
        match planned.rename {
            // A rename rewrites references in other entries, so no step may be in flight.
            Some(_) => in_flight.exclusive.push_back(planned),
            None => in_flight.start(self, planned),
        }
    }

    fn plan_step(&self, goal: Goal, ledger: &Ledger) -> PlannedStep {
        let state = self.recorder.state();
        let provider = goal.options.provider.as_ref().map(|address| Provider {
            address: address.clone(),
            id: ledger
                .committed(address)
                .and_then(|by| by.id().map(str::to_owned)),
        });
        let was_replaced = |address: &&Address| {
            ledger.committed(address).is_some_and(|with| with.was_replaced())
                // An earlier run may have replaced the resource at this address and ended before it replaced the
                // resource of this goal.
                || state.generations(address).any(|entry| !entry.is_live())
        };
        // The replaced resources whose replacement also replaces the resource of this goal.
        let with = goal.options.replace_with.iter().chain(&goal.options.deleted_with);
        let with: BTreeSet<&Address> = with.filter(was_replaced).collect();
        let replaced = with.into_iter().cloned().collect();
        let has_live = |address: &Address| state.entry(&EntryKey::live(address.clone())).is_some();
        // An address that the source registered belongs to another resource of the program, so it isn't a former
        // address of this resource.
        let is_former = |alias: &&Address| has_live(alias) && ledger.status(alias).is_none();
        let is_taken = state.generations(&goal.address).next().is_some();
        let rename = match is_taken {
            true => None,
            false => goal.options.aliases.iter().find(is_former).cloned(),
        };
        let mut shared = self.shared();
        let dependency_changed = goal.needs().into_iter().any(|need| shared.changed.contains(need));
        if dependency_changed {
            // The provider's answers about this resource may change with the dependency, and so may the answers about
            // its own dependents. So this resource counts as changed.
            shared.changed.insert(goal.address.clone());
        }
        drop(shared);
        PlannedStep {
            is_target: self.is_target(&goal.address),
            dependency_changed,
            provider,
            replaced,
            rename,
            goal,
            exclusive: false,
        }
    }

    /// Waits for one step to end and records its status.
    async fn wait_for_step(&self, in_flight: &mut InFlightSteps, ledger: &mut Ledger) {
        let Some(ended) = in_flight.tasks.join_next_with_id().await else {
            return;
        };
        in_flight.is_exclusive = false;
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Some(address) = in_flight.names.remove(&id) else {
            return;
        };
        let ended = ended.map(|(_, ended)| ended);
        let task_failure = |error| Err(task_failure(&EntryKey::live(address.clone()), &error));
        match ended.unwrap_or_else(task_failure) {
            Ok(StepOutcome::Committed(committed)) => {
                ledger.set(address, ResourceStatus::Committed(committed));
            }
            Ok(StepOutcome::NotTargeted) => ledger.set(address, ResourceStatus::NotTargeted),
            Ok(StepOutcome::NeedsExclusive(planned)) => in_flight.exclusive.push_back(*planned),
            Err(error) => {
                ledger.set(address, ResourceStatus::Failed);
                self.record_failure(error);
            }
        }
    }
}

/// The failure of a step whose task panicked or was aborted. The effect of the step is unknown, so its recorded intent
/// stays pending.
pub(super) fn task_failure(key: &EntryKey, error: &JoinError) -> StepError {
    StepError::early(key, vec![format!("its step was aborted: {error}")])
}
