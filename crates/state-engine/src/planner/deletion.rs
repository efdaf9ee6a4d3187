//! Decides which entries are deleted at the end of a run, how, and in which order. All functions are pure.

use state_core::{Address, Dependency, Entry, EntryKey, EntryType, SharedEntry, State};
use std::collections::{BTreeMap, BTreeSet};

/// The facts that decide which entries stay in the state at the end of a run.
///
/// All entries with one address are the *generations* of that address: at most one live entry, and deposed entries,
/// whose objects were replaced and wait for their deletion.
#[derive(Clone, Debug, Default)]
pub(crate) struct DesiredResources {
    /// Addresses that the source registered or reported as blocked. Their live entries stay; only their deposed
    /// generations are deleted.
    pub(crate) named: BTreeSet<Address>,
    /// Addresses whose live entries this run examined and recorded, so that the recorded references are current.
    pub(crate) recorded: BTreeSet<Address>,
    /// Addresses that a pending operation may need, with the key of the operation's target. An address is that of an
    /// entry or of a group of entries (`Entry::group`).
    pub(crate) needed_by_pending: BTreeMap<Address, EntryKey>,
}

/// How an entry is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeletionMethod {
    /// The object is deleted.
    Delete,
    /// The entry is discarded without deleting its object: the object must stay, or the stack doesn't own it.
    Forget,
    /// The entry is a tombstone (its object is deleted already) and no replacement is desired, so the entry is removed.
    DropTombstone,
    /// The provider deletes the object together with its container. So the entry is discarded after the container's
    /// deletion, without a provider call.
    After,
    /// The entry must not be removed, for the given reason.
    Refuse(String),
}

/// An entry that is to be removed.
#[derive(Clone, Debug)]
pub(crate) struct PlannedDeletion {
    pub(crate) entry: SharedEntry,
    pub(crate) method: DeletionMethod,
    /// Entries whose objects are deleted together with this object.
    pub(crate) with: Vec<EntryKey>,
}

/// Returns the entries to remove, in reverse list order, and pairs of their indices. The first entry of a pair must be
/// removed before the second entry.
///
/// An entry is removed before the entries that it refers to. Usually the referenced entry precedes the referring entry
/// in the list, and such pairs can't form a cycle. If the referenced entry comes later, the pair is added only if it
/// closes no cycle. An entry that is deleted with its container is removed after the container.
pub(crate) fn planned_deletions(
    entries: &[SharedEntry],
    desired: &DesiredResources,
    is_target: impl Fn(&Entry) -> bool,
) -> (Vec<PlannedDeletion>, Vec<(usize, usize)>) {
    let goes =
        |entry: &Entry| is_target(entry) && (!entry.is_live() || !desired.named.contains(&entry.address));
    // An entry that this run didn't examine, because it isn't a target or failed, may still use a replaced object. So
    // the replaced object stays until a run examines the entry.
    let needed_deposed = needed_deposed(entries, desired, &goes);
    let goes = |entry: &Entry| goes(entry) && !needed_deposed.contains(&entry.key());
    let (going, survivors): (Vec<&SharedEntry>, Vec<&SharedEntry>) =
        entries.iter().partition(|entry| goes(entry));
    let mut list: Vec<PlannedDeletion> = going
        .iter()
        .rev()
        .map(|entry| PlannedDeletion {
            entry: SharedEntry::clone(entry),
            method: deletion_method(entry),
            with: Vec::new(),
        })
        .collect();
    let wanted_still = still_needed(entries, desired, &goes);
    for item in &mut list {
        if let Some(by) = wanted_still
            .get(&item.entry.key())
            .filter(|_| item.method != DeletionMethod::DropTombstone)
        {
            item.method = DeletionMethod::Refuse(format!("{by} still depends on it"));
        } else if let Some(by) = pending_dependent(&desired.needed_by_pending, &item.entry) {
            item.method = DeletionMethod::Refuse(may_be_needed(by));
        }
    }
    let index = Index::of(&list);
    // `list` is reversed, so the entries that precede an entry in the state have higher indices.
    let referred = |item: usize| {
        index
            .referred(&list[item].entry)
            .filter(move |other| *other > item)
    };
    let mut before: Vec<BTreeSet<usize>> = (0..list.len()).map(|item| referred(item).collect()).collect();
    // An entry may use a generation of its dependency that follows the entry in the state, because recording a
    // generation again moves it to the end. The pair is added if it closes no cycle.
    for item in 0..list.len() {
        let later = index.referred(&list[item].entry).filter(|other| *other < item);
        for other in later {
            if !leads_to(&before, &BTreeSet::from([other]), &[item]) {
                before[item].insert(other);
            }
        }
    }
    let with = attach_to_containers(&list, &survivors, &index, &mut before);
    for (item, containers) in with {
        list[item].method = DeletionMethod::After;
        let key = list[item].key();
        for container in containers {
            list[container].with.push(key.clone());
        }
    }
    let pairs = before.into_iter().enumerate();
    let pairs = pairs
        .flat_map(|(item, others)| others.into_iter().map(move |other| (item, other)))
        .collect();
    (list, pairs)
}

