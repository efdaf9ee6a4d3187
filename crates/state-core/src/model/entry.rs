//! One record of a snapshot: a resource, a call of a composite, or an action.

mod boxed_field;

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
    /// What an entry records (seed 003).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum EntryType {
        /// A primitive resource: its `kind` is required.
        #[default]
        Leaf = "leaf",
        /// The call site of a composite: its `library` and `library-type` are required.
        LibraryCall = "library-call",
        /// An action that ran: its `kind` is required.
        Action = "action",
    }
}

/// One entry of a snapshot. Cheap to clone: long texts are shared.
///
/// JSON keys are the field names in kebab-case; all but `address` and `type` are left out when empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the stack.
    pub address: Address,
    /// Present on an object that was replaced and awaits deletion.
    pub deposed: Option<DeposedKey>,
    /// The object's identity, given when it is first recorded. None in a document of another tool.
    pub uid: Option<Uid>,
    /// What it records. JSON: `type`.
    pub entry_type: EntryType,
    /// The resource's type, `aws_instance` say.
    pub kind: Option<String>,
    /// The version of the schema that inputs and outputs follow.
    pub schema_version: u64,
    /// The group that it belongs to: what a [`Dependency::Group`] names.
    pub group: Option<Address>,
    /// Which inputs are secret: names of top-level fields, or JSON pointers (they begin with `/`).
    pub sensitive_inputs: Vec<String>,
    /// Which outputs are secret, likewise.
    pub sensitive_outputs: Vec<String>,
    /// The library of a composite.
    pub library: BoxedField<Option<String>>,
    /// The composite's type in it.
    pub library_type: BoxedField<Option<String>>,
    /// The named library configuration, when it isn't the default.
    pub configuration: BoxedField<Option<String>>,
    /// What an action's last run was triggered by.
    pub trigger_hash: BoxedField<Option<String>>,
    /// What was asked for.
    pub inputs: Option<Properties>,
    /// What is there.
    pub outputs: Option<Properties>,
    /// What it stands after.
    pub depends_on: Vec<Dependency>,
    /// The provider's name for the object.
    pub id: Option<String>,
    /// The entry that contains it.
    pub parent: Option<Address>,
    /// Who manages the object.
    pub provider: BoxedField<Option<Provider>>,
    /// Which dependencies each input came from.
    pub property_dependencies: BoxedField<BTreeMap<String, Vec<Dependency>>>,
    /// Deleted together with this entry, so never by itself.
    pub deleted_with: BoxedField<Option<Address>>,
    /// Replaced whenever one of these is.
    pub replace_with: BoxedField<Vec<Address>>,
    /// Deleting it is refused.
    pub protect: bool,
    /// Not ours: read, never changed.
    pub external: bool,
    /// Removing it from the stack leaves the object.
    pub retain_on_delete: bool,
    /// The object is gone and its replacement isn't there yet.
    pub pending_replacement: bool,
    /// To be replaced at the next update.
    pub tainted: bool,
    /// What a partly failed create or update left to say.
    pub init_errors: Vec<String>,
    /// When the object was made.
    pub created: Option<Timestamp>,
    /// When it was last changed.
    pub modified: Option<Timestamp>,
    /// The rest of a foreign resource, by system: `{"terraform": {…}}`.
    pub extensions: JsonMap,
    /// Fields that this build doesn't know. Written back as they came.
    pub unknown: BoxedField<JsonMap>,
}

impl Entry {
    /// An entry with nothing but its name, type and kind.
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

    /// A resource of a kind.
    pub fn leaf(address: Address, kind: &str) -> Self {
        Self::new(address, EntryType::Leaf, Some(kind.to_owned()))
    }

    /// What names it in its snapshot.
    pub fn key(&self) -> EntryKey {
        EntryKey {
            address: self.address.clone(),
            deposed: self.deposed.clone(),
        }
    }

    /// Whether it is the live entry of its address.
    pub const fn is_live(&self) -> bool {
        self.deposed.is_none()
    }

    /// What is special about the entry right now, a word each; `is_pending` says that an operation on it was begun and did not
    /// end.
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

    /// Whether recording `self` over `old` would say nothing new: all fields are equal but `modified`, and the
    /// uid where it isn't given.
    pub fn says_the_same_as(&self, old: &Self) -> bool {
        // A comparison of whole entries: a field that is added later is compared too.
        let as_old = Self {
            uid: self.uid.or(old.uid),
            modified: old.modified.clone(),
            ..self.clone()
        };
        as_old == *old
    }

    /// Everything that it must stand after, each with the field that says so: parent, provider, dependencies,
    /// property dependencies, deleted-with, replace-with. The only place that knows which fields these are.
    pub fn references(&self) -> impl Iterator<Item = Reference> + '_ {
        let one = |field| {
            move |address: &Address| Reference {
                field,
                to: Dependency::Entry(address.clone()),
            }
        };
        let many = |field| {
            move |to: &Dependency| Reference {
                field,
                to: to.clone(),
            }
        };
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

    /// A copy in which each reference names what `to` says, or is gone where it says none; none if nothing changes.
    ///
    /// Where two items of a list become one, the list names it once. A property whose last dependency goes, goes too. A
    /// parent, provider, deleted-with or replace-with always names an entry: a group there leaves it as it is.
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

    /// The group that waits for it: a deposed entry belongs to none.
    pub(crate) fn live_group(&self) -> Option<&Address> {
        self.group.as_ref().filter(|_| self.is_live())
    }

    /// The incarnation of a provider that manages it, as the provider's address and id; none while the entry is
    /// pending replacement.
    pub(crate) fn incarnation(&self) -> Option<(&Address, &String)> {
        let provider = self.provider.as_ref().filter(|_| !self.pending_replacement)?;
        Some((&provider.address, provider.id.as_ref()?))
    }
}

/// The list with its items renamed. What has another name now goes where the list has that name already.
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

/// Shows names, never values.
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

/// Who manages an object: an entry that is a provider, and which incarnation of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Provider {
    /// The provider's entry.
    pub address: Address,
    /// The id that this entry had: a provider that was replaced has another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// One edge of the graph, and the field that it stands in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The field.
    pub field: ReferenceField,
    /// What it names.
    pub to: Dependency,
}

named! {
    /// The fields that refer to other entries.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    #[serde(rename_all = "kebab-case")]
    #[non_exhaustive]
    pub enum ReferenceField {
        /// `parent`
        Parent = "parent",
        /// `provider`
        Provider = "provider",
        /// `depends-on`
        DependsOn = "depends-on",
        /// `property-dependencies`
        PropertyDependencies = "property-dependencies",
        /// `deleted-with`
        DeletedWith = "deleted-with",
        /// `replace-with`
        ReplaceWith = "replace-with",
    }
}

/// Entries are shared: a state, its snapshots and its readers point to the same one.
pub type SharedEntry = Arc<Entry>;
