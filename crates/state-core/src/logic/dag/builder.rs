//! Makes the arrays of a graph in one pass over the entries.

use super::lists::{Lists, NONE};
use super::names::{BLOCK, Buffer, Names, NamesBuilder};
use crate::address::Address;
use crate::entry::{SharedEntry, Target};
use std::ops::Range;

/// The nodes of a list of entries, and the nodes to which each entry refers.
pub(super) struct Nodes<'a> {
    pub(super) addresses: Names<'a>,
    pub(super) groups: Names<'a>,
    /// Node of each entry's address.
    pub(super) address_of: Vec<u32>,
    /// Node of each live entry's group, or [`NONE`]. Empty if there are no groups.
    pub(super) group_of: Vec<u32>,
    /// The node of each reference of each entry; [`NONE`] for a missing target.
    pub(super) needs: Lists,
}

impl<'a> Nodes<'a> {
    /// Collects the nodes of a list of entries. Calls `inspect` with the positions of each block of entries, while the entries are in the
    /// processor's cache: most of the time goes into loading the entries from memory.
    pub(super) fn collect(entries: &'a [SharedEntry], mut inspect: impl FnMut(Range<usize>)) -> Self {
        let mut builder = Builder {
            entries,
            addresses: NamesBuilder::with_capacity(entries.len()),
            groups: NamesBuilder::default(),
            address_of: Vec::with_capacity(entries.len()),
            group_of: Vec::new(),
            needs: Lists::with_capacity(entries.len(), entries.len()),
            references: References::default(),
            names: Vec::with_capacity(BLOCK),
            buffer: Buffer::default(),
        };
        for (block, start) in entries.chunks(BLOCK).zip((0..).step_by(BLOCK)) {
            load(block);
            builder.add_addresses(block);
            builder.add_groups(block, start);
            builder.add_needs(block);
            inspect(start..start + block.len());
        }
        builder.finish()
    }
}

/// Loads the parts of entries that a graph needs into the processor's cache. The code that uses them is too long for
/// the processor to begin with the next entry while it waits for one.
fn load(block: &[SharedEntry]) {
    let loaded = block.iter().fold(0, |all, entry| {
        let ends = [entry.depends_on.first(), entry.depends_on.last()];
        let dependency = ends
            .iter()
            .flatten()
            .fold(0, |all, to| all | to.address().as_str().len());
        let others = usize::from(entry.parent.is_some()) + usize::from(entry.uid.is_some());
        all | dependency | others | entry.address.as_str().len()
    });
    // Without a use of the result, the compiler would leave the loads out.
    std::hint::black_box(loaded);
}

/// Places of references in the list of needs, by what is still to be looked up.
#[derive(Default)]
struct References<'a> {
    /// References of a block, and their tags.
    block: Vec<usize>,
    tags: Vec<u32>,
    /// References whose tags were not found when they were read, such as those to later entries. The list of needs contains
    /// their tags.
    later: Vec<Range<usize>>,
    /// Number of references of the last block that was looked up, and how many of them were not found.
    looked_up: (usize, usize),
    /// References that can't be found by tag, in order.
    by_text: Vec<usize>,
    /// The places of references to groups, and their targets.
    to_groups: Vec<usize>,
    groups: Vec<&'a Address>,
}

impl References<'_> {
    fn add_later(&mut self, place: usize) {
        match self.later.last_mut() {
            Some(last) if last.end == place => last.end += 1,
            _ => self.later.push(place..place + 1),
        }
    }

    /// Whether to look the references of a block up later: in a list that is not in order, most lookups would be in vain.
    /// Some blocks are tried again, because the order of a list may change.
    fn should_defer(&self, block: usize) -> bool {
        let (all, missing) = self.looked_up;
        missing > all / 8 && !block.is_multiple_of(16)
    }
}

/// Nodes that are being collected.
struct Builder<'a> {
    entries: &'a [SharedEntry],
    addresses: NamesBuilder<'a>,
    groups: NamesBuilder<'a>,
    address_of: Vec<u32>,
    group_of: Vec<u32>,
    needs: Lists,
    references: References<'a>,
    /// The names of the entries of one block.
    names: Vec<&'a Address>,
    buffer: Buffer,
}

impl<'a> Builder<'a> {
    fn add_addresses(&mut self, block: &'a [SharedEntry]) {
        self.names.clear();
        self.names.extend(block.iter().map(|entry| &entry.address));
        let address_of = &mut self.address_of;
        self.addresses
            .add(&self.names, &mut self.buffer, |node| address_of.push(node));
    }

