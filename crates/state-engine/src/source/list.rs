//! A program that is a list of resources.

use super::{Next, Source, SourceOutputs};
use crate::error::{EngineError, Result};
use crate::goal::{Goal, circle};
use crate::ledger::{Ledger, ResourceStatus};
use async_trait::async_trait;
use state_core::Address;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Fills in what only those know that were committed before: inputs made of others' outputs.
type Resolve = Box<dyn Fn(Goal, &Ledger) -> Result<Goal> + Send + Sync>;

/// One resource of a list.
pub struct Declared {
    goal: Goal,
    resolve: Option<Resolve>,
}

impl Declared {
    /// A resource all of which is known.
    pub const fn known(goal: Goal) -> Self {
        Self { goal, resolve: None }
    }

    /// A resource whose inputs are resolved when all that it needs ([`Goal::needs`]) is committed: once for the plan and
    /// once for the run. What it needs must not change by that.
    pub fn resolved(
        goal: Goal,
        resolve: impl Fn(Goal, &Ledger) -> Result<Goal> + Send + Sync + 'static,
    ) -> Self {
        Self {
            goal,
            resolve: Some(Box::new(resolve)),
        }
    }
}

impl fmt::Debug for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Declared").field(&self.goal.address).finish()
    }
}

/// Makes the stack's outputs out of what was committed.
type Outputs = Box<dyn Fn(&Ledger) -> Result<SourceOutputs> + Send + Sync>;

/// A list of resources in any order. Each is registered as soon as all that it needs is committed; of several that are
/// ready the first in the list comes first.
///
/// A resource is looked at again only when what it waits for has landed, so a run costs what its dependencies are, however
/// long the list is.
#[derive(Default)]
pub struct ListSource {
    declared: Vec<Declared>,
    /// Places of those that were not yielded yet.
    left: BTreeSet<usize>,
    /// Places of those that may be ready.
    ready: BTreeSet<usize>,
    /// Places of those that wait, by the first thing that they wait for.
    waiting: BTreeMap<Address, Vec<usize>>,
    /// How many landings were heard of.
    heard: usize,
    outputs: Option<Outputs>,
}

impl ListSource {
    /// A list of resources.
    ///
    /// # Errors
    /// `Twice` for an address that stands there twice; `Source` for one that needs what isn't in the list, and for
    /// resources that need each other in a circle, which is named.
    pub fn new(declared: Vec<Declared>) -> Result<Self> {
        let mut known: BTreeMap<&Address, &Goal> = BTreeMap::new();
        for Declared { goal, .. } in &declared {
            if known.insert(&goal.address, goal).is_some() {
                let address = goal.address.clone();
                return Err(EngineError::Twice { address });
            }
        }
        for goal in known.values() {
            if let Some(nobody) = goal.needs().into_iter().find(|need| !known.contains_key(need)) {
                return Err(EngineError::Source {
                    object: goal.address.to_string(),
                    reason: format!("it needs {nobody}, which the program doesn't have"),
                });
            }
        }
        if let Some(circle) = circle(known.values().copied()) {
            let mut names: Vec<String> = circle.iter().map(ToString::to_string).collect();
            let first = names.first().cloned().unwrap_or_default();
            names.push(first.clone());
            return Err(EngineError::Source {
                object: first,
                reason: format!("resources need each other in a circle: {}", names.join(" -> ")),
            });
        }
        let mut source = Self {
            declared,
            ..Self::default()
        };
        source.restart();
        Ok(source)
    }

    /// The resources that were not yielded yet.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        let left = self.left.iter().filter_map(|place| self.declared.get(*place));
        left.map(|declared| &declared.goal.address)
    }

    /// Those that waited for what has landed since may be ready.
    fn hear(&mut self, ledger: &Ledger) {
        for landed in ledger.landed(self.heard) {
            self.heard += 1;
            self.ready
                .extend(self.waiting.remove(landed).into_iter().flatten());
        }
    }

    /// The same with outputs of the stack.
    #[must_use]
    pub fn with_outputs(
        self,
        outputs: impl Fn(&Ledger) -> Result<SourceOutputs> + Send + Sync + 'static,
    ) -> Self {
        Self {
            outputs: Some(Box::new(outputs)),
            ..self
        }
    }
}

