//! Generates lists of entries that are in topological order by construction.
//!
//! Each entry is generated in two steps. First, a draft contains a random number (a pick) in place of each reference,
//! so it doesn't depend on other drafts. Then the list is built, and each pick selects one of the entries that the list
//! already contains. Every sublist of drafts therefore yields a valid list, and shrinking can remove drafts one by one.

use super::addresses;
use super::entry::{Content, contents};
use crate::address::{Address, Dependency, DeposedKey};
use crate::entry::{Entry, EntryType, Provider, SharedEntry};
use crate::id::Uid;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::{BTreeMap, BTreeSet};

/// Generates up to `max` entries in topological order, with unique keys and uids. The lists contain parents, providers
/// with and without ids, groups (some without live members), every kind of dependency, deposed entries before and after
/// the live entry of their address, secrets, and unusual values.
pub fn entries_in_order(max: usize) -> impl Strategy<Value = Vec<SharedEntry>> {
    vec(drafts(), 0..=max).prop_map(|drafts| {
        let mut list = List::default();
        for draft in drafts {
            list.push(draft);
        }
        list.entries
    })
}

/// Generates as [`entries_in_order`] does: one list in 32 has up to `max` entries, and the others have up to 16. So a slow check
/// sees long lists, too.
pub fn short_or_long_list(max: usize) -> impl Strategy<Value = Vec<SharedEntry>> {
    proptest::prop_oneof![31 => entries_in_order(16), 1 => entries_in_order(max)]
}

/// An entry whose references are not resolved yet.
#[derive(Clone, Debug)]
struct Draft {
    address: Address,
    /// Selects an existing entry whose address this entry gets.
    twin: Option<Index>,
    deposed: bool,
    uid: [u8; 12],
    group: Option<u8>,
    parent: Option<Index>,
    /// Selects the provider; the flag is true if the reference contains the provider's id.
    provider: Option<(Index, bool)>,
    depends_on: Vec<Pick>,
    property_dependencies: BTreeMap<String, Vec<Pick>>,
    deleted_with: Option<Index>,
    replace_with: Vec<Index>,
    content: Content,
}

/// A dependency that is not resolved yet: an entry of the list, or a group by its number.
#[derive(Clone, Debug)]
enum Pick {
    Entry(Index),
    Group(u8),
}

fn drafts() -> impl Strategy<Value = Draft> {
    let name = (
        addresses(),
        option::weighted(0.2, any::<Index>()),
        prop::bool::weighted(0.1),
        any::<[u8; 12]>(),
        option::weighted(0.3, 0..4_u8),
    );
    let links = (
        option::weighted(0.3, any::<Index>()),
        option::weighted(0.3, any::<(Index, bool)>()),
        vec(picks(), 0..3),
        btree_map("[a-c]", vec(picks(), 0..3), 0..2),
        option::weighted(0.15, any::<Index>()),
        vec(any::<Index>(), 0..2),
    );
    (name, links, contents()).prop_map(|(name, links, content)| {
        let (address, twin, deposed, uid, group) = name;
        let (parent, provider, depends_on, property_dependencies, deleted_with, replace_with) = links;
        Draft {
            address,
            twin,
            deposed,
            uid,
            group,
            parent,
            provider,
            depends_on,
            property_dependencies,
            deleted_with,
            replace_with,
            content,
        }
    })
}

fn picks() -> impl Strategy<Value = Pick> {
    prop_oneof![
        4 => any::<Index>().prop_map(Pick::Entry),
        1 => (0..5_u8).prop_map(Pick::Group),
    ]
}

/// A list under construction.
#[derive(Default)]
struct List {
    entries: Vec<SharedEntry>,
    /// Groups on which an entry depends. They get no more live members, which would come after their dependent.
    closed: BTreeSet<u8>,
}

impl List {
    fn push(&mut self, draft: Draft) {
        let (address, deposed) = self.name(&draft);
        let mut entry = Entry::new(address, EntryType::Leaf, None);
        entry.uid = Some(self.uid(draft.uid));
        let is_live = deposed.is_none();
        entry.deposed = deposed;
        let group = draft
            .group
            .filter(|group| !is_live || !self.closed.contains(group));
        entry.group = group.map(group_address);
        let own = group.filter(|_| is_live);
        entry.parent = draft.parent.and_then(|pick| self.pick(pick));
        *entry.provider = draft
            .provider
            .and_then(|(pick, with_id)| self.provider(pick, with_id, &draft.content));
        entry.depends_on = self.dependencies(&draft.depends_on, own);
        *entry.property_dependencies = draft
            .property_dependencies
            .iter()
            .map(|(property, picks)| (property.clone(), self.dependencies(picks, own)))
            .collect();
        *entry.deleted_with = draft.deleted_with.and_then(|pick| self.pick(pick));
        let together = draft.replace_with.iter().filter_map(|pick| self.pick(*pick));
        *entry.replace_with = together.collect();
        draft.content.fill(&mut entry);
        self.entries.push(entry.into());
    }

    /// Returns an unused key for a draft: one with a new address or, for a twin, another key of an existing address.
    fn name(&self, draft: &Draft) -> (Address, Option<DeposedKey>) {
        let place = self.entries.len();
        let deposed_key = || DeposedKey::new(format!("d{place}")).ok();
        if let Some(address) = draft.twin.and_then(|pick| self.pick(pick)) {
            let mut live = self.entries.iter().filter(|entry| entry.is_live());
            let has_live = live.any(|entry| entry.address == address);
            return (address, deposed_key().filter(|_| has_live || draft.deposed));
        }
        let mut address = draft.address.clone();
        if self.entries.iter().any(|entry| entry.address == address) {
            let text = format!("{address}#{place}");
            address = Address::new(text).expect("an address and a number are an address");
        }
        (address, deposed_key().filter(|_| draft.deposed))
    }

    fn uid(&self, random: [u8; 12]) -> Uid {
        let mut bits = [0; 16];
        bits[..12].copy_from_slice(&random);
        bits[12..].copy_from_slice(&(self.entries.len() as u32).to_be_bytes());
        Uid::from_bits(bits)
    }

    /// Returns the address that a pick selects; `None` if the list is empty.
    fn pick(&self, pick: Index) -> Option<Address> {
        (!self.entries.is_empty()).then(|| pick.get(&self.entries).address.clone())
    }

    fn provider(&self, pick: Index, with_id: bool, content: &Content) -> Option<Provider> {
        let address = self.pick(pick)?;
        // No rule checks the provider's id in a tombstone, because the provider may have been replaced since.
        let id = if content.is_pending_replacement() {
            Some("gone".to_owned())
        } else {
            pick.get(&self.entries).id.clone()
        };
        Some(Provider {
            address,
            id: id.filter(|_| with_id),
        })
    }

    fn dependencies(&mut self, picks: &[Pick], own: Option<u8>) -> Vec<Dependency> {
        let mut dependencies = Vec::new();
        for pick in picks {
            match *pick {
                Pick::Entry(pick) => dependencies.extend(self.pick(pick).map(Dependency::Entry)),
                Pick::Group(group) if own != Some(group) => {
                    self.closed.insert(group);
                    dependencies.push(Dependency::Group(group_address(group)));
                }
                Pick::Group(_) => {}
            }
        }
        dependencies
    }
}

fn group_address(group: u8) -> Address {
    Address::new(format!("group.{group}")).expect("letters and a digit are an address")
}