    /// Adds the groups of a block. The numbers of groups become nodes when all addresses are known.
    fn add_groups(&mut self, block: &'a [SharedEntry], start: usize) {
        self.names.clear();
        self.names
            .extend(block.iter().filter_map(|entry| entry.live_group()));
        if self.names.is_empty() {
            return;
        }
        self.group_of.resize(self.entries.len(), NONE);
        let with_group = block
            .iter()
            .zip(start..)
            .filter(|(entry, _)| entry.live_group().is_some());
        let mut positions = with_group.map(|(_, position)| position);
        self.groups.add(&self.names, &mut self.buffer, |group| {
            if let Some(position) = positions.next() {
                self.group_of[position] = group;
            }
        });
    }

    /// Adds the references of a block. In a list in topological order, their targets are known already, and those of
    /// near entries are still in the processor's cache.
    fn add_needs(&mut self, block: &'a [SharedEntry]) {
        let references = &mut self.references;
        references.block.clear();
        references.tags.clear();
        for entry in block {
            let mut count = 0;
            entry.targets().for_each(|(_, target)| {
                let place = self.needs.push(NONE);
                count += 1;
                match target {
                    Target::Entry(address) => match self.addresses.tag(address) {
                        Some(tag) => {
                            references.block.push(place);
                            references.tags.push(tag);
                        }
                        None => references.by_text.push(place),
                    },
                    Target::Group(group) => {
                        references.to_groups.push(place);
                        references.groups.push(group);
                    }
                }
            });
            self.needs.announce(count);
        }
        self.find_block();
    }

    /// Looks up the references of a block, or defers this.
    fn find_block(&mut self) {
        let Self {
            references, needs, ..
        } = self;
        let block = std::mem::take(&mut references.block);
        let mut places = block.iter().copied().zip(references.tags.clone());
        if references.should_defer(self.address_of.len() / BLOCK) {
            for (place, tag) in places {
                needs.set(place, tag);
                references.add_later(place);
            }
        } else {
            let mut missing = 0;
            let tags = std::mem::take(&mut references.tags);
            self.addresses.find(&tags, |node| match (places.next(), node) {
                (Some((place, _)), Some(node)) => needs.set(place, node),
                (Some((place, tag)), None) => {
                    missing += 1;
                    needs.set(place, tag);
                    references.add_later(place);
                }
                (None, _) => {}
            });
            references.looked_up = (block.len(), missing);
            references.tags = tags;
        }
        references.block = block;
    }

    fn finish(mut self) -> Nodes<'a> {
        self.find_later();
        let (addresses, canonical) = self.addresses.finish();
        if let Some(canonical) = canonical {
            renumber(self.needs.items_mut(), |node| canonical[node as usize]);
            renumber(&mut self.address_of, |node| canonical[node as usize]);
        }
        let References {
            mut by_text,
            to_groups,
            groups: targets,
            ..
        } = self.references;
        let names = targets_at(self.entries, &self.needs, &by_text);
        resolve(&by_text, &names, (&addresses, 0), &mut self.needs);

        let numbers = self.groups.numbers(&targets);
        let (groups, canonical) = self.groups.finish();
        let first = addresses.len();
        let node = |group: u32| {
            first
                + canonical
                    .as_ref()
                    .map_or(group, |numbers| numbers[group as usize])
        };
        renumber(&mut self.group_of, node);
        by_text.clear();
        let mut names = Vec::new();
        for ((&place, target), number) in to_groups.iter().zip(targets).zip(numbers) {
            if let Some(group) = number {
                self.needs.set(place, node(group));
            } else {
                by_text.push(place);
                names.push(target);
            }
        }
        resolve(&by_text, &names, (&groups, first), &mut self.needs);
        Nodes {
            addresses,
            groups,
            address_of: self.address_of,
            group_of: self.group_of,
            needs: self.needs,
        }
    }

    /// Looks up the references that were deferred. Those without a result are left to a lookup by text.
    fn find_later(&mut self) {
        let Self {
            references, needs, ..
        } = self;
        let mut places = std::mem::take(&mut references.later).into_iter().flatten();
        let (block, tags) = (&mut references.block, &mut references.tags);
        loop {
            block.clear();
            block.extend(places.by_ref().take(BLOCK));
            if block.is_empty() {
                break;
            }
            tags.clear();
            tags.extend(block.iter().map(|&place| needs.at(place)));
            let mut block = block.iter();
            self.addresses.find(tags, |node| {
                let Some(&place) = block.next() else { return };
                needs.set(place, node.unwrap_or(NONE));
                if node.is_none() {
                    references.by_text.push(place);
                }
            });
        }
        references.by_text.sort_unstable();
    }
}

/// Replaces all numbers but [`NONE`].
fn renumber(numbers: &mut [u32], map: impl Fn(u32) -> u32) {
    for number in numbers.iter_mut().filter(|number| **number != NONE) {
        *number = map(*number);
    }
}

