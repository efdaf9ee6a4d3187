//! A resource of a program: what is read of it, and the goal that it is once all that it refers to is known.

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

/// What a program wants of one resource.
pub(super) struct Resource {
    /// Where its name stands.
    pub(super) place: Place,
    pub(super) kind_place: Place,
    /// All but its inputs.
    pub(super) goal: Goal,
    pub(super) inputs: Vec<(String, Expression)>,
    /// The other resources that its options name.
    pub(super) named: Vec<Naming>,
}

/// Reads `resources`.
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
        let reason = "no resource is called `config`: references to settings begin so";
        problems.add(Problem::at(member.place, &path, reason).with_hint("give it another name"));
    }
    let mut fields = Fields::of(&member.value, &MEMBERS, &path, problems)?;
    if fields.get("kind").is_none() {
        let problem = Problem::at(member.place, &path, "it has no `kind`");
        fields.problem(problem.with_hint("say what it is, such as `kind: file`"));
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
    // A name that is right is an address.
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
        // Marks of secrets tell names from pointers by it.
        let reason = "the name of an input doesn't begin with `/`";
        problems.add(Problem::at(member.place, &path.member(&member.name), reason));
    }
    Expression::members(members, path, problems)
}

/// Which resources each input refers to.
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
    /// Whether its inputs are the same whatever becomes of other resources.
    pub(super) fn refers_to_no_other(&self) -> bool {
        self.goal.options.property_dependencies.is_empty()
    }

    /// The goal with its inputs. Of one that isn't known yet the name is noted.
    pub(super) fn filled(&self, scope: &Scope<'_>, problems: &mut Problems) -> Goal {
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
        goal
    }

    /// Values that are in a state are right; together they may be too deep for one.
    fn too_much(&self, reason: &str) -> Problem {
        let path = format!("resources.{}.inputs", self.goal.address);
        Problem::of(
            self.place,
            path,
            format!("the inputs are too much for a state: {reason}"),
        )
    }
}
