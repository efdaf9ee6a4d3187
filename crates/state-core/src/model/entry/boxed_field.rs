//! A compact representation of fields that few entries use.

use crate::address::{Address, Dependency};
use crate::entry::Provider;
use crate::json::JsonMap;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A field that few entries use: one pointer, null if the field is empty. A state with hundreds of thousands of
/// entries is kept in memory, and most fields of an entry are empty.
///
/// Dereferences to its value: `entry.library.as_deref()`, `*entry.library = Some(name)`.
#[derive(Clone)]
pub struct BoxedField<T>(Option<Box<T>>);

/// A type with a value that means "empty".
pub trait Empty: Sized + 'static {
    /// The empty value of the type.
    const EMPTY: &'static Self;
}

impl<T: 'static> Empty for Vec<T> {
    const EMPTY: &'static Self = &Self::new();
}

impl<T: 'static> Empty for Option<T> {
    const EMPTY: &'static Self = &None;
}

impl<K: 'static, V: 'static> Empty for BTreeMap<K, V> {
    const EMPTY: &'static Self = &Self::new();
}

impl Empty for JsonMap {
    const EMPTY: &'static Self = &Self::new();
}

impl<T> BoxedField<T> {
    /// A field with the empty value.
    pub const NONE: Self = Self(None);
}

impl<T: Empty + Default> BoxedField<T> {
    /// Returns the value, or the default if the field is empty.
    pub fn into_inner(self) -> T {
        self.0.map_or_else(T::default, |held| *held)
    }
}

impl<T> Default for BoxedField<T> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<T: Empty + PartialEq> From<T> for BoxedField<T> {
    fn from(value: T) -> Self {
        Self((value != *T::EMPTY).then(|| Box::new(value)))
    }
}

impl<T: Empty> Deref for BoxedField<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::EMPTY)
    }
}

impl<T: Empty + Default> DerefMut for BoxedField<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: Empty + PartialEq> PartialEq for BoxedField<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Empty + Eq> Eq for BoxedField<T> {}

impl<T: Empty + PartialEq> PartialEq<T> for BoxedField<T> {
    fn eq(&self, other: &T) -> bool {
        **self == *other
    }
}

impl<'a, T: Empty> IntoIterator for &'a BoxedField<T>
where
    &'a T: IntoIterator,
{
    type Item = <&'a T as IntoIterator>::Item;
    type IntoIter = <&'a T as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        (**self).into_iter()
    }
}

impl<T: Empty + fmt::Debug> fmt::Debug for BoxedField<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Checks that a boxed field has the size of a pointer: a state may contain hundreds of thousands of entries.
const _: () = {
    assert!(size_of::<BoxedField<Option<Provider>>>() == size_of::<usize>());
    assert!(size_of::<BoxedField<Vec<Address>>>() == size_of::<usize>());
    assert!(size_of::<BoxedField<BTreeMap<String, Vec<Dependency>>>>() == size_of::<usize>());
};
