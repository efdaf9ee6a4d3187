//! Generates invalid snapshots: valid ones with one known corruption.

use crate::address::{Address, Dependency};
use crate::counter::Serial;
use crate::entry::{Entry, EntryType, Provider, SharedEntry};
use crate::id::{MutationId, Uid};
use crate::mutation::Op;
use crate::pending::PendingOperation;
use crate::snapshot::{ForeignSerial, Snapshot};
use crate::verify::Rule;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::sync::Arc;

/// Generates a copy of a valid snapshot with one corruption, and the rule that the corruption violates. The copy may
/// violate other rules as well.
pub fn corrupted(snapshot: Snapshot) -> impl Strategy<Value = (Snapshot, Rule)> {
    (select(Corruption::ALL.to_vec()), any::<Index>()).prop_map(move |(corruption, at)| {
        let mut snapshot = snapshot.clone();
        corruption.apply(&mut snapshot, at);
        (snapshot, corruption.rule())
    })
}

/// The kinds of corruption. Each applies to every snapshot: entries that it requires are appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Corruption {
    /// The live entry and all deposed entries of a referenced address are removed.
    DropReferenced,
    /// An entry is moved before an entry that it references.
    MoveBeforeDependency,
    /// A member of a group follows an entry that depends on the group.
    MemberTooLate,
    /// An entry depends on its own group.
    OwnGroup,
    /// Two entries have the same key.
    DuplicateKey,
    /// Two entries have the same uid.
    DuplicateUid,
    /// A reference to a provider contains an id that the provider doesn't have.
    WrongProviderId,
    /// Two entries reference each other.
    Cycle,
    /// An entry references itself.
    SelfCycle,
    /// A field that an entry's type requires is missing.
    MissingField,
    /// The flags of an entry contradict each other.
    ContradictingMarks,
    /// A pending operation has no entry, although its kind requires one.
    PendingWithoutEntry,
    /// Two pending operations have the same id.
    DuplicateOperation,
    /// The highest foreign serial is lower than an imported one.
    SerialWentBack,
}

impl Corruption {
    /// All kinds of corruption, for tests that try each.
    pub const ALL: [Self; 14] = [
        Self::DropReferenced,
        Self::MoveBeforeDependency,
        Self::MemberTooLate,
        Self::OwnGroup,
        Self::DuplicateKey,
        Self::DuplicateUid,
        Self::WrongProviderId,
        Self::Cycle,
        Self::SelfCycle,
        Self::MissingField,
        Self::ContradictingMarks,
        Self::PendingWithoutEntry,
        Self::DuplicateOperation,
        Self::SerialWentBack,
    ];

    /// Returns the rule that the corruption violates.
    pub const fn rule(self) -> Rule {
        match self {
            Self::DropReferenced => Rule::ReferenceExists,
            Self::MoveBeforeDependency | Self::MemberTooLate => Rule::ReferenceEarlier,
            Self::OwnGroup | Self::Cycle | Self::SelfCycle => Rule::Acyclic,
            Self::DuplicateKey => Rule::UniqueKey,
            Self::DuplicateUid => Rule::UniqueUid,
            Self::WrongProviderId => Rule::ProviderId,
            Self::MissingField => Rule::TypeFields,
            Self::ContradictingMarks => Rule::Marks,
            Self::PendingWithoutEntry | Self::DuplicateOperation => Rule::PendingOperation,
            Self::SerialWentBack => Rule::Header,
        }
    }

    /// Applies the corruption to a snapshot; `at` selects the entry.
    pub fn apply(self, snapshot: &mut Snapshot, at: Index) {
        match self {
            Self::PendingWithoutEntry => snapshot.pending_operations.push(operation(Op::Create)),
            Self::DuplicateOperation => {
                let twice = [operation(Op::Delete), operation(Op::Discard)];
                snapshot.pending_operations.extend(twice);
            }
            Self::SerialWentBack => {
                let serial = ForeignSerial {
                    imported: 7,
                    at: Serial(1),
                    highest: 6,
                };
                snapshot.foreign_serials.insert("terraform".to_owned(), serial);
            }
            _ => self.apply_to_list(&mut snapshot.entries, at),
        }
    }

