//! What goes at the end of a run, how, and in which order. Pure.

use state_core::{Address, Dependency, Entry, EntryKey, EntryType, SharedEntry, State};
use std::collections::{BTreeMap, BTreeSet};

/// What is wanted still.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Addresses that the source named. Of them only deposed generations go.
    pub(crate) named: BTreeSet<Address>,
    /// Addresses that this run looked at and recorded: an entry there says what it lives in now.
    pub(crate) recorded: BTreeSet<Address>,
    /// What may be needed by what isn't settled.
    pub(crate) unsettled: BTreeMap<Address, EntryKey>,
}

/// How an entry goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Its object is deleted.
    Delete,
    /// Its object stays, or is none of ours.
    Forget,
    /// It has no object any more, and none will take its place.
    DropTombstone,
    /// Its object goes with others, so it goes after these have.
    After,
    /// It may not go.
    Refuse(String),
}

/// An entry that goes.
#[derive(Clone, Debug)]
pub(crate) struct Condemned {
    pub(crate) entry: SharedEntry,
    pub(crate) how: How,
    /// Those whose objects go with its object.
    pub(crate) with: Vec<EntryKey>,
}

/// The entries that go, the last in the list of entries first, and who goes before whom.
///
/// An entry goes before what it refers to, as far as that stands before it: so the pairs go in no circle. One whose
/// object goes with others' goes after these.
pub(crate) fn condemned(
    entries: &[SharedEntry],
    wanted: &Wanted,
    is_target: impl Fn(&Entry) -> bool,
) -> (Vec<Condemned>, Vec<(usize, usize)>) {
    let goes =
        |entry: &Entry| is_target(entry) && (!entry.is_live() || !wanted.named.contains(&entry.address));
    // Whoever wasn't looked at may still need what was replaced: the next whole run will tell.
    let kept = kept(entries, wanted, &goes);
    let goes = |entry: &Entry| goes(entry) && !kept.contains(&entry.key());
    let (going, survivors): (Vec<&SharedEntry>, Vec<&SharedEntry>) =
        entries.iter().partition(|entry| goes(entry));
    let mut list: Vec<Condemned> = going
        .iter()
        .rev()
        .map(|entry| Condemned {
            entry: SharedEntry::clone(entry),
            how: how(entry),
            with: Vec::new(),
        })
        .collect();
    let wanted_still = still_needed(entries, wanted, &goes);
    for item in &mut list {
        if let Some(by) = wanted_still
            .get(&item.entry.key())
            .filter(|_| item.how != How::DropTombstone)
        {
            item.how = How::Refuse(format!("{by} still needs it"));
        } else if let Some(by) = unsettled(&wanted.unsettled, &item.entry) {
            item.how = How::Refuse(may_be_needed(by));
        }
    }
    let index = Index::of(&list);
    // What stands earlier in the list of entries has a higher number here.
    let referred = |item: usize| {
        index
            .referred(&list[item].entry)
            .filter(move |other| *other > item)
    };
    let mut before: Vec<BTreeSet<usize>> = (0..list.len()).map(|item| referred(item).collect()).collect();
    // A generation that stands later may be the one that the object really needs: it was brought forward past it.
    for item in 0..list.len() {
        let later = index.referred(&list[item].entry).filter(|other| *other < item);
        for other in later {
            if !leads_to(&before, &BTreeSet::from([other]), &[item]) {
                before[item].insert(other);
            }
        }
    }
    let with = go_with(&list, &survivors, &index, &mut before);
    for (item, containers) in with {
        list[item].how = How::After;
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

/// Deposed entries of which nobody can tell whether something that stays needs them: it wasn't looked at, or stays for
/// that reason itself.
fn kept(entries: &[SharedEntry], wanted: &Wanted, goes: &impl Fn(&Entry) -> bool) -> BTreeSet<EntryKey> {
    let mut kept: BTreeSet<EntryKey> = BTreeSet::new();
    loop {
        let stays = |entry: &&SharedEntry| {
            !goes(entry) || matches!(how(entry), How::Refuse(_)) || kept.contains(&entry.key())
        };
        let unseen = entries
            .iter()
            .filter(stays)
            .filter(|entry| is_unseen(entry, wanted));
        let references = unseen.flat_map(|entry| entry.references());
        let needed: BTreeSet<Address> = references
            .map(|reference| reference.to.address().clone())
            .collect();
        let more = entries
            .iter()
            .filter(|entry| !entry.is_live() && needed.contains(&entry.address))
            .map(|entry| entry.key());
        let before = kept.len();
        let more: Vec<EntryKey> = more.collect();
        kept.extend(more);
        if kept.len() == before {
            return kept;
        }
    }
}

/// Whether this run didn't look at it: then nobody can tell which generations it needs.
fn is_unseen(entry: &Entry, wanted: &Wanted) -> bool {
    !entry.is_live() || !wanted.recorded.contains(&entry.address)
}

/// What goes and is needed by something that stays, and by what: no generation that stays meets that reference, or nobody
/// can tell which one is needed, because this run didn't look at it.
fn still_needed(
    entries: &[SharedEntry],
    wanted: &Wanted,
    goes: &impl Fn(&Entry) -> bool,
) -> BTreeMap<EntryKey, EntryKey> {
    let mut standing: BTreeMap<&Address, Vec<&SharedEntry>> = BTreeMap::new();
    let mut needed = BTreeMap::new();
    for entry in entries {
        if !goes(entry) {
            let mut need = |address: &Address, id: Option<&str>| {
                let fits = |other: &&&SharedEntry| id.is_none() || other.id.as_deref() == id;
                let there = standing.get(address).map_or(&[][..], Vec::as_slice);
                let all: Vec<&SharedEntry> = there.iter().filter(fits).copied().collect();
                if is_unseen(entry, wanted) || all.iter().all(|other| goes(other)) {
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
        }
        standing.entry(&entry.address).or_default().push(entry);
    }
    needed
}

fn how(entry: &Entry) -> How {
    if entry.is_live() && entry.pending_replacement {
        return How::DropTombstone;
    }
    if entry.is_live() && entry.protect {
        return How::Refuse("it is protected: unprotect it first".to_owned());
    }
    if entry.external || entry.retain_on_delete || entry.entry_type != EntryType::Leaf {
        return How::Forget;
    }
    How::Delete
}

/// Those whose objects go with others': they go after these, and before whatever else they refer to. Only where every
/// generation of those others is deleted, else nobody can tell in which of them the object lives; and only where it
/// leads into no circle, else the object is deleted by itself. Each with those that it goes with.
fn go_with(
    list: &[Condemned],
    survivors: &[&SharedEntry],
    index: &Index<'_>,
    before: &mut [BTreeSet<usize>],
) -> Vec<(usize, Vec<usize>)> {
    let staying: BTreeSet<&Address> = survivors.iter().map(|entry| &entry.address).collect();
    let is_deleted =
        |item: &usize| list[*item].how == How::Delete && list[*item].entry.deleted_with.is_none();
    let mut found = Vec::new();
    for (item, Condemned { entry, how, .. }) in list.iter().enumerate() {
        let (How::Delete, Some(container)) = (how, &*entry.deleted_with) else {
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

/// Whether some of these must go before some of those.
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

/// Where in the list what stands that others refer to.
struct Index<'a> {
    addresses: BTreeMap<&'a Address, Vec<usize>>,
    groups: BTreeMap<&'a Address, Vec<usize>>,
}

impl<'a> Index<'a> {
    fn of(list: &'a [Condemned]) -> Self {
        let mut index = Self {
            addresses: BTreeMap::new(),
            groups: BTreeMap::new(),
        };
        for (item, Condemned { entry, .. }) in list.iter().enumerate() {
            index.addresses.entry(&entry.address).or_default().push(item);
            if let Some(group) = entry.group.as_ref().filter(|_| entry.is_live()) {
                index.groups.entry(group).or_default().push(item);
            }
        }
        index
    }

    fn generations(&self, address: &Address) -> &[usize] {
        self.addresses.get(address).map_or(&[], Vec::as_slice)
    }

    /// All that an entry refers to.
    fn referred(&self, entry: &Entry) -> impl Iterator<Item = usize> {
        entry.references().flat_map(|reference| match &reference.to {
            Dependency::Entry(address) => self.generations(address).to_vec(),
            Dependency::Group(group) => self.groups.get(group).cloned().unwrap_or_default(),
        })
    }
}

impl Condemned {
    pub(crate) fn key(&self) -> EntryKey {
        self.entry.key()
    }
}

/// Addresses and groups that something with a pending operation refers to, if it was made as it was meant to be.
pub(crate) fn needed_by_unsettled(state: &State) -> BTreeMap<Address, EntryKey> {
    let mut needed = BTreeMap::new();
    for operation in state.pending() {
        for reference in operation.entry.iter().flat_map(|meant| meant.references()) {
            let address = reference.to.address().clone();
            needed.entry(address).or_insert_with(|| operation.target.clone());
        }
    }
    needed
}

/// Who may need an entry, whichever generation it is: nobody can tell which one was meant.
pub(crate) fn unsettled<'n>(needed: &'n BTreeMap<Address, EntryKey>, entry: &Entry) -> Option<&'n EntryKey> {
    let group = || entry.group.as_ref().and_then(|group| needed.get(group));
    let by = needed.get(&entry.address).or_else(group);
    by.filter(|by| **by != entry.key())
}

/// Why it may not go.
pub(crate) fn may_be_needed(by: &EntryKey) -> String {
    format!("{by} may need it and has a pending operation, which has to be settled first")
}
