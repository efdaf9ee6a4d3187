//! Values that were read from a store, each with the proof of who wrote it. Only [`authenticate`](super) makes them, and
//! takes parts of them, which keep the proof.

use crate::keys::proof::Proof;
use state_core::sealing::StackKey;
use std::ops::Deref;
use std::sync::Arc;

/// A value that was read from a store, and how this client knows who wrote it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Authenticated<T> {
    value: T,
    proof: Proof,
}

impl<T> Authenticated<T> {
    pub(super) const fn new(value: T, proof: Proof) -> Self {
        Self { value, proof }
    }

    pub(crate) const fn proof(&self) -> Proof {
        self.proof
    }

    pub(crate) fn into_value(self) -> T {
        self.value
    }

    pub(crate) const fn by_ref(&self) -> Authenticated<&T> {
        Authenticated::new(&self.value, self.proof)
    }
}

impl<T: Clone> Authenticated<&T> {
    pub(crate) fn cloned(self) -> Authenticated<T> {
        Authenticated::new(self.value.clone(), self.proof)
    }
}

impl<T> Deref for Authenticated<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// A value with a MAC under the stack's data key, and that key. Functions that sign or wrap with the key take this
/// type, so they can't be called for a stack without a key.
#[derive(Clone, Debug)]
pub(crate) struct Sealed<T> {
    value: T,
    key: Arc<dyn StackKey>,
}

impl<T> Sealed<T> {
    pub(super) fn new(value: T, key: Arc<dyn StackKey>) -> Self {
        Self { value, key }
    }

    pub(crate) fn key(&self) -> &dyn StackKey {
        &*self.key
    }
}

impl<T> Deref for Sealed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