/// Returns the deposed entries that must stay, because a remaining entry that this run didn't examine may need them.
/// `goes` returns whether an entry would be removed without this rule.
fn needed_deposed(
    entries: &[SharedEntry],
    desired: &DesiredResources,
    goes: &impl Fn(&Entry) -> bool,
) -> BTreeSet<EntryKey> {
    let mut found: BTreeSet<EntryKey> = BTreeSet::new();
    loop {
        let stays = |entry: &&SharedEntry| {
            !goes(entry)
                || matches!(deletion_method(entry), DeletionMethod::Refuse(_))
                || found.contains(&entry.key())
        };
        let unexamined = entries
            .iter()
            .filter(stays)
            .filter(|entry| is_unexamined(entry, desired));
        let references = unexamined.flat_map(|entry| entry.references());
        let mut needed = ReferencedNames::default();
        references.for_each(|reference| needed.insert(reference.to));
        let more = entries
            .iter()
            .filter(|entry| !entry.is_live() && needed.contain(entry))
            .map(|entry| entry.key());
        let before = found.len();
        let more: Vec<EntryKey> = more.collect();
        found.extend(more);
        if found.len() == before {
            return found;
        }
    }
}

/// Whether this run didn't examine the entry. Then it is unknown which generations of an address the entry needs. True
/// for every deposed entry.
fn is_unexamined(entry: &Entry, desired: &DesiredResources) -> bool {
    !entry.is_live() || !desired.recorded.contains(&entry.address)
}

/// Finds the entries that would be removed although a remaining entry needs them. Returns the key of each of them with
/// the key of the remaining entry. A remaining entry needs the preceding generations of an address to which it refers
/// in two cases: all these generations would be removed, or this run didn't examine the remaining entry. It needs all
/// preceding live members of a group to which it refers.
fn still_needed(
    entries: &[SharedEntry],
    desired: &DesiredResources,
    goes: &impl Fn(&Entry) -> bool,
) -> BTreeMap<EntryKey, EntryKey> {
    let mut preceding: BTreeMap<&Address, Vec<&SharedEntry>> = BTreeMap::new();
    let mut members: BTreeMap<&Address, Vec<&SharedEntry>> = BTreeMap::new();
    let mut needed = BTreeMap::new();
    for entry in entries {
        if !goes(entry) {
            let mut need = |address: &Address, id: Option<&str>| {
                let fits = |other: &&&SharedEntry| id.is_none() || other.id.as_deref() == id;
                let there = preceding.get(address).map_or(&[][..], Vec::as_slice);
                let all: Vec<&SharedEntry> = there.iter().filter(fits).copied().collect();
                if is_unexamined(entry, desired) || all.iter().all(|other| goes(other)) {
                    let going = all.iter().filter(|other| goes(other));
                    needed.extend(going.map(|other| (other.key(), entry.key())));
                }
            };
            for reference in entry.references() {
                if let Dependency::Entry(address) = &reference.to {
                    need(address, None);
                }
            }
            if let Some(provider) = &*entry.provider {
                need(&provider.address, provider.id.as_deref());
            }
            for reference in entry.references() {
                if let Dependency::Group(group) = &reference.to {
                    let all = members.get(group).into_iter().flatten();
                    needed.extend(
                        all.filter(|member| goes(member))
                            .map(|member| (member.key(), entry.key())),
                    );
                }
            }
        }
        if let Some(group) = entry.group.as_ref().filter(|_| entry.is_live()) {
            members.entry(group).or_default().push(entry);
        }
        preceding.entry(&entry.address).or_default().push(entry);
    }
    needed
}

