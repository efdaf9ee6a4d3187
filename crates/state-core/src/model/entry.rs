//! One entry of a snapshot: a resource, a call of a composite, or an action. A composite is a group of resources that a
//! library defines, like a Terraform module or a Pulumi component.

mod boxed_field;
#[cfg(test)]
pub(crate) mod tests;

pub use boxed_field::{BoxedField, Empty};

use crate::address::{Address, Dependency, DeposedKey, EntryKey};
use crate::environment::Timestamp;
use crate::id::Uid;
use crate::json::{JsonMap, Properties};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

named! {
    /// The type of an entry.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum EntryType {
        /// A primitive resource: its `kind` is required.
        #[default]
        Leaf = "leaf",
        /// The call of a composite: its `library` and `library-type` are required.
        LibraryCall = "library-call",
        /// An action that ran: its `kind` is required.
        Action = "action",
    }
}

/// One resource in a snapshot, or a composite call or an action. Cheap to clone: long texts are shared.
///
/// JSON keys are the field names in kebab-case; all but `address` and `type` are left out when empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name of the entry in the stack.
    pub address: Address,
    /// Deposed key of an object that was replaced and awaits deletion; `None` for the live entry.
    pub deposed: Option<DeposedKey>,
    /// Identity of the object, assigned when it is first recorded. `None` in a document of another tool.
    pub uid: Option<Uid>,
    /// Whether the entry is a resource, a composite call or an action. JSON: `type`.
    pub entry_type: EntryType,
    /// Resource type, such as `aws_instance`.
    pub kind: Option<String>,
    /// Version of the schema of the inputs and outputs.
    pub schema_version: u64,
    /// Group of the entry, the target of a [`Dependency::Group`].
    pub group: Option<Address>,
    /// Secret inputs: names of top-level fields, or JSON pointers (which begin with `/`).
    pub sensitive_inputs: Vec<String>,
    /// Secret outputs: names of top-level fields, or JSON pointers.
    pub sensitive_outputs: Vec<String>,
    /// Library of a composite.
    pub library: BoxedField<Option<String>>,
    /// Type of the composite in its library.
    pub library_type: BoxedField<Option<String>>,
    /// Named library configuration, if it is not the default.
    pub configuration: BoxedField<Option<String>>,
    /// Hash of the trigger values with which an action last ran.
    pub trigger_hash: BoxedField<Option<String>>,
    /// Property values that the program requested.
    pub inputs: Option<Properties>,
    /// Property values that the provider reported.
    pub outputs: Option<Properties>,
    /// Dependencies that must come before this entry.
    pub depends_on: Vec<Dependency>,
    /// Id of the object at the provider.
    pub id: Option<String>,
    /// Entry that contains this one.
    pub parent: Option<Address>,
    /// Provider that manages the object.
    pub provider: BoxedField<Option<Provider>>,
    /// Dependencies from which the value of each input was computed, by name of the input.
    pub property_dependencies: BoxedField<BTreeMap<String, Vec<Dependency>>>,
    /// Entry whose deletion also deletes this object, so that it needs no deletion of its own.
    pub deleted_with: BoxedField<Option<Address>>,
    /// Entries whose replacement also replaces this one.
    pub replace_with: BoxedField<Vec<Address>>,
    /// Whether deletion of the object is refused.
    pub protect: bool,
    /// Whether the object is managed elsewhere, so that this stack reads it but never changes it.
    pub external: bool,
    /// Whether removing the entry from the stack leaves the object in place.
    pub retain_on_delete: bool,
    /// Whether the object is deleted and its replacement is not created yet.
    pub pending_replacement: bool,
    /// Whether the next update replaces the object.
    pub tainted: bool,
    /// Errors of a create or update that failed halfway.
    pub init_errors: Vec<String>,
    /// Time at which the object was created.
    pub created: Option<Timestamp>,
    /// Time at which the object was last changed.
    pub modified: Option<Timestamp>,
    /// Fields of another tool's resource that have no counterpart in this format, by system: `{"terraform": {…}}`.
    pub extensions: JsonMap,
    /// Fields that this build doesn't know. They are written back unchanged.
    pub unknown: BoxedField<JsonMap>,
}

