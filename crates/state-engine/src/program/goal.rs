//! What is wanted of a resource, once all that it refers to is known.

use super::evaluation::Scope;
use super::problem::{Problem, Problems, ProgramError};
use super::resource::Resource;
use super::secret::{token, top_level};
use crate::goal::Goal;
use state_core::json::ObjectWriter;
use state_core::{Json, Properties};

/// The inputs of a resource, with what is needed to fill them in.
pub(super) struct Inputs {
    resource: Resource,
}

impl Inputs {
    pub(super) const fn of(resource: Resource) -> Self {
        Self { resource }
    }

    /// The goal as far as the document says it: what it needs is all there.
    pub(super) const fn goal(&self) -> &Goal {
        &self.resource.goal
    }

    /// Tells what is wrong with the inputs, as far as it can be known yet.
    pub(super) fn check(&self, scope: &Scope<'_>, problems: &mut Problems) {
        for (_, input) in &self.resource.inputs {
            input.evaluate(scope, problems);
        }
    }

    /// The goal with its inputs. Of one that isn't known yet the name is noted.
    pub(super) fn fill(&self, mut goal: Goal, name: &str, scope: &Scope<'_>) -> Result<Goal, ProgramError> {
        let mut problems = Problems::default();
        let mut text = String::new();
        let mut object = ObjectWriter::new(&mut text);
        for (input, expression) in &self.resource.inputs {
            let evaluated = expression.evaluate(scope, &mut problems);
            evaluated.joined.iter().for_each(|secret| goal.joined.add(secret));
            match evaluated.json {
                Some(json) => {
                    object.raw(input, &json);
                    let first = token(input);
                    let secret = evaluated
                        .secret
                        .iter()
                        .map(|pointer| format!("/{first}{pointer}"));
                    goal.sensitive_inputs.extend(secret);
                }
                None => {
                    goal.unknown.insert(input.clone());
                }
            }
        }
        object.finish();
        // A mark that leads to what is left out would cover all that is there.
        goal.sensitive_inputs
            .retain(|mark| !goal.unknown.contains(&top_level(mark)));
        if problems.is_empty() {
            match Json::parse(&text).map(Properties::new) {
                Ok(inputs) => goal.inputs = inputs.unwrap_or_default(),
                Err(error) => problems.add(self.too_much(&error.to_string())),
            }
        }
        problems.none_in(name, goal)
    }

    /// Values that are in a state are right; together they may be too deep for one.
    fn too_much(&self, reason: &str) -> Problem {
        let path = format!("resources.{}.inputs", self.resource.goal.address);
        Problem::of(
            self.resource.place,
            path,
            format!("the inputs are too much for a state: {reason}"),
        )
    }
}
