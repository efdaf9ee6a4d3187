//! Whether what a program names is there, and whether resources need each other in a circle.

use super::node::{Path, Place};
use super::output::Output;
use super::problem::{Problem, Problems};
use super::resource::Resource;
use super::setting::Declaration;
use super::template::{CONFIG, Reference};
use state_core::{Address, Dependency, Entry, SharedEntry, dag};
use std::collections::BTreeMap;

/// What can be named.
struct Names<'d> {
    settings: Vec<&'d str>,
    resources: BTreeMap<&'d str, &'d Resource>,
}

/// Tells of every name that nobody has, and of circles.
pub(super) fn check(
    settings: &[Declaration],
    resources: &[Resource],
    outputs: &[Output],
    problems: &mut Problems,
) {
    let names = Names {
        settings: settings
            .iter()
            .map(|declared| declared.setting.name.as_str())
            .collect(),
        resources: resources
            .iter()
            .map(|resource| (resource.goal.address.as_str(), resource))
            .collect(),
    };
    let inputs = resources
        .iter()
        .flat_map(|resource| &resource.inputs)
        .map(|(_, input)| input);
    let values = outputs.iter().map(|output| &output.value);
    for (path, reference) in inputs
        .chain(values)
        .flat_map(|expression| expression.references())
    {
        names.check_reference(path, reference, problems);
    }
    for naming in resources.iter().flat_map(|resource| &resource.named) {
        names.check_resource(naming.address.as_str(), naming.place, &naming.path, problems);
    }
    circles(&names.resources, problems);
}

impl Names<'_> {
    fn check_reference(&self, path: &str, reference: &Reference, problems: &mut Problems) {
        let Reference { place, name, .. } = reference;
        match &reference.resource {
            Some(resource) => self.check_resource(resource, *place, path, problems),
            None if self.settings.contains(&name.as_str()) => {}
            None => {
                let reason =
                    format!("`{reference}` leads nowhere: there is no setting `{name}` under `{CONFIG}`");
                let problem = Problem::of(*place, path.to_owned(), reason);
                problems.add(problem.with_names(name, self.settings.iter().copied()));
            }
        }
    }

    fn check_resource(&self, name: &str, place: Place, path: &str, problems: &mut Problems) {
        if !self.resources.contains_key(name) {
            let reason = format!("there is no resource `{}`", name.escape_debug());
            let problem = Problem::of(place, path.to_owned(), reason);
            problems.add(problem.with_names(name, self.resources.keys().copied()));
        }
    }
}

/// Each circle is named whole, with the place of every step.
fn circles(resources: &BTreeMap<&str, &Resource>, problems: &mut Problems) {
    let mut entries: Vec<SharedEntry> = resources.values().map(|resource| entry(resource)).collect();
    while let Err(circle) = dag::topological_order(&entries) {
        let members: Vec<&Resource> = circle
            .witness
            .iter()
            .filter_map(|key| resources.get(key.address.as_str()).copied())
            .collect();
        let Some(first) = members.first() else {
            return;
        };
        let steps = members.iter().enumerate().map(|(at, resource)| {
            let next = &members.get(at + 1).unwrap_or(first).goal.address;
            format!(
                "{} needs {next} ({})",
                resource.goal.address,
                place_of_need(resource, next)
            )
        });
        let steps: Vec<String> = steps.collect();
        let reason = format!("resources need each other in a circle: {}", steps.join(", "));
        let resources = Path::Whole;
        let resources = resources.member("resources");
        let problem = Problem::at(
            first.place,
            &resources.member(first.goal.address.as_str()),
            reason,
        );
        problems.add(problem.with_hint("take one of these away"));
        // The next one, without this one's members: each is told of once.
        entries.retain(|entry| !circle.witness.iter().any(|key| key.address == entry.address));
    }
}

/// What needs what, as the engine's order sees it.
fn entry(resource: &Resource) -> SharedEntry {
    let goal = &resource.goal;
    let mut entry = Entry::leaf(goal.address.clone(), &goal.kind);
    entry.depends_on = goal.needs().into_iter().cloned().map(Dependency::Entry).collect();
    SharedEntry::new(entry)
}

/// Where a resource says that it needs another.
fn place_of_need(resource: &Resource, needed: &Address) -> Place {
    let inputs = resource.inputs.iter().flat_map(|(_, input)| input.references());
    let references = inputs
        .filter(|(_, reference)| reference.resource.as_deref() == Some(needed.as_str()))
        .map(|(_, reference)| reference.place);
    let named = resource.named.iter().filter(|naming| naming.address == *needed);
    let places = references.chain(named.map(|naming| naming.place));
    places.min().unwrap_or(resource.place)
}
