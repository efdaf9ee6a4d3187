//! Whether resources are what their kinds take, and references lead to what kinds give.

use super::expression::{Expression, Form};
use super::output::Output;
use super::problem::{Problem, Problems};
use super::resource::Resource;
use super::template::{ID, Reference};
use crate::kind::{InputProperty, KindDescription};
use crate::registry::Registry;
use state_core::Json;
use std::collections::BTreeMap;

/// Tells of kinds that nobody is in charge of, and of what their providers say is wrong.
pub(super) fn check(
    resources: &[Resource],
    outputs: &[Output],
    registry: &Registry,
    problems: &mut Problems,
) {
    let mut kinds = BTreeMap::new();
    for resource in resources {
        let Resource { goal, kind_place, .. } = resource;
        if !registry.knows(&goal.kind) {
            let path = format!("resources.{}.kind", goal.address);
            let reason = format!("nobody is in charge of the kind `{}`", goal.kind.escape_debug());
            let problem = Problem::of(*kind_place, path, reason);
            problems.add_named(problem, &goal.kind, registry.kinds());
        }
        let Some(kind) = registry.describe(&goal.kind) else {
            continue;
        };
        kinds.insert(goal.address.as_str(), kind);
        // What is only read needs no inputs.
        if goal.options.read.is_none() {
            inputs(resource, &kind, problems);
        }
    }
    let inputs = resources.iter().flat_map(|resource| &resource.inputs);
    let values = outputs.iter().map(|output| &output.value);
    for expression in inputs.map(|(_, input)| input).chain(values) {
        for (path, reference) in expression.references() {
            let kind = reference.resource.as_deref().and_then(|name| kinds.get(name));
            if let Some(kind) = kind {
                leads_somewhere(path, reference, kind, problems);
            }
        }
    }
}

fn inputs(resource: &Resource, kind: &KindDescription, problems: &mut Problems) {
    // What is recorded stands in for these.
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
                let problem = value.problem(kind.has_no_input(name));
                let names = kind.inputs.iter().map(|input| input.name);
                problems.add_named(problem, name, names);
            }
        }
    }
    let is_given = |name: &str| is_ignored(name) || resource.inputs.iter().any(|(given, _)| given == name);
    for missing in kind.missing(is_given) {
        let path = format!("resources.{}.inputs", resource.goal.address);
        problems.add(Problem::of(resource.place, path, missing.is_missing()));
    }
}

/// What is wrong with a value, as far as it is known before its references are.
fn wrong(property: &InputProperty, value: &Expression) -> Option<String> {
    match &value.form {
        Form::Plain(json) => property.problem(Json::parse(json).ok()?.view()),
        Form::Joined(_) if !property.takes.takes_text() => property.problem(Json::from_string("").view()),
        _ => None,
    }
}

fn leads_somewhere(path: &str, reference: &Reference, kind: &KindDescription, problems: &mut Problems) {
    let Reference { place, name, .. } = reference;
    if name == ID || kind.gives(name) {
        return;
    }
    let reason = format!(
        "`{reference}` leads nowhere: a `{}` has no output `{name}`",
        kind.kind
    );
    let problem = Problem::of(*place, path.to_owned(), reason);
    let names = kind.outputs.iter().map(|output| output.name);
    problems.add_named(problem, name, names.chain([ID]));
}
