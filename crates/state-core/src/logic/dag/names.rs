//! Numbers for names, so that names are compared once and numbers from then on.

use crate::address::Address;
use crate::hashing::{Hash32, PositionTable};

/// Distinct names, numbered in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Names<'a> {
    /// The text of each name.
    texts: Vec<&'a str>,
    by_text: PositionTable,
    /// Names by the address of their text in memory. In a decoded list, equal addresses share one text, so a reference
    /// is found without reading the text, which is rarely in the processor's cache.
    by_pointer: PositionTable,
    hash: Hash32,
}

impl<'a> Names<'a> {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self {
            texts: Vec::with_capacity(count),
            by_text: PositionTable::with_capacity(count),
            by_pointer: PositionTable::with_capacity(count),
            hash: Hash32::default(),
        }
    }

    /// The number of names.
    pub(super) fn len(&self) -> u32 {
        self.texts.len() as u32
    }

    /// The texts of all names, by number.
    pub(super) fn texts(&self) -> &[&'a str] {
        &self.texts
    }

    /// Adds names, and calls `numbered` with the number of each in order. A known name keeps its number.
    pub(super) fn add(&mut self, names: &[&'a Address], buffer: &mut Buffer, mut numbered: impl FnMut(u32)) {
        buffer.hash(names.iter().map(|name| self.hash.of(name.as_str())));
        self.by_text.load(&buffer.hashes);
        buffer.more(names.iter().map(|name| self.hash.of(pointer(name))));
        self.by_pointer.load(&buffer.others);
        for (name, (&by_text, &by_pointer)) in names.iter().zip(buffer.hashes.iter().zip(&buffer.others)) {
            let text = name.as_str();
            let next = self.len();
            let is_same = |other: u32| self.texts[other as usize] == text;
            if let Some(known) = self.by_text.find_or_insert(by_text, next, is_same) {
                numbered(known);
                continue;
            }
            self.texts.push(text);
            // The text of an earlier name has another address in memory.
            self.by_pointer.find_or_insert(by_pointer, next, |_| false);
            numbered(next);
        }
    }

    /// Finds the numbers of names, and calls `found` with the result of each in order.
    pub(super) fn find(&self, names: &[&Address], buffer: &mut Buffer, mut found: impl FnMut(Option<u32>)) {
        if self.texts.is_empty() {
            names.iter().for_each(|_| found(None));
            return;
        }
        buffer.hash(names.iter().map(|name| self.hash.of(pointer(name))));
        self.by_pointer.load(&buffer.hashes);
        for (name, &hash) in names.iter().zip(&buffer.hashes) {
            let at = pointer(name);
            let shared = self
                .by_pointer
                .find(hash, |other| self.texts[other as usize].as_ptr().addr() == at);
            found(shared.or_else(|| self.find_text(name.as_str())));
        }
    }

    /// Finds the number of a name.
    pub(super) fn find_text(&self, text: &str) -> Option<u32> {
        self.by_text
            .find(self.hash.of(text), |other| self.texts[other as usize] == text)
    }
}

/// The address of a name's text in memory. No two texts of living names overlap, and none is empty.
fn pointer(name: &Address) -> usize {
    name.as_str().as_ptr().addr()
}

/// Reused memory for hashes.
#[derive(Default)]
pub(super) struct Buffer {
    hashes: Vec<u32>,
    others: Vec<u32>,
}

impl Buffer {
    fn hash(&mut self, hashes: impl Iterator<Item = u32>) {
        self.hashes.clear();
        self.hashes.extend(hashes);
    }

    fn more(&mut self, hashes: impl Iterator<Item = u32>) {
        self.others.clear();
        self.others.extend(hashes);
    }
}