/// Returns the targets of references to addresses, which are at these places of the list of needs, in order.
fn targets_at<'a>(entries: &'a [SharedEntry], needs: &Lists, places: &[usize]) -> Vec<&'a Address> {
    let mut targets = Vec::with_capacity(places.len());
    let mut places = places.iter().copied().peekable();
    for (entry, list) in entries.iter().zip(0..) {
        if places.peek().is_none() {
            break;
        }
        let range = needs.places(list);
        let mut of_entry = entry.targets().zip(range.clone());
        while let Some(place) = places.next_if(|place| range.contains(place)) {
            let target = of_entry.find(|(_, at)| *at == place);
            if let Some(((_, Target::Entry(address) | Target::Group(address)), _)) = target {
                targets.push(address);
            }
        }
    }
    targets
}

/// Looks up the targets of references by text, and writes the nodes of those that exist. The number of a name plus
/// `first` is its node.
fn resolve(places: &[usize], targets: &[&Address], (names, first): (&Names<'_>, u32), needs: &mut Lists) {
    let mut buffer = Buffer::default();
    for (places, targets) in places.chunks(BLOCK).zip(targets.chunks(BLOCK)) {
        let mut places = places.iter();
        names.find(targets, &mut buffer, |number| {
            if let (Some(&place), Some(number)) = (places.next(), number) {
                needs.set(place, first + number);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Nodes};
    use crate::address::{Address, Dependency};
    use crate::dag::lists::NONE;
    use crate::entry::{Entry, SharedEntry};
    use crate::testkit::run::property_config;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// An entry: the number of its address, that of its group, and its references (number, to a group, own text).
    type Plan = (u16, Option<u16>, Vec<(u16, bool, bool)>);

    /// Makes entries whose equal addresses share one text, except those that the plan gives a text of their own.
    fn entries(plans: &[Plan], own: bool) -> Vec<SharedEntry> {
        let mut pool = BTreeMap::new();
        let mut address = |number: u16, own: bool| {
            let new = || Address::new(format!("module.a[{number}]")).unwrap();
            if own {
                new()
            } else {
                pool.entry(number).or_insert_with(new).clone()
            }
        };
        let entry = |(at, group, references): &Plan| {
            let mut entry = Entry::leaf(address(*at, own), "t");
            entry.group = group.map(|group| address(group, own));
            let to = references.iter().map(|&(to, is_group, own)| match is_group {
                true => Dependency::Group(address(to, own)),
                false => Dependency::Entry(address(to, own)),
            });
            entry.depends_on = to.collect();
            entry.into()
        };
        plans.iter().map(entry).collect()
    }

    fn numbers<'a>(addresses: impl Iterator<Item = &'a Address>) -> BTreeMap<&'a Address, u32> {
        let mut numbers = BTreeMap::new();
        for address in addresses {
            let next = numbers.len() as u32;
            numbers.entry(address).or_insert(next);
        }
        numbers
    }

    proptest! {
        #![proptest_config(property_config())]

        #[test]
        fn nodes_are_numbered_by_text_in_list_order(
            plans in (1..400_u16).prop_flat_map(|limit| {
                let reference = (0..limit, prop::bool::weighted(0.2), prop::bool::weighted(0.1));
                let plan = (0..limit, prop::option::weighted(0.2, 0..9_u16), prop::collection::vec(reference, 0..4));
                prop::collection::vec(plan, 0..5 * BLOCK)
            }),
            own: bool,
            is_ordered: bool,
        ) {
            let mut plans = plans;
            if is_ordered {
                // Distinct addresses, each with references to earlier ones only.
                for (at, (address, _, references)) in (0..).zip(&mut plans) {
                    *address = at;
                    references.iter_mut().for_each(|(to, ..)| *to %= at.max(1));
                }
            }
            let entries = entries(&plans, own);
            let addresses = numbers(entries.iter().map(|entry| &entry.address));
            let groups = numbers(entries.iter().filter_map(|entry| entry.live_group()));
            let first = addresses.len() as u32;
            let group = |group: &Address| groups.get(group).map_or(NONE, |number| first + number);
            let node = |to: &Dependency| match to {
                Dependency::Entry(to) => addresses.get(to).copied().unwrap_or(NONE),
                Dependency::Group(to) => group(to),
            };

            let nodes = Nodes::collect(&entries, |_| ());
            prop_assert_eq!(nodes.addresses.len(), first);
            prop_assert_eq!(nodes.groups.len(), groups.len() as u32);
            for (entry, at) in entries.iter().zip(0..) {
                prop_assert_eq!(nodes.address_of[at as usize], addresses[&entry.address]);
                let of_group = nodes.group_of.get(at as usize).copied().unwrap_or(NONE);
                prop_assert_eq!(of_group, entry.live_group().map_or(NONE, group));
                let expected: Vec<u32> = entry.depends_on.iter().map(node).collect();
                prop_assert_eq!(nodes.needs.get(at), expected);
            }
            for (address, &number) in &addresses {
                prop_assert_eq!(nodes.addresses.find_text(address.as_str()), Some(number));
            }
        }
    }
}
