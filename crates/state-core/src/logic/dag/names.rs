//! Numbers for names, so that names are compared once and numbers from then on.

use crate::address::Address;
use crate::hashing::{Hash32, HashPartitions, PositionTable};
use std::sync::OnceLock;

/// Number of names that are looked up together, so that their lookups wait for memory at the same time.
pub(super) const BLOCK: usize = 64;

/// Distinct names, numbered in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Names<'a> {
    names: Vec<&'a Address>,
    hashes: HashPartitions,
    /// Names by their texts. In a decoded list without duplicates, no lookup needs it.
    by_text: OnceLock<PositionTable>,
    hash: Hash32,
}

impl<'a> Names<'a> {
    /// The number of names.
    pub(super) fn len(&self) -> u32 {
        self.names.len() as u32
    }

    /// The texts of all names, by number.
    pub(super) fn texts(&self) -> Vec<&'a str> {
        self.names.iter().map(|name| name.as_str()).collect()
    }

    /// Finds the numbers of names, and calls `found` with the result of each in order.
    pub(super) fn find(&self, names: &[&Address], buffer: &mut Buffer, mut found: impl FnMut(Option<u32>)) {
        if self.names.is_empty() {
            names.iter().for_each(|_| found(None));
            return;
        }
        let by_text = self.by_text();
        buffer.hash_texts(names, &self.hash);
        by_text.load(&buffer.hashes);
        for (name, &hash) in names.iter().zip(&buffer.hashes) {
            found(by_text.find(hash, |other| self.names[other as usize] == *name));
        }
    }

    /// Finds the number of a name.
    pub(super) fn find_text(&self, text: &str) -> Option<u32> {
        let is_same = |other: u32| self.names[other as usize].as_str() == text;
        self.by_text().find(self.hash.of(text), is_same)
    }

    fn by_text(&self) -> &PositionTable {
        self.by_text.get_or_init(|| self.hashes.table())
    }
}

/// Names that are being added. Equal names in different places in memory have different numbers until all are added.
#[derive(Debug, Default)]
pub(super) struct NamesBuilder<'a> {
    names: Names<'a>,
    /// Names by the address of their text in memory. In a decoded list, equal addresses share one text, so that a name is
    /// found without reading the text, which is rarely in the processor's cache.
    by_pointer: PositionTable,
    tags: PointerTags,
}

impl<'a> NamesBuilder<'a> {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self {
            names: Names {
                names: Vec::with_capacity(count),
                hashes: HashPartitions::with_capacity(count),
                ..Names::default()
            },
            by_pointer: PositionTable::with_capacity(count),
            tags: PointerTags::default(),
        }
    }

    /// Adds names, and calls `numbered` with the number of each in order. A name with the same text in memory as an
    /// earlier one has the same number.
    pub(super) fn add(&mut self, names: &[&'a Address], buffer: &mut Buffer, mut numbered: impl FnMut(u32)) {
        buffer.hash_texts(names, &self.names.hash);
        buffer.tags.clear();
        let tags = names
            .iter()
            .map(|name| self.tags.add(pointer(name), &self.names.hash));
        buffer.tags.extend(tags.map(Option::unwrap_or_default));
        self.by_pointer.load(&buffer.tags);
        for ((name, &hash), &tag) in names.iter().zip(&buffer.hashes).zip(&buffer.tags) {
            let next = self.names.len();
            let known = match self.tags.of(pointer(name)) {
                Some(_) => self.by_pointer.find_or_insert(tag, next, |_| true),
                None => None,
            };
            if known.is_none() {
                self.names.names.push(name);
                self.names.hashes.push(hash, next);
            }
            numbered(known.unwrap_or(next));
        }
    }

    /// The tag by which [`NamesBuilder::find`] finds a name, if it can be found by its text's address in memory.
    pub(super) fn tag(&self, name: &Address) -> Option<u32> {
        self.tags.of(pointer(name))
    }

    /// Finds the numbers of names by tag, and calls `found` with the result of each in order. A name with an equal text
    /// elsewhere in memory is not found.
    pub(super) fn find(&self, tags: &[u32], mut found: impl FnMut(Option<u32>)) {
        self.by_pointer.load(tags);
        for &tag in tags {
            found(self.by_pointer.find(tag, |_| true));
        }
    }

    /// Finds the numbers of names like [`NamesBuilder::find`].
    pub(super) fn numbers(&self, names: &[&Address]) -> Vec<Option<u32>> {
        let mut numbers = Vec::with_capacity(names.len());
        let mut tags = Vec::with_capacity(BLOCK);
        for block in names.chunks(BLOCK) {
            tags.clear();
            tags.extend(block.iter().map(|name| self.tag(name).unwrap_or_default()));
            let mut block = block.iter();
            self.find(&tags, |number| {
                // The default that replaces a missing tag may be the tag of another name.
                let has_tag = block.next().is_some_and(|name| self.tag(name).is_some());
                numbers.push(number.filter(|_| has_tag));
            });
        }
        numbers
    }

    /// Ends the addition of names. Returns the final number of each number if equal names had different numbers.
    pub(super) fn finish(self) -> (Names<'a>, Option<Vec<u32>>) {
        let mut names = self.names;
        let mut first: Vec<u32> = Vec::new();
        names.hashes.repeated(
            |one, other| names.names[one as usize] == names.names[other as usize],
            |earlier, later| {
                if first.is_empty() {
                    first = (0..names.len()).collect();
                }
                first[later as usize] = first[earlier as usize];
            },
        );
        if first.is_empty() {
            return (names, None);
        }
        // The first of equal names comes before them, so that its final number is known when theirs are looked up.
        let mut last = 0;
        let mut numbers: Vec<u32> = Vec::with_capacity(first.len());
        for (old, &first) in (0..).zip(&first) {
            if first == old {
                names.names[last as usize] = names.names[old as usize];
                numbers.push(last);
                last += 1;
            } else {
                numbers.push(numbers[first as usize]);
            }
        }
        names.names.truncate(last as usize);
        let is_first = |old: &u32| first[*old as usize] == *old;
        names
            .hashes
            .renumber(|old| Some(old).filter(is_first).map(|old| numbers[old as usize]));
        (names, Some(numbers))
    }
}

