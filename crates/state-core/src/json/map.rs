//! A compact map of JSON values. A state may contain a million entries, each with maps of a few values, for which a
//! `BTreeMap` would use several times the memory.

use super::Json;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;
use std::sync::Arc;

/// Values by name, sorted by name. Intended for a few values: lookups and insertions take time linear in the number
/// of values.
///
/// `Debug` shows the names, and for each value what the `Debug` of [`Json`] shows.
///
/// ```
/// use state_core::json::{Json, JsonMap};
/// let mut map = JsonMap::new();
/// map.insert("terraform", Json::null());
/// assert_eq!(map.get("terraform"), Some(&Json::null()));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct JsonMap(Vec<(Arc<str>, Json)>);

impl JsonMap {
    /// Creates an empty map.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the number of values.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the map is empty.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value of a name.
    pub fn get(&self, name: &str) -> Option<&Json> {
        let (_, value) = self.0.iter().find(|(known, _)| **known == *name)?;
        Some(value)
    }

    /// Returns whether a name has a value.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Sets the value of a name; returns the previous value.
    pub fn insert(&mut self, name: impl Into<Arc<str>>, value: Json) -> Option<Json> {
        let name = name.into();
        match self.0.binary_search_by(|(known, _)| known.cmp(&name)) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (name, value));
                None
            }
        }
    }

    /// Removes a name and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Json> {
        let at = self.0.iter().position(|(known, _)| **known == *name)?;
        Some(self.0.remove(at).1)
    }

    /// Removes all names and values.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Iterates over names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Iterates over the names, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    /// Iterates over the values, in the order of their names.
    pub fn values(&self) -> impl Iterator<Item = &Json> {
        self.iter().map(|(_, value)| value)
    }
}

impl Index<&str> for JsonMap {
    type Output = Json;

    /// # Panics
    /// Panics when the name has no value.
    #[expect(clippy::expect_used, reason = "indexing panics on a missing key")]
    fn index(&self, name: &str) -> &Json {
        self.get(name).expect("the name has a value")
    }
}

impl<N: Into<Arc<str>>> Extend<(N, Json)> for JsonMap {
    fn extend<I: IntoIterator<Item = (N, Json)>>(&mut self, all: I) {
        for (name, value) in all {
            self.insert(name, value);
        }
    }
}

impl<N: Into<Arc<str>>> FromIterator<(N, Json)> for JsonMap {
    fn from_iter<I: IntoIterator<Item = (N, Json)>>(all: I) -> Self {
        let mut map = Self::new();
        map.extend(all);
        map
    }
}

impl<N: Into<Arc<str>>, const COUNT: usize> From<[(N, Json); COUNT]> for JsonMap {
    fn from(all: [(N, Json); COUNT]) -> Self {
        all.into_iter().collect()
    }
}

impl From<BTreeMap<String, Json>> for JsonMap {
    fn from(map: BTreeMap<String, Json>) -> Self {
        map.into_iter().collect()
    }
}

impl From<&JsonMap> for BTreeMap<String, Json> {
    fn from(map: &JsonMap) -> Self {
        let all = map.iter();
        all.map(|(name, value)| (name.to_owned(), value.clone()))
            .collect()
    }
}

impl fmt::Debug for JsonMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{Json, JsonMap};
    use crate::testkit::run::property_config;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(property_config())]

        #[test]
        fn json_map_behaves_like_a_btree_map(
            acts in proptest::collection::vec(("[a-d]{0,2}", proptest::option::of(0..9_u8)), 0..20)
        ) {
            let (mut map, mut model) = (JsonMap::new(), BTreeMap::new());
            for (name, value) in acts {
                match value.map(|value| Json::from_string(&value.to_string())) {
                    Some(value) => {
                        let before = map.insert(name.clone(), value.clone());
                        prop_assert_eq!(before, model.insert(name, value));
                    }
                    None => prop_assert_eq!(map.remove(&name), model.remove(&name)),
                }
                prop_assert_eq!(map.len(), model.len());
                prop_assert!(map.keys().eq(model.keys()));
                prop_assert!(map.values().eq(model.values()));
                prop_assert_eq!(&BTreeMap::from(&map), &model);
                prop_assert_eq!(&JsonMap::from(model.clone()), &map);
            }
        }
    }
}
