//! A sorted map in two layers: an immutable base, and the changes since it was loaded.
//!
//! Copies share the base and most of the changes. A change takes time logarithmic in the number of changes since the
//! base was loaded. The base is only searched, by bisection, and never copied.
//!
//! The base of an index is made when the index is first used: a state that is only listed uses none of them.

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use std::cmp::Ordering;
use std::iter::from_fn;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, LazyLock};

/// The base of a map: sorted by key, each key once.
type Base<K, V> = LazyLock<Vec<(K, V)>, Box<dyn FnOnce() -> Vec<(K, V)> + Send>>;

/// A sorted map with an immutable base. `V` is `()` for a set.
#[derive(Clone)]
pub(super) struct Layered<K, V = ()> {
    base: Arc<Base<K, V>>,
    /// Entries that differ from the base; `None` marks a key that was removed from the base.
    changed: OrdMap<K, Option<V>>,
    /// The number of entries more than the base has.
    more: isize,
}

impl<K: 'static, V: 'static> Default for Layered<K, V> {
    fn default() -> Self {
        Self {
            base: Arc::new(LazyLock::new(Box::new(Vec::new))),
            changed: OrdMap::default(),
            more: 0,
        }
    }
}

impl<K: Ord + Clone + 'static, V: Clone + 'static> Layered<K, V> {
    /// Creates a map whose base this function returns in any order. Of two values with the same key, one is kept.
    pub(super) fn lazily(base: impl FnOnce() -> Vec<(K, V)> + Send + 'static) -> Self {
        let sorted = move || {
            let mut base = base();
            base.sort_by(|(one, _), (other, _)| one.cmp(other));
            base.dedup_by(|(one, _), (other, _)| one == other);
            base.shrink_to_fit();
            base
        };
        Self {
            base: Arc::new(LazyLock::new(Box::new(sorted))),
            ..Self::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.base.len().saturating_add_signed(self.more)
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        match self.changed.get(key) {
            Some(changed) => changed.as_ref(),
            None => self.in_base(key),
        }
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        self.more += isize::from(self.get(&key).is_none());
        self.changed.insert(key, Some(value));
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let gone = self.get(key).cloned()?;
        self.more -= 1;
        if self.in_base(key).is_some() {
            self.changed.insert(key.clone(), None);
        } else {
            self.changed.remove(key);
        }
        Some(gone)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.range(..)
    }

    /// The entries in a range, in order.
    pub(super) fn range<R: RangeBounds<K>>(
        &self,
        range: R,
    ) -> impl Iterator<Item = (&K, &V)> + use<'_, K, V, R> {
        let base = self.base_within(&range).iter();
        merged(base, self.changed.range(range), K::cmp)
    }

    /// The last entry in a range.
    pub(super) fn last_within(&self, range: impl RangeBounds<K>) -> Option<(&K, &V)> {
        let base = self.base_within(&range).iter().rev();
        let backwards = |one: &K, other: &K| other.cmp(one);
        merged(base, self.changed.range(range).rev(), backwards).next()
    }

    /// The values of `before` and of this map at all keys whose values may differ. If both have the same base, only
    /// changes since it was loaded are compared; otherwise all values are returned.
    pub(super) fn differences<'a>(&'a self, before: &'a Self) -> (Vec<&'a V>, Vec<&'a V>)
    where
        V: PartialEq,
    {
        if !Arc::ptr_eq(&self.base, &before.base) {
            let all = |map: &'a Self| map.iter().map(|(_, value)| value).collect();
            return (all(before), all(self));
        }
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for item in before.changed.diff(&self.changed) {
            let key = match item {
                DiffItem::Add(key, _) | DiffItem::Remove(key, _) | DiffItem::Update { new: (key, _), .. } => {
                    key
                }
            };
            old.extend(before.get(key));
            new.extend(self.get(key));
        }
        (old, new)
    }

    fn in_base(&self, key: &K) -> Option<&V> {
        let place = self.base.binary_search_by(|(other, _)| other.cmp(key)).ok()?;
        Some(&self.base[place].1)
    }

    fn base_within(&self, range: &impl RangeBounds<K>) -> &[(K, V)] {
        let from = match range.start_bound() {
            Bound::Unbounded => 0,
            Bound::Included(start) => self.base.partition_point(|(key, _)| key < start),
            Bound::Excluded(start) => self.base.partition_point(|(key, _)| key <= start),
        };
        let rest = &self.base[from..];
        let length = match range.end_bound() {
            Bound::Unbounded => rest.len(),
            Bound::Included(end) => rest.partition_point(|(key, _)| key <= end),
            Bound::Excluded(end) => rest.partition_point(|(key, _)| key < end),
        };
        &rest[..length]
    }
}

/// Iterates over both layers as one map; a changed item hides the base item with the same key. Both iterators must
/// yield their items in the order of `compare`.
fn merged<'a, K: 'a, V: 'a>(
    base: impl Iterator<Item = &'a (K, V)>,
    changed: impl Iterator<Item = (&'a K, &'a Option<V>)>,
    compare: impl Fn(&K, &K) -> Ordering,
) -> impl Iterator<Item = (&'a K, &'a V)> {
    let mut base = base.map(|(key, value)| (key, value)).peekable();
    let mut changed = changed.peekable();
    from_fn(move || {
        loop {
            let order = match (base.peek(), changed.peek()) {
                (Some((one, _)), Some((other, _))) => compare(one, other),
                (_, None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
            };
            if order == Ordering::Less {
                return base.next();
            }
            if order == Ordering::Equal {
                base.next();
            }
            let (key, value) = changed.next()?;
            if let Some(value) = value {
                return Some((key, value));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::Layered;
    use crate::testkit::run::property_config;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::ops::Bound;

    fn bound() -> impl Strategy<Value = Bound<u8>> {
        prop_oneof![
            Just(Bound::Unbounded),
            any::<u8>().prop_map(Bound::Included),
            any::<u8>().prop_map(Bound::Excluded),
        ]
    }

    /// Whether the standard map accepts the range without a panic.
    fn is_range(from: Bound<u8>, to: Bound<u8>) -> bool {
        match (from, to) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
            (Bound::Excluded(from), Bound::Excluded(to)) => from < to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
                from <= to
            }
        }
    }

    proptest! {
        #![proptest_config(property_config())]

        #[test]
        fn layered_map_behaves_like_sorted_map(
            base: BTreeMap<u8, u8>,
            changes: Vec<(u8, Option<u8>)>,
            from in bound(),
            to in bound(),
        ) {
            let loaded: Vec<_> = base.clone().into_iter().rev().collect();
            let mut layered = Layered::lazily(move || loaded);
            let mut plain = base;
            for (key, value) in changes {
                match value {
                    Some(value) => {
                        layered.insert(key, value);
                        plain.insert(key, value);
                    }
                    None => prop_assert_eq!(layered.remove(&key), plain.remove(&key)),
                }
                prop_assert_eq!(layered.get(&key), plain.get(&key));
                prop_assert_eq!(layered.len(), plain.len());
            }
            prop_assert!(layered.iter().eq(plain.iter()));
            if is_range(from, to) {
                prop_assert!(layered.range((from, to)).eq(plain.range((from, to))));
                prop_assert_eq!(layered.last_within((from, to)), plain.range((from, to)).next_back());
            }
        }
    }
}