fn deletion_method(entry: &Entry) -> DeletionMethod {
    if entry.is_live() && entry.pending_replacement {
        return DeletionMethod::DropTombstone;
    }
    if entry.is_live() && entry.protect {
        return DeletionMethod::Refuse("it is protected; unprotect it first".to_owned());
    }
    if entry.external || entry.retain_on_delete || entry.entry_type != EntryType::Leaf {
        return DeletionMethod::Forget;
    }
    DeletionMethod::Delete
}

/// Finds the entries whose objects are deleted with their containers, and moves them after their containers in the
/// order. Returns the list position of each such entry, and the positions of its container's generations. `before`
/// contains for each item the items that are removed after it.
///
/// An object is deleted with its container only if two conditions hold. First, all generations of the container are
/// deleted, because it is unknown which of them contains the object. Second, the changed order has no cycle. All other
/// objects are deleted one by one.
fn attach_to_containers(
    list: &[PlannedDeletion],
    survivors: &[&SharedEntry],
    index: &Index<'_>,
    before: &mut [BTreeSet<usize>],
) -> Vec<(usize, Vec<usize>)> {
    let staying: BTreeSet<&Address> = survivors.iter().map(|entry| &entry.address).collect();
    let is_deleted = |item: &usize| {
        list[*item].method == DeletionMethod::Delete && list[*item].entry.deleted_with.is_none()
    };
    let mut found = Vec::new();
    for (item, PlannedDeletion { entry, method, .. }) in list.iter().enumerate() {
        let (DeletionMethod::Delete, Some(container)) = (method, &*entry.deleted_with) else {
            continue;
        };
        let containers = index.generations(container);
        if containers.is_empty() || staying.contains(container) || !containers.iter().all(is_deleted) {
            continue;
        }
        let others: BTreeSet<usize> = before[item]
            .iter()
            .copied()
            .filter(|other| !containers.contains(other))
            .collect();
        if !leads_to(before, &others, containers) {
            before[item] = others;
            for container in containers {
                before[*container].insert(item);
            }
            found.push((item, containers.to_vec()));
        }
    }
    found
}

/// Whether an item of `from` is in `to`, or must be removed before an item of `to`, directly or transitively. `before`
/// contains for each item the items that are removed after it.
fn leads_to(before: &[BTreeSet<usize>], from: &BTreeSet<usize>, to: &[usize]) -> bool {
    let mut open: Vec<usize> = from.iter().copied().collect();
    let mut seen = BTreeSet::new();
    while let Some(item) = open.pop() {
        if to.contains(&item) {
            return true;
        }
        if seen.insert(item) {
            open.extend(&before[item]);
        }
    }
    false
}

/// The list positions of the entries with an address and of the entries of a group. A deposed entry of a group counts:
/// its object may be the one that an entry used when it last was examined.
struct Index<'a> {
    addresses: BTreeMap<&'a Address, Vec<usize>>,
    groups: BTreeMap<&'a Address, Vec<usize>>,
}