    fn apply_to_list(self, entries: &mut Vec<SharedEntry>, at: Index) {
        match self {
            Self::DropReferenced => drop_referenced(entries, at),
            Self::MoveBeforeDependency => move_before_dependency(entries, at),
            Self::MemberTooLate => {
                append(entries, "waits", |entry| entry.depends_on.push(group()));
                append(entries, "late", |entry| entry.group = Some(group_address()));
            }
            Self::OwnGroup => append(entries, "both", |entry| {
                entry.group = Some(group_address());
                entry.depends_on.push(group());
            }),
            Self::DuplicateKey => {
                let (copy, _) = picked(entries, at);
                let mut copy = Entry::clone(&copy);
                copy.uid = None;
                copy.group = None;
                entries.push(copy.into());
            }
            Self::DuplicateUid => {
                let uid = picked(entries, at).0.uid.or(Some(Uid::from_bits([9; 16])));
                append(entries, "first", |entry| entry.uid = uid);
                append(entries, "second", |entry| entry.uid = uid);
            }
            Self::WrongProviderId => {
                let address = picked(entries, at).0.address.clone();
                let id = Some("id of no provider".to_owned());
                append(entries, "managed", |entry| {
                    entry.provider = Some(Provider { address, id }).into();
                });
            }
            Self::Cycle => {
                append(entries, "chicken", |entry| {
                    entry.depends_on.push(on("corrupt.egg"));
                });
                append(entries, "egg", |entry| {
                    entry.parent = Some(address("corrupt.chicken"));
                });
            }
            Self::SelfCycle => append(entries, "self", |entry| {
                entry.deleted_with = Some(address("corrupt.self")).into();
            }),
            Self::MissingField => missing_field(entries, at),
            Self::ContradictingMarks => {
                let (_, position) = picked(entries, at);
                let entry = Arc::make_mut(&mut entries[position]);
                (entry.external, entry.tainted) = (true, true);
            }
            Self::PendingWithoutEntry | Self::DuplicateOperation | Self::SerialWentBack => {}
        }
    }
}

fn drop_referenced(entries: &mut Vec<SharedEntry>, at: Index) {
    append(entries, "needed", |_| {});
    append(entries, "needs", |entry| {
        entry.replace_with.push(address("corrupt.needed"));
    });
    let referenced: Vec<Address> = addresses_referred_to(entries)
        .map(|(_, address)| address)
        .collect();
    let dropped = at.get(&referenced);
    // Removing an address breaks a reference only if an entry of another address refers to it. References among the
    // entries of one address are removed together with these entries.
    let has_other_dependents = |address: &Address| {
        addresses_referred_to(entries).any(|(from, to)| to == *address && entries[from].address != *address)
    };
    let dropped = if has_other_dependents(dropped) {
        dropped.clone()
    } else {
        address("corrupt.needed")
    };
    entries.retain(|entry| entry.address != dropped);
}

fn move_before_dependency(entries: &mut Vec<SharedEntry>, at: Index) {
    append(entries, "needed", |_| {});
    append(entries, "needs", |entry| {
        entry.depends_on.push(on("corrupt.needed"));
    });
    let pairs: Vec<(usize, Address)> = addresses_referred_to(entries).collect();
    let (from, to) = at.get(&pairs);
    if let Some(first) = entries.iter().position(|entry| entry.address == *to) {
        let entry = entries.remove(*from);
        entries.insert(first, entry);
    }
}

fn missing_field(entries: &mut Vec<SharedEntry>, at: Index) {
    let (_, position) = picked(entries, at);
    let entry = Arc::make_mut(&mut entries[position]);
    match entry.entry_type {
        EntryType::Leaf => entry.kind = None,
        EntryType::Action => entry.kind = Some(String::new()),
        EntryType::LibraryCall => *entry.library_type = None,
    }
}

/// Returns a pair for each reference to an address: the position of the entry, and the referenced address.
fn addresses_referred_to(entries: &[SharedEntry]) -> impl Iterator<Item = (usize, Address)> + '_ {
    entries.iter().enumerate().flat_map(|(position, entry)| {
        entry
            .references()
            .filter_map(move |reference| match reference.to {
                Dependency::Entry(address) => Some((position, address)),
                Dependency::Group(_) => None,
            })
    })
}

/// Picks one of the entries; appends one if the list is empty.
fn picked(entries: &mut Vec<SharedEntry>, at: Index) -> (SharedEntry, usize) {
    if entries.is_empty() {
        append(entries, "only", |_| {});
    }
    let position = at.index(entries.len());
    (entries[position].clone(), position)
}

/// Appends the resource `corrupt.NAME` after a change.
fn append(entries: &mut Vec<SharedEntry>, name: &str, change: impl FnOnce(&mut Entry)) {
    let mut entry = Entry::leaf(address(&format!("corrupt.{name}")), "kind");
    change(&mut entry);
    entries.push(entry.into());
}

fn operation(op: Op) -> PendingOperation {
    PendingOperation {
        id: MutationId::from_bits([7; 16]),
        op,
        target: Entry::leaf(address("corrupt.target"), "kind").key(),
        entry: None,
        deposes: None,
        tombstone: false,
        begun: None,
        result: None,
    }
}

fn address(text: &str) -> Address {
    Address::new(text).expect("letters and a dot are an address")
}

fn on(text: &str) -> Dependency {
    Dependency::Entry(address(text))
}

fn group_address() -> Address {
    address("corrupt.group")
}

fn group() -> Dependency {
    Dependency::Group(group_address())
}
