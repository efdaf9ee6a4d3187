//! What is wanted of one resource.

use state_core::sensitive::SecretStrings;
use state_core::{Address, Dependency, Entry, Properties, SharedEntry, dag};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What a program wants of one resource. Whether it means a create, an update, a replacement or nothing is for the
/// planner to say.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Goal {
    /// Its name in the stack.
    pub address: Address,
    /// Its type: names the provider in the registry.
    pub kind: String,
    /// What is asked for. Of what isn't known yet (only in previews) the input is left out and named in `unknown`.
    pub inputs: Properties,
    /// Which inputs are secret: names of top-level inputs, or JSON pointers.
    pub sensitive_inputs: Vec<String>,
    /// Which outputs are secret, beside those that the provider says.
    pub sensitive_outputs: Vec<String>,
    /// Names of top-level inputs whose values nobody knows yet, because they come from what a preview doesn't do.
    pub unknown: BTreeSet<String>,
    /// How it is handled.
    pub options: GoalOptions,
    /// Secrets that were joined to longer texts in the inputs. They are never recorded.
    pub(crate) joined: SecretStrings,
}

/// How a resource is handled.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct GoalOptions {
    /// What it stands after.
    pub depends_on: Vec<Address>,
    /// Which resources each input came from.
    pub property_dependencies: BTreeMap<String, Vec<Address>>,
    /// The resource that contains it.
    pub parent: Option<Address>,
    /// The resource that is its provider, if the provider is one.
    pub provider: Option<Address>,
    /// Deleting or replacing it is refused.
    pub protect: bool,
    /// When it leaves the program the object stays.
    pub retain_on_delete: bool,
    /// It goes when this one goes, so it is never deleted by itself; and it is replaced when this one is.
    pub deleted_with: Option<Address>,
    /// It is replaced when one of these is.
    pub replace_with: Vec<Address>,
    /// Which way round a replacement goes; none: as the provider says.
    pub delete_before_replace: Option<bool>,
    /// A change of one of these top-level inputs replaces it.
    pub replace_on_changes: Vec<String>,
    /// Changes of these top-level inputs are ignored.
    pub ignore_changes: Vec<String>,
    /// Take over the object with this id instead of making one.
    pub import: Option<String>,
    /// Read the object with this id; it isn't ours, so it is never changed.
    pub read: Option<String>,
    /// Former names: an entry under one of them is this one.
    pub aliases: Vec<Address>,
    /// How long one call of the provider may take; none: as the run says.
    pub timeout: Option<Duration>,
}

impl Goal {
    /// A resource without inputs and options.
    pub fn new(address: Address, kind: impl Into<String>) -> Self {
        Self {
            address,
            kind: kind.into(),
            inputs: Properties::empty(),
            sensitive_inputs: Vec::new(),
            sensitive_outputs: Vec::new(),
            unknown: BTreeSet::new(),
            options: GoalOptions::default(),
            joined: SecretStrings::default(),
        }
    }

    /// All that must be committed before it is ready: the only place that knows which options these are.
    pub fn needs(&self) -> BTreeSet<&Address> {
        let options = &self.options;
        let mut needs: BTreeSet<&Address> = options.depends_on.iter().collect();
        needs.extend(options.property_dependencies.values().flatten());
        needs.extend(&options.parent);
        needs.extend(&options.provider);
        needs.extend(&options.deleted_with);
        needs.extend(&options.replace_with);
        needs
    }

    /// What is secret in it, and in what is recorded of it.
    pub(crate) fn secrets(&self, old: Option<&Entry>) -> SecretStrings {
        let mut secrets = old.map(SecretStrings::of_entry).unwrap_or_default();
        secrets.collect(self.inputs.json(), &self.sensitive_inputs);
        secrets.extend(self.joined.clone());
        secrets
    }

    /// The dependencies as entries record them.
    pub(crate) fn recorded_dependencies(&self) -> Vec<Dependency> {
        let mut dependencies: Vec<Dependency> = Vec::new();
        let from_properties = self.options.property_dependencies.values().flatten();
        for address in self.options.depends_on.iter().chain(from_properties) {
            let dependency = Dependency::Entry(address.clone());
            if !dependencies.contains(&dependency) {
                dependencies.push(dependency);
            }
        }
        dependencies
    }
}

/// Resources that need each other in a circle, each the next and the last the first; none if there is an order.
pub(crate) fn circle<'g>(goals: impl IntoIterator<Item = &'g Goal>) -> Option<Vec<Address>> {
    let entry = |goal: &Goal| {
        let mut entry = Entry::leaf(goal.address.clone(), &goal.kind);
        entry.depends_on = goal.needs().into_iter().cloned().map(Dependency::Entry).collect();
        SharedEntry::new(entry)
    };
    let entries: Vec<SharedEntry> = goals.into_iter().map(entry).collect();
    let circle = dag::topological_order(&entries).err()?;
    Some(circle.witness.into_iter().map(|key| key.address).collect())
}
