//! Where an entry stands in the lists, and what changes them.

use super::{Naive, Place};
use state_core::{Entry, EntryKey, SharedEntry};

impl Naive {
    pub(super) fn place(&self, key: &EntryKey) -> Option<Place> {
        if let Some(place) = self.new.iter().position(|entry| entry.key() == *key) {
            return Some(Place::New(place));
        }
        let left = |place: usize| !self.done.contains(&place);
        (0..self.base.len())
            .find(|place| left(*place) && self.base[*place].key() == *key)
            .map(Place::Base)
    }

    pub(super) fn get(&self, key: &EntryKey) -> Option<SharedEntry> {
        self.place(key).map(|place| match place {
            Place::New(place) => self.new[place].clone(),
            Place::Base(place) => self.base[place].clone(),
        })
    }

    pub(super) fn remove(&mut self, key: &EntryKey) -> Option<SharedEntry> {
        let old = self.get(key);
        match self.place(key)? {
            Place::New(place) => {
                self.new.remove(place);
            }
            Place::Base(place) => {
                self.done.insert(place);
            }
        }
        old
    }

    pub(super) fn set(&mut self, key: &EntryKey, entry: Entry) {
        match self.place(key) {
            Some(Place::New(place)) => self.new[place] = entry.into(),
            Some(Place::Base(place)) => self.base[place] = entry.into(),
            None => {}
        }
    }
}
