//! Reads the member `options` of a resource in a program document.

use super::fields::{Fields, Named};
use super::node::{Node, Path, Place, Value};
use super::problem::{Problem, Problems};
use super::secret::top_level;
use crate::goal::GoalOptions;
use state_core::Address;
use std::collections::BTreeSet;
use std::time::Duration;

/// The options of a resource.
#[derive(Default)]
pub(super) struct Options {
    pub(super) goal: GoalOptions,
    /// The secret inputs: names of top-level inputs, or JSON pointers.
    pub(super) sensitive_inputs: Vec<String>,
    /// The secret outputs: names of top-level outputs, or JSON pointers.
    pub(super) sensitive_outputs: Vec<String>,
    /// The resources that the options refer to, each with the position of the reference. `aliases` are former names of
    /// the resource, so they aren't included.
    pub(super) named: Vec<Naming>,
}

/// A reference from an option to a resource, such as one item of `depends_on`.
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

    /// Reads the options of a resource. `inputs` contains the names of the resource's inputs.
    pub(super) fn read(
        node: Option<&Node>,
        inputs: &BTreeSet<&str>,
        path: &Path<'_>,
        problems: &mut Problems,
    ) -> Self {
        let node = node.filter(|node| !matches!(node.value, Value::Null));
        let Some(mut fields) = node.and_then(|node| Fields::of(node, &Self::MEMBERS, path, problems)) else {
            return Self::default();
        };
        if let (Some(_), Some(read)) = (fields.get("import"), fields.get("read")) {
            let reason = "`import` and `read` can't be combined: the stack doesn't manage an object that it only reads";
            fields.problem(Problem::at(read.place, &path.member("read"), reason));
        }
        let mut named = Vec::new();
        let goal = GoalOptions {
            depends_on: fields.many("depends_on", &mut named),
            parent: fields.one("parent", &mut named),
            deleted_with: fields.one("deleted_with", &mut named),
            replace_with: fields.many("replace_with", &mut named),
            protect: fields.flag("protect"),
            retain_on_delete: fields.flag("retain_on_delete"),
            delete_before_replace: fields.choice("delete_before_replace"),
            replace_on_changes: fields.strings("replace_on_changes"),
            ignore_changes: fields.strings("ignore_changes"),
            import: fields.id("import"),
            read: fields.id("read"),
            // Former names aren't references, so they need not be names of resources in the program.
            aliases: fields.many("aliases", &mut Vec::new()),
            timeout: fields.timeout(),
            ..GoalOptions::default()
        };
        Self {
            goal,
            sensitive_inputs: fields.sensitive_inputs(inputs),
            sensitive_outputs: fields.strings("sensitive_outputs"),
            named,
        }
    }
}

impl Fields<'_, '_> {
    fn strings(&mut self, name: &str) -> Vec<String> {
        let texts = self.texts(name).into_iter();
        texts.map(|text| text.text.to_owned()).collect()
    }

    /// Reads a list of resource names.
    fn many(&mut self, name: &str, named: &mut Vec<Naming>) -> Vec<Address> {
        let list = self.path.member(name);
        let texts = self.texts(name).into_iter().enumerate();
        texts
            .filter_map(|(at, text)| self.address(&text, &list.element(at), named))
            .collect()
    }

    /// Reads one resource name.
    fn one(&mut self, name: &str, named: &mut Vec<Naming>) -> Option<Address> {
        let text = self.text(name)?;
        self.address(&text, &self.path.member(name), named)
    }

    fn address(&mut self, text: &Named<'_>, path: &Path<'_>, named: &mut Vec<Naming>) -> Option<Address> {
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
                self.problem(Problem::at(text.place, path, error.to_string()));
                None
            }
        }
    }

    /// Reads an option that is the provider's id of an object.
    fn id(&mut self, name: &str) -> Option<String> {
        let text = self.text(name)?;
        if text.text.is_empty() {
            self.problem(Problem::at(
                text.place,
                &self.path.member(name),
                "an id can't be empty",
            ));
        }
        Some(text.text.to_owned())
    }

    fn timeout(&mut self) -> Option<Duration> {
        let text = self.text("timeout")?;
        let parsed: Option<jiff::SignedDuration> = text.text.parse().ok();
        let duration = parsed.and_then(|duration| Duration::try_from(duration).ok());
        let duration = duration.filter(|duration| !duration.is_zero());
        if duration.is_none() {
            let problem = Problem::at(text.place, &self.path.member("timeout"), "invalid duration");
            self.problem(problem.with_hint("write a number with a unit, such as `30s` or `5m`"));
        }
        duration
    }

    /// Reads the list of secret inputs. An item that names no input is reported: `state_core::sensitive` makes all
    /// inputs secret if it finds such an item, so one typing error would hide every input.
    fn sensitive_inputs(&mut self, inputs: &BTreeSet<&str>) -> Vec<String> {
        let path = self.path.member("sensitive_inputs");
        let texts = self.texts("sensitive_inputs");
        for (at, text) in texts.iter().enumerate() {
            let name = top_level(text.text);
            if !inputs.contains(name.as_str()) {
                let reason = format!("there is no input `{}`", name.escape_debug());
                let problem = Problem::at(text.place, &path.element(at), reason);
                self.problems.add_named(problem, &name, inputs.iter().copied());
            }
        }
        texts.into_iter().map(|text| text.text.to_owned()).collect()
    }
}
