//! Checks of a whole program: references resolve, dependencies have no cycle, inputs match their kinds, and
//! references name existing outputs.

use super::expression::{Expression, Form};
use super::node::Place;
use super::output::Output;
use super::problem::{Problem, Problems};
use super::resource::Resource;
use super::setting::Declaration;
use super::template::{CONFIG, ID, Reference};
use crate::goal::circle;
use crate::kind::{InputProperty, KindDescription};
use crate::registry::Registry;
use state_core::{Address, Json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The names that a reference can use.
struct Names<'d> {
    settings: BTreeSet<&'d str>,
    resources: BTreeMap<&'d str, &'d Resource>,
}

/// Reports unresolved names and dependency cycles.
pub(super) fn links(
    settings: &[Declaration],
    resources: &[Arc<Resource>],
    outputs: &[Output],
    problems: &mut Problems,
) {
    let settings = settings.iter().map(|declared| declared.setting.name.as_str());
    let by_name = resources
        .iter()
        .map(|resource| (resource.goal.address.as_str(), &**resource));
    let names = Names {
        settings: settings.collect(),
        resources: by_name.collect(),
    };
    for (path, reference) in references(resources, outputs) {
        names.check_reference(path, reference, problems);
    }
    for naming in resources.iter().flat_map(|resource| &resource.named) {
        names.check_resource(naming.address.as_str(), naming.place, &naming.path, problems);
    }
    circles(&names.resources, problems);
}

/// Every reference in the inputs and outputs of a program, with the path of the value that contains it.
fn references<'d>(
    resources: &'d [Arc<Resource>],
    outputs: &'d [Output],
) -> impl Iterator<Item = (&'d str, &'d Reference)> {
    let inputs = resources.iter().flat_map(|resource| &resource.inputs);
    let values = outputs.iter().map(|output| &output.value);
    let all = inputs.map(|(_, input)| input).chain(values);
    all.flat_map(Expression::references)
}

impl Names<'_> {
    fn check_reference(&self, path: &str, reference: &Reference, problems: &mut Problems) {
        let Reference { place, name, .. } = reference;
        match &reference.resource {
            Some(resource) => self.check_resource(resource, *place, path, problems),
            None if self.settings.contains(name.as_str()) => {}
            None => {
                let reason =
                    format!("`{reference}` can't be resolved: there is no setting `{name}` under `{CONFIG}`");
                let problem = Problem::of(*place, path.to_owned(), reason);
                problems.add_named(problem, name, self.settings.iter().copied());
            }
        }
    }

    fn check_resource(&self, name: &str, place: Place, path: &str, problems: &mut Problems) {
        if !self.resources.contains_key(name) {
            let reason = format!("there is no resource `{}`", name.escape_debug());
            let problem = Problem::of(place, path.to_owned(), reason);
            problems.add_named(problem, name, self.resources.keys().copied());
        }
    }
}

/// Maximum number of reported cycles.
const MAX_CYCLES: usize = 20;

/// Reports each dependency cycle as one problem that lists all its dependencies with their positions.
fn circles(resources: &BTreeMap<&str, &Resource>, problems: &mut Problems) {
    let mut left = resources.clone();
    for _ in 0..MAX_CYCLES {
        let goals = left.values().map(|resource| &resource.goal);
        let Some(circle) = circle(goals) else {
            return;
        };
        // Removes the members of this cycle, so that the next search finds another cycle.
        let members = circle.iter().filter_map(|address| left.remove(address.as_str()));
        let members: Vec<&Resource> = members.collect();
        let Some(first) = members.first() else {
            return;
        };
        let steps = members.iter().enumerate().map(|(at, resource)| {
            let next = &members.get(at + 1).unwrap_or(first).goal.address;
            let place = dependency_place(resource, next);
            format!("{} depends on {next} ({place})", resource.goal.address)
        });
        let steps: Vec<String> = steps.collect();
        let reason = format!("dependency cycle: {}", steps.join(", "));
        let path = format!("resources.{}", first.goal.address);
        problems.add(Problem::of(first.place, path, reason).with_hint("remove one of these dependencies"));
    }
}