impl Entry {
    /// Creates an entry with only an address, a type and a kind.
    pub fn new(address: Address, entry_type: EntryType, kind: Option<String>) -> Self {
        Self {
            address,
            deposed: None,
            uid: None,
            entry_type,
            kind,
            schema_version: 0,
            group: None,
            sensitive_inputs: Vec::new(),
            sensitive_outputs: Vec::new(),
            library: BoxedField::NONE,
            library_type: BoxedField::NONE,
            configuration: BoxedField::NONE,
            trigger_hash: BoxedField::NONE,
            inputs: None,
            outputs: None,
            depends_on: Vec::new(),
            id: None,
            parent: None,
            provider: BoxedField::NONE,
            property_dependencies: BoxedField::NONE,
            deleted_with: BoxedField::NONE,
            replace_with: BoxedField::NONE,
            protect: false,
            external: false,
            retain_on_delete: false,
            pending_replacement: false,
            tainted: false,
            init_errors: Vec::new(),
            created: None,
            modified: None,
            extensions: JsonMap::new(),
            unknown: BoxedField::NONE,
        }
    }

    /// Creates a resource of a kind.
    pub fn leaf(address: Address, kind: &str) -> Self {
        Self::new(address, EntryType::Leaf, Some(kind.to_owned()))
    }

    /// The unique key of the entry in its snapshot.
    pub fn key(&self) -> EntryKey {
        EntryKey {
            address: self.address.clone(),
            deposed: self.deposed.clone(),
        }
    }

    /// Whether this is the live entry of its address.
    pub const fn is_live(&self) -> bool {
        self.deposed.is_none()
    }

    /// Names of the flags that are set on the entry, as listings show them. `is_pending` states whether an operation
    /// on the entry has begun and not ended.
    ///
    /// ```
    /// let mut entry = state_core::Entry::leaf("db".parse()?, "sql_database");
    /// entry.protect = true;
    /// assert_eq!(entry.marks(true), ["protected", "pending"]);
    /// # Ok::<(), state_core::Error>(())
    /// ```
    pub fn marks(&self, is_pending: bool) -> Vec<&'static str> {
        [
            (self.tainted, "tainted"),
            (self.protect, "protected"),
            (!self.is_live(), "deposed"),
            (is_pending, "pending"),
            (self.pending_replacement, "pending-replacement"),
            (self.external, "external"),
            (self.retain_on_delete, "retained-on-delete"),
            (!self.init_errors.is_empty(), "partly-failed"),
        ]
        .into_iter()
        .filter_map(|(holds, mark)| holds.then_some(mark))
        .collect()
    }

    /// Whether recording `self` in place of `old` would change nothing: all fields are equal, except that `modified`
    /// may differ and `self` may have no uid.
    pub fn is_unchanged_from(&self, old: &Self) -> bool {
        // Nearly all comparisons end with one of these two, without a copy of the entry.
        if self.outputs != old.outputs {
            return false;
        }
        if self == old {
            return true;
        }
        // Compares whole entries, so that a field that is added later is compared too.
        let as_old = Self {
            uid: self.uid.or(old.uid),
            modified: old.modified.clone(),
            ..self.clone()
        };
        as_old == *old
    }

    /// All entries and groups that must come before this entry, each with the field that refers to it: parent,
    /// provider, dependencies, property dependencies, deleted-with, replace-with. [`Entry::with_references`] maps the
    /// same fields.
    pub fn references(&self) -> impl Iterator<Item = Reference> + '_ {
        self.targets().map(|(field, target)| Reference {
            field,
            to: target.into(),
        })
    }

    /// The same references as [`Entry::references`], borrowed: copying the address of a reference costs more than most
    /// uses of it.
    pub(crate) fn targets(&self) -> impl Iterator<Item = (ReferenceField, Target<'_>)> {
        let one = |field| move |address| (field, Target::Entry(address));
        let many = |field| move |to| (field, Target::from(to));
        let provider = self.provider.iter().map(|provider| &provider.address);
        let by_property = self.property_dependencies.values().flatten();
        let parent = self.parent.iter().map(one(ReferenceField::Parent));
        parent
            .chain(provider.map(one(ReferenceField::Provider)))
            .chain(self.depends_on.iter().map(many(ReferenceField::DependsOn)))
            .chain(by_property.map(many(ReferenceField::PropertyDependencies)))
            .chain(self.deleted_with.iter().map(one(ReferenceField::DeletedWith)))
            .chain(self.replace_with.iter().map(one(ReferenceField::ReplaceWith)))
    }

    /// Returns a copy in which every reference is replaced by the result of `to`, or dropped if the result is `None`.
    /// Returns `None` if no reference changes.
    ///
    /// If two items of a list become equal, the list keeps one of them. A property whose last dependency is dropped
    /// is removed from the map. A parent, provider, deleted-with or replace-with reference always names an entry: if
    /// `to` returns a group, the reference stays as it is.
    pub fn with_references(
        &self,
        mut to: impl FnMut(ReferenceField, &Dependency) -> Option<Dependency>,
    ) -> Option<Self> {
        let is_same = self
            .references()
            .all(|reference| to(reference.field, &reference.to).as_ref() == Some(&reference.to));
        if is_same {
            return None;
        }
        let mut changed = self.clone();
        let mut one = |field, address: Address| match to(field, &Dependency::Entry(address.clone())) {
            Some(Dependency::Entry(other)) => Some(other),
            Some(Dependency::Group(_)) => Some(address),
            None => None,
        };
        changed.parent = changed.parent.and_then(|at| one(ReferenceField::Parent, at));
        let provider = changed
            .provider
            .into_inner()
            .and_then(|Provider { address, id }| {
                let address = one(ReferenceField::Provider, address)?;
                Some(Provider { address, id })
            });
        changed.provider = provider.into();
        let with = changed.deleted_with.into_inner();
        changed.deleted_with = with.and_then(|at| one(ReferenceField::DeletedWith, at)).into();
        let replace_with = renamed(&self.replace_with, |at| {
            one(ReferenceField::ReplaceWith, at.clone())
        });
        changed.replace_with = replace_with.into();
        let mut many = |field, list: &[Dependency]| renamed(list, |dependency| to(field, dependency));
        changed.depends_on = many(ReferenceField::DependsOn, &self.depends_on);
        for (property, list) in &self.property_dependencies {
            let left = many(ReferenceField::PropertyDependencies, list);
            if left.is_empty() && !list.is_empty() {
                changed.property_dependencies.remove(property);
            } else {
                changed.property_dependencies.insert(property.clone(), left);
            }
        }
        Some(changed)
    }

    /// The group of a live entry; `None` for a deposed entry. An entry that depends on a group must come after its live
    /// members, but may come before deposed ones.
    pub(crate) fn live_group(&self) -> Option<&Address> {
        self.group.as_ref().filter(|_| self.is_live())
    }

    /// Address and id of the provider entry that manages the object; `None` while the entry is pending replacement.
    pub(crate) fn provider_reference(&self) -> Option<(&Address, &String)> {
        let provider = self.provider.as_ref().filter(|_| !self.pending_replacement)?;
        Some((&provider.address, provider.id.as_ref()?))
    }
}