impl<'a> Index<'a> {
    fn of(list: &'a [PlannedDeletion]) -> Self {
        let mut index = Self {
            addresses: BTreeMap::new(),
            groups: BTreeMap::new(),
        };
        for (item, PlannedDeletion { entry, .. }) in list.iter().enumerate() {
            index.addresses.entry(&entry.address).or_default().push(item);
            if let Some(group) = &entry.group {
                index.groups.entry(group).or_default().push(item);
            }
        }
        index
    }

    fn generations(&self, address: &Address) -> &[usize] {
        self.addresses.get(address).map_or(&[], Vec::as_slice)
    }

    /// Returns the list positions of all entries that an entry refers to.
    fn referred(&self, entry: &Entry) -> impl Iterator<Item = usize> {
        entry.references().flat_map(|reference| match &reference.to {
            Dependency::Entry(address) => self.generations(address).to_vec(),
            Dependency::Group(group) => self.groups.get(group).cloned().unwrap_or_default(),
        })
    }
}

/// Returns the names by which other entries refer to an entry: its address, and its group if it has one.
pub(crate) fn names_of(entry: &Entry) -> impl Iterator<Item = Dependency> + use<> {
    let group = entry.group.clone().map(Dependency::Group);
    std::iter::once(Dependency::Entry(entry.address.clone())).chain(group)
}

/// Addresses and groups. A reference to a group means all its members.
#[derive(Debug, Default)]
pub(crate) struct ReferencedNames {
    addresses: BTreeSet<Address>,
    groups: BTreeSet<Address>,
}

impl ReferencedNames {
    /// Adds the target of a reference.
    pub(crate) fn insert(&mut self, to: Dependency) {
        match to {
            Dependency::Entry(address) => self.addresses.insert(address),
            Dependency::Group(group) => self.groups.insert(group),
        };
    }

    pub(crate) fn insert_names_of(&mut self, entry: &Entry) {
        names_of(entry).for_each(|name| self.insert(name));
    }

    pub(crate) fn contain_address(&self, address: &Address) -> bool {
        self.addresses.contains(address)
    }

    /// Whether the target of a reference is among these names.
    pub(crate) fn contain_target(&self, to: &Dependency) -> bool {
        match to {
            Dependency::Entry(address) => self.addresses.contains(address),
            Dependency::Group(group) => self.groups.contains(group),
        }
    }

    /// Whether a name of the entry is among these names.
    fn contain(&self, entry: &Entry) -> bool {
        names_of(entry).any(|name| self.contain_target(&name))
    }
}

impl PlannedDeletion {
    pub(crate) fn key(&self) -> EntryKey {
        self.entry.key()
    }
}

/// Returns the addresses of entries and groups to which the intended entries of pending operations refer, with the key
/// of the operation's target. These operations may have created objects that need the referenced resources.
pub(crate) fn needed_by_pending(state: &State) -> BTreeMap<Address, EntryKey> {
    let mut needed = BTreeMap::new();
    for operation in state.pending() {
        for reference in operation.entry.iter().flat_map(|meant| meant.references()) {
            let address = reference.to.address().clone();
            needed.entry(address).or_insert_with(|| operation.target.clone());
        }
    }
    needed
}

/// Returns the target of a pending operation that may need this entry. `None` if no operation needs the entry, or only
/// an operation on the entry itself does. Any generation of a needed address counts, because it is unknown which
/// generation the operation needs.
pub(crate) fn pending_dependent<'n>(
    needed: &'n BTreeMap<Address, EntryKey>,
    entry: &Entry,
) -> Option<&'n EntryKey> {
    let group = || entry.group.as_ref().and_then(|group| needed.get(group));
    let by = needed.get(&entry.address).or_else(group);
    by.filter(|by| **by != entry.key())
}

/// The reason why an entry must stay that the pending operation on `by` may need.
pub(crate) fn may_be_needed(by: &EntryKey) -> String {
    format!(
        "{by} may need it and has a pending operation; resolve the operation first (statectl pending resolve)"
    )
}
