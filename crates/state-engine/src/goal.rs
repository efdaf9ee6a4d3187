//! The desired state of one resource ([`Goal`]): the input of the planner, created by a source.

use crate::kind::{members, properties_of};
use state_core::sensitive::SecretStrings;
use state_core::{Address, Dependency, Entry, Json, Properties, SharedEntry, dag};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The desired state of one resource, as a program declares it. The planner decides whether the goal leads
/// to a create, an update, a replacement or no change.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Goal {
    /// Address of the resource in the stack.
    pub address: Address,
    /// Kind of the resource: selects the provider in the registry.
    pub kind: String,
    /// The inputs. An input whose value isn't known yet (only in plans) is left out here and named in
    /// `unknown`.
    pub inputs: Properties,
    /// The secret inputs: names of top-level inputs, or JSON pointers.
    pub sensitive_inputs: Vec<String>,
    /// The secret outputs in addition to those that the provider marks: names of top-level outputs, or JSON pointers.
    pub sensitive_outputs: Vec<String>,
    /// Names of top-level inputs whose values aren't known yet, because they depend on steps that a plan
    /// doesn't execute.
    pub unknown: BTreeSet<String>,
    /// Lifecycle options of the resource.
    pub options: GoalOptions,
    /// Secrets that the program embedded in longer input strings. They are never recorded.
    pub(crate) joined: SecretStrings,
    /// The inputs in `unknown`, with placeholders in place of their unknown and secret parts.
    pub(crate) partial_inputs: BTreeMap<String, Json>,
}

/// Lifecycle options of a resource.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct GoalOptions {
    /// Resources that must be committed before this one.
    pub depends_on: Vec<Address>,
    /// For each input, the resources whose outputs it uses. A command in such an input is *derived*: see
    /// [`CommandApprovals`](crate::CommandApprovals).
    pub property_dependencies: BTreeMap<String, Vec<Address>>,
    /// The resource that contains this resource.
    pub parent: Option<Address>,
    /// The provider of this resource, if the provider is itself a resource of the stack.
    pub provider: Option<Address>,
    /// Whether the engine refuses to delete or replace the resource.
    pub protect: bool,
    /// Whether the object stays in place when the engine would delete it. Only the entry is then removed from the
    /// state.
    pub retain_on_delete: bool,
    /// The container whose deletion also deletes the object. If both are removed, the engine usually deletes only the
    /// container. It deletes the object separately if this resource depends on a resource that depends on the
    /// container, because then the object must be deleted before the container. If the container is replaced, the
    /// resource is replaced too.
    pub deleted_with: Option<Address>,
    /// The resource is replaced when one of these resources is replaced.
    pub replace_with: Vec<Address>,
    /// Whether a replacement deletes the old object before it creates the new one. `None` if the provider decides.
    pub delete_before_replace: Option<bool>,
    /// Top-level inputs whose change forces a replacement.
    pub replace_on_changes: Vec<String>,
    /// Top-level inputs whose changes are ignored.
    pub ignore_changes: Vec<String>,
    /// Id of an existing object to import instead of creating a new one.
    pub import: Option<String>,
    /// Id of an existing object that the resource only reads. The stack doesn't own the object and never changes it.
    pub read: Option<String>,
    /// Former addresses of the resource. If no entry is recorded at the resource's own address, the engine renames an
    /// entry that is recorded at a former address: the first one that no other resource of the program uses.
    pub aliases: Vec<Address>,
    /// Time limit of one provider call. `None` for the limit of the run.
    pub timeout: Option<Duration>,
}

impl Goal {
    /// Creates a goal without inputs and with default options.
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
            partial_inputs: BTreeMap::new(),
        }
    }

    /// Addresses of the resources that must be committed before the goal is ready. This is the only function that
    /// decides which options are dependencies.
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

    /// Variants of the inputs: without those that contain outputs of other resources, and with values of several types
    /// in their place. A command that is the same in all variants contains no output of another resource.
    pub(crate) fn input_variants(&self) -> Vec<Properties> {
        const TYPES: [&str; 4] = [r#""?""#, "true", r#"["?"]"#, r#"{"?":"?"}"#];
        let dependencies = self.options.property_dependencies.iter();
        let derived = dependencies
            .filter(|(_, on)| !on.is_empty())
            .map(|(name, _)| name);
        let derived: BTreeSet<&String> = derived.chain(&self.unknown).collect();
        let mut literal = members(&self.inputs);
        literal.retain(|name, _| !derived.contains(name));
        let mut variants = vec![properties_of(&literal)];
        if !derived.is_empty() {
            variants.extend(TYPES.map(|json| {
                let mut inputs = literal.clone();
                inputs.extend(
                    derived
                        .iter()
                        .map(|&name| (name.clone(), Json::from_canonical(json))),
                );
                properties_of(&inputs)
            }));
        }
        variants
    }

    /// The goal with all its inputs, for display: those that aren't known yet contain placeholders.
    pub(crate) fn with_partial_inputs(&self) -> Self {
        let mut inputs = members(&self.inputs);
        inputs.extend(self.partial_inputs.clone());
        Self {
            inputs: properties_of(&inputs),
            ..self.clone()
        }
    }

    /// Secrets of the goal and of `old`, the recorded entry of the resource.
    pub(crate) fn secrets(&self, old: Option<&Entry>) -> SecretStrings {
        let mut secrets = old.map(SecretStrings::of_entry).unwrap_or_default();
        secrets.collect(self.inputs.json(), &self.sensitive_inputs);
        secrets.extend(self.joined.clone());
        secrets
    }

    /// The dependencies that [`Entry::depends_on`] records: those of `depends_on` and of the inputs, without
    /// duplicates.
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

/// Finds a dependency cycle: each resource of the result depends on the next resource, and the last resource depends on
/// the first. `None` if there is no cycle.
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
