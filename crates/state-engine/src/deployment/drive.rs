//! Asks a source for what is ready, and has it done: in parallel, each step only after all that it needs is committed.

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

/// What is under way.
#[derive(Default)]
struct InFlightSteps {
    tasks: JoinSet<Result<StepOutcome, StepError>>,
    names: HashMap<Id, Address>,
    /// Orders that wait until nothing is under way.
    alone: VecDeque<PlannedStep>,
    /// One of them is under way.
    is_alone: bool,
}

impl InFlightSteps {
    fn start(&mut self, deployment: &Arc<Deployment>, order: PlannedStep) {
        let deployment = Arc::clone(deployment);
        let address = order.goal.address.clone();
        self.is_alone = order.alone;
        let handle = self.tasks.spawn(async move { deployment.resource(order).await });
        self.names.insert(handle.id(), address);
    }
}

impl Deployment {
    /// Whether the source said all that it had to say.
    pub(super) async fn drive(self: &Arc<Self>, source: &mut dyn Source, ledger: &mut Ledger) -> bool {
        let mut flight = InFlightSteps::default();
        let mut has_ended = false;
        loop {
            while !has_ended && !flight.is_alone && flight.alone.is_empty() && self.has_room(&flight) {
                match source.next(ledger).await {
                    Ok(Next::Ready(registration)) => self.take(registration.into_goal(), ledger, &mut flight),
                    Ok(Next::Refreshed(refreshed)) => {
                        let key = refreshed.entry().key();
                        self.refreshed(*refreshed).await;
                        ledger.set_refreshed(key);
                    }
                    Ok(Next::Blocked { address, reason }) => {
                        ledger.set(address.clone(), ResourceStatus::Skipped);
                        self.skip(address, reason);
                    }
                    Ok(Next::Wait) if flight.tasks.is_empty() => {
                        return self.wrong("the source waits for something that never comes".to_owned());
                    }
                    Ok(Next::Wait) => break,
                    Ok(Next::End) => has_ended = true,
                    Err(error) => {
                        // What is under way ends, and nothing begins.
                        self.wrong(error.to_string());
                        while !flight.tasks.is_empty() {
                            self.land(&mut flight, ledger).await;
                        }
                        return false;
                    }
                }
            }
            if flight.tasks.is_empty() {
                match flight.alone.pop_front().filter(|_| self.goes_on()) {
                    Some(order) => flight.start(self, PlannedStep { alone: true, ..order }),
                    None if has_ended || !self.goes_on() => return has_ended && self.goes_on(),
                    None => continue,
                }
            }
            self.land(&mut flight, ledger).await;
        }
    }

    fn has_room(&self, flight: &InFlightSteps) -> bool {
        flight.tasks.len() < self.parallel() && self.goes_on()
    }

    /// What keeps all of the source from being done: nothing goes on after it.
    pub(super) fn wrong(&self, reason: String) -> bool {
        let mut shared = self.shared();
        shared.report.source_error.get_or_insert(reason.clone());
        drop(shared);
        self.caller.logger.say(state_core::LogLevel::Error, reason);
        false
    }

    fn take(self: &Arc<Self>, goal: Goal, ledger: &mut Ledger, flight: &mut InFlightSteps) {
        ledger.set(goal.address.clone(), ResourceStatus::UnderWay);
        let order = self.order(goal, ledger);
        match order.rename {
            Some(_) => flight.alone.push_back(order),
            None => flight.start(self, order),
        }
    }

    fn order(&self, goal: Goal, ledger: &Ledger) -> PlannedStep {
        let state = self.recorder.state();
        let provider = goal.options.provider.as_ref().map(|address| Provider {
            address: address.clone(),
            id: ledger
                .committed(address)
                .and_then(|by| by.id().map(str::to_owned)),
        });
        let was_replaced = |address: &&Address| {
            ledger.committed(address).is_some_and(|with| with.was_replaced())
                // An older run replaced it, and may have ended before what goes along with it was.
                || state.generations(address).any(|entry| !entry.is_live())
        };
        // The addresses that the goal goes along with when they are replaced.
        let with = goal.options.replace_with.iter().chain(&goal.options.deleted_with);
        let with: BTreeSet<&Address> = with.filter(was_replaced).collect();
        let replaced = with.into_iter().cloned().collect();
        let has_live = |address: &Address| state.entry(&EntryKey::live(address.clone())).is_some();
        let is_former = |alias: &&Address| has_live(alias) && ledger.standing(alias).is_none();
        let is_taken = state.generations(&goal.address).next().is_some();
        let rename = match is_taken {
            true => None,
            false => goal.options.aliases.iter().find(is_former).cloned(),
        };
        let mut shared = self.shared();
        let anew = goal.needs().into_iter().any(|need| shared.changed.contains(need));
        if anew {
            // What depends on it may see through it what changed.
            shared.changed.insert(goal.address.clone());
        }
        drop(shared);
        PlannedStep {
            is_target: self.is_target(&goal.address),
            anew,
            provider,
            replaced,
            rename,
            goal,
            alone: false,
        }
    }

    /// Waits for one step to end.
    async fn land(&self, flight: &mut InFlightSteps, ledger: &mut Ledger) {
        let Some(landed) = flight.tasks.join_next_with_id().await else {
            return;
        };
        flight.is_alone = false;
        let id = match &landed {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Some(address) = flight.names.remove(&id) else {
            return;
        };
        let landed = landed.map(|(_, landed)| landed);
        let broken = |error| Err(broken(&EntryKey::live(address.clone()), &error));
        match landed.unwrap_or_else(broken) {
            Ok(StepOutcome::Committed(committed)) => {
                ledger.set(address, ResourceStatus::Committed(committed))
            }
            Ok(StepOutcome::NotTargeted) => ledger.set(address, ResourceStatus::NotTargeted),
            Ok(StepOutcome::WantsToBeAlone(order)) => flight.alone.push_back(*order),
            Err(error) => {
                ledger.set(address, ResourceStatus::Failed);
                self.note(error);
            }
        }
    }
}

/// A step's task that didn't end: nobody knows what it did, so what it began stays pending.
pub(super) fn broken(key: &EntryKey, error: &JoinError) -> StepError {
    StepError::early(key, vec![format!("its step ended early: {error}")])
}
