//! A program that is a list of resources.

use super::{Next, Source, SourceOutputs};
use crate::error::{EngineError, Result};
use crate::goal::{Goal, circle};
use crate::ledger::{Ledger, Standing};
use async_trait::async_trait;
use state_core::Address;
use std::collections::BTreeMap;
use std::fmt;

/// Fills in what only those know that were committed before: inputs made of others' outputs.
type Resolve = Box<dyn FnOnce(Goal, &Ledger) -> Result<Goal> + Send>;

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

    /// A resource whose inputs are resolved when all that it needs ([`Goal::needs`]) is committed. What it needs must
    /// not change by that.
    pub fn resolved(
        goal: Goal,
        resolve: impl FnOnce(Goal, &Ledger) -> Result<Goal> + Send + 'static,
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
type Outputs = Box<dyn FnOnce(&Ledger) -> Result<SourceOutputs> + Send>;

/// A list of resources in any order. Each is registered as soon as all that it needs is committed; of several that are
/// ready the first in the list comes first.
#[derive(Default)]
pub struct ListSource {
    waiting: Vec<Declared>,
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
        Ok(Self {
            waiting: declared,
            outputs: None,
        })
    }

    /// The resources that were not yielded yet.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.waiting.iter().map(|declared| &declared.goal.address)
    }

    /// The same with outputs of the stack.
    #[must_use]
    pub fn with_outputs(
        self,
        outputs: impl FnOnce(&Ledger) -> Result<SourceOutputs> + Send + 'static,
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
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Source for ListSource {
    async fn next(&mut self, ledger: &Ledger) -> Result<Next> {
        let mut place = 0;
        while let Some(declared) = self.waiting.get(place) {
            match ledger.missing(&declared.goal) {
                None => {
                    let Declared { goal, resolve } = self.waiting.remove(place);
                    let goal = match resolve {
                        Some(resolve) => resolve(goal, ledger)?,
                        None => goal,
                    };
                    return ledger.register(goal).map(|ready| Next::Ready(Box::new(ready)));
                }
                Some((needs, Some(Standing::Failed | Standing::NotTargeted))) => {
                    let reason = match ledger.standing(needs) {
                        Some(Standing::NotTargeted) => {
                            format!("it needs {needs}, which is no target and isn't there")
                        }
                        _ => format!("it needs {needs}, which failed"),
                    };
                    let address = self.waiting.remove(place).goal.address;
                    return Ok(Next::Blocked { address, reason });
                }
                Some(_) => place += 1,
            }
        }
        Ok(if self.waiting.is_empty() {
            Next::End
        } else {
            Next::Wait
        })
    }

    async fn outputs(&mut self, ledger: &Ledger) -> Result<Option<SourceOutputs>> {
        self.outputs.take().map(|outputs| outputs(ledger)).transpose()
    }
}
