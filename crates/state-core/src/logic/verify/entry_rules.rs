//! The rules about an entry and its place in a list, one function per rule. The full verifier
//! ([`verify`](super::verify())) and the incremental check of a [`State`](crate::State) call the same functions and
//! differ only in the entries that they check.

use super::{Rule, Violation};
use crate::address::{Address, Dependency, EntryKey};
use crate::entry::{Entry, EntryType, Reference, ReferenceField};

/// Lookups in a list of entries, for the rules about references.
pub(crate) trait Lookup {
    /// A position in the list.
    type Position: Copy + Ord;

    /// Position of the first entry with this address.
    fn first_of(&self, address: &Address) -> Option<Self::Position>;

    /// Position of the first entry with this address and this id.
    fn first_with_id(&self, address: &Address, id: &str) -> Option<Self::Position>;

    /// Position of the last live member of a group.
    fn last_member(&self, group: &Address) -> Option<Self::Position>;

    /// Key of the entry at a position.
    fn key_at(&self, position: Self::Position) -> Option<EntryKey>;
}

/// [`Rule::UniqueKey`]: returns the violation of an entry whose key another entry has.
pub(crate) fn unique_key(key: EntryKey) -> Violation {
    let detail = if key.is_live() {
        "a second live resource has this address; only deposed ones may share it"
    } else {
        "a second resource has this key"
    };
    Violation::of(Rule::UniqueKey, key, detail)
}

/// [`Rule::UniqueUid`]: returns the violation of an entry whose uid another entry has.
pub(crate) fn unique_uid(entry: &Entry, other: &Entry) -> Option<Violation> {
    let uid = entry.uid.filter(|_| entry.uid == other.uid)?;
    let detail = format!("its uid {uid} is also the uid of {}", other.key());
    Some(Violation::of(Rule::UniqueUid, entry.key(), detail))
}

/// [`Rule::ReferenceExists`] and [`Rule::ReferenceEarlier`]: returns the violation of one reference of an entry at
/// `position`.
pub(crate) fn reference<L: Lookup>(
    list: &L,
    entry: &Entry,
    position: L::Position,
    reference: &Reference,
) -> Option<Violation> {
    let Reference { field, to } = reference;
    let (rule, detail) = match to {
        Dependency::Entry(address) => match list.first_of(address) {
            Some(first) if first < position => return None,
            _ if *address == entry.address => (Rule::ReferenceEarlier, "the resource itself".to_owned()),
            Some(_) => (Rule::ReferenceEarlier, format!("{to}, which comes later")),
            None => (Rule::ReferenceExists, format!("{to}, which does not exist")),
        },
        Dependency::Group(group) if entry.live_group() == Some(group) => (
            Rule::ReferenceEarlier,
            format!("{to}, to which the resource itself belongs"),
        ),
        // The last live member must come earlier. A dependency on a group without live members breaks no rule: see
        // `Note::DanglingGroup`.
        Dependency::Group(group) => {
            let last = list.last_member(group).filter(|last| *last >= position)?;
            let member = list.key_at(last)?;
            (
                Rule::ReferenceEarlier,
                format!("{to}, whose member {member} comes later"),
            )
        }
    };
    Some(Violation::of(
        rule,
        entry.key(),
        format!("`{field}` names {detail}"),
    ))
}

/// [`Rule::ProviderId`]: returns a violation if the provider of an entry at `position` comes earlier, but none of the
/// provider's earlier entries has the referenced id.
pub(crate) fn provider_id<L: Lookup>(list: &L, entry: &Entry, position: L::Position) -> Option<Violation> {
    let (provider, id) = entry.provider_reference()?;
    let is_earlier = |first: Option<L::Position>| first.is_some_and(|first| first < position);
    if !is_earlier(list.first_of(provider)) || is_earlier(list.first_with_id(provider, id)) {
        return None;
    }
    let detail = format!(
        "`{}` names {provider} with an id that no earlier resource at that address has",
        ReferenceField::Provider,
    );
    Some(Violation::of(Rule::ProviderId, entry.key(), detail))
}

/// Checks the rules that depend on the entry alone: [`Rule::TypeFields`] and [`Rule::Marks`].
pub fn verify_entry(entry: &Entry) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut add = |rule, detail| violations.push(Violation::of(rule, entry.key(), detail));
    type_fields(entry, &mut |detail| add(Rule::TypeFields, detail));
    marks(entry, &mut |detail| add(Rule::Marks, detail));
    violations
}

fn type_fields(entry: &Entry, found: &mut dyn FnMut(String)) {
    let mut require = |field: &str, value: &Option<String>| {
        if value.as_ref().is_none_or(String::is_empty) {
            found(format!("its type {} requires `{field}`", entry.entry_type.name()));
        }
    };
    match entry.entry_type {
        EntryType::Leaf | EntryType::Action => require("kind", &entry.kind),
        EntryType::LibraryCall => {
            require("library", &entry.library);
            require("library-type", &entry.library_type);
            if entry.id.is_some() {
                found("a library call is not a provider object, so it can't have an `id`".to_owned());
            }
        }
    }
}

fn marks(entry: &Entry, found: &mut dyn FnMut(String)) {
    let impossible = [
        ("pending-replacement", entry.pending_replacement),
        ("tainted", entry.tainted),
    ];
    for (mark, is_set) in impossible {
        if entry.external && is_set {
            found(format!("it is `external`, so it can't be `{mark}`"));
        }
    }
}