impl fmt::Debug for ListSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListSource")
            .field("left", &self.left.len())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Source for ListSource {
    async fn next(&mut self, ledger: &Ledger) -> Result<Next> {
        self.hear(ledger);
        while let Some(place) = self.ready.pop_first() {
            let Some(declared) = self.declared.get(place) else {
                continue;
            };
            let blocked = match ledger.missing(&declared.goal) {
                None => None,
                Some((needs, Some(ResourceStatus::NotTargeted))) => {
                    Some(format!("it needs {needs}, which is no target and isn't there"))
                }
                Some((needs, Some(ResourceStatus::Failed))) => {
                    Some(format!("it needs {needs}, which failed"))
                }
                Some((needs, Some(ResourceStatus::Skipped))) => {
                    Some(format!("it needs {needs}, which is skipped too"))
                }
                Some((needs, _)) => {
                    self.waiting.entry(needs.clone()).or_default().push(place);
                    continue;
                }
            };
            self.left.remove(&place);
            let goal = declared.goal.clone();
            if let Some(reason) = blocked {
                let address = goal.address;
                return Ok(Next::Blocked { address, reason });
            }
            let goal = match &declared.resolve {
                Some(resolve) => resolve(goal, ledger)?,
                None => goal,
            };
            return ledger.register(goal).map(|ready| Next::Ready(Box::new(ready)));
        }
        Ok(match self.left.is_empty() {
            true => Next::End,
            false => Next::Wait,
        })
    }

    async fn outputs(&mut self, ledger: &Ledger) -> Result<Option<SourceOutputs>> {
        self.outputs.as_ref().map(|outputs| outputs(ledger)).transpose()
    }

    fn restart(&mut self) {
        self.left = (0..self.declared.len()).collect();
        self.ready.clone_from(&self.left);
        self.waiting.clear();
        self.heard = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::{Declared, Goal, ListSource, Next, Source};
    use crate::ledger::{Committed, Ledger, ResourceStatus};
    use crate::planner::goal_entry;
    use state_core::mutation::StackOutputs;

    fn goal(name: usize, needs: &[usize]) -> Goal {
        let address = |name: &usize| format!("r{name}").parse().unwrap();
        let mut goal = Goal::new(address(&name), "thing");
        goal.options.depends_on = needs.iter().map(address).collect();
        goal
    }

    fn list(goals: Vec<Goal>) -> ListSource {
        ListSource::new(goals.into_iter().map(Declared::known).collect()).unwrap()
    }

    /// The names of what is ready now; then it waits.
    async fn ready(source: &mut ListSource, ledger: &mut Ledger) -> Vec<String> {
        let mut names = Vec::new();
        while let Next::Ready(registration) = source.next(ledger).await.unwrap() {
            let address = registration.into_goal().address;
            names.push(address.to_string());
            ledger.set(address, ResourceStatus::UnderWay);
        }
        names
    }

    #[tokio::test]
    async fn of_several_that_are_ready_the_first_in_the_list_comes_first() {
        let mut source = list(vec![
            goal(4, &[0, 3]),
            goal(3, &[1]),
            goal(2, &[0]),
            goal(1, &[]),
            goal(0, &[]),
        ]);
        let mut ledger = Ledger::new(StackOutputs::default());
        assert_eq!(ready(&mut source, &mut ledger).await, ["r1", "r0"]);
        ledger.set("r0".parse().unwrap(), ResourceStatus::Failed);
        let Next::Blocked { address, reason } = source.next(&ledger).await.unwrap() else {
            panic!("what needs r0 comes first");
        };
        assert_eq!((address.as_str(), &*reason), ("r4", "it needs r0, which failed"));
        assert!(matches!(
            source.next(&ledger).await.unwrap(),
            Next::Blocked { .. }
        ));
        assert!(matches!(source.next(&ledger).await.unwrap(), Next::Wait));
        ledger.set("r1".parse().unwrap(), ResourceStatus::Failed);
        assert!(matches!(
            source.next(&ledger).await.unwrap(),
            Next::Blocked { .. }
        ));
        assert!(matches!(source.next(&ledger).await.unwrap(), Next::End));
    }

    /// Gone through anew for each resource, a list as long as this would take minutes.
    #[tokio::test]
    async fn a_long_list_that_stands_the_wrong_way_round_is_gone_through_once() {
        const MANY: usize = 100_000;
        let next = |name: usize| {
            if name + 1 < MANY {
                vec![name + 1]
            } else {
                Vec::new()
            }
        };
        let mut source = list((0..MANY).map(|name| goal(name, &next(name))).collect());
        let mut ledger = Ledger::new(StackOutputs::default());
        for name in (0..MANY).rev() {
            assert_eq!(ready(&mut source, &mut ledger).await, [format!("r{name}")]);
            let entry = goal_entry(&goal(name, &[]), None, None);
            let address = entry.address.clone();
            ledger.set(address, ResourceStatus::Committed(Committed::new(entry.into())));
        }
        assert!(matches!(source.next(&ledger).await.unwrap(), Next::End));
    }
}
