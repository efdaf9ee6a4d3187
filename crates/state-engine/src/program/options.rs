//! The options of a resource.

use super::fields::{Fields, Named};
use super::node::{Node, Path, Place, Value};
use super::problem::{Problem, Problems};
use super::secret::top_level;
use crate::goal::GoalOptions;
use state_core::Address;
use std::collections::BTreeSet;
use std::time::Duration;

/// What a document says of how a resource is handled.
#[derive(Default)]
pub(super) struct Options {
    pub(super) goal: GoalOptions,
    /// Inputs that are secret.
    pub(super) sensitive_inputs: Vec<String>,
    /// Outputs that are secret.
    pub(super) sensitive_outputs: Vec<String>,
    /// The resources that it names.
    pub(super) named: Vec<Naming>,
}

/// A place where a resource is named.
pub(super) struct Naming {
    pub(super) address: Address,
    pub(super) place: Place,
    pub(super) path: String,
}

impl Options {
    const MEMBERS: [&str; 15] = [
        "depends_on",
        "protect",
        "retain_on_delete",
        "parent",
        "deleted_with",
        "replace_with",
        "delete_before_replace",
        "replace_on_changes",
        "ignore_changes",
        "import",
        "read",
        "aliases",
        "timeout",
        "sensitive_inputs",
        "sensitive_outputs",
    ];

    /// Reads the options of a resource with inputs of these names.
    pub(super) fn read(
        node: Option<&Node>,
        inputs: &BTreeSet<&str>,
        path: &Path<'_>,
        problems: &mut Problems,
    ) -> Self {
        let node = node.filter(|node| !matches!(node.value, Value::Null));
        let Some(fields) = node.and_then(|node| Fields::of(node, &Self::MEMBERS, path, problems)) else {
            return Self::default();
        };
        if let (Some(_), Some(read)) = (fields.get("import"), fields.get("read")) {
            let reason = "it can't be imported and read at once: what is read isn't ours";
            problems.add(Problem::at(read.place, &path.member("read"), reason));
        }
        let mut named = Vec::new();
        let goal = GoalOptions {
            depends_on: many(&fields, "depends_on", path, &mut named, problems),
            parent: one(&fields, "parent", path, &mut named, problems),
            deleted_with: one(&fields, "deleted_with", path, &mut named, problems),
            replace_with: many(&fields, "replace_with", path, &mut named, problems),
            protect: fields.flag("protect", problems),
            retain_on_delete: fields.flag("retain_on_delete", problems),
            delete_before_replace: fields.choice("delete_before_replace", problems),
            replace_on_changes: strings(fields.texts("replace_on_changes", problems)),
            ignore_changes: strings(fields.texts("ignore_changes", problems)),
            import: id(&fields, "import", path, problems),
            read: id(&fields, "read", path, problems),
            // Former names are no references: nobody has them any more.
            aliases: many(&fields, "aliases", path, &mut Vec::new(), problems),
            timeout: timeout(&fields, path, problems),
            ..GoalOptions::default()
        };
        Self {
            goal,
            sensitive_inputs: sensitive_inputs(&fields, inputs, path, problems),
            sensitive_outputs: strings(fields.texts("sensitive_outputs", problems)),
            named,
        }
    }
}

fn strings(texts: Vec<Named<'_>>) -> Vec<String> {
    texts.into_iter().map(|text| text.text.to_owned()).collect()
}

/// A list of resources.
fn many(
    fields: &Fields<'_, '_>,
    name: &str,
    path: &Path<'_>,
    named: &mut Vec<Naming>,
    problems: &mut Problems,
) -> Vec<Address> {
    let texts = fields.texts(name, problems).into_iter().enumerate();
    let list = path.member(name);
    texts
        .filter_map(|(at, text)| address(&text, &list.element(at), named, problems))
        .collect()
}

/// A resource.
fn one(
    fields: &Fields<'_, '_>,
    name: &str,
    path: &Path<'_>,
    named: &mut Vec<Naming>,
    problems: &mut Problems,
) -> Option<Address> {
    let text = fields.text(name, problems)?;
    address(&text, &path.member(name), named, problems)
}

fn address(
    text: &Named<'_>,
    path: &Path<'_>,
    named: &mut Vec<Naming>,
    problems: &mut Problems,
) -> Option<Address> {
    match Address::new(text.text) {
        Ok(address) => {
            named.push(Naming {
                address: address.clone(),
                place: text.place,
                path: path.to_string(),
            });
            Some(address)
        }
        Err(error) => {
            problems.add(Problem::at(text.place, path, error.to_string()));
            None
        }
    }
}

/// The provider's name for an object.
fn id(fields: &Fields<'_, '_>, name: &str, path: &Path<'_>, problems: &mut Problems) -> Option<String> {
    let text = fields.text(name, problems)?;
    if text.text.is_empty() {
        problems.add(Problem::at(text.place, &path.member(name), "an id is not empty"));
    }
    Some(text.text.to_owned())
}

fn timeout(fields: &Fields<'_, '_>, path: &Path<'_>, problems: &mut Problems) -> Option<Duration> {
    let text = fields.text("timeout", problems)?;
    let parsed: Option<jiff::SignedDuration> = text.text.parse().ok();
    let duration = parsed.and_then(|duration| Duration::try_from(duration).ok());
    let duration = duration.filter(|duration| !duration.is_zero());
    if duration.is_none() {
        let problem = Problem::at(text.place, &path.member("timeout"), "it isn't a duration");
        problems.add(problem.with_hint("write a number with a unit, such as `30s` or `5m`"));
    }
    duration
}

/// Marks lead to inputs that are there: one that leads nowhere would cover all of them.
fn sensitive_inputs(
    fields: &Fields<'_, '_>,
    inputs: &BTreeSet<&str>,
    path: &Path<'_>,
    problems: &mut Problems,
) -> Vec<String> {
    let texts = fields.texts("sensitive_inputs", problems);
    let path = path.member("sensitive_inputs");
    for (at, text) in texts.iter().enumerate() {
        let name = top_level(text.text);
        if !inputs.contains(name.as_str()) {
            let reason = format!("there is no input `{}`", name.escape_debug());
            let problem = Problem::at(text.place, &path.element(at), reason);
            problems.add_named(problem, &name, inputs.iter().copied());
        }
    }
    strings(texts)
}