/// The address of a name's text in memory. No two texts of living names overlap, and none is empty.
fn pointer(name: &Address) -> u64 {
    name.as_str().as_ptr().addr() as u64
}

/// Computes a hash of 32 bits from the address of a text in memory. Different addresses have different hashes, so that a
/// search needs no other comparison.
#[derive(Debug, Default)]
struct PointerTags {
    /// The first addresses of two ranges. With them nearly all texts have tags: the allocator keeps the memory of the main
    /// thread in one range, and that of all other threads in another one.
    starts: [Option<u64>; 2],
    /// A random odd number, which makes the hashes of this process different from those of others.
    factor: u32,
}

impl PointerTags {
    /// Shared texts are aligned to 8 bytes, because reference counts precede them.
    const ALIGNMENT: u32 = 3;

    /// The length of a range: 16 GiB. The numbers of aligned addresses in both ranges have 32 bits.
    const RANGE: u64 = 1 << (31 + Self::ALIGNMENT);

    /// Returns the tag of an address like [`PointerTags::of`], and begins a range around it if there is no other one.
    fn add(&mut self, pointer: u64, hash: &Hash32) -> Option<u32> {
        if let Some(tag) = self.of(pointer) {
            return Some(tag);
        }
        let free = self.starts.iter_mut().find(|start| start.is_none())?;
        *free = Some(pointer.wrapping_sub(Self::RANGE / 2));
        self.factor = if self.factor == 0 {
            hash.of(pointer) | 1
        } else {
            self.factor
        };
        self.of(pointer)
    }

    /// Returns the tag of an address, or `None` if the address is in no range.
    fn of(&self, pointer: u64) -> Option<u32> {
        for (start, half) in self.starts.iter().zip([0, 1 << 31]) {
            let offset = pointer.wrapping_sub((*start)?);
            if offset < Self::RANGE && offset.trailing_zeros() >= Self::ALIGNMENT {
                // Each step maps different numbers to different numbers.
                let number = (offset >> Self::ALIGNMENT) as u32 | half;
                let mixed = number.wrapping_mul(0x9E37_79B1);
                return Some((mixed ^ (mixed >> 15)).wrapping_mul(self.factor));
            }
        }
        None
    }
}

/// Reused memory for lookups.
#[derive(Default)]
pub(super) struct Buffer {
    hashes: Vec<u32>,
    tags: Vec<u32>,
}

impl Buffer {
    fn hash_texts(&mut self, names: &[&Address], hash: &Hash32) {
        // The hash function is too long for the processor to begin with the next text while it waits for one.
        let loaded = names
            .iter()
            .fold(0, |all, name| all | name.as_str().as_bytes()[0]);
        std::hint::black_box(loaded);
        self.hashes.clear();
        self.hashes
            .extend(names.iter().map(|name| hash.of(name.as_str())));
    }
}

#[cfg(test)]
mod tests {
    use super::PointerTags;
    use crate::hashing::Hash32;
    use crate::testkit::run::property_config;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(property_config())]

        #[test]
        fn tags_of_two_ranges_are_distinct(
            main in prop::collection::btree_set(0..1_u64 << 30, 1..100),
            others in prop::collection::btree_set(0..1_u64 << 30, 1..100),
        ) {
            let main = main.iter().map(|at| 0x5555_0000_0000 + at * 8);
            let others = others.iter().map(|at| 0x7fff_0000_0000 - at * 8);
            let pointers: Vec<u64> = main.chain(others).collect();
            let mut tags = PointerTags::default();
            let hash = Hash32::default();
            let added: Vec<u32> = pointers.iter().filter_map(|&at| tags.add(at, &hash)).collect();
            prop_assert_eq!(added.iter().collect::<BTreeSet<_>>().len(), pointers.len());
            let again: Vec<u32> = pointers.iter().filter_map(|&at| tags.of(at)).collect();
            prop_assert_eq!(again, added);
            prop_assert_eq!(tags.add(0x1000, &hash), None);
            prop_assert_eq!(tags.of(pointers[0] + 1), None);
        }
    }
}
