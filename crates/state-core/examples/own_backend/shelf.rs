//! The store: keys and values. It stands for a server that many processes talk to.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a conditional write compares: it changes with every write of a key.
pub(crate) type Version = u64;

#[derive(Clone, Debug, Default)]
pub(crate) struct Shelf {
    values: Arc<Mutex<BTreeMap<String, (Version, Bytes)>>>,
}

impl Shelf {
    pub(crate) fn get(&self, key: &str) -> Option<(Version, Bytes)> {
        self.values().get(key).cloned()
    }

    /// Keys and values below a prefix, sorted by key.
    pub(crate) fn below(&self, prefix: &str) -> Vec<(String, Bytes)> {
        let values = self.values();
        let found = values.range(prefix.to_owned()..);
        let found = found.take_while(|(key, _)| key.starts_with(prefix));
        found
            .map(|(key, (_, value))| (key.clone(), value.clone()))
            .collect()
    }

    /// Whether it was created: false if the key is there already.
    pub(crate) fn create(&self, key: &str, value: Bytes) -> bool {
        let mut values = self.values();
        if values.contains_key(key) {
            return false;
        }
        values.insert(key.to_owned(), (0, value));
        true
    }

    /// Whether it was replaced: false if somebody else was quicker.
    pub(crate) fn replace(&self, key: &str, seen: Version, value: Bytes) -> bool {
        match self.values().get_mut(key) {
            Some((version, there)) if *version == seen => {
                (*version, *there) = (seen + 1, value);
                true
            }
            _ => false,
        }
    }

    fn values(&self) -> MutexGuard<'_, BTreeMap<String, (Version, Bytes)>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
