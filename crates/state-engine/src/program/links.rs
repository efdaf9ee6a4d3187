//! Whether what a program names is there, and whether resources need each other in a circle.

use super::node::Place;
use super::output::Output;
use super::problem::{Problem, Problems};
use super::resource::Resource;
use super::setting::Declaration;
use super::template::{CONFIG, Reference};
use crate::goal::circle;
use state_core::Address;
use std::collections::{BTreeMap, BTreeSet};

/// What can be named.
struct Names<'d> {
    settings: BTreeSet<&'d str>,
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
            None if self.settings.contains(name.as_str()) => {}
            None => {
                let reason =
                    format!("`{reference}` leads nowhere: there is no setting `{name}` under `{CONFIG}`");
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

/// More circles aren't told.
const MOST_CIRCLES: usize = 20;

/// Each circle is named whole, with the place of every step.
fn circles(resources: &BTreeMap<&str, &Resource>, problems: &mut Problems) {
    let mut left = resources.clone();
    for _ in 0..MOST_CIRCLES {
        let goals = left.values().map(|resource| &resource.goal);
        let Some(circle) = circle(goals) else {
            return;
        };
        // The next one, without this one's members: each is told of once.
        let members = circle.iter().filter_map(|address| left.remove(address.as_str()));
        let members: Vec<&Resource> = members.collect();
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
        let path = format!("resources.{}", first.goal.address);
        problems.add(Problem::of(first.place, path, reason).with_hint("take one of these away"));
    }
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