/// Maps the items of a list. An item whose new name is already in the list is dropped.
fn renamed<T: PartialEq>(list: &[T], mut to: impl FnMut(&T) -> Option<T>) -> Vec<T> {
    let mut new = Vec::with_capacity(list.len());
    for item in list {
        match to(item) {
            Some(other) if other == *item || !(list.contains(&other) || new.contains(&other)) => {
                new.push(other);
            }
            _ => {}
        }
    }
    new
}

/// Shows names only, never property values.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key().to_string())
            .field("type", &self.entry_type)
            .field("kind", &self.kind)
            .field("depends-on", &self.depends_on)
            .finish_non_exhaustive()
    }
}

/// The provider that manages an object: the address and the id of the provider's entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Provider {
    /// Address of the provider's entry.
    pub address: Address,
    /// Id that the provider's entry had. A replaced provider has another id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// One edge of the dependency graph, and the field that declares it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Field that contains the reference.
    pub field: ReferenceField,
    /// Entry or group that the field names.
    pub to: Dependency,
}

/// The target of a reference: a borrowed [`Dependency`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target<'e> {
    /// The entries at an address.
    Entry(&'e Address),
    /// The live members of a group.
    Group(&'e Address),
}

impl<'e> From<&'e Dependency> for Target<'e> {
    fn from(dependency: &'e Dependency) -> Self {
        match dependency {
            Dependency::Entry(address) => Self::Entry(address),
            Dependency::Group(address) => Self::Group(address),
        }
    }
}

impl From<Target<'_>> for Dependency {
    fn from(target: Target<'_>) -> Self {
        match target {
            Target::Entry(address) => Self::Entry(address.clone()),
            Target::Group(address) => Self::Group(address.clone()),
        }
    }
}

named! {
    /// The fields of an entry that refer to other entries.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    #[serde(rename_all = "kebab-case")]
    #[non_exhaustive]
    pub enum ReferenceField {
        /// The field `parent`, the containing entry.
        Parent = "parent",
        /// The field `provider`, the managing provider.
        Provider = "provider",
        /// The field `depends-on`, the declared dependencies.
        DependsOn = "depends-on",
        /// The field `property-dependencies`, the dependencies of single inputs.
        PropertyDependencies = "property-dependencies",
        /// The field `deleted-with`, the entry whose deletion includes this one.
        DeletedWith = "deleted-with",
        /// The field `replace-with`, the entries that are replaced together with this one.
        ReplaceWith = "replace-with",
    }
}

/// A shared entry: states, snapshots and readers point to the same allocation.
pub type SharedEntry = Arc<Entry>;
