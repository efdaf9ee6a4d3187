//! A source that is a fixed list of resources.

use super::{Next, Source, SourceOutputs};
use crate::error::{EngineError, Result};
use crate::goal::{Goal, circle};
use crate::ledger::{Ledger, ResourceStatus};
use async_trait::async_trait;
use state_core::Address;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Computes inputs from the outputs of planned or committed dependencies.
type Resolve = Box<dyn Fn(Goal, &Ledger) -> Result<Goal> + Send + Sync>;

/// One resource of a list, with a function that resolves its inputs.
pub struct DeclaredResource {
    goal: Goal,
    resolve: Option<Resolve>,
}

impl DeclaredResource {
    /// A resource whose inputs are all known.
    pub const fn known(goal: Goal) -> Self {
        Self { goal, resolve: None }
    }

    /// A resource with inputs that `resolve` computes. The source calls `resolve` after all dependencies
    /// ([`Goal::needs`]) are committed: once for the plan, with the planned entries, and once for the run, with the
    /// recorded entries. `resolve` must not change the dependencies of the goal. The goal must name each input that
    /// `resolve` computes in [`GoalOptions::property_dependencies`](crate::GoalOptions): an output can come from a
    /// manipulated state, so the engine doesn't treat a command in such an input as a command of the program.
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

impl fmt::Debug for DeclaredResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeclaredResource")
            .field(&self.goal.address)
            .finish()
    }
}

/// Computes the stack outputs from the committed resources.
type Outputs = Box<dyn Fn(&Ledger) -> Result<SourceOutputs> + Send + Sync>;

/// A list of resources in any order. Each resource is registered as soon as its dependencies are committed; of
/// several ready resources the first in the list is registered first.
///
/// A waiting resource is examined again only when the dependency that it waits for has ended: it was committed, failed
/// or skipped. So the cost of a run grows with the number of dependencies and not with the square of the list's length.
#[derive(Default)]
pub struct ListSource {
    declared: Vec<DeclaredResource>,
    /// List positions of the resources that were not yielded yet.
    left: BTreeSet<usize>,
    /// List positions of the resources that may be ready.
    ready: BTreeSet<usize>,
    /// List positions of waiting resources, by the first uncommitted dependency.
    waiting: BTreeMap<Address, Vec<usize>>,
    /// The number of ended resources in the ledger that `mark_ready` has handled.
    seen: usize,
    outputs: Option<Outputs>,
}

impl ListSource {
    /// Creates a source from a list of resources.
    ///
    /// # Errors
    /// `AlreadyRegistered` for an address that occurs twice. `Source` for a dependency that isn't in the list, and for
    /// a dependency cycle, whose resources the error names.
    pub fn new(declared: Vec<DeclaredResource>) -> Result<Self> {
        let mut known: BTreeMap<&Address, &Goal> = BTreeMap::new();
        for DeclaredResource { goal, .. } in &declared {
            if known.insert(&goal.address, goal).is_some() {
                let address = goal.address.clone();
                return Err(EngineError::AlreadyRegistered { address });
            }
        }
        for goal in known.values() {
            if let Some(unknown) = goal.needs().into_iter().find(|need| !known.contains_key(need)) {
                return Err(EngineError::Source {
                    object: goal.address.to_string(),
                    reason: format!("depends on {unknown}, which the program doesn't contain"),
                });
            }
        }
        if let Some(circle) = circle(known.values().copied()) {
            let mut names: Vec<String> = circle.iter().map(ToString::to_string).collect();
            let first = names.first().cloned().unwrap_or_default();
            names.push(first.clone());
            return Err(EngineError::Source {
                object: first,
                reason: format!("dependency cycle: {}", names.join(" -> ")),
            });
        }
        let mut source = Self {
            declared,
            ..Self::default()
        };
        source.restart();
        Ok(source)
    }

    /// Returns the addresses of the resources that this source hasn't yielded yet.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        let left = self.left.iter().filter_map(|place| self.declared.get(*place));
        left.map(|declared| &declared.goal.address)
    }

    /// Adds to `ready` the resources whose awaited dependency has ended.
    fn mark_ready(&mut self, ledger: &Ledger) {
        for ended in ledger.ended(self.seen) {
            self.seen += 1;
            self.ready
                .extend(self.waiting.remove(ended).into_iter().flatten());
        }
    }

    /// Adds a function that computes the stack outputs.
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
        self.mark_ready(ledger);
        while let Some(place) = self.ready.pop_first() {
            let Some(declared) = self.declared.get(place) else {
                continue;
            };
            let blocked = match ledger.missing(&declared.goal) {
                None => None,
                Some((needs, Some(ResourceStatus::NotTargeted))) => {
                    Some(format!("its dependency {needs} isn't a target and doesn't exist"))
                }
                Some((needs, Some(ResourceStatus::Failed))) => Some(format!("its dependency {needs} failed")),
                Some((needs, Some(ResourceStatus::Skipped))) => {
                    Some(format!("its dependency {needs} was skipped"))
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

    fn known_goals(&self) -> Vec<&Goal> {
        let is_known = |declared: &&DeclaredResource| {
            // A goal without unknown inputs doesn't say which inputs its function will change.
            declared.resolve.is_none() || !declared.goal.unknown.is_empty()
        };
        let known = self.declared.iter().filter(is_known);
        known.map(|declared| &declared.goal).collect()
    }

    fn restart(&mut self) {
        self.left = (0..self.declared.len()).collect();
        self.ready.clone_from(&self.left);
        self.waiting.clear();
        self.seen = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::{DeclaredResource, Goal, ListSource, Next, Source};
    use crate::ledger::{CommittedResource, Ledger, ResourceStatus};
    use crate::planner::goal_entry;
    use state_core::mutation::StackOutputs;

    fn goal(name: usize, needs: &[usize]) -> Goal {
        let address = |name: &usize| format!("r{name}").parse().unwrap();
        let mut goal = Goal::new(address(&name), "thing");
        goal.options.depends_on = needs.iter().map(address).collect();
        goal
    }

    fn list(goals: Vec<Goal>) -> ListSource {
        ListSource::new(goals.into_iter().map(DeclaredResource::known).collect()).unwrap()
    }

    /// Takes all resources that are ready now from the source, and returns their names.
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
    async fn first_ready_resource_of_the_list_is_yielded_first() {
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
            panic!("the first listed resource that depends on r0 must be blocked");
        };
        assert_eq!((address.as_str(), &*reason), ("r4", "its dependency r0 failed"));
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

    /// With a scan of the whole list for each resource, a list of this length would take minutes.
    #[tokio::test]
    async fn long_reversed_list_is_processed_in_linear_time() {
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
            ledger.set(
                address,
                ResourceStatus::Committed(CommittedResource::new(entry.into())),
            );
        }
        assert!(matches!(source.next(&ledger).await.unwrap(), Next::End));
    }
}