/// The first position at which `resource` refers to `needed`, one of its dependencies.
fn dependency_place(resource: &Resource, needed: &Address) -> Place {
    let inputs = resource.inputs.iter().flat_map(|(_, input)| input.references());
    let references = inputs
        .filter(|(_, reference)| reference.resource.as_deref() == Some(needed.as_str()))
        .map(|(_, reference)| reference.place);
    let named = resource.named.iter().filter(|naming| naming.address == *needed);
    let places = references.chain(named.map(|naming| naming.place));
    places.min().unwrap_or(resource.place)
}

/// Reports unknown kinds, inputs that the description of their kind doesn't allow, and references to outputs that the
/// description doesn't list.
pub(super) fn kinds(
    resources: &[Arc<Resource>],
    outputs: &[Output],
    registry: &Registry,
    problems: &mut Problems,
) {
    let mut kinds = BTreeMap::new();
    for resource in resources {
        let Resource { goal, kind_place, .. } = &**resource;
        if !registry.contains(&goal.kind) {
            let path = format!("resources.{}.kind", goal.address);
            let reason = format!("unknown kind `{}`", goal.kind.escape_debug());
            let problem = Problem::of(*kind_place, path, reason);
            problems.add_named(problem, &goal.kind, registry.kinds());
        }
        let Some(kind) = registry.describe(&goal.kind) else {
            continue;
        };
        kinds.insert(goal.address.as_str(), kind);
        // An external object, which the option `read` names, needs no inputs. So its inputs aren't checked.
        if goal.options.read.is_none() {
            inputs(resource, &kind, problems);
        }
    }
    for (path, reference) in references(resources, outputs) {
        let kind = reference.resource.as_deref().and_then(|name| kinds.get(name));
        if let Some(kind) = kind {
            check_output(path, reference, kind, problems);
        }
    }
}

fn inputs(resource: &Resource, kind: &KindDescription, problems: &mut Problems) {
    // Ignored inputs take their recorded values, so their values in the program aren't checked.
    let ignored = &resource.goal.options.ignore_changes;
    let is_ignored = |name: &str| ignored.iter().any(|ignored| ignored == name);
    for (name, value) in &resource.inputs {
        match kind.input(name) {
            Some(_) if is_ignored(name) => {}
            Some(property) => {
                if let Some(reason) = wrong(property, value) {
                    problems.add(value.problem(reason));
                }
            }
            None => {
                let problem = value.problem(kind.no_input_message(name));
                let names = kind.inputs.iter().map(|input| input.name);
                problems.add_named(problem, name, names);
            }
        }
    }
    let is_given = |name: &str| is_ignored(name) || resource.inputs.iter().any(|(given, _)| given == name);
    for missing in kind.missing(is_given) {
        let path = format!("resources.{}.inputs", resource.goal.address);
        problems.add(Problem::of(resource.place, path, missing.missing_message()));
    }
}

/// Checks a value without resolving its references. Returns the problem, or `None` if the literal parts of the value
/// show no problem. A string with embedded references stays a string for all their values, so it is checked as a
/// string.
fn wrong(property: &InputProperty, value: &Expression) -> Option<String> {
    match &value.form {
        Form::Plain(json) => property.problem(Json::parse(json).ok()?.view()),
        Form::Joined(_) if !property.takes.takes_text() => property.problem(Json::from_string("").view()),
        _ => None,
    }
}

fn check_output(path: &str, reference: &Reference, kind: &KindDescription, problems: &mut Problems) {
    let Reference { place, name, .. } = reference;
    if name == ID || kind.has_output(name) {
        return;
    }
    let reason = format!(
        "`{reference}` can't be resolved: a `{}` has no output `{name}`",
        kind.kind
    );
    let problem = Problem::of(*place, path.to_owned(), reason);
    let names = kind.outputs.iter().map(|output| output.name);
    problems.add_named(problem, name, names.chain([ID]));
}
