//! A resource of a program: parses its declaration, and evaluates it to the [`Goal`] that the engine plans with.

use super::evaluation::Scope;
use super::expression::Expression;
use super::fields::{Fields, is_name, members, optional_members};
use super::node::{Member, Node, Path, Place};
use super::options::{Naming, Options};
use super::problem::{Problem, Problems};
use super::secret::{token, top_level};
use super::template::CONFIG;
use crate::goal::{Goal, GoalOptions};
use state_core::json::ObjectWriter;
use state_core::{Address, Json, Properties};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One resource of a program.
pub(super) struct Resource {
    /// Position of the name.
    pub(super) place: Place,
    pub(super) kind_place: Place,
    /// The goal without its inputs.
    pub(super) goal: Goal,
    pub(super) inputs: Vec<(String, Expression)>,
    /// The other resources that the options refer to.
    pub(super) named: Vec<Naming>,
}

/// Reads the member `resources`.
pub(super) fn resources(node: &Node, path: &Path<'_>, problems: &mut Problems) -> Vec<Arc<Resource>> {
    let members = members(node, path, problems).unwrap_or_default().iter();
    members
        .filter_map(|member| resource(member, path, problems).map(Arc::new))
        .collect()
}

fn resource(member: &Member, path: &Path<'_>, problems: &mut Problems) -> Option<Resource> {
    const MEMBERS: [&str; 3] = ["kind", "inputs", "options"];
    let has_name = is_name(member, path, problems);
    let path = path.member(&member.name);
    if member.name == CONFIG {
        let reason = "a resource can't be named `config`: references to settings use this name";
        problems.add(Problem::at(member.place, &path, reason).with_hint("rename it"));
    }
    let mut fields = Fields::of(&member.value, &MEMBERS, &path, problems)?;
    if fields.get("kind").is_none() {
        let problem = Problem::at(member.place, &path, "`kind` is missing");
        fields.problem(problem.with_hint("add one, such as `kind: file`"));
    }
    let kind = fields.text("kind");
    let inputs = inputs(fields.get("inputs"), &path.member("inputs"), fields.problems);
    let names: BTreeSet<&str> = inputs.iter().map(|(name, _)| name.as_str()).collect();
    let options = Options::read(
        fields.get("options"),
        &names,
        &path.member("options"),
        fields.problems,
    );
    // A valid name is always a valid address.
    let address = Address::new(member.name.as_str()).ok().filter(|_| has_name)?;
    let kind = kind?;
    let mut goal = Goal::new(address, kind.text);
    goal.sensitive_inputs = options.sensitive_inputs;
    goal.sensitive_outputs = options.sensitive_outputs;
    goal.options = GoalOptions {
        property_dependencies: property_dependencies(&inputs),
        ..options.goal
    };
    Some(Resource {
        place: member.place,
        kind_place: kind.place,
        goal,
        inputs,
        named: options.named,
    })
}

fn inputs(node: Option<&Node>, path: &Path<'_>, problems: &mut Problems) -> Vec<(String, Expression)> {
    let members = optional_members(node, path, problems);
    for member in members.iter().filter(|member| member.name.starts_with('/')) {
        // In a list of secret inputs, an item that begins with `/` is a JSON pointer; any other item is the name of an
        // input.
        let reason = "the name of an input can't begin with `/`";
        problems.add(Problem::at(member.place, &path.member(&member.name), reason));
    }
    Expression::members(members, path, problems)
}

/// Maps each input to the resources that it refers to.
fn property_dependencies(inputs: &[(String, Expression)]) -> BTreeMap<String, Vec<Address>> {
    let mut dependencies = BTreeMap::new();
    for (name, input) in inputs {
        let references = input.references().into_iter();
        let named = references.filter_map(|(_, reference)| reference.resource.as_deref());
        let mut addresses: Vec<Address> = named.filter_map(|name| Address::new(name).ok()).collect();
        addresses.sort();
        addresses.dedup();
        if !addresses.is_empty() {
            dependencies.insert(name.clone(), addresses);
        }
    }
    dependencies
}

impl Resource {
    /// Whether no input refers to another resource.
    pub(super) fn refers_to_no_other(&self) -> bool {
        self.goal.options.property_dependencies.is_empty()
    }

    /// The goal with evaluated inputs. Inputs whose values aren't known yet are left out and listed in
    /// [`Goal::unknown`].
    pub(super) fn evaluated_goal(&self, scope: &Scope<'_>, problems: &mut Problems) -> Goal {
        let mut goal = self.goal.clone();
        let mut text = String::new();
        let mut object = ObjectWriter::new(&mut text);
        for (input, expression) in &self.inputs {
            let evaluated = expression.evaluate(scope, problems);
            evaluated.joined.iter().for_each(|secret| goal.joined.add(secret));
            match evaluated.json {
                Some(json) => {
                    object.raw(input, &json);
                    let first = token(input);
                    let secret = evaluated.secret.iter();
                    let marks = secret.map(|pointer| format!("/{first}{pointer}"));
                    goal.sensitive_inputs.extend(marks);
                }
                None => {
                    goal.unknown.insert(input.clone());
                    let partial = evaluated.partial.and_then(|json| Json::parse(&json).ok());
                    goal.partial_inputs
                        .extend(partial.map(|json| (input.clone(), json)));
                }
            }
        }
        object.finish();
        // A mark that matches no input makes all inputs secret (see `sensitive` in `state-core`), so the marks of
        // inputs that are left out are removed.
        goal.sensitive_inputs
            .retain(|mark| !goal.unknown.contains(&top_level(mark)));
        if problems.is_empty() {
            match Json::parse(&text).map(Properties::new) {
                Ok(inputs) => goal.inputs = inputs.unwrap_or_default(),
                Err(error) => problems.add(self.limit_exceeded(&error.to_string())),
            }
        }
        goal
    }

    /// Reports inputs that exceed the limits of a state, although each value alone is valid.
    fn limit_exceeded(&self, reason: &str) -> Problem {
        let path = format!("resources.{}.inputs", self.goal.address);
        Problem::of(
            self.place,
            path,
            format!("the inputs exceed the limits of a state: {reason}"),
        )
    }
}
