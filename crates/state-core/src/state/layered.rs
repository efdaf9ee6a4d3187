//! A sorted map in two layers: an immutable base, and the changes since it was loaded.
//!
//! Copies share the base and most of the changes. A change takes time logarithmic in the number of changes since the
//! base was loaded. The base is only searched, by bisection, and never copied.

use imbl::OrdMap;
use std::cmp::Ordering;
use std::iter::from_fn;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// A sorted map with an immutable base. `V` is `()` for a set.
#[derive(Clone)]
pub(super) struct Layered<K, V = ()> {
    /// Sorted by key, each key once.
    base: Arc<Vec<(K, V)>>,
    /// Entries that differ from the base; `None` marks a key that was removed from the base.
    changed: OrdMap<K, Option<V>>,
    len: usize,
}

impl<K, V> Default for Layered<K, V> {
    fn default() -> Self {
        Self {
            base: Arc::default(),
            changed: OrdMap::default(),
            len: 0,
        }
    }
}

impl<K: Ord + Clone, V: Clone> Layered<K, V> {
    /// Creates a map with this base. Returns a key that occurs more than once as the error.
    pub(super) fn load(mut base: Vec<(K, V)>) -> Result<Self, K> {
        base.sort_by(|(one, _), (other, _)| one.cmp(other));
        if let Some(twice) = base.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(twice[0].0.clone());
        }
        base.shrink_to_fit();
        Ok(Self {
            len: base.len(),
            base: Arc::new(base),
            changed: OrdMap::default(),
        })
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        match self.changed.get(key) {
            Some(changed) => changed.as_ref(),
            None => self.in_base(key),
        }
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        self.len += usize::from(self.get(&key).is_none());
        self.changed.insert(key, Some(value));
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let gone = self.get(key).cloned()?;
        self.len -= 1;
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

impl<K: Ord + Clone> Layered<K> {
    /// Creates a set with this base.
    pub(super) fn of_keys(keys: impl Iterator<Item = K>) -> Self {
        let mut base: Vec<(K, ())> = keys.map(|key| (key, ())).collect();
        base.sort_unstable();
        base.dedup();
        base.shrink_to_fit();
        Self {
            len: base.len(),
            base: Arc::new(base),
            changed: OrdMap::default(),
        }
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
        #[test]
        fn layered_map_behaves_like_sorted_map(
            base: BTreeMap<u8, u8>,
            changes: Vec<(u8, Option<u8>)>,
            from in bound(),
            to in bound(),
        ) {
            let mut layered = Layered::load(base.clone().into_iter().rev().collect()).unwrap();
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

    #[test]
    fn load_reports_a_duplicate_key() {
        let twice = Layered::load(vec![(3, ()), (1, ()), (3, ())]);
        assert_eq!(twice.err(), Some(3));
    }
}
